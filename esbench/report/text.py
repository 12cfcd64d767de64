"""Tables for people: plain text with optional colours, and Markdown. The only module that uses tabulate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from esbench.errors.printable import printable
from esbench.record.figures import Notice
from esbench.report.table_model import GAIN, LOSS, Above, Cell, Column, Interval, ReportDocument, Table
from esbench.units import format_number

_COLOURS = {GAIN: "\x1b[32m", LOSS: "\x1b[31m"}
MARKDOWN = "github"
_RESET = "\x1b[0m"
_DOTS = "..."
_GAP = 2  # between the columns of a table
_SHORTEST = 16  # characters of a cell that is cut


def render_text(document: ReportDocument, *, colour: bool = False, columns: int | None = None) -> str:
    """Return the header, the tables and the notices as plain text; gains and losses green and red with `colour`.

    With `columns`, cells that may be cut are cut until their table fits that width, if that is possible. A main table
    without rows is left out. "" for a document without any of these.
    """
    parts = []
    if document.header:
        parts.append(_tabulate(document.header, "plain"))
    table = _tabulate(document.table, "simple", colour=colour, width=columns) if document.table.rows else ""
    if document.line or table:
        parts.append("\n".join(filter(None, (printable(document.line), table))))
    parts.extend(
        f"{printable(section.title)}\n{_tabulate(section.table, 'simple', width=columns)}"
        for section in document.sections
    )
    if document.notices:
        parts.append("\n".join(notice_line(notice) for notice in document.notices))
    return "\n\n".join(parts) + "\n" if parts else ""


def render_markdown(document: ReportDocument) -> str:
    """Return the header, the tables and the notices as Markdown: pipe tables and a list."""
    parts = []
    if document.header:
        parts.append(_tabulate(document.header, MARKDOWN))
    if document.line:
        parts.append(printable(document.line))
    if document.table.rows:
        parts.append(_tabulate(document.table, MARKDOWN))
    parts.extend(f"{printable(section.title)}\n\n{_tabulate(section.table, MARKDOWN)}" for section in document.sections)
    if document.notices:
        parts.append("\n".join(f"- {notice_line(notice)}" for notice in document.notices))
    return "\n\n".join(parts) + "\n" if parts else ""


def notice_line(notice: Notice) -> str:
    """Return a notice as one line: `!` before unusable figures, `note:` before explanations, `warning:` before
    others."""
    return f"{'!' if notice.unusable else 'note:' if notice.note else 'warning:'} {printable(notice.text)}"


def for_people(table: Table) -> Table:
    """Return a table without its columns for programs, and without flags that no row has."""
    shown = [
        not column.for_programs and (not column.flag or any(row[n] for row in table.rows))
        for n, column in enumerate(table.columns)
    ]
    rows = tuple(tuple(compress(row, shown)) for row in table.rows)
    return Table(tuple(compress(table.columns, shown)), rows, table.tones)


def cell_text(cell: Cell, column: Column) -> str:
    """Return a cell as text for people: numbers to about four digits, mappings as k:v pairs, None as "-"."""
    if cell is None:
        return "-"
    if column.flag:
        return "!" if cell else ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int | float):
        return _number_text(cell, column)
    if isinstance(cell, Mapping):
        return pairs_text(cell)
    return str(cell) if isinstance(cell, str | Above | Interval) else ", ".join(map(str, cell))


def _number_text(value: float, column: Column) -> str:
    sign = "+" if column.signed and value > 0 else ""
    if column.percent:
        return f"{sign}{value:.1f}%"
    return f"{sign}{format_number(value)}" if value else "0"


def pairs_text(mapping: Mapping[str, Any]) -> str:
    """Return a mapping as it could be typed on the command line: a:1,b:x,rates:1000/5000.

    Text is not put in quotes: a value with a comma could not be read again.
    """
    return ",".join(f"{name}:{_value(value)}" for name, value in mapping.items())


def _value(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "/".join(str(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def shortened(texts: Sequence[str], width: int) -> list[str]:
    """Return the texts with dots for a part of each that is longer than `width` characters.

    Texts that differ still do, even if that takes more than the width: names of tasks may differ at either end.
    """
    for room in range(width, max(map(len, texts), default=0)):
        kept = room - len(_DOTS)
        for tail in (kept // 2, kept * 2 // 3, kept // 3):
            cut = [
                text if len(text) <= room else f"{text[: kept - tail]}{_DOTS}{text[len(text) - tail :]}"
                for text in texts
            ]
            if len(set(cut)) == len(set(texts)):
                return cut
    return list(texts)


def _tabulate(table: Table, style: str, *, colour: bool = False, width: int | None = None) -> str:
    from tabulate import tabulate

    shown = for_people(table)
    titles = [printable(column.title) for column in shown.columns]
    texts: Sequence[Sequence[str]] = [
        [printable(cell_text(cell, column)) for cell, column in zip(row, shown.columns, strict=True)]
        for row in shown.rows
    ]
    if width is not None:
        texts = _fitted(titles, texts, shown.columns, width)
    rows: list[list[str]] = []
    for index, row in enumerate(texts):
        tone = shown.tones[index] if colour and shown.tones else ""
        rows.append([_styled(text, column, tone, style) for text, column in zip(row, shown.columns, strict=True)])
    if style == "simple":  # tabulate's own makes columns two wider than their titles
        rules = ["-" * widest for widest in _widths(titles, texts)]
        rows, titles, style = [titles, rules, *rows], [], "plain"
    return tabulate(
        rows,
        headers=titles if any(titles) or style == MARKDOWN else (),
        tablefmt=style,
        colalign=["right" if column.numeric else "left" for column in shown.columns],
        disable_numparse=True,
    )


def _widths(titles: Sequence[str], texts: Sequence[Sequence[str]]) -> list[int]:
    """Return the length of the longest text of each column."""
    return [max(map(len, column)) for column in zip(titles, *texts, strict=True)]


def _fitted(
    titles: Sequence[str], texts: Sequence[Sequence[str]], columns: Sequence[Column], width: int
) -> Sequence[Sequence[str]]:
    """Return the cells of a table; in a column that may be cut they are as short as it takes to fit the width."""
    widths = _widths(titles, texts)
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    if excess <= 0 or not texts:
        return texts
    cells = [
        shortened(column_texts, max(_SHORTEST, widest - excess)) if column.cuttable else column_texts
        for column_texts, widest, column in zip(zip(*texts, strict=True), widths, columns, strict=True)
    ]
    return list(zip(*cells, strict=True))


def _styled(text: str, column: Column, tone: str, style: str) -> str:
    if style == MARKDOWN:
        return text.replace("|", "\\|").replace("\n", " ")
    return f"{_COLOURS[tone]}{text}{_RESET}" if tone and column.toned else text
