"""The page of one race: the verdict in words, its figures, each task over time, figures of servers, and the
settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bokeh.models.annotations import Span

from esbench.features.pages.charts import BLUE, GREEN, GREY, PURPLE, curves_chart, shared_cursor
from esbench.features.pages.page import Chart, render, render_charts, render_page
from esbench.features.pages.settings import settings
from esbench.features.pages.timeline import (
    READINGS,
    clock,
    heat_map,
    latency_chart,
    reading_chart,
    span_s,
    tasks_chart,
    tasks_legend,
    throughput_chart,
)
from esbench.features.pages.verdict import facts, sentences
from esbench.measure.measures import CLIENT_WAIT, DRIVER_LAG, LATENCY, SERVICE_TIME, response_time
from esbench.record.figures import reported_tasks, task_label
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import SecondLine, Series, by_task
from esbench.report.chart_series import TaskOverTime, histograms_at_least, over_time, percentile_curve
from esbench.report.parts import ShownPart, shown_part
from esbench.report.race_summary import summary
from esbench.report.table_model import Cell, ColumnOf, Section, table_of, time_cell
from esbench.report.task_tables import by_load_host, objectives, scores, servers
from esbench.report.text import pairs_text
from esbench.units import format_number

_FEWEST_SECONDS = 3  # of a task whose seconds are worth a chart
_GREY_IS_WARMUP = "Each second's good replies; grey is outside the measurement window."
_CURVES = ((LATENCY, BLUE), (SERVICE_TIME, GREEN), (CLIENT_WAIT, PURPLE), (DRIVER_LAG, GREY))


@dataclass(frozen=True)
class _TaskCharts:
    """The charts of a task; `within_ms` is the share of requests, in percent, by the threshold of their `measure`."""

    label: str
    how: str
    charts: Sequence[Chart]
    measure: str
    within_ms: Mapping[str, float]


def race_page(record: RaceRecord, seconds: Iterable[SecondLine], telemetry: Sequence[Series]) -> str:
    """Return a whole HTML document of a race, from its record and its series (esbench.record.series reads them)."""
    drawn, script = race_charts(record, seconds, telemetry)
    return render_page(f"{record.track.name} / {record.challenge}", race_body(record, drawn), script)


def race_body(record: RaceRecord, drawn: str | None, anchor: str = "task") -> str:
    """Return the body of a race's page: verdict, figures, notices, the charts (`drawn`), and the rest folded away.

    `anchor` is that of the charts; None for `drawn` leaves them out.
    """
    tasks, found = reported_tasks(record), shown_part(record)
    return render(
        "race.html.j2",
        what=_what(record),
        sentences=list(sentences(record)),
        facts=facts(record),
        labels=[task_label(record, task) for task in tasks],
        tasks=table_of(_task_columns(record), tasks),
        sections=(*scores(record), *objectives(record), *by_load_host(record), *servers(record)),
        result=_sections(found[1]) if found else (),
        document=summary(record),
        settings=settings(record),
        drawn=drawn,
        anchor=anchor,
    )


def race_charts(
    record: RaceRecord, seconds: Iterable[SecondLine], telemetry: Sequence[Series], anchor: str = "task"
) -> tuple[str, str]:
    """Return the charts of the whole race and a section for each task, `anchor`-0, `anchor`-1 and so on, as HTML; and
    the JavaScript that draws them.

    Those of a part that reports show stand first, with its tables.
    """
    tasks, cursor, found = reported_tasks(record), shared_cursor(), shown_part(record)
    timed = _over_time(tasks, seconds)
    return render_charts(
        "race_charts.html.j2",
        title=found[1].title if found else "",
        result=list(found[1].charts()) if found else (),
        result_sections=_sections(found[1]) if found else (),
        whole=list(_whole_race(tasks, timed, telemetry, cursor)),
        tasks=[_task_charts(record, task, timed.get(task.name), cursor) for task in tasks],
        anchor=anchor,
    )


def _sections(shown: ShownPart) -> tuple[Section, ...]:
    return (shown.main(), *shown.sections_of_page())


def _what(record: RaceRecord) -> str:
    """Return the race's id, parameters and tags as text."""
    given = (pairs_text(each) for each in (record.track_params, record.user_tags) if each)
    return ", ".join([f"race {record.race_id}", *given])


def _over_time(tasks: Sequence[TaskResult], seconds: Iterable[SecondLine]) -> dict[str, TaskOverTime]:
    """Return, by name, the series of tasks that ran for at least three seconds."""
    shown = {task.name: response_time(is_open=task.loop == "open").name for task in tasks}
    lines = by_task(line.only(shown[line.task]) for line in seconds if line.task in shown)
    timed = [task for task in tasks if len(lines.get(task.name, ())) >= _FEWEST_SECONDS]
    return {task.name: over_time(task, lines[task.name]) for task in timed}


