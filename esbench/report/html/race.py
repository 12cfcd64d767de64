"""The page of one race: the verdict in words, its figures, each task over time, figures of servers, and the
settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from bokeh.models.annotations import Span

from esbench.measure.measures import CLIENT_WAIT, DRIVER_LAG, LATENCY, SERVICE_TIME, response_time
from esbench.record.figures import reported_tasks, task_label
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import SecondLine, Series
from esbench.report.chart_series import TaskOverTime, histograms_at_least, over_time, percentile_curve
from esbench.report.html.charts import BLUE, GREEN, GREY, PURPLE, curves_chart, shared_cursor
from esbench.report.html.page import Charts, render_page
from esbench.report.html.settings import settings_html
from esbench.report.html.tables import folded, render_document, render_notices, render_table
from esbench.report.html.timeline import (
    READINGS,
    clock,
    heat_map,
    latency_chart,
    reading_chart,
    tasks_chart,
    throughput_chart,
)
from esbench.report.html.verdict import cards, verdict_of_race
from esbench.report.race_summary import summary
from esbench.report.table_model import Cell, Column, Table, time_cell
from esbench.report.text import pairs_text
from esbench.units import format_number

_FEWEST_SECONDS = 3  # of a task whose seconds are worth a chart
_GREY_IS_WARMUP = "Each second's good replies; grey is outside the measurement window."
_CURVES = ((LATENCY, BLUE), (SERVICE_TIME, GREEN), (CLIENT_WAIT, PURPLE), (DRIVER_LAG, GREY))
_TASK_COLUMNS = (
    Column("Task", "task"),
    Column("Loop", "loop"),
    Column("Clients", "clients", numeric=True),
    Column("Target/s", "target", numeric=True),
    Column("Throughput/s", "throughput", numeric=True),
    Column("Unit", "unit"),
    Column("p50 ms", "p50_ms", numeric=True),
    Column("p99 ms", "p99_ms", numeric=True),
    Column("p99.9 ms", "p99_9_ms", numeric=True),
    Column("max ms", "max_ms", numeric=True),
    Column("Errors", "errors", numeric=True),
)


def race_page(record: RaceRecord, seconds: Iterable[SecondLine], telemetry: Sequence[Series]) -> str:
    """Return a whole HTML document of a race, from its record and its series (esbench.record.series reads them)."""
    charts = Charts()
    body = race_body(record, race_charts(record, seconds, telemetry, charts), links_to_charts(record))
    return render_page(f"{record.track.name} / {record.challenge}", body, charts)


def race_body(record: RaceRecord, drawn: str, links: str = "") -> str:
    """Return the body of a race's page: verdict, figures, notices, the charts (`drawn`), and the rest folded away."""
    tasks, document = reported_tasks(record), summary(record)
    parts = [
        f'<p class="muted">{escape(_what(record))}</p>',
        verdict_of_race(record),
        cards(record),
        f"<h2>Tasks</h2>{links}",
        render_table(Table(_TASK_COLUMNS, tuple(_task_row(record, task) for task in tasks))),
        f"<h2>What to know</h2>{render_notices(document.notices)}" if document.notices else "",
        drawn,
        "<h2>Everything else</h2>",
        folded("All figures", render_document(document)),
        settings_html(record),
    ]
    return "\n".join(parts)


def links_to_charts(record: RaceRecord, anchor: str = "task") -> str:
    """Return links to the sections of `race_charts`."""
    links = (
        f'<a href="#{anchor}-{n}">{escape(task_label(record, task))}</a>'
        for n, task in enumerate(reported_tasks(record))
    )
    return f"<nav>{''.join(links)}</nav>"


def race_charts(
    record: RaceRecord,
    seconds: Iterable[SecondLine],
    telemetry: Sequence[Series],
    charts: Charts,
    anchor: str = "task",
) -> str:
    """Return the charts of the whole race, and a section for each task: `anchor`-0, `anchor`-1 and so on."""
    tasks, cursor = reported_tasks(record), shared_cursor()
    timed = _over_time(tasks, seconds)
    sections = (
        f'<section id="{anchor}-{n}">{_task_section(record, task, timed.get(task.name), charts, cursor)}</section>'
        for n, task in enumerate(tasks)
    )
    return "\n".join([_whole_race(tasks, timed, telemetry, charts, cursor), *sections])


def _what(record: RaceRecord) -> str:
    """Return the race's id, parameters and tags as text."""
    given = (pairs_text(each) for each in (record.track_params, record.user_tags) if each)
    return ", ".join([f"race {record.race_id}", *given])


