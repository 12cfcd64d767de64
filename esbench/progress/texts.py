"""The texts of a race's progress: steps, tasks and jobs, while they run and when they have ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import isinf

from esbench.events.progress import Job
from esbench.model import Step
from esbench.progress.race_state import RecentFigures, RunningTask
from esbench.record.model import HostEvent, TaskResult
from esbench.units import format_bytes, format_duration, format_number

RANK_NAMES = ("p50", "p99")


def place(number: int, steps: int) -> str:
    """Return the number of a step (`number`, from 0), of all steps: `[7/13]` for 6 and 13."""
    return f"[{number + 1}/{steps}]"


def announcement(number: int, steps: int, step: Step) -> str:
    """Return the line of a step that begins, `number` from 0: `[7/13] get-by-id`."""
    return f"{place(number, steps)} {', '.join(task.name for task in step.tasks)}"


def result_text(result: TaskResult, *, terse: bool = False) -> str:
    """Return the result of an ended task: throughput, percentiles, errors; its duration if it is not reported."""
    if not result.include_in_reporting:
        return format_duration(result.duration_s)
    rate = result.throughput.mean
    figures = [f"{format_number(rate)} {result.throughput.unit}/s"] if rate is not None else []
    times = result.latency_ms or result.service_time_ms or {}
    found = [(times.get(rank), times.get(f"{rank}_at_least", times.get("max"))) for rank in RANK_NAMES]
    figures += _times(result.loop == "open", found, terse=terse)
    if result.errors:
        figures.append(f"{result.errors} errors")
    return ", ".join(figures)


def side_result(name: str, result: TaskResult) -> str:
    """Return the result of a side in one piece: `baseline 21300 ops/s`; of an open loop its percentiles."""
    times = result.latency_ms or {}
    figures = [
        f"{rank} {milliseconds(times[rank], times.get(f'{rank}_at_least'))}" for rank in RANK_NAMES if rank in times
    ]
    if not result.include_in_reporting or result.throughput.mean is None:
        figures = [format_duration(result.duration_s)]
    elif result.loop == "closed" or not figures:
        figures = [f"{format_number(result.throughput.mean)} {result.throughput.unit}/s"]
    return _of_side(name, figures, result.errors)


def side_running(name: str, task: RunningTask, now_s: float) -> str:
    """Return what a side has done so far in its current phase, as `side_result` does; its phase if that is nothing."""
    figures = [f"{format_number(task.rate)} {task.unit}/s"] if task.rate else [task.phase(now_s)]
    so_far = task.so_far
    if task.task.schedule.is_open and so_far.times_ms[0] is not None:
        found = zip(RANK_NAMES, so_far.times_ms, so_far.at_least_ms, strict=True)
        figures = [f"{rank} {milliseconds(ms, least)}" for rank, ms, least in found if ms is not None]
    return _of_side(name, figures, task.errors)


def _of_side(name: str, figures: Iterable[str], errors: int) -> str:
    return " ".join([name, *figures, *([f"({errors} errors)"] if errors else [])])


def host_text(event: HostEvent) -> str:
    """Return the line of a host that was lost, or that is back."""
    if event.what == "back":
        return f"{event.host} answers again: its clients return to it"
    return f"{event.host} cannot be reached ({event.reason}): its clients use the other hosts, if any"


def milliseconds(value: float, at_least: float | None) -> str:
    """Return a time in ms, for an infinite one (among unsent and timed-out requests) `> ` and its lower bound.

    `none` if that bound is unknown, too.
    """
    if isinf(value):
        return "none" if at_least is None else f"> {format_number(at_least)} ms"
    return f"{format_number(value)} ms"


def _times(is_open: bool, found: Iterable[tuple[float | None, float | None]], *, terse: bool = False) -> list[str]:
    """Return the texts of both percentiles, as far as known. `terse` names the measure only once."""
    name = "latency " if is_open else "service time "
    texts: list[str] = []
    for rank, (value, at_least) in zip(RANK_NAMES, found, strict=True):
        if value is not None:
            texts.append(f"{'' if terse and texts else name}{rank} {milliseconds(value, at_least)}")
    return texts


def running_text(task: RunningTask, lately: RecentFigures, length_s: float, now_s: float) -> str:
    """Return the figures of a task's last seconds (its phase if there were none), and its time left or so far.

    `lately` are the figures of the last `length_s` seconds; `now_s` is a time of the clock that the task was given.
    """
    figures = [task.phase(now_s)]
    if lately.requests:
        figures = [f"{format_number(lately.units / length_s)} {task.unit}/s"]
        found = zip(lately.times_ms, lately.at_least_ms, strict=True)
        figures += _times(task.task.schedule.is_open, found)
    if task.errors:
        figures.append(f"{task.errors} errors")
    return ", ".join([*figures, how_long(task.left_s(now_s), task.elapsed_s(now_s))])


def how_long(left_s: float | None, elapsed_s: float) -> str:
    """Return `12 s left` or, if `left_s` is None, `12 s so far`; whole seconds."""
    if left_s is None:
        return f"{whole_seconds(elapsed_s)} so far"
    return f"{whole_seconds(left_s)} left"


def whole_seconds(seconds: float) -> str:
    return format_duration(round(seconds)) if seconds >= 0.5 else "0 s"


def job_begins(job: Job) -> str:
    """Return the line of a job that begins: `generating orders: 200,000 documents`."""
    return job.what if job.total is None else f"{job.what}: {amount(job.total, job.unit)}"


def job_text(job: Job, now_s: float) -> str:
    """Return the progress of a job: `90,000 of 200,000 documents (45 %), 3,000/s, 12 s left`."""
    elapsed_s = max(0.0, now_s - job.began_s)
    if not job.done:
        return how_long(None, elapsed_s)
    per_s = job.done / elapsed_s if elapsed_s else 0.0
    if job.total is None:
        return f"{amount(job.done, job.unit)}, {rate(per_s, job.unit)}, {how_long(None, elapsed_s)}"
    percent = 100 * min(1.0, job.done / job.total)
    left_s = max(0.0, job.total - job.done) / per_s if per_s else None
    done = format_bytes(job.done) if job.unit == "bytes" else f"{job.done:,.0f}"
    return f"{done} of {amount(job.total, job.unit)} ({percent:.0f} %), {rate(per_s, job.unit)}, " + how_long(
        left_s, elapsed_s
    )


def amount(count: float, unit: str) -> str:
    return format_bytes(count) if unit == "bytes" else f"{count:,.0f} {unit}"


def rate(per_s: float, unit: str) -> str:
    return f"{format_bytes(per_s)}/s" if unit == "bytes" else f"{per_s:,.0f}/s"
