"""Progress for programs: one JSON object a line. docs/reference/progress.md is the contract of its keys."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from esbench.events.progress import Job, print_to_stderr
from esbench.progress.estimate import estimate, prepare_estimates
from esbench.progress.race_state import RecentFigures, Sum, target_at
from esbench.progress.task_progress import PrintedProgress
from esbench.record.model import time_text

if TYPE_CHECKING:
    from esbench.measure.tally import Second
    from esbench.model import Step
    from esbench.record.model import HostEvent, RaceRecord, TaskResult


class JsonProgress(PrintedProgress):
    """Progress as lines of JSON on stderr; of a `side`, with its name in each."""

    def __init__(
        self,
        write: Callable[[str], None] = print_to_stderr,
        clock: Callable[[], float] = time.monotonic,
        lock: threading.RLock | None = None,
        side: str = "",
    ) -> None:
        super().__init__(write, clock, lock)
        self._jobs: set[Job] = set()
        self._side = side
        self._sides: tuple[JsonProgress, ...] = ()

    def of_sides(self, names: Sequence[str]) -> tuple[JsonProgress, ...]:
        prepare_estimates()
        with self.lock:
            self._sides = tuple(JsonProgress(self._write, self.clock, self.lock, name) for name in names)
        return self._sides

    def say(self, message: str) -> None:
        self._tell("message", level="info", text=message)

    def warn(self, message: str) -> None:
        self._tell("message", level="warning", text=message)

    insist = warn

    def fail(self, message: str) -> bool:
        self._tell("message", level="error", text=message)
        return True

    def _begin(self, job: Job, announce: bool) -> None:
        with self.lock:
            self._jobs.add(job)
            self._tell_job(job, "begin")

    def _end(self, job: Job) -> None:
        with self.lock:
            self._jobs.remove(job)
            self._tell_job(job, "end")

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        super().race_begins(record, steps)
        self._tell(
            "race",
            race_id=record.race_id,
            track=record.track.name,
            challenge=record.challenge,
            steps=[[task.name for task in step.tasks] for step in steps],
        )

    def step_begins(self, number: int, step: Step) -> None:
        super().step_begins(number, step)
        self._tell_step("prepare")

    def step_runs(self, number: int, units: dict[str, str], stretch: float = 1.0) -> None:
        super().step_runs(number, units, stretch)
        self._tell_step("run")

    def second(self, task: str, second: Second) -> None:
        super().second(task, second)
        running, tally = self.tasks[task], second.tally
        sums = Sum(running.task.schedule.is_open)
        sums.add(tally)
        target = target_at(running.task, second.second)
        self._tell(
            "second",
            task=task,
            step=self.number,
            second=second.second,
            phase="warmup" if second.warmup else "measurement",
            requests=tally.requests,
            errors=tally.errors.total,
            units=tally.units,
            unit=running.unit,
            target_per_s=target.value if target else None,
            target_unit=target.unit if target else None,
            **_times(sums.figures),
            backlog=tally.backlog,
        )

    def task_ended(self, result: TaskResult) -> None:
        super().task_ended(result)
        self._tell(
            "task",
            task=result.name,
            step=result.step,
            operation_type=result.operation_type,
            loop=result.loop,
            requests=result.requests,
            units=result.units,
            unit=result.unit,
            errors=result.errors,
            duration_s=result.duration_s,
            throughput_per_s=result.throughput.mean,
            latency_ms=_finite(result.latency_ms),
            service_time_ms=_finite(result.service_time_ms),
            failed_checks=[check.name for check in result.checks if check.level != "ok"],
        )

    def host_changed(self, event: HostEvent) -> None:
        self._tell("host", host=event.host, what=event.what, reason=event.reason)

    def race_ended(self, record: RaceRecord) -> None:
        super().race_ended(record)
        self._tell(
            "end",
            race_id=record.race_id,
            status=record.status,
            failure=record.failure,
            warnings=list(record.warnings),
        )

    def tick(self) -> None:
        """Write the state of every running job and task, also of the sides."""
        with self.lock:
            for side in self._sides:
                side.tick()
            for contender in self._sides[1:]:
                contender._tell_estimates(self._sides[0])
            for job in self._jobs:
                self._tell_job(job, "run")
            now_s = self.clock()
            for name, task in self.tasks.items():
                self._tell(
                    "progress",
                    task=name,
                    step=self.number,
                    phase=task.phase(now_s),
                    elapsed_s=round(task.elapsed_s(now_s), 3),
                    done_ratio=_rounded(task.done_ratio(now_s), 4),
                    left_s=_rounded(task.left_s(now_s), 1),
                    cpu_core_percent=_rounded(self.servers.cpu_core_percent, 1),
                    heap_percent=_rounded(self.servers.heap_percent, 1),
                )

    def _tell_estimates(self, baseline: JsonProgress) -> None:
        for name in self.tasks.keys() & baseline.tasks.keys():
            found = estimate(baseline.tasks[name], self.tasks[name])
            if found is not None:
                self._tell(
                    "estimate",
                    task=name,
                    step=self.number,
                    baseline=baseline._side,
                    percent=round(found.percent, 2),
                    low_percent=round(found.low, 2),
                    high_percent=round(found.high, 2),
                )

    def _tell_step(self, phase: str) -> None:
        self._tell("step", step=self.number, tasks=list(self.tasks), phase=phase)

    def _tell_job(self, job: Job, state: str) -> None:
        self._tell(
            "job",
            what=job.what,
            state=state,
            done=job.done,
            total=job.total,
            unit=job.unit,
            elapsed_s=round(self.clock() - job.began_s, 3),
        )

    def _tell(self, event: str, **keys: Any) -> None:
        of_side = {"side": self._side} if self._side else {}
        with self.lock:
            at = time_text(datetime.now(UTC))
            self._write(json.dumps({"event": event, "at": at, **of_side, **keys}, allow_nan=False))


def _times(figures: RecentFigures) -> dict[str, Any]:
    p50, p99 = figures.times_ms
    return {"p50_ms": _number(p50), "p99_ms": _number(p99), "schedule_lag_max_ms": figures.lag_ms}


def _number(value: float | None) -> float | str | None:
    """Return a number for JSON; "inf" for infinity, which JSON lacks."""
    return "inf" if value is not None and math.isinf(value) else value


def _finite(times: Mapping[str, float] | None) -> dict[str, Any] | None:
    return None if times is None else {name: _number(value) for name, value in times.items()}


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
