"""Pauses of the garbage collector: lines of several Javas and collectors, and what is said of a task and a race."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from idle_process import Idle, idle

from esbench.cluster.client import Cluster, ClusterInfo
from esbench.features.devices.java import LOG, Gc, Pause, Safepoint, parse_line
from esbench.telemetry.device import Reading, Scene, TaskSpan, Unseen
from esbench.telemetry.series import SeriesOf

RECORDED = Path(__file__).parents[3] / "recorded" / "telemetry"
PARAMS = {param.name: param.default for param in Gc.params}
AT = "[2026-01-31T10:00:00.250+0000][12.345s][info]"
AT_S = datetime(2026, 1, 31, 10, 0, 0, 250_000, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("line", "kind", "ms"),
    [
        ("[gc] GC(7) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.123ms", "Young (Normal)", 3.123),
        (
            "[gc] GC(9) Pause Young (Mixed) (G1 Evacuation Pause) (Evacuation Failure: Allocation) 9M->9M(12M) 1.0ms",
            "Young (Mixed)",
            1.0,
        ),
        ("[gc] GC(1) Pause Full (System.gc()) 115M->61M(128M) 5.914ms", "Full", 5.914),
        ("[gc] GC(4) Pause Remark 95M->95M(128M) 0.429ms", "Remark", 0.429),
        ("[gc] GC(0) Pause Init Mark (unload classes) 0.036ms", "Init Mark", 0.036),
        ("[gc,phases   ] GC(4) y: Pause Mark Start 0.009ms", "Mark Start", 0.009),
        ("[gc,phases   ] GC(0) O: Pause Mark End 0.006ms", "Old Mark End", 0.006),
        ("[gc] GC(2) Pause Young (Allocation Failure) 33M->25M(123M) 25.355ms\r", "Young", 25.355),
    ],
)
def test_a_pause_has_its_kind_without_its_cause(line: str, kind: str, ms: float) -> None:
    assert parse_line(AT + line) == Pause(AT_S, kind, ms)


def test_safepoints_are_told_in_two_ways() -> None:
    new = (
        '[safepoint] Safepoint "ICBufferFull", Time since last: 9 ns, Reaching safepoint: 2000 ns, At safepoint: 1 ns, '
    )
    assert parse_line(f"{AT}{new}Total: 3000000 ns") == Safepoint(3.0, 0.002)
    assert parse_line(f"{AT}{new}Leaving safepoint: 5 ns, Total: 1 ns, Threads: 0 runnable, 10 total")
    old = "[safepoint] Total time for which application threads were stopped: 0.0125 seconds, "
    assert parse_line(f"{AT}{old}Stopping threads took: 0.0005 seconds") == Safepoint(12.5, 0.5)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[gc,start] GC(7) Pause Young (Normal) (G1 Evacuation Pause)",
        "[gc,phases] GC(0)   Pre Evacuate Collection Set: 0.07ms",
        "[gc] GC(4) Concurrent Mark Cycle 23.279ms",
        "[gc,stats]  Young Pause: Pause Mark End      0.005 / 0.055     0.005 / 0.055    ms",
        "[gc,stats] Pause Init Mark (N)                  42 us",
        "[gc] GC(7) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.1",
    ],
)
def test_other_lines_and_cut_ones_tell_nothing(line: str) -> None:
    assert parse_line(AT + line) is None
    assert parse_line("GC(4) Pause Remark 95M->95M(128M) 0.429ms") is None


YOUNG_OF_G1 = ("Young (Normal)", "Young (Mixed)", "Young (Prepare Mixed)", "Young (Concurrent Start)")


@pytest.mark.parametrize("java", [17, 21, 25])
def test_the_logs_of_each_java_and_collector_are_understood(java: int) -> None:
    lines = (RECORDED / f"gc-java-{java}.txt").read_text().splitlines()
    events = [event for event in map(parse_line, lines) if event is not None]
    kinds = Counter(event.kind for event in events if isinstance(event, Pause))
    assert {*YOUNG_OF_G1, "Remark", "Cleanup", "Full", "Young", "Init Mark", "Final Mark", "Mark End"} <= set(kinds)
    assert ("Old Mark End" in kinds) == (java == 25)  # its ZGC has generations
    assert sum(isinstance(event, Safepoint) for event in events) == 5  # a line of each collector
    told = [line for line in lines if line.endswith("ms") and "GC(" in line and " Pause " in line]
    assert len(told) == kinds.total()


class Java(Idle):
    """A process that was started with what the device asks for, and its log."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / LOG
        super().__init__(*(option.replace("{logs}", str(folder)) for option in Gc.java_options(PARAMS)))

    def write(self, *lines: str) -> None:
        with self.log.open("a") as log:
            log.write("".join(f"[{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}+0000][1.0s][info]{line}" for line in lines))


