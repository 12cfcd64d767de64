"""Tables, documents and notices of the other formats as HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from esbench.record.figures import Notice
from esbench.report.table_model import Document, Table
from esbench.report.text import cell_text


def render_table(table: Table) -> str:
    """Return a table, in a box that scrolls if the page is too narrow; "" without rows."""
    if not table.rows:
        return ""
    shown = [
        n
        for n, column in enumerate(table.columns)
        if not column.for_programs and (not column.flag or any(row[n] for row in table.rows))
    ]
    head = "".join(f"<th{_kind(table, n)}>{escape(table.columns[n].title)}</th>" for n in shown)
    rows = []
    for index, row in enumerate(table.rows):
        tone = table.tones[index] if table.tones else ""
        cells = (f"<td{_kind(table, n, tone)}>{escape(cell_text(row[n], table.columns[n]))}</td>" for n in shown)
        rows.append(f"<tr>{''.join(cells)}</tr>")
    titles = f"<thead><tr>{head}</tr></thead>" if any(table.columns[n].title for n in shown) else ""
    return f'<div class="table"><table>{titles}<tbody>{"".join(rows)}</tbody></table></div>'


def render_document(document: Document) -> str:
    """Return the header, the tables and the notices of a document."""
    parts = [render_table(document.header) if document.header else "", render_table(document.table)]
    parts += [f"<h3>{escape(section.title)}</h3>{render_table(section.table)}" for section in document.sections]
    return "".join([*parts, render_notices(document.notices)])


def render_notices(notices: Iterable[Notice]) -> str:
    """Return notices as a list of sentences; those that forbid the use of figures come first."""
    worst_first = sorted(notices, key=lambda notice: (not notice.unusable, notice.note))
    items = [
        verdict_line("bad" if notice.unusable else "" if notice.note else "warning", "", notice.text)
        for notice in worst_first
    ]
    return verdict(items)


def verdict_line(level: str, title: str, text: str) -> str:
    """Return a sentence of a verdict as a list item; `level` is good, warning, bad or "" (neither)."""
    strong = f"<strong>{escape(title)}</strong>" if title else ""
    return f'<li class="{level}">{strong}{escape(text)}</li>'


def verdict(lines: Iterable[str]) -> str:
    """Return lines of `verdict_line` as a list; "" without any."""
    found = "".join(lines)
    return f'<ul class="verdict">{found}</ul>' if found else ""


def folded(title: str, html: str) -> str:
    """Return HTML that is folded away under a title until a click; "" without content."""
    return f"<details><summary>{escape(title)}</summary>{html}</details>" if html else ""


def _kind(table: Table, column: int, tone: str = "") -> str:
    found = table.columns[column]
    names = ["number"] * found.numeric + [tone] * (found.toned and bool(tone))
    return f' class="{" ".join(names)}"' if names else ""
