"""Two sets of indices on one cluster: races whose names have different prefixes, and their comparison."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Races

from esbench.cluster.options import parse_hosts
from esbench.comparison.compare import compare
from esbench.comparison.model import Side
from esbench.errors import RaceError
from esbench.events.progress import Progress
from esbench.race.options import RaceOptions
from esbench.race.race import look

TRACK = """
version: 2
indices: [{name: "{{ index_prefix | default("") }}orders", body: index.json}]
corpora: [{name: orders, documents: [{document-count: 500, source-file: orders.json}]}]
variables: [{name: any_id, type: range, from: 1, to: 500}]
schedule:
  - operation: {operation-type: delete-index, index: "DELETED"}
  - {operation: {operation-type: create-index}}
  - {operation: {operation-type: bulk, bulk-size: 50}}
  - operation: {operation-type: get, index: "{{ index_prefix | default("") }}orders", id: "$[[any_id]]"}
    iterations: 50
  - operation: {operation-type: assert-count, expected: acknowledged}
"""
OWN = '{{ index_prefix | default("") }}*'


def write_track(races: Races, deleted: str = OWN) -> None:
    (races.track / "track.yml").write_text(TRACK.replace("DELETED", deleted))


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    found = Races(tmp_path)
    write_track(found)
    yield found
    found.end()


def test_races_with_different_prefixes_have_their_own_indices_and_no_difference(
    null_server: NullServerFactory, races: Races
) -> None:
    server, records = null_server(log=True), []
    for prefix in ("side1-", "side2-", "side1-"):
        assert races.run(server, f"--track-params=index_prefix:{prefix}").code == 0
        records.append(races.record())
    assert not [line.path for line in server.log() if line.path.startswith("/orders")]
    assert [list(record.clusters["default"].indices) for record in records] == [
        ["side1-orders"],
        ["side2-orders"],
        ["side1-orders"],
    ]
    assert [task.errors for record in records for task in record.tasks] == [0] * 15
    first, second = records[:2]
    pair = compare(Side("baseline", (first,)), [Side("contender", (second,))]).pairs[0]
    assert pair.differences == ()
    assert all(row.baseline and row.contender for row in pair.rows if not row.is_primary)
    assert {row.task for row in pair.rows} >= {"bulk", "get"}


def options(races: Races, hosts: str = "", prefix: str = "side1-") -> RaceOptions:
    return RaceOptions(
        home=races.home,
        race_id="r",
        track_path=races.track / "track.yml",
        track_params={"index_prefix": prefix},
        hosts=parse_hosts([hosts])[0] if hosts else (),
        other_prefixes=("side2-",),
    )


@pytest.mark.parametrize("on_hosts", [True, False])
def test_a_race_beside_another_side_deletes_only_what_has_its_prefix(
    null_server: NullServerFactory, races: Races, on_hosts: bool
) -> None:
    ours = options(races, null_server().url if on_hosts else "")
    look(ours, Progress())
    for deleted in ("*", "_all", "side2-orders", "side1-orders,side2-*"):
        write_track(races, deleted)
        name = deleted.rpartition(",")[2]
        with pytest.raises(RaceError, match=re.escape(f'the track: "{name}" does not begin with the index_prefix')):
            look(ours, Progress())
        look(replace(ours, other_prefixes=(), replace_indices=True), Progress())  # alone, it may
