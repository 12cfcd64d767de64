"""Everything that watches a race from beside it: the cluster's own counters, and the devices, each in a thread.

A race begins it when its cluster is there, tells it of its steps, and takes what it says of tasks when it is known.
Nothing here ends a race: what cannot be seen is told in `notes`.
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
    """Watches a race with some devices, over a cluster's connection of its own. Use it as a context manager.

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
        """Begin to watch."""
        begun = {device.name: device.start() for device in self._devices}
        self._before = self._after = statistics.take(self._cluster, self._targets)
        wait_for(begun, dict.fromkeys(begun, _BEGIN_S))
        return self

    def __exit__(self, *exc: object) -> None:
        self.close(in_a_hurry=exc[0] is not None)

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(device.name for device in self._devices)

    @property
    def follows_seconds(self) -> bool:
        """Whether a device wants to be told of each second."""
        return any(device.device.follows_seconds for device in self._devices)

    def begin_step(self, step: int, tasks: Sequence[str]) -> None:
        """A step is about to begin."""
        for device in self._devices:
            device.begin_step(step, tuple(tasks))

    def pulse(self, pulse: Pulse) -> None:
        """A second of a task has passed."""
        for device in self._devices:
            if device.device.follows_seconds:
                device.pulse(pulse)

    def end_step(self, step: int, spans: Sequence[TaskSpan], *, cut_short: bool = False) -> None:
        """A step has ended: the cluster's counters are taken at once, what devices say of it comes later.

        After one that was `cut_short` nobody waits for the cluster, which may be gone.
        """
        if not cut_short:
            earlier, self._after = self._after, statistics.take(self._cluster, self._targets)
            work = statistics.work(earlier, self._after)
            for span in spans:
                self._said[step, span.task] = {"cluster": work}
        for device in self._devices:
            device.end_step(step, spans)

    def news(self) -> Said:
        """What has become known of tasks since it was last asked for."""
        said, self._said = self._said, {}
        for device in self._devices:
            while device.told:
                key, told = device.told.popitem()
                if told:
                    said.setdefault(key, {})[device.device.key or device.name] = told
        return said

    def close(self, *, in_a_hurry: bool = False) -> None:
        """End all devices; wait for what they work out, in a hurry a second at most, and for what they put back.

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
        """What the race did to the cluster: rows of the summary."""
        return statistics.difference(self._before, self._after)

    def report(self) -> dict[str, Any]:
        """Device -> what is kept of it: interval, samples, cost, what it saw of the race as a whole."""
        return {device.name: device.report() for device in self._devices}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what could not be seen."""
        found = [*self._before.warnings, *self._after.warnings, *self._notes]
        unseen: dict[str, list[str]] = {}  # many devices are blind to a cluster that is gone
        for device in self._devices:
            for note in device.device.notes:
                unseen.setdefault(note, []).append(device.name)
        found += [f"{', '.join(names)}: {note}" for note, names in unseen.items()]
        return tuple(dict.fromkeys(found))
