"""Everything that observes a race from outside: the cluster's own counters, and the devices, each in a thread.

A race starts it once its cluster exists, reports its steps to it, and fetches figures of tasks as they become known.
Calls from the race return at once. What a device cannot do in time is missed, counted and reported; one that hangs
delays neither the race nor another device. Nothing here ends a race: what cannot be observed is in `notes`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from esbench.cluster.client import Cluster
from esbench.cluster.replies import number
from esbench.errors import EsbenchError
from esbench.errors.reasons import form_fault, reason_of
from esbench.model import DEFAULT_CLUSTER
from esbench.telemetry import statistics
from esbench.telemetry.device import Device, Pulse, Reading, TaskSpan, Unseen
from esbench.telemetry.series import Continued, SeriesOf
from esbench.telemetry.spill import SpillFile

_BEGIN_S = 1.0  # what does not begin in time begins beside the race
_END_S = 1.0
_READINGS_PER_S = 500_000  # what a busy machine works out at the end of a long step; a hung request adds nothing to it
# What a device may raise: what it reads comes from servers of many versions, and from whatever stands before them.
_FAULTS = (EsbenchError, OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
_NOTES_AT_MOST = 10

Said = dict[tuple[int, str], dict[str, Any]]  # (step, task) -> device -> what it says of the task


class Telemetry:
    """Observes a race with some devices, over a separate connection to the cluster, if it has one. A context manager.

    `targets` are the track's indices and data streams; `clock` is the race's, in seconds; `keep` gets (device's name,
    reading, time in seconds of that clock) for each reading, in the thread of its device. `name`: the cluster's; its
    counters and devices say nothing of tasks of other clusters, and devices that ask no cluster say it of all tasks.
    """

    def __init__(
        self,
        cluster: Cluster | None,
        targets: Sequence[str],
        devices: Sequence[Device],
        clock: Callable[[], float],
        keep: Callable[[str, Reading, float], None],
        name: str = DEFAULT_CLUSTER,
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._targets = tuple(targets)
        self._devices = [Watched(device, clock, keep) for device in devices]
        self._said: Said = {}
        self._notes: list[str] = []
        self._ends: dict[str, Future[Any]] = {}
        self._before = self._after = statistics.Snapshot()

    def __enter__(self) -> Telemetry:
        """Start the devices and read the cluster's counters; a device not ready after 1 s starts beside the race."""
        begun = {device.name: device.start() for device in self._devices}
        self._before = self._after = self._counters()
        wait_for(begun, dict.fromkeys(begun, _BEGIN_S))
        return self

    def __exit__(self, *exc: object) -> None:
        self.close(in_a_hurry=exc[0] is not None)

    def _counters(self) -> statistics.Snapshot:
        return statistics.Snapshot() if self._cluster is None else statistics.take(self._cluster, self._targets)

    @property
    def follows_seconds(self) -> bool:
        """True if a device needs each second of a task."""
        return any(device.device.follows_seconds for device in self._devices)

    def begin_step(self, step: int, tasks: Sequence[str]) -> None:
        """Announce a step that is about to begin to all devices."""
        for device in self._devices:
            device.begin_step(step, tuple(tasks))

    def pulse(self, pulse: Pulse) -> None:
        """Pass a second of a task to the devices that need it."""
        for device in self._devices:
            if device.device.follows_seconds:
                device.pulse(pulse)

    def end_step(self, step: int, spans: Sequence[TaskSpan], *, cut_short: bool = False) -> None:
        """Handle the end of a step: read the cluster's counters at once; `news` returns the devices' figures later.

        After a step that was `cut_short` the counters are not read: the cluster may be gone.
        """
        own = [span for span in spans if span.cluster == self._name]
        if not cut_short:
            earlier, self._after = self._after, self._counters()
            new = (warning for warning in self._after.warnings if warning not in earlier.warnings)
            self._notes += [f"after step {step}: {warning}" for warning in new]
            work = statistics.work(earlier, self._after)
            for span in own if self._cluster is not None else ():
                self._said[step, span.task] = {"cluster": work}
        for device in self._devices:
            device.end_step(step, own if device.device.asks_cluster else spans)

    def news(self) -> Said:
        """Return (step, task) -> name -> figures, those that have become known since the last call.

        The name is a device's `key`, else its name, or `cluster` for the cluster's counters. A task may come several
        times.
        """
        said, self._said = self._said, {}
        for device in self._devices:
            while device.told:
                key, told = device.told.popitem()
                if told:
                    said.setdefault(key, {})[device.device.key or device.name] = told
        return said

    def close(self, *, in_a_hurry: bool = False) -> None:
        """End all devices and wait for their final figures, `in_a_hurry` at most 1 s for those that restore nothing.

        After many readings a little longer: a second for each 500,000 of them. Safe to call twice.
        """
        if self._ends or not self._devices:
            return
        self._ends = {device.name: device.close() for device in self._devices}
        waits = {
            device.name: device.work_s
            + (_END_S if in_a_hurry and not device.device.restores else device.device.patience_s)
            for device in self._devices
        }
        for name in wait_for(self._ends, waits):
            self._notes.append(f"{name}: did not end in time: what it would have said at its end is missing")

    def statistics(self) -> dict[str, Any]:
        """Return the change of the cluster's counters from start to the last step's end, as `statistics.difference`."""
        return statistics.difference(self._before, self._after)

    def report(self) -> dict[str, Any]:
        """Return name of a device -> its report, as of `Watched.report`; complete after `close`."""
        return {device.name: device.report() for device in self._devices}

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences about what could not be observed."""
        found = [*self._before.warnings, *self._notes]
        if joined := statistics.joined(self._before, self._after):
            found.append(f"no statistics of nodes that joined the cluster while it was raced: {len(joined)}")
        unseen: dict[str, list[str]] = {}  # many devices are blind to a cluster that is gone
        for device in self._devices:
            for note in device.device.notes:
                unseen.setdefault(note, []).append(device.name)
        found += [f"{', '.join(names)}: {note}" for note, names in unseen.items()]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class _Finished:
    """A step that has ended; its tasks' figures are computed when the samples after it are complete."""

    step: int
    spans: Sequence[TaskSpan]
    seen: Mapping[str, Any]
    at_s: float


