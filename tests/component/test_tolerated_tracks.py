"""Tracks with faults that Rally does not mind, raced: warnings where users read them, and clients that steps share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Races

TRACK = """
indices: [{name: orders}]
corpora: [{name: orders, documents: [{document-count: 500, source-file: orders.json}]}]
operations:
  - {name: read, operation-type: get, id: "1"}
schedule:
  - operation: {operation-type: create-index}
  - operation: {operation-type: refresh, retry-until-succes: true}
  - {operation: {operation-type: bulk, bulk-size: 110.00000000000001}, clients: 4}
  - parallel:
      clients: 1
      tasks: [{name: a, operation: read, requests: 50}, {name: b, operation: read, requests: 50}]
  - parallel:
      clients: 2
      tasks: [{name: wide, operation: read, clients: 3, requests: 30}]
"""
ENDLESS = """
schedule:
  - operation: refresh
  - parallel:
      clients: 1
      completed-by: b
      tasks: [{name: a, operation: refresh, warmup-time-period: 1}, {name: b, operation: refresh}]
"""


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    made = Races(tmp_path)
    yield made
    made.end()


def test_faults_that_rally_tolerates_are_raced_with_warnings(null_server: NullServerFactory, races: Races) -> None:
    (races.track / "track.yml").write_text(TRACK)
    outcome = races.run(null_server())
    assert outcome.code == 0, outcome.stderr
    record, file = races.record(), races.track / "track.yml"
    expected = (
        f'{file}:8: unknown key "retry-until-succes" in operation "refresh" '
        '(it has no effect; did you mean "retry-until-success"?)',
        f'{file}:9: "bulk-size" must be a whole number, not 110.00000000000001 (a race takes 110)',
        f'{file}:15: task "wide" has 3 clients, and its "parallel" only 2 '
        '(all 3 run; give the "parallel" 3 clients, or the task 2)',
        'parallel of "a", "b": up to 2 clients run at the same time, not 1: '
        "tasks share clients only beyond the 4 of the widest step",
    )
    assert record.warnings == expected
    everything = races.ask("show", "last", "--all")
    for warning in expected:
        assert warning in everything
    results = {task.name: task for task in record.tasks}
    assert (results["bulk"].units, results["bulk"].requests) == (500, 8)  # 125 documents a client: 110 and 15
    assert results["b"].start_s == 0.0  # beside a, not after it
    assert (results["wide"].clients, results["wide"].requests) == (3, 30)


def test_a_parallel_that_can_never_end_is_refused_before_anything_is_asked(
    null_server: NullServerFactory, races: Races
) -> None:
    (races.track / "track.yml").write_text(ENDLESS)
    outcome = races.run(null_server())
    assert outcome.code == 2
    assert outcome.error == (
        'esbench: task "a": the task has a warmup, and no end '
        "(give it a time-period, or let a task end it that does not wait for its clients)"
    )
