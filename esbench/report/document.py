"""What a command shows, as values: tables and what stands around them, before they become text, Markdown, CSV or JSON.

A cell is text, a number, a mapping, `Above` or None (not measured).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esbench.summary import Notice
from esbench.units import format_number

GAIN, LOSS, NEUTRAL = "gain", "loss", ""


@dataclass(frozen=True)
class Above:
    """A number that is only known to be above `value`."""

    value: float

    def __str__(self) -> str:
        return f"> {format_number(self.value)}"


Cell = str | int | float | Above | Mapping[str, Any] | Sequence[str] | None


@dataclass(frozen=True)
class Column:
    """`key` names it for programs. `signed`: text shows + too; `toned`: a row's tone colours this cell;
    `percent`: text shows one decimal and %; `flag`: text shows "!" for true, and leaves out a column of false."""

    title: str
    key: str
    signed: bool = False
    toned: bool = False
    percent: bool = False
    numeric: bool = False
    flag: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells, one per column; `tones`, where there are any, holds gain, loss or "" for each row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    tones: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A further table under a title of its own."""

    title: str
    table: Table


@dataclass(frozen=True)
class Document:
    """A table with what stands above it (names and their values) and below it."""

    table: Table
    header: Table | None = None
    notices: tuple[Notice, ...] = ()
    sections: tuple[Section, ...] = ()


UNUSABLE = Column("", "unusable", flag=True)
