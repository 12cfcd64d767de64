"""`esbench race` against the null server: what a user sees, and what is kept."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import DOCUMENTS, Outcome, Races, wait_until

from esbench.null_server import NullServer


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path)
    yield races
    races.end()


@pytest.fixture(scope="module", params=["5.6.16", "opensearch-3.6.0"])
def raced(
    request: pytest.FixtureRequest, null_servers: NullServerFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Races, NullServer, Outcome]]:
    server, races = null_servers({"version": request.param}), Races(tmp_path_factory.mktemp("races"))
    yield races, server, races.run(server, "--race-id=one", "--user-tags=why:test", "--seed=7", "--no-answers")
    races.end()


Raced = tuple[Races, NullServer, Outcome]


def test_the_table_is_on_stdout_and_the_news_on_stderr(raced: Raced) -> None:
    _, _, outcome = raced
    assert outcome.code == 0, outcome.stderr
    for word in ("Per second", " docs ", "closed", "paced", "latency"):
        assert word in outcome.stdout
    assert "race one" in outcome.stderr
    assert "[3/6] closed" in outcome.stderr
    assert "[3/6]" not in outcome.stdout


def test_the_record_is_complete(raced: Raced) -> None:
    races, server, _ = raced
    record = races.record("one")
    assert (record.status, record.failure, record.seed) == ("complete", None, 7)
    assert record.user_tags == {"why": "test"}
    names = [task.name for task in record.tasks]
    assert names == ["create-index", "bulk", "closed", "paced", "found", "beside", "assert-count"]
    assert all(task.errors == 0 for task in record.tasks)
    assert all({"refresh_count", "young_gc_count"} <= task.telemetry["cluster"].keys() for task in record.tasks)
    cluster = record.clusters["default"]
    assert (cluster.pipeline, cluster.hosts) == ("benchmark-only", (server.url,))
    version = server.script.version
    assert cluster.version == version.removeprefix("opensearch-")
    assert cluster.distribution == ("opensearch" if version.startswith("opensearch") else "elasticsearch")


def test_the_record_counts_what_the_server_counted(raced: Raced) -> None:
    races, server, _ = raced
    tasks = {task.name: task for task in races.record("one").tasks}
    reads = [tasks[name] for name in ("closed", "paced", "beside")]
    by_class = server.counts().by_class
    assert by_class["GET /*/_doc/*"] == sum(task.warmup.requests + task.requests for task in reads)
    assert by_class["POST /*/_bulk"] == tasks["bulk"].requests == 10
    assert tasks["bulk"].units == server.counts().documents == DOCUMENTS
    assert (tasks["closed"].warmup.requests, tasks["closed"].requests) == (20, 100)
    assert (tasks["paced"].warmup.requests, tasks["paced"].requests) == (20, 50)
    assert tasks["found"].requests == 30


def test_the_series_adds_up_to_the_record(raced: Raced) -> None:
    races, _, _ = raced
    series = races.series("one")
    for task in races.record("one").tasks:
        lines = [line for line in series if line["task"] == task.name]
        assert sum(line["requests"] for line in lines) == task.warmup.requests + task.requests
        assert [line["second"] for line in lines] == sorted(line["second"] for line in lines)
        assert all("service_time" in line for line in lines if line["requests"])


def test_nothing_runs_on(raced: Raced) -> None:
    races, _, _ = raced
    assert list((races.home / "running").glob("*")) == []
    assert (races.home / "races" / "one" / "logs" / "worker.log").read_text() == ""


# exit codes


def test_failed_checks_exit_with_1_when_they_are_asked_for(null_server: NullServerFactory, races: Races) -> None:
    server = null_server({"rules": [{"path": "_doc", "delay": {"type": "constant", "ms": 100}}]})
    outcome = races.run(server, "--include-tasks=paced", "--strict")  # 4 clients carry 40/s of 100/s
    assert outcome.code == 1
    assert "never sent" in outcome.stdout
    assert outcome.error.startswith("esbench: --strict: checks failed: unsent (paced), target-rate (paced)")
    assert "latency p50 > " in outcome.stderr  # more than half of it was waiting at the end
    assert races.record().status == "complete"


def test_a_failure_aborts_the_race_and_keeps_what_was_measured(null_server: NullServerFactory, races: Races) -> None:
    server = null_server({"rules": [{"path": "_search", "first": 5, "reply": {"status": 503}}]})
    outcome = races.run(server)
    assert outcome.code == 1
    assert 'the race failed: task "found": HTTP 503' in outcome.error
    record = races.record()
    assert record.status == "failed"
    assert record.failure is not None
    assert record.failure.startswith('task "found": HTTP 503')
    assert [task.name for task in record.tasks][-2:] == ["found", "beside"]
    assert record.clusters["default"].statistics["indexing_count"]["value"] == DOCUMENTS  # of the steps before
    assert "Per second" in outcome.stdout  # what was measured is printed all the same


def test_a_race_goes_on_when_it_is_told_so_but_a_wrong_count_fails_it(
    null_server: NullServerFactory, races: Races
) -> None:
    rules = [
        {"path": "_search", "every": 3, "reply": {"status": 503}},
        {"path": "_count", "merge": {"count": DOCUMENTS - 1}},
    ]
    outcome = races.run(null_server({"rules": rules}), "--on-error=continue")
    assert outcome.code == 1
    assert str(DOCUMENTS - 1) in outcome.error
    record = races.record()
    assert record.status == "failed"
    assert {task.name: task.errors for task in record.tasks if task.errors} == {"found": 10, "assert-count": 1}


def test_a_task_of_which_every_request_failed_measured_nothing(null_server: NullServerFactory, races: Races) -> None:
    rules = [{"path": "_search", "reply": {"status": 503}}]
    outcome = races.run(null_server({"rules": rules}), "--on-error=continue")
    assert (outcome.code, outcome.error) == (1, "esbench: every request failed: found")
    assert races.record().status == "complete"
    assert "! found: every request failed" in outcome.stdout + outcome.stderr


def test_a_cluster_that_is_gone_at_the_end_costs_its_statistics_only(
    null_server: NullServerFactory, races: Races
) -> None:
    server = null_server()
    arguments = ("--include-tasks=paced", "--track-params=period:1.5", "--on-error=continue", "--quiet")
    process = races.start(server, *arguments)
    wait_until(lambda: server.counts().by_class.get("GET /*/_doc/*", 0) > 30, process)
    server.use({"refuse": [{"at_s": 0.1, "for_s": 60}]})
    outcome = races.finish(process)
    assert (outcome.code, outcome.stderr) == (0, "")
    record = races.record()
    assert record.status == "complete"
    assert record.tasks[0].error_kinds["connection refused"].count > 3
    assert any("no index statistics" in warning for warning in record.warnings)


# what cannot begin


def test_a_host_that_refuses_is_told_within_3_s(races: Races, unused_url: str) -> None:
    outcome = races.run(unused_url)
    assert outcome.code == 1
    assert outcome.seconds < 6  # 3 s and a start on a busy machine
    assert "connection refused" in outcome.error
    assert list((races.home / "races").iterdir()) == []


def test_an_id_that_is_taken_is_refused_and_its_race_kept(null_server: NullServerFactory, races: Races) -> None:
    server = null_server()
    arguments = ("--race-id=mine", "--include-tasks=closed", "--quiet")
    assert races.run(server, *arguments).code == 0
    before = races.record("mine")
    outcome = races.run(server, *arguments)
    assert outcome.code == 2
    assert 'there is a race "mine" already' in outcome.error
    assert races.record("mine") == before


def test_a_home_that_cannot_be_written_is_told(null_server: NullServerFactory, races: Races, tmp_path: Path) -> None:
    home = tmp_path / "a-file"
    home.write_text("")
    outcome = races.run(null_server(), home=home)
    assert outcome.code == 1
    assert str(home) in outcome.error
    assert "ESBENCH_HOME" in outcome.error


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB, where this user may mount one."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system cannot be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_a_disk_that_fills_up_ends_the_race_with_one_line(
    null_server: NullServerFactory, races: Races, small_disk: Path
) -> None:
    server = null_server({"rules": [{"method": "PUT", "delay": {"type": "constant", "ms": 1_000}}]})
    home = small_disk / "home"
    process = races.start(server, home=home)
    wait_until(lambda: server.counts().by_class.get("PUT /*"), process)
    with (small_disk / "filler").open("wb", buffering=0) as filler:
        while True:
            try:
                filler.write(b"x" * 4096)
            except OSError:
                break
    outcome = races.finish(process)
    assert outcome.code == 1
    assert "No space left on device" in outcome.error
    assert str(home) in outcome.error


# two at once


def test_a_race_of_the_same_indices_is_refused_unless_it_ends_the_other(
    null_server: NullServerFactory, races: Races
) -> None:
    server = null_server()
    first = races.start(server, "--challenge=endless", "--race-id=first")
    wait_until(lambda: server.counts().requests > 30, first)
    second = races.run(server, "--include-tasks=closed", "--race-id=second")
    assert second.code == 1
    assert second.error.startswith(f"esbench: race first (pid {first.pid}) uses orders of the same cluster now")
    assert first.poll() is None
    waiting = threading.Thread(target=lambda: outcomes.append(races.finish(first)))
    outcomes: list[Outcome] = []
    waiting.start()
    third = races.run(server, "--include-tasks=closed", "--race-id=third", "--kill-running-processes")
    waiting.join(10)
    assert third.code == 0
    assert f"ended race first (pid {first.pid})" in third.stderr
    assert outcomes[0].code == 130
    assert [races.record(name).status for name in ("first", "third")] == ["cancelled", "complete"]
    assert [task.name for task in races.record("first").tasks] == ["first", "paced"]
