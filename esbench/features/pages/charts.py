"""The common parts of all charts: size, tools, colours, and the scale of percentiles.

Colours of text, axes and grids are set in the browser (page.js), so that they follow the theme.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from math import nan
from typing import Any

from bokeh.core.properties import value
from bokeh.models import (
    ColumnDataSource,
    CrosshairTool,
    CustomJSHover,
    CustomJSTicker,
    CustomJSTickFormatter,
    FixedTicker,
    HoverTool,
    NoOverlap,
)
from bokeh.models.annotations import Span
from bokeh.plotting import figure

# The "bright" scheme of Paul Tol (sronpersonalpages.nl/~pault): distinct for the colour-blind, on light and dark.
# Its grey is darker here, so that it stands out 3 to 1 on both.
BLUE, RED, GREEN = "#4477aa", "#ee6677", "#228833"
YELLOW, CYAN, PURPLE, GREY = "#ccbb44", "#66ccee", "#aa3377", "#888888"
COLOURS = (BLUE, RED, GREEN, PURPLE, YELLOW, CYAN, GREY)
HEIGHT = 250
_LOWEST_MS = 0.001
_LETTERS_AT_MOST, _MARK = 38, 5  # letters of a legend in one line on a phone, and what the mark of a name takes of them
LEGEND_LINE = 26  # pixels
_PLAIN = """
const number = powers ? 10 ** tick : tick, short = (value, suffix) => +value.toPrecision(4) + suffix;
return number >= 1e6 ? short(number / 1e6, "M") : number >= 1e4 ? short(number / 1e3, "k") : short(number, "");
"""
# Four to nine round numbers, whatever part of a logarithmic axis is shown: even steps in less than three quarters of a
# decade, else the more digits of each decade the fewer there are. A chart of usual height has room for nine.
_ROUND = """
const [low, high] = [cb_data.start, cb_data.end].map(end => powers ? end : Math.log10(end)).sort((a, b) => a - b);
const span = high - low, ticks = [];
if (span < 0.75) {
  const from = 10 ** low, to = 10 ** high, least = (to - from) / 8, unit = 10 ** Math.floor(Math.log10(least));
  const step = unit * [1, 2, 2.5, 5, 10].find(each => each * unit >= least);
  for (let n = Math.ceil(from / step); n * step <= to; n++) ticks.push(n * step);
} else if (span < 100) {
  const digits = span < 0.9 ? [1, 1.5, 2, 3, 4, 5, 7] : span < 1.2 ? [1, 2, 3, 5, 7] : span < 1.7 ? [1, 2, 3, 5]
    : span < 2.7 ? [1, 2, 5] : span < 4.5 ? [1, 3] : [1];
  for (let decade = Math.floor(low); decade <= high; decade++) ticks.push(...digits.map(n => n * 10 ** decade));
}
return powers ? ticks.map(Math.log10) : ticks;
"""
_RANK = 'return "p" + +(100 - 100 / value).toPrecision(6);'  # of a place on the scale of percentiles
_RANKS = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
_RANKS_OF_FEW = (50.0, 75.0, 90.0, 95.0, 99.0)  # if there is none beyond p99


def chart(y_title: str, *, height: int = HEIGHT, cursor: Span | None = None, **options: Any) -> figure:
    """Return an empty chart that fills the width of its place. `cursor` is a line that charts share; `options` are
    Bokeh's."""
    options.setdefault("y_axis_label", y_title)
    drawn = figure(
        height=height,
        sizing_mode="stretch_width",
        tools="xpan,xbox_zoom,box_zoom,reset,save",
        active_drag="xbox_zoom",
        min_border_right=12,
        output_backend="canvas",
        **options,
    )
    drawn.toolbar.logo = None
    drawn.toolbar.autohide = True
    drawn.axis.axis_label_text_font_style = "normal"
    drawn.axis.major_label_text_font_size = "12px"
    drawn.axis.minor_tick_line_color = None
    drawn.axis.major_label_policy = NoOverlap()
    drawn.outline_line_color = None
    drawn.background_fill_color = drawn.border_fill_color = None  # else white edges in the dark
    if options.get("y_axis_type") == "log":
        round_numbers(drawn)
    if cursor is not None:
        drawn.add_tools(CrosshairTool(overlay=cursor, dimensions="height"))
    return drawn


def shared_cursor() -> Span:
    """Return a cursor for several charts: a vertical line that is at the same place in each of them."""
    return Span(dimension="height", line_width=1, line_dash="dotted")


