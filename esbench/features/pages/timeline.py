"""Charts over the race's clock: a task second by second, and the figures of servers and hosts in that time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import fmean, median
from typing import Any

from bokeh.models import (
    AdaptiveTicker,
    CustomJSHover,
    DataRange1d,
    HoverTool,
    LogColorMapper,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.annotations import BoxAnnotation, Span
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from esbench.features.pages.charts import (
    BLUE,
    COLOURS,
    GREY,
    LEGEND_LINE,
    RED,
    chart,
    hover,
    legend_above,
    plain_numbers,
    round_numbers,
    source,
)
from esbench.features.pages.page import Key
from esbench.record.model import TaskResult
from esbench.record.series import Series
from esbench.report.chart_series import BINS_PER_DECADE, Grid, TaskOverTime
from esbench.report.thinning import shown_points

_CLOCK = "time since the race began (h:mm:ss)"
_MARK = "00:00:00"
_VISIBLE_S = 0.05
_LEAST_BETWEEN_S = 0.2  # counters of the operating system grow by 0.01 s
_READING_HEIGHT = 180  # pixels, without a legend
_MARKERS = (("circle", "●"), ("square", "■"), ("triangle", "▲"), ("diamond", "◆"))  # of tasks, one for each 7 colours
_Points = list[tuple[float, float | None]]


@dataclass(frozen=True)
class Clock:
    """The shared time axis of several charts: the part of the race's clock that they show, and the cursor."""

    span_s: Range1d
    cursor: Span


def clock(start_s: float, end_s: float, cursor: Span) -> Clock:
    """Return a time axis between two times of the race's clock, with a margin of 1 % at both ends."""
    room = 0.01 * max(end_s - start_s, 1.0)
    return Clock(Range1d(start=start_s - room, end=end_s + room, bounds=(start_s - room, end_s + room)), cursor)


def time_chart(y_title: str, shown: Clock, **options: Any) -> figure:
    """Return an empty chart over the race's clock."""
    drawn = chart(y_title, cursor=shown.cursor, x_range=shown.span_s, **options)
    drawn.xaxis.axis_label = _CLOCK
    drawn.xaxis.formatter = NumeralTickFormatter(format=_MARK)
    ticker = AdaptiveTicker(base=60, mantissas=[1, 2, 5, 10, 15, 30], min_interval=1, desired_num_ticks=6)
    drawn.xaxis.ticker = ticker
    drawn.xgrid.ticker = ticker
    return drawn


def span_s(task: TaskResult) -> tuple[float, float]:
    """Return the begin and the end of a task in s of the race's clock; an unknown begin counts as 0."""
    return task.clock_s(0.0), task.clock_until_s(task.duration_s)


def shade_warmup(drawn: figure, task: TaskResult) -> None:
    """Shade the times of a task before its measurement window and after it in grey."""
    window = task.window
    for start_s, end_s in ((0.0, window.start_s), (window.end_s, task.duration_s)):
        if end_s - start_s > _VISIBLE_S:
            _shade(drawn, task.clock_s(start_s), task.clock_until_s(end_s))


def _shade(drawn: figure, start_s: float, end_s: float) -> None:
    drawn.add_layout(BoxAnnotation(left=start_s, right=end_s, fill_color=GREY, fill_alpha=0.15, line_color=None))


def tasks_chart(tasks: Sequence[tuple[TaskResult, TaskOverTime]], shown: Clock) -> figure:
    """Return a chart of the p99 of each second of all tasks, in ms on a logarithmic axis, on stripes that separate
    them.

    `shown`: the time axis that charts share.
    """
    drawn = time_chart("p99, ms", shown, y_axis_type="log")
    stripe([task for task, _ in tasks], drawn)
    for number, (task, seconds) in enumerate(tasks):
        data = source(x=seconds.times_s, y=seconds.p99_ms)
        colour, (marker, _) = _task_look(number)
        line = drawn.line("x", "y", source=data, color=colour, line_width=1.5, name=task.name)
        drawn.scatter("x", "y", source=data, color=colour, marker=marker, size=5)
        measure = seconds.measure.title
        hover(drawn, line, [("task", "$name"), ("at", f"@x{{{_MARK}}}"), (f"p99 {measure}", "@y{0,0.00} ms")])
    return drawn


def tasks_legend(tasks: Sequence[TaskResult]) -> tuple[Key, ...]:
    """Return the legend of `tasks_chart`, for the same tasks."""
    looks = (_task_look(number) for number in range(len(tasks)))
    return tuple(Key(task.name, colour, sign) for task, (colour, (_, sign)) in zip(tasks, looks, strict=True))


