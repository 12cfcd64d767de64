"""Indices that a race must not touch: those that esbench did not make, and those of a race that runs beside it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Races, press_ctrl_c, wait_until

from esbench.cluster.client import Cluster
from esbench.null_server import NullServer
from esbench.record.locks import other_races

LOAD = """
version: 2
indices: [{name: orders, body: index.json}]
corpora: [{name: orders, documents: [{document-count: 500, source-file: orders.json}]}]
challenges:
  - name: default
    default: true
    schedule:
      - operation: {operation-type: delete-indexDELETED}
      - {name: make, operation: {operation-type: create-index}}
      - {name: fill, operation: {operation-type: bulk, bulk-size: 50}}
      - {name: read, operation: {operation-type: search, body: {}}, time-period: {{ period | default(0.1) }}}
"""


def track(index: str = "orders", deletes: str = "") -> str:
    return LOAD.replace("name: orders, body", f"name: {index}, body").replace("DELETED", deletes)


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    found = Races(tmp_path)
    (found.track / "track.yml").write_text(track())
    yield found
    found.end()


@pytest.fixture
def server(null_server: NullServerFactory) -> NullServer:
    return null_server(log=True)


def shop(server: NullServer, name: str = "orders") -> None:
    """Make an index with a document, as a shop does."""
    with Cluster([server.url]) as cluster:
        cluster.request("PUT", f"/{name}/_doc/1", params={"refresh": "true"}, body={"bought": "a hat"})


def documents(server: NullServer, name: str = "orders") -> int:
    with Cluster([server.url]) as cluster:
        cluster.request("POST", f"/{name}/_refresh")
        return int(cluster.request("GET", f"/{name}/_count")["count"])


@pytest.mark.parametrize("pattern", ["", ", index: 'ord*'", ", index: '*'"])
def test_an_index_that_esbench_did_not_make_is_deleted_only_if_asked_for(
    server: NullServer, races: Races, pattern: str
) -> None:
    (races.track / "track.yml").write_text(track(deletes=pattern))
    shop(server)
    refused = races.run(server)
    assert refused.code == 1
    address = server.url.removeprefix("http://")
    assert refused.error == (
        f'esbench: {address}: the race would delete "orders" (1 document, 0 B), which esbench did not make '
        "(--replace-indices deletes them anyway)"
    )
    assert documents(server) == 1
    assert not list((races.home / "races").iterdir())
    assert races.run(server, "--replace-indices").code == 0
    said = 'the race deletes "orders" (1 document, 0 B), which esbench did not make'
    assert said in races.record().warnings
    assert documents(server) == 500
    assert races.run(server, "--quiet").code == 0  # it is esbench's now
    assert not any("which esbench did not make" in text for text in races.record().warnings)


def test_an_index_that_a_race_does_not_delete_does_not_matter(server: NullServer, races: Races) -> None:
    shop(server)
    assert races.run(server, "--include-tasks=read").code == 0
    assert races.run(server, "--include-tasks=fill").code == 0  # it adds to what is there, which stays the shop's
    assert races.run(server).code == 1


def test_another_home_knows_a_mapping_of_esbenchs(server: NullServer, races: Races, tmp_path: Path) -> None:
    assert races.run(server).code == 0
    with Cluster([server.url]) as cluster:
        assert cluster.request("GET", "/orders/_mapping")["orders"]["mappings"] == {"_meta": {"made_by": "esbench"}}
    assert races.run(server, home=tmp_path / "other").code == 0
    assert races.record().clusters["default"].indices["orders"]["mappings"] == {}  # those of the track alone


def test_an_index_that_a_bulk_made_is_remembered(server: NullServer, races: Races, tmp_path: Path) -> None:
    assert races.run(server, "--include-tasks=fill").code == 0
    assert races.run(server, home=tmp_path / "other").code == 1  # it has no mark, and was made by the first home
    assert races.run(server).code == 0
    (file,) = (races.home / "made").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [json.loads(line)["index"] for line in file.read_text().splitlines()] == ["orders", "orders"]


def test_a_race_that_was_killed_has_left_its_own_index(server: NullServer, races: Races) -> None:
    process = races.start(server, "--include-tasks=fill,read", "--track-params=period:60")
    wait_until(lambda: list((races.home / "made").glob("*")), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert races.run(server).code == 0


def test_an_index_that_is_waited_for_and_not_there_is_named(server: NullServer, races: Races) -> None:
    health = "- operation: {operation-type: cluster-health, index: orders, request-params: {wait_for_status: green}}"
    text = (races.track / "track.yml").read_text()
    (races.track / "track.yml").write_text(text.replace("- {name: fill", f"{health}\n      - {{name: fill"))
    outcome = races.run(server, "--exclude-tasks=type:delete-index,make")
    address = server.url.removeprefix("http://")
    what = f'there is no index "orders" on {address} (race the tasks that make it, too)'
    assert outcome.error == f'esbench: task "cluster-health": {what}'
    assert races.run(server).code == 0


def test_two_races_do_not_use_one_index_at_the_same_time(server: NullServer, races: Races) -> None:
    first = races.start(server, "--race-id=first", "--track-params=period:60")
    wait_until(lambda: [race for race in other_races(races.home) if race.claims], first)
    refused = races.run(server, "--quiet")
    assert refused.code == 1
    assert refused.error.startswith(f"esbench: race first (pid {first.pid}) uses orders of the same cluster now (wait")
    press_ctrl_c(first)
    assert races.finish(first).code == 130


def test_races_beside_each_other_are_in_the_records_of_both(server: NullServer, races: Races, tmp_path: Path) -> None:
    first = races.start(server, "--race-id=first", "--track-params=period:60", "--quiet")
    wait_until(lambda: [race for race in other_races(races.home) if race.claims], first)
    (races.track / "track.yml").write_text(track("carts"))
    second = races.run(server, "--race-id=second")
    assert second.code == 0
    assert f"warning: race first (pid {first.pid}) runs on this host" in second.stderr
    press_ctrl_c(first)
    assert races.finish(first).code == 130
    (told,) = [text for text in races.record("second").warnings if "first" in text]
    assert told.startswith(f"race first (pid {first.pid}) runs on this host: both will disturb each other")
    (told,) = [text for text in races.record("first").warnings if "second" in text]
    assert told == "race second ran on this host at the same time: both disturbed each other"


def test_a_dry_run_only_reads(server: NullServer, races: Races) -> None:
    shop(server)
    asked = len(server.log())
    outcome = races.run(server, "--dry-run", "--track-params=period:7")
    assert outcome.code == 1  # the race would be refused
    assert "the race would be refused" in outcome.stdout
    assert 'Deletes    "orders" (1 document, 0 B)' in outcome.stdout
    assert "Documents  500" in outcome.stdout
    assert "Takes      7 s, and what the tasks without a time take" in outcome.stdout
    assert max(map(len, outcome.stdout.splitlines()[:12])) <= 80
    assert {entry.method for entry in server.log()[asked:]} == {"GET"}
    assert documents(server) == 1
    assert not races.home.exists()
    assert races.run(server, "--dry-run", "--replace-indices").code == 0
    (found,) = json.loads(races.run(server, "--dry-run", "--replace-indices", "--format=json").stdout)["sections"]
    (row,) = found["rows"]
    assert (row["documents"], row["made_by_esbench"], row["deleted"]) == (1, False, True)


def test_a_dry_run_of_rounds_and_of_a_duel_begins_no_session(server: NullServer, races: Races) -> None:
    outcome = races.run(server, "--dry-run", "--rounds=2")
    assert outcome.code == 0
    assert "Rounds     2 of 100 ms: 200 ms, and what " in outcome.stdout
    outcome = races.run(
        server, "--dry-run", "--turns", "--baseline=", "--contender=track-params=period:9", command="duel"
    )
    assert outcome.code == 0
    assert re.search(r"^Takes .* take +9 s, ", outcome.stdout, re.MULTILINE)
    assert not races.home.exists()
