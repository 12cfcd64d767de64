"""Devices at work: what they see gets into the record, and what goes wrong in them stays in them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answering import AnsweringCluster

from esbench.cluster.client import ClusterInfo
from esbench.errors import ClusterError, UsageError
from esbench.features.devices.node_stats import Nodes
from esbench.record.series import Columns, TelemetryWriter
from esbench.tables import Registry
from esbench.telemetry import Chosen, choose
from esbench.telemetry.device import Device, Param, Pulse, Reading, Scene, TaskSpan, Unseen
from esbench.telemetry.series import SeriesOf
from esbench.telemetry.watch import Telemetry

SPAN = TaskSpan("get", 0.0, 1000.0, 0.0, 1000.0)


class Empty(AnsweringCluster):
    """A cluster without nodes and indices."""

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        return {"nodes": {}}


class Answers(AnsweringCluster):
    """Answers with one reply after the other, and again with the last one."""

    def __init__(self, *replies: Any) -> None:
        super().__init__()
        self._replies = list(replies)

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


class Recording(Device):
    """Tells what it was asked."""

    name = "recording"
    help = "what it was asked"

    def __init__(self, scene: Scene, params: Mapping[str, Any] | None = None) -> None:
        super().__init__(scene, params or {})
        self.asked: list[str] = []

    @property
    def interval_s(self) -> float | None:
        return 0.005

    def begin(self) -> None:
        self.asked.append("begin")

    def sample(self) -> Iterable[Reading]:
        self.asked.append("sample")
        yield Reading("node-0", "process", {"heap": 7.0}, {"cpu": float(len(self.asked))})

    def begin_step(self, step: int, tasks: tuple[str, ...]) -> None:
        self.asked.append(f"begin {step} {tasks}")

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        self.asked.append(f"end {step}")
        return {"seen": tasks}

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        return {"heap": series["node-0", "process"].peak("heap", span.begun_s, span.ended_s)}

    def end(self) -> Mapping[str, Any]:
        self.asked.append("end")
        return {"whole": 1}


def scene(tmp_path: Path) -> Scene:
    return Scene(Empty(), ClusterInfo("elasticsearch", "7.10.2"), (), tmp_path)


def watch(*devices: Device, lines: list[bytes] | None = None) -> Telemetry:
    writer = TelemetryWriter((lines if lines is not None else []).append)
    begun_s = time.monotonic()

    def keep(device: str, reading: Reading, time_s: float) -> None:
        writer.add(reading.columns(device), time_s, reading.figures)

    return Telemetry(Empty(), (), devices, lambda: time.monotonic() - begun_s, keep)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 10 s"
        time.sleep(0.002)


def test_a_device_is_begun_sampled_told_of_steps_and_ended(tmp_path: Path) -> None:
    device = Recording(scene(tmp_path))
    with watch(device) as telemetry:
        telemetry.begin_step(3, ["get"])
        until(lambda: device.asked.count("sample") >= 3)
        telemetry.end_step(3, [SPAN])
    assert device.asked[0] == "begin"
    assert device.asked[-1] == "end"
    assert device.asked.index("begin 3 ('get',)") < device.asked.index("end 3")
    report = telemetry.report()["recording"]
    assert report["samples"] == device.asked.count("sample")
    assert report["failed"] == 0
    assert report["whole"] == 1
    assert telemetry.news()[3, "get"]["recording"] == {"seen": ("get",), "heap": 7.0}


def test_series_are_named_once_and_kept_as_arrays(tmp_path: Path) -> None:
    device, lines = Recording(scene(tmp_path)), []
    with watch(device, lines=lines):
        until(lambda: device.asked.count("sample") >= 3)
    header, first, *others = [json.loads(line) for line in b"".join(lines).splitlines()]
    assert header == {
        "series": 0,
        "device": "recording",
        "of": "node-0",
        "group": "process",
        "gauges": ["heap"],
        "counters": ["cpu"],
    }
    assert first[0] == 0
    assert first[2:] == [7, 0]
    assert all(isinstance(line, list) for line in others)
    assert [line[3] for line in others] == sorted(line[3] for line in others)


def test_the_first_rejections_of_a_pool_count(tmp_path: Path) -> None:
    replies = [
        {"nodes": {"id": {"name": "node-0", "timestamp": second, "thread_pool": {"write": {"rejected": rejected}}}}}
        for second, rejected in ((1, 0), (2, 500), (3, 520))
    ]
    device = Nodes(replace(scene(tmp_path), asked=Answers(*replies)), {"nodes-sample-interval": 0.005})
    kept: list[Reading] = []
    with Telemetry(None, (), [device], time.monotonic, lambda _, reading, __: kept.append(reading)):
        until(lambda: len(kept) == 3)
    assert [reading.counters.get("write_rejected") for reading in kept] == [None, 500, 520]


def test_columns_that_change_begin_a_series_of_their_own() -> None:
    lines: list[bytes] = []
    writer = TelemetryWriter(lines.append)
    writer.add(Columns("nodes", "a", "os", ("x",), ()), 0.5, (1.0,))
    writer.add(Columns("nodes", "a", "os", ("x", "y"), ()), 1.5, (1.0, None))
    series = [json.loads(line) for line in b"".join(lines).splitlines()]
    assert series[1] == [0, 0.5, 1]
    assert series[2]["series"] == 1
    assert series[3] == [1, 1.5, 1, None]


class Failing(Recording):
    name = "failing"

    def sample(self) -> Iterable[Reading]:
        self.asked.append("sample")
        raise ClusterError("HTTP 503", where="GET /_nodes/stats")


def test_failed_samples_are_counted_and_told_once(tmp_path: Path) -> None:
    device = Failing(scene(tmp_path))
    with watch(device) as telemetry:
        until(lambda: device.asked.count("sample") >= 4)
        telemetry.end_step(0, [SPAN])
    report = telemetry.report()["failing"]
    assert report["samples"] == 0
    assert report["failed"] >= 4
    assert telemetry.notes == ("failing: GET /_nodes/stats: HTTP 503",)


class Confused(Recording):
    name = "confused"

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        raise KeyError("heap")


def test_what_a_device_cannot_work_out_is_told(tmp_path: Path) -> None:
    device = Confused(scene(tmp_path))
    with watch(device) as telemetry:
        telemetry.end_step(0, [SPAN])
    assert telemetry.notes == ('confused: what was read has an unknown form ("heap" is missing)',)
    assert telemetry.news()[0, "get"]["confused"] == {"seen": ("get",)}


class Blind(Recording):
    name = "blind"

    def sample(self) -> Iterable[Reading]:
        self.asked.append("sample")
        raise Unseen("there is no such API")


def test_what_cannot_be_seen_is_not_asked_for_again(tmp_path: Path) -> None:
    device = Blind(scene(tmp_path))
    with watch(device) as telemetry:
        until(lambda: "sample" in device.asked)
        telemetry.end_step(0, [SPAN])
    assert device.asked.count("sample") == 1
    assert telemetry.notes == ("blind: there is no such API",)


class Unable(Recording):
    name = "unable"

    def begin(self) -> None:
        raise Unseen("no rights")


def test_a_device_that_cannot_begin_takes_no_samples(tmp_path: Path) -> None:
    device = Unable(scene(tmp_path))
    with watch(device) as telemetry:
        telemetry.end_step(0, [SPAN])
    assert "sample" not in device.asked
    assert telemetry.notes == ("unable: no rights",)


class Hanging(Recording):
    name = "hanging"
    patience_s = 0.05

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.goes_on = threading.Event()

    def sample(self) -> Iterable[Reading]:
        self.asked.append("sample")
        self.goes_on.wait(10)
        return ()


def test_a_device_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    hanging, other = Hanging(scene(tmp_path)), Recording(scene(tmp_path))
    with watch(hanging, other) as telemetry:
        until(lambda: "sample" in hanging.asked)
        for step in range(3):
            telemetry.begin_step(step, ["get"])
            telemetry.end_step(step, [SPAN])
    assert telemetry.notes == ("hanging: did not end in time: what it would have said at its end is missing",)
    assert other.asked[-1] == "end"
    hanging.goes_on.set()


class Patient(Recording):
    name = "patient"
    patience_s = 30.0


def test_each_device_is_waited_for_no_longer_than_it_may_take(tmp_path: Path) -> None:
    hanging, patient = Hanging(scene(tmp_path)), Patient(scene(tmp_path))
    with watch(patient, hanging) as telemetry:
        until(lambda: "sample" in hanging.asked)
        begun_s = time.monotonic()
        telemetry.close()
        assert time.monotonic() - begun_s < 5  # not until the 10 s of the one that hangs are over
    assert "hanging: did not end in time" in telemetry.notes[0]
    hanging.goes_on.set()


def test_a_race_that_is_cut_short_waits_a_second_for_the_most_patient_device(tmp_path: Path) -> None:
    class Slow(Hanging):
        patience_s = 30.0

    device = Slow(scene(tmp_path))
    begun_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt), watch(device):
        until(lambda: "sample" in device.asked)
        raise KeyboardInterrupt
    assert time.monotonic() - begun_s < 8  # the device hangs for 10 s
    device.goes_on.set()


class Restoring(Recording):
    name = "restoring"
    patience_s = 30.0
    restores = True

    def end(self) -> Mapping[str, Any]:
        time.sleep(1.2)  # longer than a race in a hurry waits for others
        return super().end()


def test_a_race_that_is_cut_short_lets_a_device_put_back_what_it_changed(tmp_path: Path) -> None:
    device = Restoring(scene(tmp_path))
    with pytest.raises(KeyboardInterrupt), watch(device):
        raise KeyboardInterrupt
    assert device.asked[-1] == "end"


def test_a_device_that_hangs_to_the_end_missed_the_samples_that_it_did_not_take(tmp_path: Path) -> None:
    device = Hanging(scene(tmp_path))
    with watch(device) as telemetry:
        until(lambda: "sample" in device.asked)
        time.sleep(0.05)  # ten intervals
    report = telemetry.report()["hanging"]
    assert (report["samples"], report["failed"]) == (0, 0)
    assert report["missed"] >= 8
    device.goes_on.set()


def test_a_device_that_fell_behind_samples_once_at_its_end_not_for_each_step(tmp_path: Path) -> None:
    device = Hanging(scene(tmp_path))
    with watch(device) as telemetry:
        until(lambda: "sample" in device.asked)
        for step in range(5):
            telemetry.end_step(step, [SPAN])
        telemetry.close()
        device.goes_on.set()
        until(lambda: device.asked[-1] == "end")
    assert device.asked[device.asked.index("end 0") :].count("sample") == 1


class Refused(Recording):
    def sample(self) -> Iterable[Reading]:
        raise ClusterError("connection refused")


def test_what_several_devices_do_not_see_for_the_same_reason_is_told_once(tmp_path: Path) -> None:
    class Other(Refused):
        name = "other"

    with watch(Refused(scene(tmp_path)), Other(scene(tmp_path)), Unable(scene(tmp_path))) as telemetry:
        until(lambda: all(telemetry.report()[name]["failed"] for name in ("recording", "other")))
    assert telemetry.notes == ("recording, other: connection refused", "unable: no rights")
    assert telemetry.report()["other"]["notes"] == ["connection refused"]


def test_why_counters_were_not_read_after_a_step_is_told_with_the_first_such_step() -> None:
    lost = ClusterError("timed out")
    cluster = Answers({"nodes": {}}, lost, lost, {"nodes": {}}, lost)
    with Telemetry(cluster, (), [], time.monotonic, lambda *_: None) as telemetry:
        for step in range(4):
            telemetry.end_step(step, [SPAN])
    why = "no statistics of the nodes: timed out"
    assert telemetry.notes == (f"after step 0: {why}", f"after step 3: {why}")


def test_samples_that_were_not_taken_in_time_are_counted(tmp_path: Path) -> None:
    device = Hanging(scene(tmp_path))
    with watch(device) as telemetry:
        until(lambda: "sample" in device.asked)
        time.sleep(0.05)  # ten intervals
        device.goes_on.set()
        until(lambda: device.asked.count("sample") > 1)
    assert telemetry.report()["hanging"]["missed"] >= 8


class Eager(Recording):
    name = "eager"
    follows_seconds = True

    @property
    def interval_s(self) -> float | None:
        return 3600.0

    def pulse(self, pulse: Pulse) -> bool:
        self.asked.append(f"pulse {pulse.second}")
        return pulse.errors > 0


def test_a_device_samples_at_once_when_a_second_asks_for_it(tmp_path: Path) -> None:
    device = Eager(scene(tmp_path))
    with watch(device) as telemetry:
        until(lambda: "sample" in device.asked)
        telemetry.pulse(Pulse("get", 1, 100, 0, 1.0))
        telemetry.pulse(Pulse("get", 2, 100, 5, 1.0))
        until(lambda: device.asked.count("sample") == 2)
    assert device.asked.index("pulse 2") < len(device.asked) - device.asked[::-1].index("sample") - 1


# The choice of devices


class Light(Recording):
    name = "light"
    always = True


class Full(Recording):
    name = "full"
    replaces = "light"
    aliases = ("full-stats",)
    params = (
        Param("full-sample-interval", "duration", 1.0, "seconds between samples"),
        Param("full-indices", "names", (), "which indices"),
        Param("full-include-gc", "flag", True, "garbage collection"),
        Param("full-threads", "count", 3, "threads"),
    )


class OfTheNode(Recording):
    name = "of-the-node"
    embedded_only = True


def registry() -> Registry[type[Device]]:
    found: Registry[type[Device]] = Registry("telemetry device")
    for kind in (Light, Full, OfTheNode):
        found.add(kind.name, kind)
    return found


def names(*given: str, embedded: bool = True) -> list[str]:
    return [chosen.kind.name for chosen in choose(given, {}, registry(), embedded=embedded)]


def test_what_is_always_on_is_chosen_by_itself() -> None:
    assert names() == ["light"]


def test_a_device_may_replace_another() -> None:
    assert names("full") == ["full"]
    assert names("full-stats") == ["full"]


def test_all_are_those_that_can_watch_this_cluster() -> None:
    assert names("all") == ["full", "of-the-node"]
    assert names("all", embedded=False) == ["full"]


def test_none_watches_nothing() -> None:
    assert names("none") == []


@pytest.mark.parametrize(
    ("given", "params", "error"),
    [
        (["ful"], {}, 'unknown telemetry device "ful"'),
        (["jit"], {}, 'Rally\'s device "jit" is not supported: it measures nothing of a race'),
        (["ccr-stats"], {}, 'Rally\'s device "ccr-stats" is not supported: it watches'),
        (["full", "none"], {}, '"none" leaves no device'),
        (["of-the-node"], {}, "of-the-node watch nodes that esbench starts"),
        ([], {"full-threads": 3}, "add --telemetry=full"),
        (["full"], {"full-thread": 3}, 'did you mean "full-threads"'),
        (["full"], {"full-threads": 0}, "--telemetry-params=full-threads: expected a whole number from 1, not 0"),
        (["full"], {"full-sample-interval": 0}, "must be more than 0"),
        (["full"], {"full-include-gc": "perhaps"}, "expected true or false, not perhaps"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(given: list[str], params: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError) as raised:
        choose(given, params, registry(), embedded=False)
    assert error in str(raised.value)


def test_parameters_are_parsed_and_have_defaults() -> None:
    given = {"full-sample-interval": "500ms", "full-indices": "a,b", "full-include-gc": "false"}
    assert choose(["full"], given, registry(), embedded=True) == (
        Chosen(
            Full,
            {
                "full-sample-interval": 0.5,
                "full-indices": ("a", "b"),
                "full-include-gc": False,
                "full-threads": 3,
            },
        ),
    )
