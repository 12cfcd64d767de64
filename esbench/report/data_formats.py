"""Documents for programs: CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from esbench.errors.printable import for_spreadsheet, printable_json
from esbench.report.table_model import Above, Cell, Figures, Interval, ReportDocument, Table
from esbench.report.text import pairs_text


def render_csv(table: Table) -> str:
    """Return the table alone as CSV: a line of keys, then numbers with all their digits; a value not measured is
    empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(for_spreadsheet(column.key) for column in table.columns)
    for row in table.rows:
        writer.writerow(_flat(cell) for cell in row)
    return out.getvalue()


def render_json(document: ReportDocument) -> str:
    """Return a document as JSON; a row is an object of its cells by column key.

    A document without a header is an array of its rows, without notices and sections; others are an object of `facts`,
    `rows`, `warnings` and, if there are any, `version`, `conclusion`, `overview` and `sections`.
    """
    rows = _rows(document.table)
    payload: Any = rows
    if document.header is not None:
        warnings = [{"text": notice.text, "unusable": notice.unusable} for notice in document.notices]
        overview = {} if document.overview is None else {"overview": document.overview}
        version = {"version": document.version, "conclusion": document.lead} if document.version else {}
        payload = {**version, "facts": _facts(document.header), **overview, "rows": rows, "warnings": warnings}
        if document.sections:
            payload["sections"] = [
                {"title": section.title, "rows": _rows(section.table)} for section in document.sections
            ]
    return printable_json(msgspec.json.format(msgspec.json.encode(payload), indent=2).decode()) + "\n"


def _rows(table: Table) -> list[dict[str, Any]]:
    return [{column.key: _plain(cell) for column, cell in zip(table.columns, row, strict=True)} for row in table.rows]


def _facts(header: Table) -> dict[str, Any]:
    keys = [column.key for column in header.columns[1:]]
    facts: dict[str, Any] = {}
    for name, *values in header.rows:
        plain = [_plain(value) for value in values]
        facts[str(name)] = plain[0] if len(plain) == 1 else dict(zip(keys, plain, strict=True))
    return facts


def _plain(cell: Cell) -> Any:
    if isinstance(cell, Interval):
        return [cell.low, cell.high]
    return str(cell) if isinstance(cell, Above | Figures) else cell


def _flat(cell: Cell) -> Any:
    plain = _plain(cell)
    if isinstance(plain, Mapping):
        plain = pairs_text(plain)
    elif isinstance(plain, Sequence) and not isinstance(plain, str):
        return ", ".join(str(_safe(each)) for each in plain)
    return _safe(plain)


def _safe(plain: Any) -> Any:
    return for_spreadsheet(plain) if isinstance(plain, str) else plain
