"""Tables for people: plain text with optional colours, and Markdown. The only module that uses tabulate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, zip_longest
from textwrap import wrap
from typing import Any

from esbench.errors.printable import printable
from esbench.record.figures import Notice
from esbench.report.table_model import GAIN, LOSS, Above, Cell, Column, Figures, Interval, ReportDocument, Table
from esbench.units import format_number

_COLOURS = {GAIN: "\x1b[32m", LOSS: "\x1b[31m"}
MARKDOWN = "github"
_MARKDOWN_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", "|": "\\|", "\n": " "})
_RESET = "\x1b[0m"
_DOTS = "..."
_GAP = 2  # between the columns of a table
_NO_BREAK = "\u00a0"
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|s|ms|min)(?:\W|$))")  # a number stays with its unit
_INDENT = " " * 4  # of cells below their row
_SHORTEST = 16  # characters of a cell that is cut
# Characters of a text, and of each of its words, that stay on one line: while there are spare columns, and without any.
_KEPT_TOGETHER = ((24, 40), (0, 11))


_Line = Sequence[str]  # the texts of a line of a table, one for each column


@dataclass(frozen=True)
class _Laid:
    """A table as it is printed: the lines of its titles and of each row, and the lines `below` each row.

    `left_out` names the columns that found no room.
    """

    columns: Sequence[Column]
    titles: Sequence[_Line]
    rows: Sequence[Sequence[_Line]]
    below: Sequence[Sequence[str]]
    left_out: str = ""


def render_text(document: ReportDocument, *, colour: bool = False, columns: int | None = None) -> str:
    """Return the header, the tables and the notices as plain text; gains and losses green and red with `colour`.

    With `columns`, tables and lines are fitted to that width. A main table without rows is left out. "" for a document
    without any of these.
    """
    parts: list[str] = []
    lead = _filled(printable_lines(document.lead), columns)
    if document.header:
        parts += filter(None, [lead, _tabulate(document.header, "plain", width=columns)])
        lead = ""
    table = _tabulate(document.table, "simple", colour=colour, width=columns) if document.table.rows else ""
    if document.below:
        parts += filter(None, ["\n".join(filter(None, (lead, _filled(printable(document.line), columns)))), table])
        parts.append("\n".join(_labelled(document.below, columns)))
    elif document.line or table:
        parts.append("\n".join(filter(None, (lead, _filled(printable(document.line), columns), table))))
    parts.extend(
        f"{_filled(printable(section.title), columns)}\n{_tabulate(section.table, 'simple', width=columns)}"
        for section in document.sections
    )
    if document.notices:
        parts.append("\n".join(_filled(notice_line(notice), columns) for notice in document.notices))
    return "\n\n".join(parts) + "\n" if parts else ""


def render_markdown(document: ReportDocument) -> str:
    """Return the header, the tables and the notices as Markdown: pipe tables and a list."""
    parts = [f"**{_in_markdown(line)}**" for line in printable_lines(document.lead).splitlines()]
    if document.header:
        parts.append(_tabulate(document.header, MARKDOWN))
    if document.line:
        parts.append(_in_markdown(printable(document.line)))
    if document.table.rows:
        parts.append(_tabulate(document.table, MARKDOWN))
    parts.extend(
        f"{_in_markdown(printable(section.title))}\n\n{_tabulate(section.table, MARKDOWN)}"
        for section in document.sections
    )
    if document.below:
        parts.append("\n".join(f"- {label}: {_in_markdown(printable(text))}" for label, text in document.below))
    if document.notices:
        parts.append("\n".join(f"- {_in_markdown(notice_line(notice))}" for notice in document.notices))
    return "\n\n".join(parts) + "\n" if parts else ""


def printable_lines(text: str) -> str:
    """Return a text with its line breaks, and without other control characters."""
    return "\n".join(map(printable, text.split("\n")))


def _labelled(lines: Sequence[tuple[str, str]], width: int | None) -> Iterator[str]:
    """Yield the lines of texts with their labels, which are a column; a label stands once before texts that follow one
    another."""
    room, last = max(len(label) for label, _ in lines) + 1, ""
    for label, text in lines:
        first = "" if label == last else label
        parts = [printable(text)] if width is None else _wrapped(printable(text), max(_SHORTEST, width - room))
        for number, part in enumerate(parts):
            yield f"{first if number == 0 else '':{room}}{part}".rstrip()
        last = label


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
    return str(cell) if isinstance(cell, str | Above | Interval | Figures) else ", ".join(map(str, cell))


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

    laid = _laid_out(for_people(table), width)
    lines = [] if style == MARKDOWN or not any(map(any, laid.titles)) else list(laid.titles)
    if style == "simple":  # tabulate's own makes columns two wider than their titles
        lines.append(["-" * widest for widest in _widths([*laid.titles, *chain(*laid.rows)])])
    below: dict[int, Sequence[str]] = {}  # what stands below a line, by the line's number
    for index, row in enumerate(laid.rows):
        tone = table.tones[index] if colour and table.tones else ""
        lines += [[_styled(*cell, tone, style) for cell in zip(line, laid.columns, strict=True)] for line in row]
        below[len(lines) - 1] = laid.below[index]
    text = tabulate(
        lines,
        headers=[*map(_in_markdown, laid.titles[0])] if style == MARKDOWN else (),
        tablefmt=MARKDOWN if style == MARKDOWN else "plain",
        colalign=["right" if column.numeric else "left" for column in laid.columns],
        disable_numparse=True,
    )
    if any(below.values()):
        text = "\n".join(chain(*([line, *below.get(n, ())] for n, line in enumerate(text.split("\n")))))
    return f"{text}\n{laid.left_out}" if laid.left_out else text


def _laid_out(table: Table, width: int | None) -> _Laid:
    """Lay out a table to fit a terminal's width; None: each row is one line of any length.

    Empty columns go first, then some stand below their row, spare ones are left out, and texts are cut or wrapped.
    Numbers stay as they are: a table of many of them may be wider.
    """
    columns = table.columns
    titles = [printable(column.title) for column in columns]
    texts = [[printable(cell_text(*cell)) for cell in zip(row, columns, strict=True)] for row in table.rows]
    if width is None or not texts or _together(_widths([titles, *texts])) <= width:
        return _Laid(columns, [titles], [[row] for row in texts], [()] * len(texts))
    cells = list(zip(*texts, strict=True))
    wanted = [number for number, column in enumerate(columns) if any(cells[number])]
    below = [number for number in wanted if columns[number].below]
    beside = [number for number in wanted if number not in below] or [0]
    floors = [
        {number: _least_width(table, number, titles[number], cells[number], *most) for number in beside}
        for most in _KEPT_TOGETHER
    ]
    left_out: list[str] = []
    for number in sorted((number for number in beside if columns[number].spare), key=lambda n: columns[n].spare):
        if len(beside) > 1 and _together(floors[0][n] for n in beside) > width:
            beside.remove(number)
            left_out.append(titles[number])
    longest = {number: max(map(len, (titles[number], *cells[number]))) for number in beside}
    widths = [max(floors[-1][number], min(longest[number], width)) for number in beside]
    for floor in floors:
        widths = _shrunk(widths, [floor[number] for number in beside], width)
    laid = [
        [_wrapped(titles[number], room), *_fitted(cells[number], columns[number], room)]
        for number, room in zip(beside, widths, strict=True)
    ]
    heads, *rows = [list(zip_longest(*lines, fillvalue="")) for lines in zip(*laid, strict=True)]
    return _Laid(
        [columns[number] for number in beside],
        heads,
        rows,
        [[line for number in below for line in _beneath(titles[number], row[number], width)] for row in texts],
        _filled(f"left out: {', '.join(left_out)} (--wide shows them)", width) if left_out else "",
    )


def _widths(lines: Sequence[_Line]) -> list[int]:
    """Return the length of the longest line of text in each column."""
    return [max(len(line) for text in column for line in text.split("\n")) for column in zip(*lines, strict=True)]


def _together(widths: Iterable[int]) -> int:
    """Return the width of a table whose columns have these widths."""
    widths = tuple(widths)
    return sum(widths) + _GAP * (len(widths) - 1)


def _least_width(table: Table, number: int, title: str, texts: Sequence[str], text_most: int, word_most: int) -> int:
    """Return the width that a column needs for its numbers, for the first `text_most` characters of its texts, and for
    the first `word_most` of each word."""
    kept = min(max(map(len, title.split()), default=0), word_most)
    if table.columns[number].cuttable:
        return max(kept, *map(len, shortened(texts, _SHORTEST)))
    for row, text in zip(table.rows, texts, strict=True):
        if isinstance(row[number], int | float | Above | Interval | Figures):
            kept = max(kept, len(text))
        else:
            longest_word = max(map(len, text.split()), default=0)
            kept = max(kept, min(len(text), text_most), min(longest_word, word_most))
    return kept


def _shrunk(widths: Sequence[int], floors: Sequence[int], width: int) -> list[int]:
    """Return the widths of columns, the widest of them smaller, none below its floor, so that all fit the width."""
    shrunk = list(widths)
    while _together(shrunk) > width and any(map(int.__gt__, shrunk, floors)):
        _, widest = max((each, n) for n, each in enumerate(shrunk) if each > floors[n])
        shrunk[widest] -= 1
    return shrunk


def _fitted(texts: Sequence[str], column: Column, width: int) -> list[list[str]]:
    """Return the lines of each cell of a column that gets this width."""
    if column.cuttable:
        return [[text] for text in shortened(texts, width)]
    return [_wrapped(text, width) for text in texts]


def _beneath(title: str, text: str, width: int) -> list[str]:
    """Return the lines for a cell that stands below its row; none for an empty one."""
    if text in ("", "-"):
        return []
    return [f"{_INDENT}{line}" for line in _wrapped(f"{title}: {text}" if title else text, width - len(_INDENT))]


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, none longer than the width; words are kept whole if they fit it."""
    whole = [part for line in text.split("\n") for part in _parts(line, width)]
    return [part for each in whole for part in ([each] if len(each) <= width else wrap(each, max(1, width)))]


def _parts(line: str, width: int, indent: str = "") -> list[str]:
    """Return parts of a line that fit the width unless one is a longer word; parts after the first are indented."""
    options: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    bound = _BEFORE_UNIT.sub(_NO_BREAK, line)
    parts = wrap(bound, max(1, width), subsequent_indent=indent, **options)
    return [part.replace(_NO_BREAK, " ") for part in parts] or [""]


def _filled(text: str, width: int | None) -> str:
    """Return a text with line breaks between words, the further lines indented, so that it fits the width, if any."""
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _parts(line, width, "  "))


def _in_markdown(text: str) -> str:
    """Return a text on one line, without what Markdown takes for HTML or for the end of a cell."""
    return text.translate(_MARKDOWN_ESCAPES)


def _styled(text: str, column: Column, tone: str, style: str) -> str:
    if style == MARKDOWN:
        return _in_markdown(text)
    return f"{_COLOURS[tone]}{text}{_RESET}" if tone and column.toned else text