@dataclass
class Watched:
    """Runs a device in a thread: samples it and calls its methods, so that the race never waits.

    `clock` is the race's, in seconds; `keep` gets (device's name, reading, time in seconds at which it was true). The
    mapping by (step, task) holds the device's figures of tasks, once they are known; `facts` are those of the whole
    race.
    """

    device: Device
    clock: Callable[[], float]
    keep: Callable[[str, Reading, float], None]
    told: dict[tuple[int, str], Mapping[str, Any]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._calls: queue.Queue[tuple[Callable[[], Any], Future[Any]]] = queue.Queue()
        self._samples = self._missed = self._failed = self._readings = 0
        self._cost_s = 0.0
        self._series: dict[tuple[str, str], SeriesOf] = {}
        self._spilled = SpillFile(self.device.scene.folder)
        self._continued = Continued(self.device.from_zero)
        self._finished: list[_Finished] = []
        self._blind = False  # there is nothing (more) to sample
        self._closing = self._ended = False
        self._due_s = 0.0
        # a daemon: a request that hangs must not hold the exit
        self._thread = threading.Thread(target=self._run, name=f"telemetry-{self.device.name}", daemon=True)

    @property
    def name(self) -> str:
        """The name of the device."""
        return self.device.name

    @property
    def work_s(self) -> float:
        """The seconds that figures of a task may take, by the number of its readings."""
        return self._readings / _READINGS_PER_S

    def start(self) -> Future[Any]:
        """Start the device; the future is done when the device is ready or has failed."""
        begun = self._call(self._begin)  # first of all, before the first sample
        self._thread.start()
        return begun

    def begin_step(self, step: int, tasks: tuple[str, ...]) -> None:
        self._call(lambda: self.device.begin_step(step, tasks))

    def pulse(self, pulse: Pulse) -> None:
        self._call(lambda: self._pulse(pulse))

    def end_step(self, step: int, spans: Sequence[TaskSpan]) -> None:
        """Handle the end of a step; the figures of its tasks follow later."""
        self._call(lambda: self._end_step(step, spans))

    def close(self) -> Future[Any]:
        """End the device; the future is done when the device has ended and restored what it changed, or has failed."""
        self._closing = True
        return self._call(self._end)

    def report(self) -> dict[str, Any]:
        """Return the record's entry of the device, with its figures of the whole race.

        For a device with an interval: interval_s, the numbers of `samples`, `failed` and `missed` ones and of the
        `readings` kept, and cost_ms, the mean duration of a sample, if there is one. `notes` if there are any.
        """
        interval_s = self.device.interval_s
        report: dict[str, Any] = {}
        if interval_s is not None:
            report["interval_s"] = interval_s
            report["samples"], report["failed"] = self._samples, self._failed
            report["readings"] = self._readings
            report["missed"] = self._missed + (0 if self._ended or self._blind else self._overdue(interval_s))
            if self._samples:
                report["cost_ms"] = round(1000 * self._cost_s / self._samples, 2)
        if self.device.notes:
            report["notes"] = list(self.device.notes)
        return {**report, **self.facts}

    def note(self, text: str) -> None:
        """Record once what could not be observed, up to a limit of notes."""
        if len(self.device.notes) < _NOTES_AT_MOST:
            self.device.note(text)

    def _call(self, function: Callable[[], Any]) -> Future[Any]:
        done: Future[Any] = Future()
        self._calls.put((function, done))
        return done

    def _run(self) -> None:
        """Run the device's thread: calls in their order, samples when they are due."""
        while True:
            interval_s = None if self._blind else self.device.interval_s
            timeout_s = None if interval_s is None else max(0.0, self._due_s - self.clock())
            try:
                function, done = self._calls.get(timeout=timeout_s)
            except queue.Empty:
                self._sample_on_time(interval_s or 0.0)
                continue
            try:
                function()
            except _FAULTS as error:
                self.note(_sentence(error))
            finally:
                done.set_result(None)
            if function == self._end:
                return

    def _begin(self) -> None:
        try:
            self.device.begin()
        except _FAULTS:
            self._blind = True
            raise
        self._due_s = self.clock()

    def _pulse(self, pulse: Pulse) -> None:
        if self.device.pulse(pulse) and not self._blind:
            self._sample()

    def _end_step(self, step: int, spans: Sequence[TaskSpan]) -> None:
        is_sampled = not self._blind and self.device.interval_s is not None and self.device.samples_at_steps
        if is_sampled and not self._closing:
            self._sample()
        seen: Mapping[str, Any] = {}
        try:
            seen = self.device.end_step(step, tuple(span.task for span in spans))
        except _FAULTS as error:
            self.note(_sentence(error))
        self._finished.append(_Finished(step, spans, seen, self.clock()))
        if not self._closing:  # else the end takes one sample for all steps that are left
            self._tell_what_is_settled()

    def _end(self) -> None:
        if self._finished and not self._blind and self.device.interval_s is not None:
            self._sample()
        self._tell_what_is_settled()
        self._series.clear()
        self._spilled.clear()
        self._ended = True
        self.facts = self.device.end()

    def _sample_on_time(self, interval_s: float) -> None:
        missed = self._overdue(interval_s)
        self._missed += missed
        self._due_s += (missed + 1) * interval_s
        self._sample()
        self._tell_what_is_settled()

    def _overdue(self, interval_s: float) -> int:
        """Return the number of samples that should have been taken after the one that is due."""
        return max(0, int((self.clock() - self._due_s) / interval_s))

    def _sample(self) -> None:
        begun_s = self.clock()
        try:
            for reading in self.device.sample():
                self._take(reading, (begun_s + self.clock()) / 2 - reading.age_s)
        except _FAULTS as error:
            self._failed += 1
            self._blind = self._blind or isinstance(error, Unseen)
            self.note(_sentence(error))
        else:
            self._samples += 1
            self._cost_s += self.clock() - begun_s

    def _take(self, reading: Reading, time_s: float) -> None:
        gauges, counters = _figures(reading.gauges), _figures(reading.counters)
        reading = replace(reading, gauges=gauges, counters=self._continued.of(reading.of, reading.group, counters))
        self.keep(self.name, reading, time_s)
        self._readings += 1
        series = self._series.setdefault((reading.of, reading.group), SeriesOf(overflow=self._spilled))
        series.add(time_s, _only(reading.gauges, self.device.figures), _only(reading.counters, self.device.figures))

    def _tell_what_is_settled(self) -> None:
        """Compute the figures of tasks whose steps have enough samples after them, or of all tasks at the end."""
        now_s = self.clock()
        while self._finished and (self._closing or now_s >= self._finished[0].at_s + self.device.settle_s):
            step = self._finished.pop(0)
            for span in step.spans:
                self.told[step.step, span.task] = {**step.seen, **self._of_task(span)}
            for series in self._series.values():
                series.forget_before(step.at_s)
            self._spilled.clear()

    def _of_task(self, span: TaskSpan) -> Mapping[str, Any]:
        if self.device.interval_s is not None and not self._series:
            return {}
        try:
            return self.device.of_task(span, self._series)
        except _FAULTS as error:
            self.note(_sentence(error))
            return {}


def _figures(given: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: number(value) for name, value in given.items()}


def _only(figures: Mapping[str, float | None], wanted: frozenset[str] | None) -> Mapping[str, float | None]:
    return figures if wanted is None else {name: value for name, value in figures.items() if name in wanted}


def _sentence(error: BaseException) -> str:
    if isinstance(error, EsbenchError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else reason_of(error)
    return f"what was read has an unknown form ({form_fault(error)})"


def wait_for(futures: Mapping[str, Future[Any]], limits_s: Mapping[str, float]) -> list[str]:
    """Wait for all futures, by name, each up to its limit from now on. Returns the names of those still running.

    `limits_s` has a limit in seconds for each name.
    """
    begun_s = time.monotonic()
    late = []
    for name, future in futures.items():
        try:
            future.result(max(0.0, begun_s + limits_s[name] - time.monotonic()))
        except TimeoutError:
            late.append(name)
    return late
