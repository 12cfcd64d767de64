"""`esbench capacity` against the null server. In test mode: a search takes seconds, and its figures mean nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Outcome, Races, press_ctrl_c, wait_until

from esbench.features.capacity.parts import SEARCH
from esbench.features.capacity.record import CapacitySearch
from esbench.null_server import NullServer

OF_READS = ("--task=paced", "--test-mode", "--telemetry=none", "--workers=1")
P99, ERRORS = "--objective=p99<100ms", "--objective=errors<1%"
QUEUE = {"rules": [{"path": "/_doc/", "queue": {"slots": 1, "service": {"type": "constant", "ms": 5}}}]}


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path, deletes_first=True)
    yield races
    races.end()


@pytest.fixture
def slow(server: NullServer) -> NullServer:
    """A server whose reads take 5 ms, one after the other: its capacity is near 200/s."""
    server.use(QUEUE)
    return server


def searched(races: Races, server: NullServer, *arguments: str) -> Outcome:
    return races.finish(races.start(server, *OF_READS, *arguments, command="capacity"), within_s=90)


def search_of(races: Races) -> CapacitySearch:
    search = SEARCH.kept_in(races.record())
    assert search is not None
    return search


def probed(races: Races) -> bool:
    """True once the first probe has ended and been saved, and the second one, too."""
    files = (races.home / "races").glob("*/race.json")
    return any(len(json.loads(each.read_text())["tasks"]) > 5 for each in files)


def test_a_search_finds_a_rate_between_what_held_and_what_did_not(races: Races, slow: NullServer) -> None:
    outcome = searched(races, slow, P99, ERRORS)
    assert outcome.code == 0, outcome.stderr
    search = search_of(races)
    assert (search.task, search.objectives) == ("paced", ("p99 < 100 ms", "errors < 1 %"))
    assert search.terms is not None
    assert 150 < search.terms.closed_per_s < 210
    assert search.found is not None
    rates = [each.probe.rate_per_s for each in search.probes]
    assert rates[0] == search.terms.closed_per_s / 2
    assert min(rates) < search.found.rate_per_s < 250
    record = races.record()
    assert [task.name for task in record.tasks][:3] == ["delete-index", "create-index", "bulk"]
    assert [each.task for each in search.probes] == [task.name for task in record.tasks][4:]
    for each, task in zip(search.probes, record.tasks[4:], strict=True):
        assert sum(each.counts[0].due) == task.requests + (task.unsent or 0)
        assert sum(each.counts[1].late) == task.errors


def test_objectives_of_the_track_hold_where_none_is_given(races: Races, slow: NullServer) -> None:
    track = races.track / "track.yml"
    track.write_text(track.read_text().replace("{name: paced,", "{name: paced, objectives: [within 100ms>=99%],"))
    assert searched(races, slow).code == 0
    assert search_of(races).objectives == ("within 100 ms >= 99 %",)


def test_tasks_beside_run_at_their_rates_and_end_with_the_probe(races: Races, slow: NullServer) -> None:
    outcome = searched(races, slow, P99, "--while=found@40")
    assert outcome.code == 0, outcome.stderr
    record, search = races.record(), search_of(races)
    assert search.beside == {"found": 40}
    beside = [task for task in record.tasks if task.name.startswith("found beside paced@")]
    assert len(beside) == 1 + len(search.probes)
    assert all(20 < (task.throughput.mean or 0) < 60 for task in beside)


def test_failed_requests_are_late_and_do_not_end_the_search(races: Races, server: NullServer) -> None:
    """Nor does a cluster that does not let its queues be seen."""
    hidden = {"path": "^/_nodes/stats", "reply": {"status": 403}}
    server.use({"rules": [*QUEUE["rules"], hidden, {"path": "/_doc/", "share": 0.2, "reply": {"status": 429}}]})
    outcome = searched(races, server, P99)
    assert outcome.code == 0, outcome.stderr
    search = search_of(races)
    assert search.found is not None
    assert search.found.why in ("no rate", "out of time")  # probes of low rates are longer
    assert search.found.rate_per_s == 0
    assert all(seen.counts[0].late_ratio > 0.1 for seen in search.probes)


TWENTY = """
class Twenty:
    infinite = True

    def __init__(self, track, params, **kwargs):
        self._left = 20

    def partition(self, number, count):
        return self

    def params(self):
        self._left -= 1
        if self._left < 0:
            raise StopIteration
        return {"index": "orders", "body": {"query": {"match_all": {}}}}


def register(registry):
    registry.register_param_source("twenty", Twenty)
