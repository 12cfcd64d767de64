"""The table of verdicts: on a wide screen a line for each row, on a phone a block of three (style.css)."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from esbench.report.html.verdict_text import badge
from esbench.report.table_model import Cell, Column, Table
from esbench.report.text import cell_text

_VERDICT = "verdict"
_ORDER = (
    _VERDICT,
    "side",
    "task",
    "metric",
    "diff_percent",
    "interval_percent",
    "baseline",
    "contender",
    "unit",
    "note",
)
_TITLES = {"note": "Note"}  # a column without a title on a terminal


def verdict_table(table: Table, links: Mapping[str, str]) -> str:
    """Return the table of a comparison as HTML; `links` maps the name of a task to the anchor that it links to.

    A phone shows its rows and cells as blocks, which are no table to a screen reader unless their roles say so.
    """
    found = {column.key: n for n, column in enumerate(table.columns)}
    shown = [(found[key], table.columns[found[key]]) for key in _ORDER if key in found]
    titles = "".join(
        f'<th role="columnheader" scope="col"{_class(column)}>{escape(_TITLES.get(column.key, column.title))}</th>'
        for _, column in shown
    )
    lines = []
    for cells in table.rows:
        texts = [_text(cells[n], column, links) for n, column in shown]
        line = (f'<td role="cell"{_class(column)}>{text}</td>' for (_, column), text in zip(shown, texts, strict=True))
        lines.append(f'<tr role="row">{"".join(line)}</tr>')
    return (
        '<div class="table"><table class="verdicts" role="table">'
        f'<thead role="rowgroup"><tr role="row">{titles}</tr></thead>'
        f'<tbody role="rowgroup">{"".join(lines)}</tbody></table></div>'
    )


def _text(cell: Cell, column: Column, links: Mapping[str, str]) -> str:
    if column.key == _VERDICT:
        return badge(str(cell))
    text = escape(cell_text(cell, column))
    return f'<a href="#{links[text]}">{text}</a>' if column.key == "task" and text in links else text


def _class(column: Column) -> str:
    return f' class="{column.key}{" number" if column.numeric else ""}"'
