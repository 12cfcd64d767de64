"""The result of a race in one sentence: what its tasks reached, and which of them must not be used."""

from __future__ import annotations

from collections.abc import Iterator

from esbench.errors.printable import printable
from esbench.errors.short import beginning, first_of
from esbench.measure.measures import response_time
from esbench.record.figures import failed_tasks, is_usable, judged_objectives, reported_tasks, task_label
from esbench.record.model import RaceRecord, TaskResult
from esbench.report.table_model import time_cell

_MOST_TASKS = 3
_LONGEST_REASON = 160


def race_sentence(record: RaceRecord) -> str:
    """Return `orders on elasticsearch 7.10.2: bulk 20,000 docs/s, get-by-id 5,199/s with p99 4.1 ms`; then what failed,
    must not be used, or misses an objective."""
    servers = [cluster.server for cluster in record.clusters.values()]
    where = f" on {first_of(servers, 2)}" if servers else ""
    parts = "; ".join([*_ending(record), *_reached(record), *_alarms(record)]) or "no task has figures"
    return printable(f"{record.track.name}{where}: {parts}")


def _ending(record: RaceRecord) -> Iterator[str]:
    if record.status == "failed":
        yield f"failed: {beginning(' '.join((record.failure or 'no reason was kept').split()), _LONGEST_REASON)}"
    elif record.status != "complete":
        yield f"not complete ({record.status})"


def _reached(record: RaceRecord) -> Iterator[str]:
    found = [
        f"{task_label(record, task)} {_speed(task)}"
        for task in reported_tasks(record)
        if is_usable(task) and task.include_in_reporting and task.throughput.mean and task.requests > task.errors
    ]
    if found:
        yield first_of(found, _MOST_TASKS)


def _speed(task: TaskResult) -> str:
    mean, unit = task.throughput.mean or 0.0, task.throughput.unit
    rate = _number(mean)
    per_s = f"{rate}/s" if unit == "ops" else f"{rate} {unit}/s"
    p99 = time_cell(getattr(task, response_time(is_open=task.loop == "open").figures), "p99")
    if p99 is None or unit != "ops":
        return per_s
    return f"{per_s} with p99 {_number(p99) if isinstance(p99, float) else p99} ms"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _alarms(record: RaceRecord) -> Iterator[str]:
    failed = [task_label(record, task) for task in failed_tasks(record)]
    if failed:
        yield f"every request of {first_of(failed, _MOST_TASKS)} failed"
    labels = (task_label(record, task) for task in reported_tasks(record) if not is_usable(task))
    if unusable := [label for label in labels if label not in failed]:
        yield f"the figures of {first_of(unusable, _MOST_TASKS)} must not be used"
    missed, _ = judged_objectives([record])
    if missed:
        yield f"{first_of(missed, _MOST_TASKS)} {'is' if len(missed) == 1 else 'are'} missed"
