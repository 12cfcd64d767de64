"""The state of a running race for scrapers.

Once a second a few dictionaries are added up; nothing is done per request. Knows no metric and no socket.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from esbench.events.listeners import Listener
from esbench.measure.histogram import Counts
from esbench.measure.measures import HISTOGRAMS
from esbench.measure.schedule import nominal_rate
from esbench.measure.tally import Second, Tally
from esbench.model import Step, Task
from esbench.record.model import RaceRecord, TaskResult
from esbench.telemetry.device import Reading
from esbench.units import Rate

if TYPE_CHECKING:
    from esbench.measure.cpu_time import Usage

# What a device did not read together with its other figures is not there any more: say, a node that has left.
_GONE_AFTER_S = 10.0


@dataclass(frozen=True)
class Running:
    """A task whose step runs. `second` is its last known second, `backlog` the arrivals then waiting for a client."""

    task: Task
    second: int = -1
    backlog: int = 0

    @property
    def target(self) -> Rate | None:
        """The target rate of the current second; None in a closed loop and after the stages. Ignores ramp-up."""
        return nominal_rate(self.task.schedule, self.second + 1)


@dataclass(frozen=True)
class Seen:
    """The known state of a race at one moment. `race`: id, track and challenge; `facts` are further labels of it.

    `side`: the name of its side if others are raced at once with it, else "".

    `tallies`: all counts so far, by (task, phase); `units`: task -> the unit that it counts; `workers`: number of a
    load worker -> its CPU usage so far, and its event loop's maximum lag of the last second in ns; `readings`: the last
    ones of each device, as (device, reading).
    """

    race: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    tallies: Mapping[tuple[str, str], Tally] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    running: Mapping[str, Running] = field(default_factory=dict)
    workers: Mapping[int, tuple[Usage, int]] = field(default_factory=dict)
    readings: Sequence[tuple[str, Reading]] = ()
    side: str = ""


def race_facts(record: RaceRecord) -> dict[str, str]:
    """Return the `facts` of `Seen`: version (esbench's), and distribution and distribution_version of the clusters.

    Those of several clusters are joined by commas.
    """
    clusters = list(record.clusters.values())
    return {
        "version": record.esbench.get("version", ""),
        "distribution": ",".join(cluster.distribution for cluster in clusters),
        "distribution_version": ",".join(cluster.version for cluster in clusters),
    }


class FollowedRace(Listener):
    """A listener that keeps the state of a race, or of a side's; `seen` may be called from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, side: str = "") -> None:
        self._clock = clock
        self._side = side
        self._lock = threading.Lock()
        self._race: tuple[str, ...] = ()
        self._facts: dict[str, str] = {}
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._units: dict[str, str] = {}
        self._running: dict[str, Running] = {}
        self._workers: dict[int, tuple[Usage, int]] = {}
        self._readings: dict[str, dict[tuple[str, str], tuple[float, Reading]]] = {}  # by device: (of, group)

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        with self._lock:
            self._race = (record.race_id, record.track.name, record.challenge)
            self._facts = race_facts(record)

    def step_begins(self, number: int, step: Step) -> None:
        with self._lock:
            self._running = {task.name: Running(task) for task in step.tasks}

    def step_runs(self, number: int, units: dict[str, str], stretch: float = 1.0) -> None:
        with self._lock:
            self._units.update(units)

    def second(self, task: str, second: Second) -> None:
        key = (task, "warmup" if second.warmup else "measurement")
        with self._lock:
            self._tallies.setdefault(key, Tally()).merge(second.tally)
            if task in self._running:
                self._running[task] = replace(self._running[task], second=second.second, backlog=second.tally.backlog)

    def worker_ticked(self, worker: int, usage: Usage, loop_lag_ns: int) -> None:
        with self._lock:
            self._workers[worker] = (usage, loop_lag_ns)

    def task_ended(self, result: TaskResult) -> None:
        with self._lock:
            self._running.pop(result.name, None)

    def read(self, device: str, reading: Reading) -> None:
        now_s = self._clock()
        with self._lock:
            self._readings.setdefault(device, {})[reading.of, reading.group] = (now_s, reading)

    def seen(self) -> Seen:
        """Return the current state, as a copy that does not change."""
        with self._lock:
            return Seen(
                race=self._race,
                facts=self._facts,
                tallies={key: _copy(tally) for key, tally in self._tallies.items()},
                units=dict(self._units),
                running=dict(self._running),
                workers=dict(self._workers),
                readings=[
                    (device, reading)
                    for device, readings in self._readings.items()
                    for reading in _present(list(readings.values()))
                ],
                side=self._side,
            )


def _present(readings: Sequence[tuple[float, Reading]]) -> list[Reading]:
    """Return the readings that a device took together with its newest one (within 10 s of it)."""
    newest_s = max(read_s for read_s, _ in readings)
    return [reading for read_s, reading in readings if read_s >= newest_s - _GONE_AFTER_S]


def _copy(tally: Tally) -> Tally:
    """Return a copy of a tally's numbers, failures by kind and histograms.

    Copying a dictionary is far quicker than merging it.
    """
    copied = Tally(due=tally.due, sent=tally.sent, requests=tally.requests, units=tally.units, waited=tally.waited)
    copied.errors.counts.update(tally.errors.counts)
    for name in HISTOGRAMS:
        counts: Counts = getattr(tally, name)
        twin: Counts = getattr(copied, name)
        twin.buckets, twin.total_ns = dict(counts.buckets), counts.total_ns
    for name, part in tally.parts.items():
        copied.part(name).merge(part)
    return copied