@pytest.fixture
def java(tmp_path: Path) -> Iterator[Java]:
    started = Java(tmp_path)
    try:
        yield started
    finally:
        started.end()


def device(**pids: int) -> Gc:
    scene = Scene(Cluster(["http://127.0.0.1:1"]), ClusterInfo("elasticsearch", "7.10.2"), (), Path(), pids)
    watch = Gc(scene, PARAMS)
    watch.begin()
    return watch


PAUSE = "[gc] GC(0) Pause Remark 95M->95M(128M) 0.4ms\n"
STOP = '[safepoint] Safepoint "Cleanup", Time since last: 9 ns, Reaching safepoint: 500000 ns, Total: 2000000 ns\n'


def test_only_what_is_logged_from_now_on_is_read_in_whole_lines(java: Java) -> None:
    java.write("[gc] GC(0) Pause Remark 95M->95M(128M) 99.9ms\n", STOP)
    watch = device(**{"node-0": java.pid})
    java.write("[gc] GC(1) Pause Remark 95M->95M(128M) 0.4ms\n", STOP, "[gc] GC(2) Pause Cleanup 5M->5M(8M) 0.")
    first = list(watch.sample())
    assert first == [
        Reading("node-0", "Remark", {"pause_ms": 0.4}, age_s=first[0].age_s),
        Reading("node-0", "safepoints", counters={"safepoints": 1, "stopped_ms": 2.0, "reaching_ms": 0.5}),
    ]
    assert 0 <= first[0].age_s < 60
    with java.log.open("a") as log:
        log.write("2ms\n")
    assert [(reading.group, reading.gauges) for reading in watch.sample() if reading.gauges] == [
        ("Cleanup", {"pause_ms": 0.2})
    ]
    assert watch.end() == {
        "by_node": {
            "node-0": {
                "log": "logs/node-0/gc-esbench.log",
                "pauses": {
                    "Cleanup": {"count": 1, "total_ms": 0.2, "p50_ms": 0.2, "max_ms": 0.2},
                    "Remark": {"count": 1, "total_ms": 0.4, "p50_ms": 0.4, "max_ms": 0.4},
                },
                "safepoints": {"count": 1, "total_ms": 2.0, "p50_ms": 2.0, "max_ms": 2.0, "reaching_ms": 0.5},
            }
        }
    }


def test_what_the_log_of_a_dead_node_holds_is_still_read(java: Java) -> None:
    java.write(STOP)
    watch = device(**{"node-0": java.pid})
    java.write("[gc] GC(1) Pause Full (System.gc()) 9M->5M(12M) 7.5ms\n")
    java.end()
    assert [reading.group for reading in watch.sample()] == ["Full", "safepoints"]
    assert watch.notes == ["node-0 has ended by itself, and its log with it"]
    assert list(watch.sample()) == []


def test_what_was_logged_after_the_last_sample_is_of_the_race(java: Java) -> None:
    java.write(STOP)
    watch = device(**{"node-0": java.pid})
    java.write("[gc] GC(1) Pause Full (System.gc()) 9M->5M(12M) 7.5ms\n")
    assert watch.end()["by_node"]["node-0"]["pauses"]["Full"]["count"] == 1
    assert watch.notes == []
    java.end()
    watch.end()
    assert watch.notes == ["node-0 has ended by itself, and its log with it"]


