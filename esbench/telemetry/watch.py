"""Everything that observes a race from outside: the cluster's own counters, and the devices, each in a thread.

A race starts it once its cluster exists, reports its steps to it, and fetches figures of tasks as they become known.
Nothing here ends a race: what cannot be observed is in `notes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from esbench.cluster.client import Cluster
from esbench.telemetry import statistics
from esbench.telemetry.device import Device, Pulse, Reading, TaskSpan
from esbench.telemetry.watched import Watched, wait_for

_BEGIN_S = 1.0  # what does not begin in time begins beside the race
_END_S = 1.0

Said = dict[tuple[int, str], dict[str, Any]]  # (step, task) -> device -> what it says of the task


class Telemetry:
    """Observes a race with some devices, over a separate connection to the cluster. A context manager.

    `clock` is the race's, in seconds; `keep` gets each reading of a device, from its thread.
    """

    def __init__(
        self,
        cluster: Cluster,
        targets: Sequence[str],
        devices: Sequence[Device],
        clock: Callable[[], float],
        keep: Callable[[str, Reading, float], None],
    ) -> None:
        self._cluster = cluster
        self._targets = tuple(targets)
        self._devices = [Watched(device, clock, keep) for device in devices]
        self._said: Said = {}
        self._notes: list[str] = []
        self._ends: dict[str, Future[Any]] = {}
        self._before = self._after = statistics.Snapshot()

    def __enter__(self) -> Telemetry:
        """Start the devices and read the cluster's counters; a device not ready after 1 s starts beside the race."""
        begun = {device.name: device.start() for device in self._devices}
        self._before = self._after = statistics.take(self._cluster, self._targets)
        wait_for(begun, dict.fromkeys(begun, _BEGIN_S))
        return self

    def __exit__(self, *exc: object) -> None:
        self.close(in_a_hurry=exc[0] is not None)

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices."""
        return tuple(device.name for device in self._devices)

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
        if not cut_short:
            earlier, self._after = self._after, statistics.take(self._cluster, self._targets)
            work = statistics.work(earlier, self._after)
            for span in spans:
                self._said[step, span.task] = {"cluster": work}
        for device in self._devices:
            device.end_step(step, spans)

    def news(self) -> Said:
        """Return the figures of tasks that have become known since the last call."""
        said, self._said = self._said, {}
        for device in self._devices:
            while device.told:
                key, told = device.told.popitem()
                if told:
                    said.setdefault(key, {})[device.device.key or device.name] = told
        return said

    def close(self, *, in_a_hurry: bool = False) -> None:
        """End all devices and wait for their final figures, `in_a_hurry` at most 1 s for those that restore nothing.

        Safe to call twice.
        """
        if self._ends or not self._devices:
            return
        self._ends = {device.name: device.close() for device in self._devices}
        waits = {
            device.name: _END_S if in_a_hurry and not device.device.restores else device.device.patience_s
            for device in self._devices
        }
        for name in wait_for(self._ends, waits):
            self._notes.append(f"{name}: did not end in time: what it would have said at its end is missing")

    def statistics(self) -> dict[str, Any]:
        """Return the change of the cluster's counters over the race: rows of the summary."""
        return statistics.difference(self._before, self._after)

    def report(self) -> dict[str, Any]:
        """Return device -> its report: interval, samples, cost, figures of the whole race."""
        return {device.name: device.report() for device in self._devices}

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences about what could not be observed."""
        found = [*self._before.warnings, *self._after.warnings, *self._notes]
        unseen: dict[str, list[str]] = {}  # many devices are blind to a cluster that is gone
        for device in self._devices:
            for note in device.device.notes:
                unseen.setdefault(note, []).append(device.name)
        found += [f"{', '.join(names)}: {note}" for note, names in unseen.items()]
        return tuple(dict.fromkeys(found))
