"""Charts of a comparison: the change of each row with its interval, the races that it comes from, and the percentiles.

Rows in, Bokeh figures out: the verdicts are already made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bokeh.models import DataRange1d, FixedTicker
from bokeh.models.annotations import BoxAnnotation, Label, Span
from bokeh.plotting import figure

from esbench.comparison.model import Estimate, Row
from esbench.comparison.reasons import FASTER, SAME, SLOWER
from esbench.features.pages.charts import (
    BLUE,
    GREEN,
    GREY,
    RED,
    chart,
    curves_chart,
    hover,
    legend_above,
    plain_numbers,
    shortened,
    source,
)
from esbench.features.pages.comparison_series import Curve, Judged, Raced, SlicedSeconds
from esbench.features.pages.verdict_text import DIRECTIONS, look
from esbench.units import format_number

# Sides by marker, colour and line: the baseline, then contenders. Each colour stands out 3 to 1 on both themes.
SIDES = (
    ("circle", GREY, "solid"),
    ("triangle", BLUE, "solid"),
    ("square", "#cc6600", "dashed"),
    ("diamond", "#aa4499", "dotdash"),
    ("hex", "#228877", "dotted"),
)
_TASK_HEIGHT, _ROW_HEIGHT, _AROUND_ROWS = 26, 44, 60  # pixels
_LETTERS_OF_TASK = 40  # in one line on a phone
_MARKS = {FASTER: ("triangle", GREEN), SLOWER: ("inverted_triangle", RED), SAME: ("square", BLUE)}
_UNDECIDED = ("circle", GREY)
_MOST_TICKS, _MOST_RACES_TOLD = 7, 12
_MOST_OF_AN_INTERVAL = 3  # times as far as the rounds; that of two rounds would hide all else
_ASIDE = 0.12  # of a round, for each further contender
_ROUNDING = 1e-9
_STEPS_PERCENT = (0.5, 1, 2, 5, 10, 20, 50)


def intervals(rows: Sequence[Row], margins: Mapping[str, float]) -> figure:
    """Return a chart of the change of each row with its 95 % interval, on a scale of ratios; a band marks what counts
    as the same.

    All rows have an estimate, those of a task follow one another. `margins`: metric -> the smallest change that matters
    (ratio, 0.05 for 5 %).
    """
    estimates = [_estimate(row) for row in rows]
    low = min(min(each.low, 1 / (1 + margins[row.metric])) for row, each in zip(rows, estimates, strict=True))
    high = max(max(each.high, 1 + margins[row.metric]) for row, each in zip(rows, estimates, strict=True))
    room = 0.04 * math.log(high / low)
    tops, tasks, height = _tops(rows)
    places = [top + 30 for top in tops]
    drawn = chart(
        "",
        height=_AROUND_ROWS + height,
        x_range=(math.log(low) - room, math.log(high) + room),
        y_range=(height, 0),
    )
    drawn.toolbar_location = None
    drawn.toolbar.active_drag = None
    drawn.xaxis.axis_label = "change of the contender"
    ticks = _percent_ticks(low, high)
    drawn.xaxis.ticker = [math.log1p(percent / 100) for percent in ticks]
    drawn.xaxis.major_label_overrides = {
        math.log1p(percent / 100): f"{percent:+g}%" if percent else "0" for percent in ticks
    }
    drawn.yaxis.visible = False
    drawn.ygrid.ticker = FixedTicker(ticks=list(tasks))
    drawn.hbar(
        y=places,
        left=[-math.log1p(margins[row.metric]) for row in rows],
        right=[math.log1p(margins[row.metric]) for row in rows],
        height=20,
        color=GREY,
        alpha=0.22,
        line_color=None,
    )
    drawn.add_layout(Span(location=0, dimension="height", line_width=1))
    for top, task in tasks.items():
        name = shortened(task, _LETTERS_OF_TASK)
        drawn.add_layout(_label(name, top + _TASK_HEIGHT - 4, text_font_style="bold"))
    for top, row in zip(tops, rows, strict=True):
        direction = DIRECTIONS.get(row.better)
        drawn.add_layout(_label(f"{row.metric}, {direction}" if direction else row.metric, top + 17))
        at_the_right = {"x": math.log(high) + room, "x_units": "data", "text_align": "right"}
        drawn.add_layout(_label(look(row.word)[0], top + 17, **at_the_right))
    colours = [_mark(row)[1] for row in rows]
    drawn.segment(
        x0=[math.log(each.low) for each in estimates],
        x1=[math.log(each.high) for each in estimates],
        y0=places,
        y1=places,
        line_width=3,
        color=colours,
    )
    points = drawn.scatter(
        x="x",
        y="y",
        marker="marker",
        size=13,
        color="colour",
        source=source(
            x=[math.log(each.ratio) for each in estimates],
            y=places,
            marker=[_mark(row)[0] for row in rows],
            colour=colours,
            task=[row.task for row in rows],
            metric=[row.metric for row in rows],
            change=[_change(each) for each in estimates],
            verdict=[look(row.word)[0] for row in rows],
        ),
    )
    hover(
        drawn,
        points,
        [("task", "@task"), ("metric", "@metric"), ("change", "@change"), ("verdict", "@verdict")],
        mode="hline",
    )
    return drawn


def _tops(rows: Sequence[Row]) -> tuple[list[int], dict[int, str], int]:
    """Return the tops of rows, the task that begins at a height, and the whole height, in pixels from the top."""
    tops: list[int] = []
    tasks: dict[int, str] = {}
    height = 0
    for number, row in enumerate(rows):
        if number == 0 or row.task != rows[number - 1].task:
            tasks[height] = row.task
            height += _TASK_HEIGHT
        tops.append(height)
        height += _ROW_HEIGHT
    return tops, tasks, height


def _label(text: str, y: int, **options: Any) -> Label:
    """Return a label at the left edge, with its foot at a height."""
    return Label(**{"x": 2, "x_units": "screen", "y": y, "text": text, "text_font_size": "12px", **options})


def rounds(sides: Sequence[Raced], metric: str, unit: str) -> figure:
    """Return a chart with a point for each race of all sides, in the order of their start; dashed: the side's figure.

    `metric` and `unit` name the figure that the sides' values are of.
    """
    started = sorted({(record.started_at, record.race_id) for side in sides for record in side.records})
    drawn = chart(unit, x_range=(0.5, len(started) + 0.5))
    plain_numbers(drawn)
    drawn.xaxis.axis_label = "race, in the order of their start"
    for side in sides:
        marker, colour, _ = _look(side.number)
        points = source(
            place=[started.index((record.started_at, record.race_id)) + 1 for record in side.records],
            value=side.values,
            shown=["-" if value is None else format_number(value) for value in side.values],
            side=[side.name] * len(side.values),
            race=[record.race_id for record in side.records],
        )
        if side.typical is not None and side.typical.usable and not side.typical.exceeded:
            drawn.line([1, len(started)], [side.typical.value] * 2, color=colour, line_dash="dashed", alpha=0.8)
        drawn.line("place", "value", source=points, color=colour, alpha=0.4)
        scattered = drawn.scatter(
            "place", "value", source=points, marker=marker, size=11, color=colour, legend_label=side.name
        )
        hover(
            drawn,
            scattered,
            [("side", "@side"), (metric, f"@shown {unit}"), ("race", "@race")],
            mode="mouse",
        )
    drawn.xaxis.ticker = list(range(1, len(started) + 1, -(-len(started) // _MOST_RACES_TOLD)))
    legend_above(drawn)
    return drawn


def slices(sides: Sequence[SlicedSeconds]) -> figure:
    """Return a chart of the throughput of each own second of all sides, each where it was: as wide as its part of a
    slice. The warmup is grey."""
    drawn = chart(sides[0].unit)
    drawn.xaxis.axis_label = "s since the step began on all sides"
    if (warmup_s := min(side.warmup_s for side in sides)) > 0:
        drawn.add_layout(BoxAnnotation(left=0, right=warmup_s, fill_color=GREY, fill_alpha=0.15, line_color=None))
        drawn.add_layout(Span(location=warmup_s, dimension="height", line_width=1, line_dash="dashed", line_color=GREY))
    for side in sides:
        marker, colour, _ = _look(side.number)
        begins_s, ends_s = zip(*side.spans_s, strict=True)
        points = source(
            left=begins_s,
            right=ends_s,
            x=[(begin_s + end_s) / 2 for begin_s, end_s in side.spans_s],
            y=side.units_per_s,
            second=range(len(side.spans_s)),
        )
        drawn.quad("left", "right", "y", 0, source=points, color=colour, alpha=0.3, line_color=None)
        tops = drawn.scatter("x", "y", source=points, marker=marker, size=6, color=colour, legend_label=side.name)
        hover(drawn, tops, [(side.name, f"@y{{0,0.0}} {side.unit}"), ("own second", "@second"), ("at", "@x{0.0} s")])
    drawn.y_range = DataRange1d(start=0)
    plain_numbers(drawn)
    legend_above(drawn)
    return drawn


def differences(rows: Judged, names: Sequence[str], margin: float) -> figure:
    """Return a chart of the change of the contender in each round that held both sides, and at its right the mean with
    its 95 % interval; a band marks what counts as the same.

    `rows`: of one metric and task, each with differences. `names` of the sides by number; `margin` (ratio).
    """
    band = math.log1p(margin)
    reach = max(band, *(abs(each) for _, row in rows for each in row.differences))
    estimates = [row.estimate for _, row in rows if row.estimate is not None]
    shown = max(abs(math.log(end)) for each in estimates for end in (each.low, each.high)) if estimates else 0.0
    reach = 1.1 * max(reach, min(shown, _MOST_OF_AN_INTERVAL * reach))
    count = max(len(row.differences) for _, row in rows)
    mean_at = count + 1
    drawn = chart("change of the contender", x_range=(0.5, mean_at + 0.5), y_range=(-reach, reach))
    drawn.add_layout(BoxAnnotation(bottom=-band, top=band, fill_color=GREY, fill_alpha=0.22, line_color=None))
    drawn.add_layout(Span(location=0, dimension="width", line_width=1, line_color=GREY))
    ticks = _percent_ticks(math.exp(-reach), math.exp(reach))
    drawn.yaxis.ticker = drawn.ygrid.ticker = FixedTicker(ticks=[math.log1p(percent / 100) for percent in ticks])
    drawn.yaxis.major_label_overrides = {
        math.log1p(percent / 100): f"{percent:+g}%" if percent else "0" for percent in ticks
    }
    step = -(-count // _MOST_RACES_TOLD)
    drawn.xaxis.ticker = FixedTicker(ticks=[*range(1, count + 1, step), *([mean_at] if estimates else [])])
    drawn.xaxis.major_label_overrides = {mean_at: "mean"}
    drawn.xaxis.axis_label = "round"
    drawn.xgrid.visible = False
    for number, row in rows:
        marker, colour, _ = _look(number)
        aside = _ASIDE * (number - (len(rows) + 1) / 2)
        points = source(
            place=[place + aside for place in range(1, len(row.differences) + 1)],
            round=[str(place) for place in range(1, len(row.differences) + 1)],
            change=row.differences,
            shown=[f"{100 * math.expm1(each):+.1f}%" for each in row.differences],
        )
        named: dict[str, Any] = {"legend_label": names[number]} if len(rows) > 1 else {}
        dots = drawn.scatter("place", "change", source=points, marker=marker, size=11, color=colour, **named)
        hover(drawn, dots, [(names[number], "@shown"), ("round", "@round")], mode="mouse")
        if row.estimate is not None:
            low, high, mean = (math.log(each) for each in (row.estimate.low, row.estimate.high, row.estimate.ratio))
            drawn.segment(x0=[mean_at + aside], x1=[mean_at + aside], y0=[low], y1=[high], line_width=3, color=colour)
            total = source(place=[mean_at + aside], change=[mean], shown=[_change(row.estimate)])
            point = drawn.scatter("place", "change", source=total, marker=marker, size=13, color=colour)
            hover(drawn, point, [(f"{names[number]}, mean", "@shown")], mode="mouse")
    legend_above(drawn)
    return drawn


def percentiles(curves: Sequence[Curve]) -> figure:
    """Return a chart of the percentile curves of sides; the baseline's is broad enough to be seen below an equal one.

    There must be a curve, and points of each.
    """
    drawn = curves_chart([(curve.name, _look(curve.number)[1], curve.points) for curve in curves])
    lines: list[Any] = list(drawn.renderers)
    for curve, line in zip(curves, lines, strict=True):
        line.glyph.update(line_dash=_look(curve.number)[2], line_width=2 if curve.number else 4)
    return drawn


def _look(side: int) -> tuple[str, str, str]:
    """Return marker, colour and line of a side: 0 is the baseline, whose look no contender has."""
    return SIDES[0 if side == 0 else 1 + (side - 1) % (len(SIDES) - 1)]


def _mark(row: Row) -> tuple[str, str]:
    """Return marker and colour of a row's verdict."""
    return _MARKS.get(row.word, _UNDECIDED)


def _estimate(row: Row) -> Estimate:
    if row.estimate is None:
        raise ValueError(f"{row.metric} of {row.task} has no estimate")
    return row.estimate


def _change(estimate: Estimate) -> str:
    """Return a change with its interval as text: +9.0% [+7.2, +10.8]."""
    percents = [100 * (ratio - 1) for ratio in (estimate.ratio, estimate.low, estimate.high)]
    return "{:+.1f}% [{:+.1f}, {:+.1f}]".format(*percents)


def _percent_ticks(low: float, high: float) -> list[float]:
    """Return round changes in percent between two ratios; if these are far apart, those of ratios 1, 2, 5, 10 ..."""
    for step in _STEPS_PERCENT:
        first, last = math.ceil(100 * (low - 1) / step - _ROUNDING), math.floor(100 * (high - 1) / step + _ROUNDING)
        if last - first < _MOST_TICKS:
            return [step * number for number in range(first, last + 1)]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ratios = [digit * 10.0**power for power in decades for digit in ((1, 2, 5) if high < 1000 * low else (1,))]
    return [100 * (ratio - 1) for ratio in ratios if low <= ratio <= high]
