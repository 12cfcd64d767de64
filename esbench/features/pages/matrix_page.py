"""The page of a matrix of races."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bokeh.models import FixedTicker

from esbench.comparison.matrix import Matrix
from esbench.features.pages.charts import COLOURS, chart, hover, plain_numbers, source
from esbench.features.pages.page import Chart, Key, render_charts, render_page
from esbench.report.matrix import matrix_document

_FAR = 20  # from here on the lowest part of a linear axis cannot be read


def matrix_page(found: Matrix, columns: str) -> str:
    """Return a whole HTML document of the matrix; `columns` are the keys of its columns, say "param:documents"."""
    document, columns = matrix_document(found), columns.removeprefix("param:")
    body, script = render_charts("matrix.html.j2", document=document, charts=list(_charts(found, columns)))
    return render_page(f"{found.value} by {columns}", body, script)


def _charts(found: Matrix, columns: str) -> Iterator[Chart]:
    """Yield a chart of the rows that have figures, if the columns are numbers and there are colours for the rows."""
    numbers = [label for label in found.columns if not isinstance(label, str)]
    if len(numbers) < 2 or len(numbers) < len(found.columns) or len(found.rows) > len(COLOURS):
        return
    rows = [row for row in found.rows if any(found.cells.get((row, label)) for label in numbers)]
    if not rows:
        return
    values = [cell[0].value for cell in found.cells.values() if cell]
    scales: dict[str, Any] = {"x_axis_type": _scale(numbers), "y_axis_type": _scale(values)}
    drawn = chart(", ".join(found.units), height=320, x_axis_label=columns, **scales)
    legend = []
    for row, colour in zip(rows, COLOURS, strict=False):
        cells = [found.cells.get((row, label)) for label in numbers]
        data = source(x=numbers, y=[cell[0].value if cell else None for cell in cells])
        name = ", ".join(map(str, row))
        drawn.line("x", "y", source=data, color=colour, line_width=2)
        marks = drawn.scatter("x", "y", source=data, color=colour, size=7)
        hover(drawn, marks, [(name, "@y{0,0.[00]}"), (columns, "@x{0,0.[00]}")], mode="mouse")
        legend.append(Key(name, colour, "\N{BLACK CIRCLE}"))
    drawn.xaxis.ticker = drawn.xgrid.ticker = FixedTicker(ticks=numbers)
    drawn.xaxis.major_label_overrides = {number: f"{number}" for number in numbers}
    plain_numbers(drawn)
    yield Chart(drawn, f"{found.value} by {columns}", wide=True, legend=legend)


def _scale(values: Sequence[float]) -> str:
    return "log" if min(values) > 0 and max(values) > _FAR * min(values) else "linear"