def test_a_task_after_the_end_of_a_node_has_nothing_of_it(java: Java) -> None:
    java.write(PAUSE, STOP)
    watch = device(**{"node-0": java.pid})
    java.end()
    stops = SeriesOf()
    for (reading,) in [list(watch.sample())]:
        stops.add(8.0, reading.gauges, reading.counters)
    series = {("node-0", "safepoints"): stops}
    assert "node-0" in watch.of_task(TaskSpan("last", 5.0, 12.0, 5.0, 12.0), series)["by_node"]
    assert watch.of_task(TaskSpan("after", 9.0, 12.0, 9.0, 12.0), series) == {}


def test_safepoints_that_java_does_not_log_are_not_said_to_be_none(java: Java) -> None:
    java.write(PAUSE)
    assert list(device(**{"node-0": java.pid}).sample()) == []


def test_the_99th_percentile_needs_a_hundred_pauses(java: Java) -> None:
    java.write("\n")
    watch = device(**{"node-0": java.pid})
    java.write(*(f"[gc] GC({number}) Pause Remark 95M->95M(128M) {number}.0ms\n" for number in range(1, 201)))
    assert len(list(watch.sample())) == 200
    remark = watch.end()["by_node"]["node-0"]["pauses"]["Remark"]
    assert remark == {"count": 200, "total_ms": 20100.0, "p50_ms": 100.0, "p99_ms": 198.0, "max_ms": 200.0}


def test_a_java_without_such_a_log_is_told_and_leaves_nothing_to_see() -> None:
    with idle() as process:
        watch = device(**{"node-0": process.pid})
    assert watch.notes == [f"node-0: the process was not started with gc-esbench.log (pid={process.pid})"]
    assert device(**{"node-0": process.pid}).notes == [f"node-0: process PID not found (pid={process.pid})"]
    with pytest.raises(Unseen):
        list(watch.sample())


def test_a_tasks_pauses_are_those_that_ended_in_its_window(java: Java) -> None:
    java.write(PAUSE, STOP)
    watch = device(**{"node-0": java.pid})
    young, full, stops = SeriesOf(), SeriesOf(), SeriesOf()
    for time_s, ms in ((9.9, 100.0), (10.1, 3.0), (19.9, 4.0), (20.1, 200.0)):
        young.add(time_s, {"pause_ms": ms}, {})
    full.add(15.0, {"pause_ms": 50.04}, {})
    for second in range(0, 31, 10):
        stops.add(float(second), {}, {"safepoints": 2.0 * second, "stopped_ms": 3.0 * second, "reaching_ms": 0.0})
    span = TaskSpan("bulk", 5.0, 25.0, 10.0, 20.0)
    groups = {"Young (Normal)": young, "Full": full, "safepoints": stops}
    assert watch.of_task(span, {("node-0", group): seen for group, seen in groups.items()}) == {
        "by_node": {
            "node-0": {"pauses": 3, "pause_ms": 57.0, "longest_pause_ms": 50.0, "safepoints": 20, "stopped_ms": 30.0}
        }
    }


def test_pauses_that_java_does_not_log_are_not_said_to_be_none(java: Java) -> None:
    java.write(STOP)
    watch, span = device(**{"node-0": java.pid}), TaskSpan("bulk", 5.0, 25.0, 10.0, 20.0)
    assert watch.of_task(span, {}) == {}
    java.write(PAUSE)
    list(watch.sample())
    assert watch.of_task(span, {}) == {"by_node": {"node-0": {"pauses": 0, "pause_ms": 0.0}}}


def test_what_java_logs_can_be_chosen() -> None:
    (option,) = Gc.java_options({**PARAMS, "gc-log-config": "gc*=debug"})
    assert option == "-Xlog:gc*=debug:file={logs}/gc-esbench.log:utctime,uptime,level,tags:filecount=0"
