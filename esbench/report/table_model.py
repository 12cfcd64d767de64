"""The output of commands as values: tables and the text around them, before they become text, Markdown, CSV or JSON.

A cell is text, a number, a mapping, a list, `Above`, `Interval`, `Figures` or None (not measured).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any, Generic, TypeVar

from esbench.record.figures import Figure, Notice, known
from esbench.units import format_number

GAIN, LOSS, NEUTRAL = "gain", "loss", ""
T = TypeVar("T")
_FAR_PERCENT = 10_000


@dataclass(frozen=True)
class Above:
    """A number that is only known to be above `value`."""

    value: float

    def __str__(self) -> str:
        return f"> {format_number(self.value)}"


@dataclass(frozen=True)
class Interval:
    """An interval from `low` to `high`, in percent; as text an end beyond 10,000 % is said to be beyond it."""

    low: float
    high: float

    def __str__(self) -> str:
        low, high = (f"{end:+.1f}" if end < _FAR_PERCENT else f"> +{_FAR_PERCENT}" for end in (self.low, self.high))
        return f"[{low}, {high}]"


@dataclass(frozen=True)
class Figures:
    """Numbers as they are printed, which are never wrapped."""

    text: str

    def __str__(self) -> str:
        return self.text


Cell = str | int | float | Above | Interval | Figures | Mapping[str, Any] | Sequence[Any] | None


def time_cell(times: Mapping[str, float] | None, name: str) -> Cell:
    """Return the cell of a figure of a distribution, in ms; None if it is missing.

    `times`: the distribution's figures by name ("p99", "mean") in ms. For a figure that falls among unsent and
    timed-out requests, it is the value that it is known to exceed.
    """
    if not times or name not in times:
        return None
    return Above(known(times, name)) if isinf(times[name]) else times[name]


def figure_cell(figure: Figure | None) -> Cell:
    """Return the cell of a figure: its value, or that it is above that value; None without a figure."""
    if figure is None:
        return None
    return Above(figure.value) if figure.exceeded else figure.value


@dataclass(frozen=True)
class Column:
    """A column of a table.

    `key` names it for programs. `signed`: text shows + too; `toned`: a row's tone colours this cell; `percent`: text
    shows one decimal and %; `numeric`: aligned to the right; `flag`: text shows "!" for true, and leaves out a column
    of false; `for_programs`: text and Markdown leave it out.

    A table that is wider than its terminal has its texts wrapped, and its numbers as they are. There, cells of a
    `cuttable` column are cut in their middle, those of one that is `below` stand below their row, and `spare` columns
    are left out: 1 first, 0 never.
    """

    title: str
    key: str
    signed: bool = False
    toned: bool = False
    percent: bool = False
    numeric: bool = False
    flag: bool = False
    for_programs: bool = False
    cuttable: bool = False
    below: bool = False
    spare: int = 0


@dataclass(frozen=True)
class ColumnOf(Column, Generic[T]):
    """A column of tables whose rows are things of one kind; `read` returns the cell of such a thing."""

    read: Callable[[T], Cell] = field(kw_only=True)


@dataclass(frozen=True)
class Table:
    """Rows of cells, one per column; `tones` is empty, or holds gain, loss or "" for each row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    tones: tuple[str, ...] = ()


def table_of(columns: Sequence[ColumnOf[T]], things: Iterable[T]) -> Table:
    """Return a table with a row for each of the things."""
    return Table(tuple(columns), tuple(tuple(column.read(thing) for column in columns) for thing in things))


def facts_table(facts: Iterable[tuple[Cell, ...]]) -> Table:
    """Return a table of facts, each a name and its value."""
    return Table((Column("", "name"), Column("", "value")), tuple(facts))


@dataclass(frozen=True)
class Section:
    """A further table with a title."""

    title: str
    table: Table


@dataclass(frozen=True)
class ReportDocument:
    """The output of a command: a table, what stands above it (names and their values, a line), and what stands below
    it.

    `lead` stands before all else, a sentence a line; lines `below` the table are a label and a text each. `overview` is
    a summary of the whole, which only JSON has, under that key; `version` that of its keys, 0 if it has none.
    """

    table: Table
    header: Table | None = None
    notices: tuple[Notice, ...] = ()
    sections: tuple[Section, ...] = ()
    line: str = ""
    overview: Mapping[str, Any] | None = None
    version: int = 0
    lead: str = ""
    below: tuple[tuple[str, str], ...] = ()