def _task_columns(record: RaceRecord) -> tuple[ColumnOf[TaskResult], ...]:
    return (
        ColumnOf("Task", "task", read=lambda task: task_label(record, task)),
        ColumnOf("Loop", "loop", read=lambda task: task.loop),
        ColumnOf("Clients", "clients", numeric=True, read=lambda task: task.clients),
        ColumnOf("Target/s", "target", numeric=True, read=lambda task: task.target_rate_per_s),
        ColumnOf("Throughput/s", "throughput", numeric=True, read=lambda task: task.throughput.mean),
        ColumnOf("Unit", "unit", read=lambda task: task.unit),
        ColumnOf("p50 ms", "p50_ms", numeric=True, read=lambda task: _response_time(task, "p50")),
        ColumnOf("p99 ms", "p99_ms", numeric=True, read=lambda task: _response_time(task, "p99")),
        ColumnOf("p99.9 ms", "p99_9_ms", numeric=True, read=lambda task: _response_time(task, "p99.9")),
        ColumnOf("max ms", "max_ms", numeric=True, read=lambda task: _response_time(task, "max")),
        ColumnOf("Errors", "errors", numeric=True, read=lambda task: task.errors),
    )


def _response_time(task: TaskResult, name: str) -> Cell:
    return time_cell(task.latency_ms or task.service_time_ms, name)


def _whole_race(
    tasks: Sequence[TaskResult], timed: Mapping[str, TaskOverTime], telemetry: Sequence[Series], cursor: Span
) -> Iterator[Chart]:
    """Yield charts of all tasks, and below them of servers and hosts, over one time axis."""
    begun = [task for task in tasks if task.begun_s is not None]
    if not begun:
        return
    starts, ends = zip(*map(span_s, begun), strict=True)
    shown = clock(min(starts), max(ends), cursor)
    if drawn := [(task, timed[task.name]) for task in begun if task.name in timed and timed[task.name].has_times]:
        caption = "p99 of each second: latency of open loops, service time of closed ones. Zoom in with the mouse."
        legend = tasks_legend([task for task, _ in drawn])
        yield Chart(tasks_chart(drawn, shown), "All tasks", caption, wide=True, legend=legend)
    for reading in READINGS:
        if (lines := reading_chart(reading, telemetry, begun, shown)) is not None:
            yield Chart(lines, reading.title)


def _task_charts(record: RaceRecord, task: TaskResult, seconds: TaskOverTime | None, cursor: Span) -> _TaskCharts:
    charts = [*_charts_over_time(task, seconds, cursor), *_percentiles(task)]
    measure = response_time(is_open=task.loop == "open").title.capitalize()
    return _TaskCharts(task_label(record, task), _how(task), charts, measure, task.within_ms)


def _charts_over_time(task: TaskResult, seconds: TaskOverTime | None, cursor: Span) -> Iterator[Chart]:
    if seconds is None:
        return
    shown = clock(*span_s(task), cursor)
    measure = seconds.measure.title.capitalize()
    extremes = f"Of every {seconds.each_s} seconds, those with extremes are shown." if seconds.each_s > 1 else ""
    if seconds.has_times:
        caption = f"{_GREY_IS_WARMUP} {extremes}".strip()
        yield Chart(latency_chart(task, seconds, shown), f"{measure} over time", caption)
    yield Chart(throughput_chart(task, seconds, shown), "Throughput over time", extremes)
    if seconds.has_times:
        yield Chart(heat_map(task, seconds, shown), f"{measure}, all requests", "Brighter cells hold more requests.")


def _percentiles(task: TaskResult) -> Iterator[Chart]:
    curves = [
        (measure.title, colour, percentile_curve(*histograms_at_least(task, measure.name)))
        for measure, colour in _CURVES
    ]
    curves = [(name, colour, curve) for name, colour, curve in curves if len(curve) > 1]
    if curves:
        yield Chart(curves_chart(curves), "Percentiles", "Of the measurement window. Both axes are logarithmic.")


def _how(task: TaskResult) -> str:
    """Return the load of a task in one line: operation type, loop, clients, target rate, requests, statuses."""
    words: list[Any] = [task.operation_type, f"{task.loop} loop", f"{task.clients} clients"]
    if task.target_rate_per_s is not None:
        words.append(f"target {format_number(task.target_rate_per_s)} {task.target_unit or task.unit}/s")
    words.append(f"{task.requests:,} requests")
    if task.status_codes:
        words.append(f"status {', '.join(f'{status}: {count:,}' for status, count in task.status_codes.items())}")
    return ", ".join(words)
