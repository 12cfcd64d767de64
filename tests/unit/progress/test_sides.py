"""Sides that are raced at once, each in its own thread: one output for all, in each of its forms."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from followed import Clock, second, task
from races import golden_race

from esbench.events.listeners import Listener
from esbench.model import Step, Task
from esbench.progress.estimate import estimate
from esbench.progress.frame import Screen, frame_of_sides
from esbench.progress.json_lines import JsonProgress
from esbench.progress.lines import LineProgress
from esbench.progress.live import LiveProgress
from esbench.progress.race_state import RunningTask
from esbench.progress.sides import SideProgress, Sides
from esbench.progress.task_progress import FollowingProgress, Quiet
from esbench.race.corpora import CorpusJobs
from esbench.record.model import TaskResult
from esbench.telemetry.device import Reading

STRETCH = 2.1
GET = task("get", time_period_s=20.0)
STEPS = [Step((task("create-index"),)), Step((GET,))]
RECORD = golden_race()


def result(name: str, step: int, rate: float | None, **keys: object) -> TaskResult:
    known = RECORD.tasks[0]
    throughput = replace(known.throughput, mean=rate, unit="ops")
    own = {"include_in_reporting": rate is not None, "loop": "closed", "errors": 0, "duration_s": 0.6, **keys}
    return replace(known, name=name, step=step, throughput=throughput, **own)  # type: ignore[arg-type]


class Scripted:
    """A race of one side: it tells what `run` would. Its parts begin on all sides at about the same time."""

    def __init__(self, side: FollowingProgress | Quiet, race_id: str, rate: int) -> None:
        self.side, self.rate = side, rate
        self.record = replace(RECORD, race_id=race_id)

    def arrive(self) -> None:
        self.side.race_begins(self.record, STEPS)

    def begin(self) -> None:
        side: Listener = self.side
        side.step_begins(0, STEPS[0])
        side.totals_known({})
        side.step_runs(0, {"create-index": "ops"})
        side.task_ended(result("create-index", 0, None))

    def measure(self) -> None:
        side: Listener = self.side
        side.step_begins(1, STEPS[1])
        side.totals_known({})
        side.step_runs(1, {"get": "ops"}, STRETCH)
        for number in range(10):  # the first part of each slice is not measured
            side.second("get", second(number, self.rate // 10, warmup=True))
            side.second("get", second(number, self.rate - self.rate // 10 + number % 3))

    def end(self) -> None:
        self.side.task_ended(result("get", 1, float(self.rate)))
        self.side.race_ended(self.record)


def at_once(races: Sequence[Scripted], *parts: str) -> None:
    for part in parts:
        threads = [threading.Thread(target=getattr(race, part)) for race in races]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def raced(progress: FollowingProgress | Quiet, rates: Sequence[int] = (1000, 1100)) -> list[Scripted]:
    names = ("baseline", "contender", "third")[: len(rates)]
    sides = progress.of_sides(names)
    return [Scripted(side, f"r-{name}", rate) for side, name, rate in zip(sides, names, rates, strict=True)]


def test_a_finished_task_is_one_line_of_both_sides(progress: LineProgress, lines: list[str]) -> None:
    races = raced(progress)
    at_once(races, "arrive", "begin", "measure", "end")
    assert {line for line in lines if "race r-" in line} == {"baseline: race r-baseline", "contender: race r-contender"}
    assert [line for line in lines if "race r-" not in line] == [
        "[1/2] create-index",
        "      create-index: baseline 600 ms, contender 600 ms",
        "[2/2] get",
        "      get: baseline 1000 ops/s, contender 1100 ops/s, +10.0 % [+10.0, +10.0]",
    ]


def test_what_runs_is_told_with_the_estimate_and_the_time_left(
    progress: LineProgress, lines: list[str], clock: Clock
) -> None:
    races = raced(progress, (1000, 1100, 900))
    at_once(races, "arrive", "begin", "measure")
    clock.now_s += 22
    progress.tick()
    assert lines[-1] == (
        "      get: baseline 1001 ops/s, contender 1101 ops/s, +10.0 % [+10.0, +10.0], "
        "third 900.9 ops/s, -10.0 % [-10.0, -10.0], 20 s left"
    )


def test_an_estimate_is_told_beside_its_side(progress: LineProgress, lines: list[str], clock: Clock) -> None:
    """Also where a side in between has ended the task."""
    races = raced(progress, (1000, 1100, 900))
    at_once(races, "arrive", "begin", "measure")
    at_once(races[1:2], "end")
    clock.now_s += 22
    progress.tick()
    assert lines[-1] == "      get: baseline 1001 ops/s, third 900.9 ops/s, -10.0 % [-10.0, -10.0], 20 s left"


def test_the_result_of_a_side_is_told_beside_it(progress: LineProgress, lines: list[str]) -> None:
    races = raced(progress, (1000, 1100, 900))
    at_once(races, "arrive", "begin", "measure")
    races[1].side.race_ended(races[1].record)
    at_once(races[::2], "end")
    assert lines[-1] == "      get: baseline 1000 ops/s, third 900.0 ops/s, -10.0 % [-10.0, -10.0]"


@pytest.mark.parametrize("make", [LineProgress, LiveProgress, JsonProgress, Quiet])
def test_a_job_of_a_side_ends_when_its_race_is_to_end(
    make: type[FollowingProgress | Quiet], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    side, other = make().of_sides(("baseline", "contender"))
    with side.checked(interrupted):
        with pytest.raises(KeyboardInterrupt), side.job("generating orders", 10, "documents") as job:
            job.reach(1)
        with pytest.raises(KeyboardInterrupt), side.download("a node", 10) as advance:
            advance(1)
        with other.job("generating orders", 10, "documents") as job:
            job.reach(1)
    with side.job("generating orders", 10, "documents") as job:
        job.advance(1)


def test_the_time_left_is_that_of_the_slices_of_a_step(progress: LineProgress, lines: list[str], clock: Clock) -> None:
    sides = progress.of_sides(("baseline", "contender"))
    for stretch in (2.5, 2.0):
        for side in sides:
            side.race_begins(RECORD, STEPS)
            side.step_begins(1, STEPS[1])
            side.step_runs(1, {"get": "ops"}, stretch)
        clock.now_s += 10
        progress.tick()
    assert [line.rpartition(", ")[2] for line in lines if "left" in line] == ["40 s left", "30 s left"]


def test_a_result_that_a_side_will_not_have_is_not_waited_for(progress: LineProgress, lines: list[str]) -> None:
    first, second_ = raced(progress)
    second_.arrive()
    at_once([first], "arrive", "begin", "measure", "end")
    assert not any("get:" in line for line in lines)
    second_.side.race_ended(second_.record)
    assert "      get: baseline 1000 ops/s" in lines


def test_a_side_that_never_began_is_not_waited_for(progress: LineProgress, lines: list[str]) -> None:
    at_once(raced(progress)[:1], "arrive", "begin")
    assert "      create-index: baseline 600 ms" in lines


def test_a_warning_of_all_sides_is_told_once_and_without_a_name(
    progress: LineProgress, lines: list[str], clock: Clock
) -> None:
    one, other = progress.of_sides(("baseline", "contender"))
    one.warn("the cluster is yellow")
    one.warn("its disk is full")
    assert lines == []
    other.warn("the cluster is yellow")
    assert lines == ["warning: the cluster is yellow"]
    clock.now_s += 5
    progress.tick()
    assert lines[1:] == ["warning: baseline: its disk is full"]
    other.warn("late")
    with progress:
        pass
    assert lines[2:] == ["warning: contender: late"]


def test_words_and_jobs_of_a_side_have_its_name(progress: LineProgress, lines: list[str]) -> None:
    side, _ = progress.of_sides(("baseline", "contender"))
    with side.job("generating orders", 10, "documents"):
        side.say("downloading a node")
    side.insist("a folder is left behind")
    assert lines == [
        "baseline: generating orders: 10 documents",
        "baseline: downloading a node",
        "baseline: a folder is left behind",
    ]


def test_document_files_of_a_side_are_one_job_each(progress: LineProgress, lines: list[str]) -> None:
    side, _ = progress.of_sides(("baseline", "contender"))
    with CorpusJobs(side) as jobs:
        for done in (0, 5, 10):
            jobs.reach("preparing orders.json", done, 10)
    assert lines == ["baseline: preparing orders.json: 10 documents"]


def test_quiet_sides_say_only_what_must_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = Quiet()
    races = raced(quiet)
    at_once(races, "arrive", "begin", "measure", "end")
    races[1].side.warn("nothing")
    races[1].side.insist("a folder is left behind")
    assert capsys.readouterr().err == "contender: a folder is left behind\n"


def test_every_event_of_a_side_has_its_name(lines: list[str], clock: Clock) -> None:
    progress = JsonProgress(lines.append, clock)
    races = raced(progress)
    at_once(races, "arrive", "begin", "measure")
    clock.now_s += 21
    progress.say("round 1 of 6")
    progress.tick()
    at_once(races, "end")
    told = [json.loads(line) for line in lines]
    assert {each.get("side") for each in told if each["event"] != "message"} == {"baseline", "contender"}
    assert [each["text"] for each in told if "side" not in each] == ["round 1 of 6"]
    (found,) = [each for each in told if each["event"] == "estimate"]
    assert (found["side"], found["baseline"], found["task"], found["step"]) == ("contender", "baseline", "get", 1)
    assert found["low_percent"] <= found["percent"] == 9.99 <= found["high_percent"]
    left = [each["left_s"] for each in told if each["event"] == "progress"]
    assert left == [21.0, 21.0]  # 20 s of its own slices take 42


def view(progress: FollowingProgress, sides: Sequence[FollowingProgress | Quiet], columns: int, rows: int) -> list[str]:
    assert isinstance(sides[0], SideProgress)
    shown: Sides = sides[0]._sides
    lines = frame_of_sides(shown, [], Screen(columns, rows), progress.clock())
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def test_the_view_has_a_line_for_each_side(clock: Clock) -> None:
    progress = LiveProgress(clock=clock)
    races = raced(progress)
    at_once(races, "arrive", "begin", "measure")
    clock.now_s += 4
    assert view(progress, [race.side for race in races], 80, 24) == [
        "step 2 of 2",
        "get                      measurement ━━──────────────────────          38 s left",
        "                           difference [95 %]    throughput p50 ms p99 ms errors",
        "  baseline                                      1000 ops/s  1.000  1.000      0",
        "  contender           +10.0 % [+10.0, +10.0]    1100 ops/s  1.000  1.000      0",
    ]


def test_servers_that_sides_share_are_shown_once(clock: Clock) -> None:
    progress = LiveProgress(clock=clock)
    races = raced(progress)
    at_once(races, "arrive", "begin", "measure")
    for race in races:
        race.side.read("nodes", Reading("node-0", "jvm", {"heap_used_percent": 41.0}))
    assert view(progress, [race.side for race in races], 100, 24)[0].split("  ")[-1] == "server: heap 41 %"
    for number, race in enumerate(races):
        race.side.hosts = (f"http://127.0.0.1:{number}",)
    own = "baseline server: heap 41 %; contender server: heap 41 %"
    assert view(progress, [race.side for race in races], 100, 24)[0].endswith(own)


@pytest.mark.parametrize("rows", [1, 7, 10])
def test_the_view_of_sides_is_cut_to_the_screen(rows: int, clock: Clock) -> None:
    progress = LiveProgress(clock=clock)
    races = raced(progress)
    at_once(races, "arrive", "begin", "measure")
    assert len(view(progress, [race.side for race in races], 40, rows)) <= max(3, rows - 5)


def measured(task_: Task, units: Sequence[float], first: int = 0, cycles: int = 50) -> RunningTask:
    running = RunningTask(task_, 0.0)
    running.begin(0.0, "ops", 2.0)
    for number, count in enumerate(units, first):
        running.take(second(number, cycles * task_.clients, units=count), 2.0 * number)
    return running


def test_an_estimate_takes_a_line_over_time_out() -> None:
    wandering = [100.0 + 3 * number for number in range(20)]
    found = estimate(measured(GET, wandering), measured(GET, [1.1 * units for units in wandering]))
    assert found is not None
    assert (found.percent, found.low, found.high) == pytest.approx((10.0, 10.0, 10.0))


def test_an_estimate_has_the_spread_of_its_seconds() -> None:
    found = estimate(measured(GET, [100, 100] * 10), measured(GET, [90, 90, 110, 110] * 5))
    assert found is not None
    assert found.low < -3 < 3 < found.high


@pytest.mark.parametrize(
    ("baseline", "contender"),
    [
        (measured(GET, [100] * 7), measured(GET, [100] * 20)),  # too few
        (measured(GET, []), measured(GET, [100] * 20)),
        (measured(GET, [100] * 20, cycles=49), measured(GET, [100] * 20)),  # of more than 20 ms: whole requests
        (measured(GET, [100] * 20), measured(GET, [*[100] * 10, 0, 0, *[100] * 8])),  # it did nothing
        (measured(GET, [100] * 9, first=1), measured(GET, [100] * 9)),  # which leaves six
        (measured(GET, [100] * 12), measured(GET, [10, 10, 900, 900] * 3)),  # from a tenth to nine times as many
        (measured(task("get", rate=100.0), [100] * 20), measured(task("get", rate=100.0), [100] * 20)),
    ],
)
def test_there_is_not_always_an_estimate(baseline: RunningTask, contender: RunningTask) -> None:
    assert estimate(baseline, contender) is None


def test_the_beginnings_of_slices_are_no_new_warmup() -> None:
    get = RunningTask(task(rate=500.0, time_period_s=20.0), 0.0)
    get.begin(0.0, "ops", 2.0)
    for number in range(3):
        get.take(second(number, 50, ms=8.0, warmup=True), 2.0 * number)
        get.take(second(number, 450, ms=2.0), 2.0 * number)
    assert get.so_far.requests == 3 * 450
    assert get.of_second(4.0).requests == 500
    assert get.rate == 500
    assert (get.phase(1.0), get.phase(39.0), get.phase(40.0)) == ("measurement", "measurement", "end")
    assert get.of_second(9.0).requests == 500  # two slices of the other side may lie in between
