"""Charts of a comparison: the change of each row with its interval, and the races that it comes from.

Rows in, Bokeh figures out: what a change means was decided before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bokeh.models.annotations import Label, Span
from bokeh.plotting import figure

from esbench.comparison.model import FASTER, SAME, SLOWER, Estimate, Pair, Row
from esbench.report.html.charts import (
    BLUE,
    GREEN,
    GREY,
    RED,
    chart,
    hover,
    legend_above,
    plain_numbers,
    source,
)
from esbench.units import format_number

BASELINE_COLOUR, CONTENDER_COLOUR = GREY, BLUE
_ROW_HEIGHT, _AROUND_ROWS = 46, 64  # pixels
_MARKS = {FASTER: ("triangle", GREEN), SLOWER: ("inverted_triangle", RED), SAME: ("square", BLUE)}
_UNDECIDED = ("circle", GREY)
_MOST_TICKS = 7
_ROUNDING = 1e-9
_STEPS_PERCENT = (0.5, 1, 2, 5, 10, 20, 50)


def intervals(rows: Sequence[Row], margins: Mapping[str, float]) -> figure:
    """The change of each row with its 95 % interval, on a scale of ratios; the band of what counts as the same behind.

    All rows have an estimate. `margins`: metric -> the smallest change that matters (ratio, 0.05 for 5 %).
    """
    estimates = [_estimate(row) for row in rows]
    low = min(min(each.low, 1 / (1 + margins[row.metric])) for row, each in zip(rows, estimates, strict=True))
    high = max(max(each.high, 1 + margins[row.metric]) for row, each in zip(rows, estimates, strict=True))
    room = 0.04 * math.log(high / low)
    drawn = chart(
        "",
        height=_AROUND_ROWS + _ROW_HEIGHT * len(rows),
        x_range=(math.log(low) - room, math.log(high) + room),
        y_range=(len(rows), 0),
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
    drawn.ygrid.visible = False
    places = [number + 0.68 for number in range(len(rows))]
    drawn.hbar(
        y=places,
        left=[-math.log1p(margins[row.metric]) for row in rows],
        right=[math.log1p(margins[row.metric]) for row in rows],
        height=0.5,
        color=GREY,
        alpha=0.22,
        line_color=None,
    )
    drawn.add_layout(Span(location=0, dimension="height", line_width=1))
    for number, row in enumerate(rows):
        drawn.add_layout(
            Label(x=2, x_units="screen", y=number + 0.4, text=f"{row.task}: {row.metric}", text_font_size="12px")
        )
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
            verdict=[row.verdict.kind if row.verdict else "" for row in rows],
        ),
    )
    hover(
        drawn,
        points,
        [("task", "@task"), ("metric", "@metric"), ("change", "@change"), ("verdict", "@verdict")],
        mode="hline",
    )
    return drawn


def rounds(pair: Pair, row: Row, names: tuple[str, str]) -> figure:
    """One point for each race of both sides, in the order in which they were raced; dashed: the side's figure.

    `names`: what the sides are called.
    """
    races = len(pair.baseline.records) + len(pair.contender.records)
    drawn = chart(row.unit, x_range=(0.5, races + 0.5))
    plain_numbers(drawn)
    drawn.xaxis.axis_label = "race, in the order of their start"
    started = sorted(record.started_at for record in (*pair.baseline.records, *pair.contender.records))
    sides = (
        (names[0], pair.baseline, row.baseline_rounds, row.baseline, "circle", BASELINE_COLOUR),
        (names[1], pair.contender, row.contender_rounds, row.contender, "triangle", CONTENDER_COLOUR),
    )
    for name, side, values, typical, marker, colour in sides:
        places = [started.index(record.started_at) + 1 for record in side.records]
        points = source(
            place=places,
            value=values,
            shown=["-" if value is None else format_number(value) for value in values],
            side=[name] * len(values),
            race=[record.race_id for record in side.records],
        )
        if typical.usable and not typical.exceeded:
            drawn.line([1, len(started)], [typical.value] * 2, color=colour, line_dash="dashed", alpha=0.8)
        drawn.line("place", "value", source=points, color=colour, alpha=0.4)
        scattered = drawn.scatter(
            "place", "value", source=points, marker=marker, size=11, color=colour, legend_label=name
        )
        hover(
            drawn,
            scattered,
            [("side", "@side"), (row.metric, f"@shown {row.unit}"), ("race", "@race")],
            mode="mouse",
        )
    drawn.xaxis.ticker = list(range(1, len(started) + 1))
    legend_above(drawn)
    return drawn


def _mark(row: Row) -> tuple[str, str]:
    """Marker and colour of a row's verdict."""
    return _MARKS.get(row.verdict.kind, _UNDECIDED) if row.verdict else _UNDECIDED


def _estimate(row: Row) -> Estimate:
    if row.estimate is None:
        raise ValueError(f"{row.metric} of {row.task} has no estimate")
    return row.estimate


def _change(estimate: Estimate) -> str:
    """+9.0% [+7.2, +10.8]."""
    percents = [100 * (ratio - 1) for ratio in (estimate.ratio, estimate.low, estimate.high)]
    return "{:+.1f}% [{:+.1f}, {:+.1f}]".format(*percents)


def _percent_ticks(low: float, high: float) -> list[float]:
    """Round changes in percent between two ratios; far apart they are those of ratios 1, 2, 5, 10 ..."""
    for step in _STEPS_PERCENT:
        first, last = math.ceil(100 * (low - 1) / step - _ROUNDING), math.floor(100 * (high - 1) / step + _ROUNDING)
        if last - first < _MOST_TICKS:
            return [step * number for number in range(first, last + 1)]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ratios = [digit * 10.0**power for power in decades for digit in ((1, 2, 5) if high < 1000 * low else (1,))]
    return [100 * (ratio - 1) for ratio in ratios if low <= ratio <= high]