def _task_look(number: int) -> tuple[str, tuple[str, str]]:
    """Return the colour of a task among others, its marker and the sign of that."""
    return COLOURS[number % len(COLOURS)], _MARKERS[number // len(COLOURS) % len(_MARKERS)]


def stripe(tasks: Sequence[TaskResult], drawn: figure) -> None:
    """Shade the time of every other step of tasks, beginning with the first: tasks of a step run beside one another."""
    steps: dict[int, list[float]] = {}
    for task in tasks:
        steps.setdefault(task.step, []).extend(span_s(task))
    for times_s in list(steps.values())[::2]:
        _shade(drawn, min(times_s), max(times_s))


def latency_chart(task: TaskResult, seconds: TaskOverTime, shown: Clock) -> figure:
    """Return a chart of the band from p50 to p99 of each second and its longest request, in ms on a logarithmic
    axis."""
    drawn = time_chart(f"{seconds.measure.title}, ms", shown, y_axis_type="log")
    shade_warmup(drawn, task)
    data = source(x=seconds.times_s, p50=seconds.p50_ms, p99=seconds.p99_ms, max=seconds.max_ms)
    band = "p50 to p99"
    drawn.vbar(
        "x",
        float(seconds.each_s),
        "p99",
        "p50",
        source=data,
        fill_color=BLUE,
        fill_alpha=0.25,
        line_color=None,
        legend_label=band,
    )
    drawn.line("x", "p99", source=data, color=BLUE, line_width=1.5, legend_label="p99")
    middle = drawn.line("x", "p50", source=data, color=BLUE, line_width=2.5, legend_label="p50")
    drawn.scatter("x", "max", source=data, color=RED, size=3, legend_label="longest")
    shown_ms = [("p50", "@p50{0,0.00} ms"), ("p99", "@p99{0,0.00} ms"), ("longest", "@max{0,0.00} ms")]
    hover(drawn, middle, [("at", f"@x{{{_MARK}}}"), *shown_ms])
    legend_above(drawn)
    return drawn


def throughput_chart(task: TaskResult, seconds: TaskOverTime, shown: Clock) -> figure:
    """Return a chart of the units per second that a task completed, with crosses at seconds in which requests failed.

    The target rate of an open loop is drawn if it counts the same unit. `shown`: the time axis that charts share.
    """
    drawn = time_chart(f"throughput, {task.unit}/s", shown)
    shade_warmup(drawn, task)
    data = source(x=seconds.times_s, y=seconds.units_per_s)
    line = drawn.line("x", "y", source=data, color=BLUE, line_width=2, legend_label="completed")
    drawn.scatter("x", "y", source=data, color=BLUE, size=3)
    hover(drawn, line, [("at", f"@x{{{_MARK}}}"), (f"{task.unit}/s", "@y{0,0.0}")])
    if task.target_rate_per_s is not None and task.target_unit in (None, task.unit):
        drawn.line(span_s(task), [task.target_rate_per_s] * 2, color=GREY, line_dash="dashed", legend_label="target")
    failed = [n for n, errors in enumerate(seconds.errors) if errors]
    if failed:
        crosses = source(
            x=[seconds.times_s[n] for n in failed],
            y=[seconds.units_per_s[n] or 0.0 for n in failed],
            kinds=[seconds.failures[n] for n in failed],
        )
        marks = drawn.scatter(
            "x", "y", source=crosses, marker="x", color=RED, size=9, line_width=2, legend_label="requests failed"
        )
        hover(drawn, marks, [("failed", "@kinds")], mode="mouse")
    drawn.y_range = DataRange1d(start=0)
    plain_numbers(drawn)
    legend_above(drawn)
    return drawn


def heat_map(task: TaskResult, seconds: TaskOverTime, shown: Clock) -> figure:
    """Return a chart of the durations of requests, second by second: brighter cells hold more requests."""
    drawn = time_chart(f"{seconds.measure.title}, ms", shown)
    grid = seconds.grid
    drawn.rect(
        "x",
        "y",
        width=grid.width_s,
        height=1 / BINS_PER_DECADE,
        source=source(x=grid.times_s, y=grid.log_ms, count=grid.counts),
        line_color=None,
        fill_color={"field": "count", "transform": _brightness(grid)},
    )
    bounds = CustomJSHover(
        code=f"""
const show = power => +Math.pow(10, power).toPrecision(2) + " ms";
return show(value - {0.5 / BINS_PER_DECADE}) + " to " + show(value + {0.5 / BINS_PER_DECADE});"""
    )
    drawn.add_tools(
        HoverTool(
            tooltips=[("at", f"@x{{{_MARK}}}"), ("took", "@y{custom}"), ("requests", "@count{0,0}")],
            formatters={"@y": bounds},
        )
    )
    round_numbers(drawn, powers=True)
    drawn.xgrid.visible = False
    return drawn


def _brightness(grid: Grid) -> LogColorMapper:
    # The darkest colours of the palette cannot be distinguished from a dark page.
    return LogColorMapper(palette=Cividis256[70:], low=1, high=max(2, *grid.counts) if grid.counts else 2)


@dataclass(frozen=True)
class ChartedFigure:
    """A figure of servers or hosts: its place in telemetry.jsonl, and the conversion of its values for the chart.

    A counter is shown as its gain per second, times `factor`; with `whole` as a part of another counter's gain.
    """

    title: str
    unit: str
    group: str
    name: str
    factor: float = 1.0
    whole: str = ""
    devices: tuple[str, ...] = ("nodes", "node-stats")


READINGS = (
    ChartedFigure("CPU of the nodes", "% of one core", "process", "cpu_ms", 0.1),
    ChartedFigure("Heap of the nodes", "% used", "jvm", "heap_used_percent"),
    ChartedFigure("Garbage collection of the nodes", "ms per second", "jvm", "gc_ms"),
    ChartedFigure("Load of the nodes' hosts", "load average, 1 min", "os", "load_1m"),
    ChartedFigure("Disk, written by the nodes", "kB/s", "fs", "written_kb"),
    ChartedFigure("CPU of the driver's host", "% of all CPUs", "cpu", "busy_s", 100.0, "total_s", ("driver",)),
    ChartedFigure("CPU of the driver's processes", "% of one core", "process", "cpu_s", 100.0, "", ("driver",)),
)
CHARTED = frozenset(name for reading in READINGS for name in (reading.name, reading.whole) if name)


def reading_chart(
    reading: ChartedFigure, telemetry: Sequence[Series], tasks: Sequence[TaskResult], shown: Clock
) -> figure | None:
    """Return a chart with a line for each node or process read, on the stripes of the tasks; None without readings.

    If there are more of them than colours, the lines are their mean and the highest of them.
    """
    lines: dict[str, _Points] = {}
    for series in telemetry:
        device, bracket, cluster = series.device.partition(" [")  # of another cluster than the default one
        if device in reading.devices and series.group == reading.group:
            of = f"{series.of}{bracket}{cluster}"
            lines.setdefault(of, []).extend(_points(reading, series))
    lines = {of: points for of, points in lines.items() if any(value is not None for _, value in points)}
    if not lines:
        return None
    if len(lines) > len(COLOURS):
        lines = _mean_and_highest(lines)
    drawn = time_chart(reading.unit, shown, height=_READING_HEIGHT + (LEGEND_LINE if len(lines) > 1 else 0))
    stripe(tasks, drawn)
    for (of, points), colour in zip(sorted(lines.items()), COLOURS, strict=False):
        shown_of = [points[n] for n in shown_points([[value for _, value in points]])]
        data = source(x=[time_s for time_s, _ in shown_of], y=[value for _, value in shown_of])
        named: dict[str, Any] = {"legend_label": of} if len(lines) > 1 else {}
        line = drawn.line("x", "y", source=data, color=colour, line_width=1.5, name=of, **named)
        hover(drawn, line, [("of", "$name"), ("at", f"@x{{{_MARK}}}"), (reading.unit, "@y{0,0.0}")])
    drawn.y_range = DataRange1d(start=0)
    plain_numbers(drawn)
    legend_above(drawn)
    return drawn


def _mean_and_highest(lines: Mapping[str, _Points]) -> dict[str, _Points]:
    """Return the mean of lines and the highest value of any of them, each in spans of two readings of a line.

    In as long a span each line has a reading, unless its node was away.
    """
    known = {of: [(time_s, value) for time_s, value in points if value is not None] for of, points in lines.items()}
    between = [after - before for points in known.values() for (before, _), (after, _) in pairwise(points)]
    span_s = 2 * median(between) if between else 1.0
    found: dict[int, list[float]] = {}
    for time_s, value in chain.from_iterable(known.values()):
        found.setdefault(int(time_s // span_s), []).append(value)
    spans = sorted(found.items())
    return {
        f"mean of {len(lines)}": [((number + 0.5) * span_s, fmean(values)) for number, values in spans],
        "highest": [((number + 0.5) * span_s, max(values)) for number, values in spans],
    }


def _points(reading: ChartedFigure, series: Series) -> _Points:
    if reading.name in series.gauges:
        return [
            (time_s, None if value is None else reading.factor * value)
            for time_s, value in zip(series.times_s, series.gauges[reading.name], strict=True)
        ]
    counter = _known(series.times_s, series.counters, reading.name)
    whole = dict(_known(series.times_s, series.counters, reading.whole)) if reading.whole else None
    return [
        (time_s, _gain(reading.factor * (value - before), before_s, time_s, whole))
        for (before_s, before), (time_s, value) in pairwise(counter)
        if time_s - before_s > _LEAST_BETWEEN_S
    ]


def _known(
    times_s: Sequence[float], counters: Mapping[str, Sequence[float | None]], name: str
) -> list[tuple[float, float]]:
    values = counters.get(name, ())
    return [(time_s, value) for time_s, value in zip(times_s, values, strict=False) if value is not None]


def _gain(gained: float, before_s: float, time_s: float, whole: Mapping[float, float] | None) -> float | None:
    """Return the gain per second or, with `whole`, per gain of that counter; None if that did not grow."""
    if whole is None:
        return gained / (time_s - before_s)
    if before_s not in whole or time_s not in whole or whole[time_s] <= whole[before_s]:
        return None
    return gained / (whole[time_s] - whole[before_s])
