"""A race in formats that other tools read (docs/reference/export.md): an interval log, CSV, and one JSON document."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from esbench.errors.printable import for_spreadsheet, printable, printable_json
from esbench.measure.histogram import Counts
from esbench.measure.measures import SERVICE_TIME
from esbench.record.figures import measured_phase, request_results
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import BY_SECOND, SecondLine, Series, percentiles_ms, task_counts
from esbench.record.store import encode_record

_NS_PER_MS = 1e6
_DELIMITERS = re.compile(r"[,\s]+")  # which a tag must not hold
_LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
_RANKS = (50.0, 90.0, 99.0)
_COUNTS = ("due", "sent", "requests", "errors", "throughput_per_s", "unit", "backlog")
COLUMNS = (
    *("task", "phase", "second", "at", *_COUNTS),
    *(f"{measure}_{figure}_ms" for measure in BY_SECOND for figure in ("p50", "p90", "p99", "max")),
)
VERSION = 1  # of the JSON document; the record within has its own schema


def interval_log(record: RaceRecord, seconds: Iterable[SecondLine]) -> str:
    """Return an HdrHistogram interval log, format 1.3 (github.com/HdrHistogram: HistogramLogWriter), in order of time.

    A line is `Tag=TAG,START,LENGTH,MAX,HISTOGRAM`: seconds since the base time (the race's start), 1 s, the largest
    value in ms, and the histogram in ns as it was recorded. Tags: `TASK/MEASURE`, for the warmup `TASK/MEASURE/warmup`.
    Requests that timed out or were never sent are included with the time after which they were given up. Raises
    RecordError for a damaged histogram.

    Requests of a sequence have a line each of the whole measurement, `TASK/REQUEST/service_time`: its good replies.
    """
    started = datetime.fromisoformat(record.started_at).astimezone(UTC)
    clocks = {task.name: task.clock_s for task in record.tasks}
    timed: list[tuple[float, str]] = []
    told: set[str] = set()
    for second in seconds:
        told.add(second.task)
        at_s = clocks.get(second.task, float)(second.second)
        timed += [(at_s, line) for line in _intervals(at_s, second)]
    timed += [each for task in record.tasks if task.name in told for each in _of_requests(task)]
    in_order = sorted(timed, key=lambda pair: pair[0])
    raced = f"{record.track.name} / {record.challenge}"
    epoch = f"{started.timestamp():.3f} (seconds since epoch)"
    head = (
        "#[Histogram log format version 1.3]",
        printable(f"#[Race {record.race_id}: {' '.join(raced.split())}; values in ns]"),
        f"#[StartTime: {epoch}, {started:%a %b %d %H:%M:%S UTC %Y}]",
        f"#[BaseTime: {epoch}]",
        _LEGEND,
    )
    return "\n".join((*head, *(line for _, line in in_order))) + "\n"


def _of_requests(task: TaskResult) -> Iterator[tuple[float, str]]:
    """Yield the intervals of the requests of a sequence, with their beginning: each is the task's window."""
    begin_s, end_s = task.clock_s(task.window.start_s), task.clock_s(task.window.end_s)
    for request in request_results(task):
        if (encoded := request.histograms.get(SERVICE_TIME.name)) is not None:
            longest_ms = task_counts(request, SERVICE_TIME.name).max_ns / _NS_PER_MS
            tag = printable(_DELIMITERS.sub("_", f"{request.name}/{SERVICE_TIME.name}"))
            yield begin_s, f"Tag={tag},{begin_s:.3f},{end_s - begin_s:.3f},{longest_ms:.3f},{encoded}"


def _intervals(at_s: float, second: SecondLine) -> Iterator[str]:
    for measure in BY_SECOND:
        encoded = second.encoded_at_least(measure)
        if encoded is None:
            continue
        tag = printable(_DELIMITERS.sub("_", f"{second.task}/{measure}")) + (
            "/warmup" if second.phase == "warmup" else ""
        )
        longest_ms = second.at_least(measure).max_ns / _NS_PER_MS
        yield f"Tag={tag},{at_s:.3f},1.000,{longest_ms:.3f},{encoded}"


def table(record: RaceRecord, seconds: Iterable[SecondLine]) -> str:
    """Return CSV: a header (COLUMNS), then a row for each second of a task, in the order of `seconds`.

    A row has the counts of that second, units per second as throughput, and p50, p90, p99 and max of each measure in
    ms; a missing value is empty. The second in which a warmup ends has a row for each phase. Requests of a sequence
    follow, each with a row of the whole measurement: `TASK/REQUEST`, without a second.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    epoch = datetime.fromisoformat(record.started_at)
    tasks = {task.name: task for task in record.tasks}
    told: set[str] = set()
    for line in seconds:
        told.add(line.task)
        task = tasks.get(line.task)
        at_s = line.second if task is None else task.clock_s(line.second)
        at = (epoch + timedelta(seconds=at_s)).isoformat(timespec="milliseconds")
        counts = (line.due, line.sent, line.requests, line.failed, line.units, task.unit if task else "", line.backlog)
        writer.writerow((for_spreadsheet(line.task), line.phase, line.second, at, *counts, *_times_ms(line.at_least)))
    for task in (each for name, each in tasks.items() if name in told):
        at = (epoch + timedelta(seconds=task.clock_s(task.window.start_s))).isoformat(timespec="milliseconds")
        for each in request_results(task):
            of_all = ("", each.requests, each.requests, each.errors, each.throughput.mean, each.unit, "")
            times = _times_ms(partial(_of_measurement, each))
            writer.writerow((for_spreadsheet(each.name), measured_phase(task), "", at, *of_all, *times))
    return out.getvalue()


def _of_measurement(task: TaskResult, measure: str) -> Counts:
    return task_counts(task, measure) if measure in task.histograms else Counts()


def _times_ms(counts_of: Callable[[str], Counts]) -> Iterator[str]:
    """Yield p50, p90, p99 and max of each measure, in ms; empty if there are no samples, or too few for a percentile.

    Requests that timed out, or were never sent, count with the least time that they took.
    """
    for measure in BY_SECOND:
        counts = counts_of(measure)
        found = percentiles_ms(counts, _RANKS)
        yield from (f"{found[rank]:.4f}" if rank in found else "" for rank in _RANKS)
        yield f"{counts.max_ns / _NS_PER_MS:.4f}" if counts.buckets else ""


def document(record: RaceRecord, seconds: Iterable[SecondLine], telemetry: Iterable[Series]) -> str:
    """Return JSON: `export` (a version), `race` (race.json, secrets hidden), and lists `seconds` and `telemetry`."""
    lines = [
        f'"export": {VERSION}',
        f'"race": {encode_record(record).decode().strip()}',
        f'"seconds": {_list(map(SecondLine.as_written, seconds))}',
        f'"telemetry": {_list(map(asdict, telemetry))}',
    ]
    return printable_json("{" + ",\n".join(lines) + "}\n")


def _list(items: Iterable[dict[str, Any]]) -> str:
    rows = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f"[\n{rows}]" if rows else "[]"
