"""Values that a track lists, in their order: the rows of a CSV file, the lines of a file, the values of a list.

Rows are dealt to the shares of a task by the slots of its clients, so that all workers together send each row once
before any row comes again.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from esbench.corpus.spec import SpecReader
from esbench.errors import TrackError, did_you_mean
from esbench.model import Variable
from esbench.requests.context import RequestContext
from esbench.requests.exchange import Exhausted

Row = tuple[bytes, ...]
UNIFORM, IN_ORDER, ONCE = "uniform", "in-order", "once"
_PICKS = (UNIFORM, IN_ORDER, ONCE)


def check_pick(reader: SpecReader) -> None:
    """Raise TrackError for a `pick` that listed values do not have."""
    if (pick := reader.take("pick", UNIFORM)) not in _PICKS:
        raise reader.error(f'"pick" cannot be {pick!r}', did_you_mean(str(pick), _PICKS))


def check_csv(reader: SpecReader) -> None:
    """Raise TrackError for keys that a CSV file cannot have."""
    check_pick(reader)
    reader.text("path")
    if len(delimiter := reader.text("delimiter", ",")) != 1 or delimiter in '"\r\n':
        raise reader.error(f'"delimiter" must be one character, not {delimiter!r}', 'say ";" or "\\t"')
    columns = reader.take("columns", None)
    if columns is not None and not (
        isinstance(columns, list) and columns and all(isinstance(name, str) and name for name in columns)
    ):
        raise reader.error(
            f'"columns" must be a list of names, not {columns!r}', "leave it out: the first row has them"
        )


def csv_rows(variable: Variable, fields: Sequence[str]) -> list[list[str]]:
    """Return the values of these columns of each row of a variable's CSV file; empty lines are no rows.

    The columns are those of its first row, or the variable's own. The format is that of RFC 4180, in UTF-8. Raises
    TrackError for a file that cannot be read, has no rows, lacks a column, or has a row of another length.
    """
    where = f'variable "{variable.name}"'
    path = str(variable.params["path"])
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=str(variable.params.get("delimiter", ",")), strict=True)
            rows = [(reader.line_num, row) for row in reader if row]
    except OSError as error:
        raise TrackError(f"cannot read {path}: {error.strerror}", where=where) from error
    except UnicodeDecodeError:
        raise TrackError(f"{path} is not UTF-8 text", where=where) from None
    except csv.Error as error:
        raise TrackError(f"line {reader.line_num} of {path} is not CSV: {error}", where=where) from None
    columns = variable.params.get("columns") or (rows.pop(0)[1] if rows else [])
    for line, row in rows:
        if len(row) != len(columns):
            what = f"line {line} of {path} has {len(row)} values, and there are {len(columns)} columns"
            raise TrackError(what, where=where)
    if not rows:
        raise TrackError(f"{path} has no rows", where=where, hint="its first row has the names of the columns")
    for name in fields:
        if name not in columns:
            raise TrackError(f'{path} has no column "{name}"', where=where, hint=did_you_mean(name, columns))
    places = [list(columns).index(name) for name in fields]
    return [[row[place] for place in places] for _, row in rows]


def drawing_in_order(rows: Sequence[Row], context: RequestContext, *, once: bool) -> Callable[[], Row]:
    """Return the draw of the rows of a task's share, in their order: each once, then Exhausted, or again and again.

    Row n is that of the share with the client slot n mod the task's clients; after the last row comes the first one.
    """
    numbers = _numbers(context.slots, context.task.clients)
    count = len(rows)

    def draw_once() -> Row:
        if (number := next(numbers)) >= count:
            raise Exhausted
        return rows[number]

    return draw_once if once else lambda: rows[next(numbers) % count]


def _numbers(slots: Sequence[int], clients: int) -> Iterator[int]:
    """Yield the whole numbers from 0 on whose rest modulo `clients` is one of the slots."""
    begin, own = 0, sorted(slots)
    while True:
        for slot in own:
            yield begin + slot
        begin += clients