def hover(drawn: figure, renderer: Any, tooltips: Sequence[tuple[str, str]], **options: Any) -> None:
    """Show the figures under the pointer; by default (`mode`) those of the nearest point in time.

    `renderer`: the line or marks of the chart `drawn`. `tooltips`: a title and Bokeh's format ("@y ms") each; `options`
    are Bokeh's.
    """
    drawn.add_tools(HoverTool(renderers=[renderer], tooltips=list(tooltips), **{"mode": "vline", **options}))


def legend_above(drawn: figure) -> None:
    """Put the legend above the chart, where it hides nothing, in lines that fit a phone. A click on a name hides its
    line.

    Call it after all lines are drawn. Long names are shortened, and the chart becomes higher by the legend's further
    lines. A chart without a legend stays as it is.
    """
    if not drawn.legend:
        return
    legend = drawn.legend[0]
    drawn.add_layout(legend, "above")
    legend.orientation = "horizontal"
    legend.spacing = 12
    items: list[Any] = list(legend.items)
    for item in items:
        item.label = value(shortened(item.label.value, _LETTERS_AT_MOST - _MARK))
    letters = [len(item.label.value) + _MARK for item in items]
    if sum(letters) > _LETTERS_AT_MOST:
        legend.spacing = 4
        legend.ncols = 2 if 2 * max(letters) <= _LETTERS_AT_MOST else 1
        drawn.height = (drawn.height or HEIGHT) + LEGEND_LINE * (-(-len(items) // legend.ncols) - 1)
    legend.border_line_color = None
    legend.background_fill_alpha = 0.0
    legend.location = "left"
    legend.padding = 0  # type: ignore[assignment]
    legend.label_text_font_size = "12px"
    legend.click_policy = "hide"


def shortened(text: str, letters: int) -> str:
    """Shorten a text to at most `letters` characters: an ellipsis replaces its middle."""
    if len(text) <= letters:
        return text
    kept = letters - 1
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


def source(**columns: Iterable[float | None] | Sequence[str]) -> ColumnDataSource:
    """Return the data of a chart by column: numbers as 32 bit floats (None is a gap), text as it is."""
    return ColumnDataSource({name: _column(list(values)) for name, values in columns.items()})


def _column(values: list[Any]) -> Any:
    if any(isinstance(value, str) for value in values):
        return values
    return array("f", [nan if value is None else value for value in values])


def plain_numbers(drawn: figure, *, powers: bool = False) -> None:
    """Write the numbers of the y axis as 0.5, 20 and 3k. `powers`: the axis has their decimal logarithms."""
    drawn.yaxis.formatter = CustomJSTickFormatter(args={"powers": powers}, code=_PLAIN)


def round_numbers(drawn: figure, *, powers: bool = False) -> None:
    """Label a logarithmic y axis with enough round numbers to read a value in any part of it.

    `powers`: the axis is linear, and has the decimal logarithms of the numbers.
    """
    drawn.yaxis.ticker = drawn.ygrid.ticker = CustomJSTicker(args={"powers": powers}, major_code=_ROUND)
    plain_numbers(drawn, powers=powers)


def curves_chart(curves: Sequence[tuple[str, str, Sequence[tuple[float, float]]]]) -> figure:
    """Return a chart of percentile curves, each a name, a colour and its points (1 / (1 - q), ms), over one another.

    Both axes are logarithmic: p90, p99 and p99.9 are equally far apart. There must be a curve, and points of each, in
    ascending order. Times below a microsecond are left out: they are as good as zero, which a logarithmic axis does not
    have.
    """
    longest = max(points[-1][0] for _, _, points in curves)
    drawn = chart("ms", x_axis_type="log", y_axis_type="log", x_range=(1, 1.3 * longest))
    ranks = _RANKS if longest >= 1000 else _RANKS_OF_FEW
    places = {place: rank for rank in ranks if (place := 100 / round(100 - rank, 6)) <= longest}
    drawn.xaxis.ticker = drawn.xgrid.ticker = FixedTicker(ticks=list(places))
    drawn.xaxis.major_label_overrides = {place: f"p{rank:g}" for place, rank in places.items()}
    drawn.xaxis.axis_label = "percentile"
    for name, colour, points in curves:
        data = source(
            x=[x for x, _ in points],
            y=[ms if ms >= _LOWEST_MS else None for _, ms in points],
        )
        line = drawn.line("x", "y", source=data, color=colour, line_width=2, legend_label=name)
        tooltips = [(name, "@y{0,0.00} ms"), ("percentile", "@x{custom}")]
        hover(drawn, line, tooltips, formatters={"@x": CustomJSHover(code=_RANK)})
    legend_above(drawn)
    return drawn
