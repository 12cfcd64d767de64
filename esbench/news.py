"""What a race says while it runs: a line for each step and for each task that has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import isinf

from esbench.engine.progress import Progress
from esbench.listeners import Listener
from esbench.model import Step
from esbench.record import HostEvent, RaceRecord, TaskResult
from esbench.units import format_bytes, format_duration, format_number


class NewsLines(Listener):
    """Says a line for each step and for each task that has ended."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._steps = 0

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        self._steps = len(steps)
        self._progress.say(f"race {record.race_id}")

    def step_begins(self, number: int, step: Step) -> None:
        self._progress.say(announcement(number, self._steps, step))

    def task_ended(self, result: TaskResult) -> None:
        self._progress.say(news(result))

    def host_changed(self, event: HostEvent) -> None:
        self._progress.say(host_news(event))


def announcement(number: int, steps: int, step: Step) -> str:
    """The step that begins: `[7/13] get-by-id`."""
    names = ", ".join(task.name for task in step.tasks)
    return f"[{number + 1}/{steps}] {names}"


def news(result: TaskResult) -> str:
    """One line about a task that has ended."""
    if not result.include_in_reporting:
        return f"      {format_duration(result.duration_s)}"
    rate = result.throughput.mean
    figures = [f"{format_number(rate)} {result.throughput.unit}/s"] if rate is not None else []
    times = result.latency_ms or result.service_time_ms or {}
    name = "latency" if result.latency_ms else "service time"
    figures += [f"{name} {rank} {_milliseconds(times, rank)}" for rank in ("p50", "p99") if rank in times]
    if result.errors:
        figures.append(f"{result.errors} errors")
    return f"      {', '.join(figures)}"


def host_news(event: HostEvent) -> str:
    """A host that was lost, or that is back."""
    if event.what == "back":
        return f"      {event.host} answers again: its clients return to it"
    return f"      warning: {event.host} cannot be reached ({event.reason}): its clients use the other hosts, if any"


def _milliseconds(times: Mapping[str, float], rank: str) -> str:
    """A percentile; one that falls among unsent and timed-out requests is longer than all that was measured."""
    if isinf(times[rank]):
        return f"> {format_number(times['max'])} ms"
    return f"{format_number(times[rank])} ms"


class CorpusNews:
    """Says which corpus is downloaded or made, and every now and then how far that is."""

    _EVERY_S = 15.0

    def __init__(self, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = progress
        self._clock = clock
        self._said: dict[str, float] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """So many documents of all are done; `total` is None where a file says it only at its end."""
        now = self._clock()
        if what not in self._said:
            self._progress.say(what if total is None else f"{what}: {total:,} documents")
        elif now - self._said[what] < self._EVERY_S:
            return
        else:
            share = "" if not total else f" ({100 * done / total:.0f} %)"
            self._progress.say(f"      {done:,} documents{share}")
        self._said[what] = now

    def download(self, name: str, total_bytes: int) -> AbstractContextManager[Callable[[int], None]]:
        """A bar where there is a terminal."""
        size = f": {format_bytes(total_bytes)}" if total_bytes else ""
        self._progress.say(f"downloading {name}{size}")
        return self._progress.download(name, total_bytes)