def _over_time(tasks: Sequence[TaskResult], seconds: Iterable[SecondLine]) -> dict[str, TaskOverTime]:
    """Return, by name, the series of tasks that ran for at least three seconds."""
    by_task: dict[str, list[SecondLine]] = {task.name: [] for task in tasks}
    for line in seconds:
        if line.task in by_task:
            by_task[line.task].append(line)
    return {task.name: over_time(task, lines) for task in tasks if len(lines := by_task[task.name]) >= _FEWEST_SECONDS}


def _task_row(record: RaceRecord, task: TaskResult) -> tuple[Cell, ...]:
    times = task.latency_ms or task.service_time_ms or {}
    return (
        task_label(record, task),
        task.loop,
        task.clients,
        task.target_rate_per_s,
        task.throughput.mean,
        task.unit,
        *(time_cell(times, name) for name in ("p50", "p99", "p99.9", "max")),
        task.errors,
    )


def _whole_race(
    tasks: Sequence[TaskResult],
    timed: Mapping[str, TaskOverTime],
    telemetry: Sequence[Series],
    charts: Charts,
    cursor: Span,
) -> str:
    """Return charts of all tasks, and below them of servers and hosts, over one time axis."""
    begun = [task for task in tasks if task.begun_s is not None]
    if not begun:
        return ""
    ends = [(task.begun_s or 0.0, (task.begun_s or 0.0) + task.duration_s) for task in begun]
    shown = clock(min(start for start, _ in ends), max(end for _, end in ends), cursor)
    places = []
    if drawn := [(task, timed[task.name]) for task in begun if task.name in timed and timed[task.name].has_times]:
        found = tasks_chart(drawn, shown)
        caption = "p99 of each second: latency of open loops, service time of closed ones. Zoom in with the mouse."
        places.append(charts.place(found, "All tasks", caption, wide=True))
    for reading in READINGS:
        if (lines := reading_chart(reading, telemetry, begun, shown)) is not None:
            places.append(charts.place(lines, reading.title))
    return f'<h2>The whole race</h2><div class="charts">{"".join(places)}</div>' if places else ""


def _task_section(
    record: RaceRecord, task: TaskResult, seconds: TaskOverTime | None, charts: Charts, cursor: Span
) -> str:
    figures = [*_charts_over_time(task, seconds, charts, cursor), *_percentiles(task, charts)]
    return (
        f"<h2>{escape(task_label(record, task))}</h2>"
        f'<p class="muted">{escape(_how(task))}</p>'
        f'<div class="charts">{"".join(figures)}{_service_levels(task)}</div>'
    )


def _charts_over_time(task: TaskResult, seconds: TaskOverTime | None, charts: Charts, cursor: Span) -> list[str]:
    if seconds is None:
        return []
    begun_s = task.begun_s or 0.0
    shown = clock(begun_s, begun_s + task.duration_s, cursor)
    throughput = charts.place(throughput_chart(task, seconds, shown), "Throughput over time")
    if not seconds.has_times:
        return [throughput]
    measure = seconds.measure.title.capitalize()
    return [
        charts.place(latency_chart(task, seconds, shown), f"{measure} over time", _GREY_IS_WARMUP),
        throughput,
        charts.place(heat_map(task, seconds, shown), f"{measure}, all requests", "Brighter cells hold more requests."),
    ]


def _percentiles(task: TaskResult, charts: Charts) -> list[str]:
    curves = [
        (measure.title, colour, percentile_curve(*histograms_at_least(task, measure.name)))
        for measure, colour in _CURVES
    ]
    curves = [(name, colour, curve) for name, colour, curve in curves if len(curve) > 1]
    if not curves:
        return []
    return [charts.place(curves_chart(curves), "Percentiles", "Of the measurement window. Both axes are logarithmic.")]


def _service_levels(task: TaskResult) -> str:
    """Return the share of requests that were answered within each threshold, as bars."""
    if not task.within_ms:
        return ""
    rows = "".join(
        f"<tr><td class='number'>{escape(threshold)} ms</td><td class='number'>{percent:.2f}%</td>"
        f"<td><div class='bar'><i style='width:{min(percent, 100.0):.2f}%'></i></div></td></tr>"
        for threshold, percent in task.within_ms.items()
    )
    measure = response_time(is_open=task.loop == "open").title.capitalize()
    return (
        f'<figure><h3>{measure} within</h3><div class="table"><table>{rows}</table></div>'
        "<figcaption>Share of the requests of the measurement window.</figcaption></figure>"
    )


def _how(task: TaskResult) -> str:
    """Return the load of a task in one line: operation type, loop, clients, target rate and requests."""
    words: list[Any] = [task.operation_type, f"{task.loop} loop", f"{task.clients} clients"]
    if task.target_rate_per_s is not None:
        words.append(f"target {format_number(task.target_rate_per_s)} {task.target_unit or task.unit}/s")
    words.append(f"{task.requests:,} requests")
    return ", ".join(words)
