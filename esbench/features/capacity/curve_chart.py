"""The charts of a search for capacity: latency over the rate, and the share of late requests with its curve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

from bokeh.models import NumeralTickFormatter
from bokeh.models.annotations import BoxAnnotation
from bokeh.plotting import figure

from esbench.features.capacity.record import NEAR, FoundCapacity, LateCurve
from esbench.features.capacity.tables import late_interval
from esbench.features.capacity.words import JudgedProbe, ShownSearch, known_rate
from esbench.features.pages.charts import BLUE, COLOURS, GREEN, GREY, RED, chart, hover, legend_above, source
from esbench.features.pages.page import Chart
from esbench.record.figures import known

_HEIGHT = 300  # pixels
_POINTS = 60  # of a curve
_LEAST_PART = 0.01  # of the share that may be late: the lowest that a chart shows
_BELOW = 0.8  # of it: where the axis begins
_MARKERS = ((True, "circle", BLUE, "held"), (False, "x", RED, "not held"))


def search_charts(shown: ShownSearch) -> Iterator[Chart]:
    """Yield a chart of latency, and for each objective one of the share of late requests, all over the rate."""
    probes = shown.usable
    if not probes:
        return
    band = "Green: the interval of the capacity. " if shown.found and _ends(shown.found) else ""
    if any(each.task and each.task.latency_ms for each in probes):
        yield Chart(_latency_chart(shown, probes), "Latency over the rate", f"{band}A point is a probe.")
    for number, objective in enumerate(shown.objectives):
        what = "failed" if objective.kind == "errors" else "late"
        curve = _curve_of(shown, number)
        line = "The line is the curve through the probes near the capacity. " if curve else ""
        caption = f"{line}Bars are 95 % intervals. A probe below {_least(shown, number):.2g} % stands at the bottom."
        yield Chart(_share_chart(shown, probes, number), f"Requests {what} over the rate: {objective.text}", caption)


def _curve_of(shown: ShownSearch, number: int) -> LateCurve | None:
    return shown.found.curves[number] if shown.found and shown.found.curves else None


def _rate_chart(y_title: str, of: FoundCapacity | LateCurve | None, **options: Any) -> figure:
    """Return an empty chart over the rate with the interval of a capacity as a band, without an end where it has none.

    `options` are Bokeh's.
    """
    drawn = chart(y_title, height=_HEIGHT, y_axis_type="log", **options)
    drawn.xaxis.axis_label = "rate, requests per second"
    drawn.xaxis.formatter = NumeralTickFormatter(format="0,0")
    if of is not None and (ends := _ends(of)):
        drawn.add_layout(BoxAnnotation(**ends, fill_color=GREEN, fill_alpha=0.18, line_color=None))
    return drawn


def _ends(of: FoundCapacity | LateCurve) -> dict[str, Any]:
    """Return the sides of the box of an interval, without those that are not known."""
    ends = {"left": known_rate(of.low_per_s), "right": known_rate(of.high_per_s)}
    return {side: rate for side, rate in ends.items() if rate is not None}


def _latency_chart(shown: ShownSearch, probes: Sequence[JudgedProbe]) -> figure:
    drawn = _rate_chart("latency, ms", shown.found)
    ranks = [each.figure for each in shown.objectives if each.kind == "percentile"]
    for name, colour in zip(dict.fromkeys(("p50", "p99", *ranks)), cycle(COLOURS), strict=False):
        points = [
            (each.rate_per_s, known(each.task.latency_ms, name), each.verdict)
            for each in probes
            if each.task and each.task.latency_ms and name in each.task.latency_ms
        ]
        if points:
            rates, times, verdicts = zip(*points, strict=True)
            data = source(x=rates, y=times, verdict=verdicts)
            drawn.line("x", "y", source=data, color=colour, line_width=1.5, legend_label=name)
            marks = drawn.scatter("x", "y", source=data, color=colour, size=7, legend_label=name)
            hover(drawn, marks, [("rate", "@x{0,0.0}/s"), (name, "@y{0,0.00} ms"), ("", "@verdict")], mode="mouse")
    for limit_ms in dict.fromkeys(limit for each in shown.objectives if (limit := each.limit_ms) is not None):
        _limit(drawn, probes, limit_ms, f"limit, {limit_ms:g} ms")
    legend_above(drawn)
    return drawn


def _limit(drawn: figure, probes: Sequence[JudgedProbe], at: float, label: str) -> None:
    ends = [probes[0].rate_per_s, probes[-1].rate_per_s]
    drawn.line(ends, [at, at], color=GREY, line_width=2, line_dash="dashed", legend_label=label)


def _share_chart(shown: ShownSearch, probes: Sequence[JudgedProbe], number: int) -> figure:
    """Return a chart of the share of late requests by an objective, in percent on a logarithmic axis."""
    objective, curve, least = shown.objectives[number], _curve_of(shown, number), _least(shown, number)
    what = "failed" if objective.kind == "errors" else "late"
    of = curve or (shown.found if number == shown.binding else None)
    drawn = _rate_chart(f"{what}, %", of, y_range=(least * _BELOW, 100 / _BELOW))
    for holds, marker, colour, label in _MARKERS:
        of_kind = [each for each in probes if (each.excess(number) <= 1) == holds]
        if of_kind:
            _points(drawn, shown, of_kind, number, (marker, colour, label))
    if curve is not None:
        rates = [rate for rate in _spread(curve) if probes[0].rate_per_s <= rate <= probes[-1].rate_per_s]
        percents = [100 * curve_ratio(curve, probes[0].most_late[number], rate) for rate in rates]
        data = source(x=rates, y=[percent if percent >= least else None for percent in percents])
        drawn.line("x", "y", source=data, color=GREEN, line_width=2, legend_label="curve")
    limit = 100 * probes[0].most_late[number]
    _limit(drawn, probes, limit, f"limit, {limit:g} %")
    legend_above(drawn)
    return drawn


def _points(
    drawn: figure, shown: ShownSearch, probes: Sequence[JudgedProbe], number: int, look: tuple[str, str, str]
) -> None:
    marker, colour, label = look
    least = _least(shown, number)
    intervals = [late_interval(shown, each, number) for each in probes]
    data = source(
        x=[each.rate_per_s for each in probes],
        y=[max(least, 100 * _share(each, number)) for each in probes],
        low=[max(least, 100 * low) for low, _ in intervals],
        high=[max(least, 100 * high) for _, high in intervals],
        share=[f"{100 * _share(each, number):.3g} %" for each in probes],
        verdict=[each.verdict for each in probes],
    )
    drawn.segment("x", "low", "x", "high", source=data, color=colour, line_width=2)
    marks = drawn.scatter("x", "y", source=data, marker=marker, color=colour, size=9, line_width=2, legend_label=label)
    hover(drawn, marks, [("rate", "@x{0,0.0}/s"), ("share", "@share"), ("", "@verdict")], mode="mouse")


def _share(probe: JudgedProbe, number: int) -> float:
    return probe.seen.counts[number].late_ratio


def _least(shown: ShownSearch, number: int) -> float:
    """Return the lowest share that a chart shows, in percent."""
    return 100 * _LEAST_PART * shown.probes[0].most_late[number]


def _spread(curve: LateCurve) -> list[float]:
    """Return the rates at which a curve is drawn: those near its capacity, which it was laid through."""
    step = NEAR ** (2 / _POINTS)
    return [curve.capacity_per_s / NEAR * step**number for number in range(_POINTS + 1)]


def curve_ratio(curve: LateCurve, most_late: float, rate_per_s: float) -> float:
    """Return the share of late requests at a rate by a curve whose capacity allows `most_late`.

    logit(share) = logit(most_late) + slope (rate / capacity - 1), as curve.py fits it.
    """
    logit = math.log(most_late / (1 - most_late)) + curve.slope * (rate_per_s / curve.capacity_per_s - 1)
    return 1 / (1 + math.exp(-min(max(logit, -700.0), 700.0)))
