"""Progress as lines, and the jobs of document files."""

from __future__ import annotations

import io

import pytest
from followed import Clock, second, task
from races import golden_race

from esbench.events.progress import Job
from esbench.model import Step
from esbench.progress.lines import LineProgress
from esbench.progress.task_progress import Quiet
from esbench.progress.texts import job_text
from esbench.race.corpora import CorpusJobs
from esbench.record.model import HostEvent


def pass_time(progress: LineProgress, clock: Clock, seconds: int) -> None:
    for _ in range(seconds):
        clock.now_s += 1
        progress.tick()


def test_a_race_is_told_by_its_steps_and_results(progress: LineProgress, lines: list[str]) -> None:
    record = golden_race()
    progress.race_begins(record, [Step((task("one"),)), Step((task("two"), task("three")))])
    progress.step_begins(1, Step((task("two"), task("three"))))
    progress.task_ended(record.tasks[0])
    progress.warn("the cluster is yellow")
    assert lines[:2] == [f"race {record.race_id}", "[2/2] two, three"]
    assert lines[2].startswith("      ")
    assert lines[3] == "warning: the cluster is yellow"


def test_a_running_task_is_told_of_every_ten_seconds(progress: LineProgress, lines: list[str], clock: Clock) -> None:
    progress.step_begins(0, Step((task("get", time_period_s=25.0),)))
    progress.step_runs(0, {"get": "ops"})
    lines.clear()
    for number in range(9):
        progress.second("get", second(number, 100, ms=2.0, errors=1 if number == 3 else 0))
    pass_time(progress, clock, 10)
    assert lines == ["      99.89 ops/s, service time p50 2.000 ms, service time p99 2.000 ms, 1 errors, 15 s left"]
    progress.second("get", second(10, 50, ms=4.0))
    pass_time(progress, clock, 10)  # more may follow of the last 3
    assert lines[1:] == ["      6.250 ops/s, service time p50 4.000 ms, 1 errors, 5 s left"]


def test_the_rate_of_the_first_line_is_without_the_preparation(
    progress: LineProgress, lines: list[str], clock: Clock
) -> None:
    progress.step_begins(0, Step((task("get", time_period_s=60.0),)))
    pass_time(progress, clock, 5)
    progress.step_runs(0, {"get": "ops"})
    lines.clear()
    for number in range(14):
        clock.now_s += 1
        if number:  # it arrives a second after its end
            progress.second("get", second(number - 1, 100))
        progress.tick()
    assert lines == ["      100.0 ops/s, service time p50 1.000 ms, service time p99 1.000 ms, 55 s left"]


def test_a_long_request_says_how_long_it_has_taken(progress: LineProgress, lines: list[str], clock: Clock) -> None:
    step = Step((task("force-merge", kind="force-merge"), task("get", time_period_s=60.0)))
    progress.step_begins(0, step)
    progress.step_runs(0, {"force-merge": "ops", "get": "ops"})
    lines.clear()
    pass_time(progress, clock, 20)
    assert lines == [
        "      force-merge: measurement, 10 s so far",
        "      get: measurement, 50 s left",
        "      force-merge: measurement, 20 s so far",
        "      get: measurement, 40 s left",
    ]


def test_a_job_is_told_at_its_begin_and_every_ten_seconds(
    progress: LineProgress, lines: list[str], clock: Clock
) -> None:
    with progress.job("starting elasticsearch-7.10.2"):
        pass_time(progress, clock, 12)
    with progress.job("generating orders", 200_000, "documents") as job:
        job.reach(50_000)
        pass_time(progress, clock, 10)
    with progress.download("node.zip", 0):
        pass_time(progress, clock, 9)
    assert lines == [
        "starting elasticsearch-7.10.2",
        "      10 s so far",
        "generating orders: 200,000 documents",
        "      50,000 of 200,000 documents (25 %), 5,000/s, 30 s left",
    ]


def test_jobs_inside_of_jobs_are_told_by_name(progress: LineProgress, lines: list[str], clock: Clock) -> None:
    with progress.job("starting elasticsearch-7.10.2"), progress.download("node.zip", 300 << 20) as advance:
        advance(100 << 20)
        pass_time(progress, clock, 10)
    assert lines[1:] == [
        "      starting elasticsearch-7.10.2: 10 s so far",
        "      downloading node.zip: 100.0 MB of 300.0 MB (33 %), 10.0 MB/s, 20 s left",
    ]


def test_how_far_a_download_is() -> None:
    job = Job("downloading d.bz2", 5 << 20, "bytes", 100.0)
    assert job_text(job, 101.0) == "1 s so far"
    job.advance(1 << 20)
    assert job_text(job, 102.0) == "1.0 MB of 5.0 MB (20 %), 512.0 KB/s, 8 s left"
    unknown = Job("downloading d.bz2", None, "bytes", 100.0)
    unknown.advance(3 << 20)
    assert job_text(unknown, 103.0) == "3.0 MB, 1.0 MB/s, 3 s so far"


def test_hosts_that_come_and_go(progress: LineProgress, lines: list[str]) -> None:
    for what in ("lost", "back"):
        progress.host_changed(HostEvent("2026-11-21T10:15:10Z", 1, ("get",), "10.0.0.1:9200", what, "refused"))
    assert lines[0].startswith("      warning: 10.0.0.1:9200 cannot be reached (refused)")
    assert lines[1].startswith("      10.0.0.1:9200 answers again")


def test_document_files_are_one_job_after_the_other(progress: LineProgress, lines: list[str], clock: Clock) -> None:
    with CorpusJobs(progress) as jobs:
        with jobs.download("d.json.bz2", 5 << 20) as advance:
            advance(5 << 20)
        jobs.reach("preparing d.json", 64, 4000)
        clock.now_s += 1
        jobs.reach("preparing d.json", 2000, 4000)
        pass_time(progress, clock, 9)
        jobs.reach("preparing e.json", 1, None)
        pass_time(progress, clock, 9)
    pass_time(progress, clock, 30)
    assert lines == [
        "downloading d.json.bz2: 5.0 MB",
        "preparing d.json: 4,000 documents",
        "      2,000 of 4,000 documents (50 %), 200/s, 10 s left",
        "preparing e.json",
    ]


def test_quiet_says_only_what_must_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = Quiet()
    with quiet, quiet.job("starting a node"), quiet.download("node.zip", 5):
        quiet.say("nothing")
        quiet.warn("nothing")
        quiet.insist("left behind: a folder")
        quiet.race_begins(golden_race(), [])
    assert capsys.readouterr() == ("", "left behind: a folder\n")


class Gone(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_race_goes_on_when_nobody_reads_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Gone())
    LineProgress().say("lost")
    Quiet().insist("lost")


def test_a_job_that_fails_has_ended(progress: LineProgress, lines: list[str], clock: Clock) -> None:
    with pytest.raises(ValueError, match="no"), progress.job("starting a node"):
        raise ValueError("no")
    pass_time(progress, clock, 20)
    assert lines == ["starting a node"]
