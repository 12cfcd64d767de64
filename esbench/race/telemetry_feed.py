"""The events of the load for telemetry: seconds and time spans of tasks, in types that do not depend on the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from esbench.events.listeners import Listener
from esbench.measure.histogram import Counts, percentiles_ns
from esbench.measure.measures import response_time, with_beyond
from esbench.measure.tally import Second
from esbench.model import Task
from esbench.record.model import TaskResult
from esbench.telemetry.device import Pulse, TaskSpan


class TelemetryFeed(Listener):
    """A listener that passes each second of a step's tasks to `tell` as a Pulse."""

    def __init__(self, tell: Callable[[Pulse], None], tasks: Sequence[Task]) -> None:
        self._tell = tell
        self._open = {task.name for task in tasks if task.schedule.is_open}

    def second(self, task: str, second: Second) -> None:
        tally = second.tally
        times = Counts()
        for name in with_beyond(response_time(is_open=task in self._open).name):
            times.merge(getattr(tally, name))
        p99_ns = percentiles_ns(times, (99.0,)).get(99.0)
        p99_ms = None if p99_ns is None else p99_ns / 1e6
        self._tell(Pulse(task, second.second, tally.requests, tally.errors.total, p99_ms, second.warmup))


def spans(results: Sequence[TaskResult]) -> list[TaskSpan]:
    """Return the time spans in which the tasks of a step ran, without those that never began."""
    return [
        TaskSpan(
            result.name,
            result.begun_s,
            result.clock_until_s(result.duration_s),
            result.clock_s(result.window.start_s),
            result.clock_until_s(result.window.end_s),
            result.cluster,
        )
        for result in results
        if result.begun_s is not None
    ]