"""


def test_a_parameter_source_that_ends_ends_the_search(races: Races, server: NullServer) -> None:
    """Of another task its searches are not raced: they fill no index."""
    track, paced = races.track / "track.yml", "      - {name: paced, operation: read, clients: 4"
    drawn = "{name: drawn, operation-type: search, param-source: twenty}"
    task = f"      - {{name: drawn, operation: {drawn}, time-period: 60}}\n"
    track.write_text(track.read_text().replace(paced, task + paced, 1))
    (races.track / "track.py").write_text(TWENTY)
    outcome = searched(races, server, "--task=drawn", P99)
    assert outcome.code == 1
    assert 'task "drawn@' in outcome.error
    assert "(a search needs a task whose requests do not end)" in outcome.error
    dry = searched(races, server, P99, "--dry-run")
    assert dry.code == 0, dry.stderr
    assert "paced@closed" in dry.stdout
    assert "drawn" not in dry.stdout + dry.stderr


def test_a_server_that_refuses_everything_ends_it_in_the_closed_loop(races: Races, server: NullServer) -> None:
    server.use({"rules": [{"path": "/_doc/", "reply": {"status": 429}}]})
    outcome = races.run(server, *OF_READS, P99, command="capacity")
    assert outcome.code == 1
    assert 'task "paced": no request succeeded in the closed loop of 1 s' in outcome.error


def test_ctrl_c_keeps_the_probes_so_far(races: Races, slow: NullServer) -> None:
    process = races.start(slow, *OF_READS, P99, "--sustain=1s", command="capacity")
    wait_until(lambda: probed(races), process, within_s=60)
    press_ctrl_c(process)
    outcome = races.finish(process)
    assert outcome.code == 130
    search = search_of(races)
    assert search.probes
    assert search.found is None


def test_a_cluster_that_dies_in_a_probe_leaves_what_was_measured(races: Races, null_server: NullServerFactory) -> None:
    server = null_server(QUEUE)
    process = races.start(server, *OF_READS, P99, command="capacity")
    wait_until(lambda: probed(races), process, within_s=60)
    server.stop()
    outcome = races.finish(process, within_s=60)
    assert outcome.code == 1
    assert outcome.error.startswith("esbench: the race failed: ")
    assert search_of(races).probes


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--task=pacd", P99), '--task: the challenge "default" has no task "pacd" (did you mean "paced"?'),
        (("--task=bulk", P99), '--task: task "bulk" ends with its documents'),
        (("--task=create-index", P99), '--task: task "create-index" does something once, so it is not load'),
        (("--task=paced",), 'task "paced": it has no objectives that a search can use (say --objective "p99<50ms")'),
        (("--task=paced", "--objective=p99<50"), '"p99<50" has a time without a unit (say "p99<50ms")'),
        (("--task=paced", "--objective=p99 50ms"), '"p99 50ms" is not an objective'),
        (("--task=paced", "--objective=mean<5ms"), '--objective: "mean < 5 ms" counts no requests'),
        (("--task=paced", "--objective=errors<=0%"), '--objective: "errors <= 0 %" allows no request to be late'),
        (("--task=paced", P99, "--while=found"), "--while=found: names no task and rate (say --while=insert@200"),
        (("--task=paced", P99, "--while=fond@5"), '--while: the challenge "default" has no task "fond" (did you mean'),
        (("--task=paced", P99, "--while=paced@5"), "--while=paced: --while must name another task than --task"),
        (("--task=paced", P99, "--while=found@fast"), '"fast" is not a rate (say --while=insert@200: 200 requests per'),
        (("--task=paced", P99, "--while=found@5 docs/s"), "is in docs/s (a search counts requests"),
        (("--task=paced", P99, "--while=found@5", "--while=found@6"), "--while=found@6: found is given twice"),
        (("--task=paced", "--objective=errors<0.1%"), "errors < 0.1 %: without a time, a queue holds it at any rate"),
        (("--task=paced", P99, "--max-error-rate=1%"), "--max-error-rate: a search counts failed requests as late"),
        (("--task=paced", P99, "--budget=soon"), '--budget: "soon" is not a duration (say 15m)'),
        (("--task=paced", P99, "--budget=0.5"), "--budget: 500 ms is shorter than a probe, which takes 30 s (say 15m)"),
    ],
)
def test_bad_input_is_one_line_before_anything_starts(
    races: Races, server: NullServer, arguments: tuple[str, ...], error: str
) -> None:
    outcome = races.run(server, *arguments, command="capacity")
    assert outcome.code == 2
    assert error in outcome.error
    assert not list((races.home / "races").glob("*"))
