"""The seconds of a race as CSV: one row for each second of a task."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from esbench.record.model import RaceRecord
from esbench.record.series import BY_SECOND, SecondLine, percentiles_ms

_RANKS = (50.0, 90.0, 99.0)
_NS_PER_MS = 1e6
_COUNTS = ("due", "sent", "requests", "errors", "throughput_per_s", "unit", "backlog")
COLUMNS = (
    *("task", "phase", "second", "at", *_COUNTS),
    *(f"{measure}_{figure}_ms" for measure in BY_SECOND for figure in ("p50", "p90", "p99", "max")),
)


def table(record: RaceRecord, seconds: Iterable[SecondLine]) -> str:
    """Return CSV: a header, then a row for each task and second.

    The second in which a warmup ends has a row for each phase.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    epoch = datetime.fromisoformat(record.started_at)
    tasks = {task.name: task for task in record.tasks}
    for line in seconds:
        task = tasks.get(line.task)
        began_s = (task and task.begun_s) or 0.0
        at = (epoch + timedelta(seconds=began_s + line.second)).isoformat(timespec="milliseconds")
        counts = (line.due, line.sent, line.requests, line.failed, line.units, task.unit if task else "", line.backlog)
        writer.writerow((line.task, line.phase, line.second, at, *counts, *_times_ms(line)))
    return out.getvalue()


def _times_ms(line: SecondLine) -> Iterator[str]:
    """Yield p50, p90, p99 and max of each measure, in ms; empty if there are no samples, or too few for a percentile.

    Requests that timed out, or were never sent, count with the least time that they took.
    """
    for measure in BY_SECOND:
        counts = line.at_least(measure)
        found = percentiles_ms(counts, _RANKS)
        yield from (f"{found[rank]:.4f}" if rank in found else "" for rank in _RANKS)
        yield f"{counts.max_ns / _NS_PER_MS:.4f}" if counts.buckets else ""
