"""Drawing of lines at the lower end of a terminal, in place of those drawn before. The only module that uses rich.

The cursor stays visible, on the empty row below: nothing has to be put back, however the process ends. (rich's Live
hides it, and leaves pieces of its lines when a window becomes narrower.)
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TextIO

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from esbench.errors.printable import printable
from esbench.progress.frame import Line, Screen


def size_of(stream: TextIO) -> os.terminal_size:
    """Return the present columns and rows of the terminal behind a stream, not those of $COLUMNS.

    If that is no terminal, or one without a size: $COLUMNS and $LINES, else the terminal of stdout, else 80 and 24.
    """
    with suppress(OSError):
        size = os.get_terminal_size(stream.fileno())
        if size.columns and size.lines:  # zeros: the size was never set
            return size
    return shutil.get_terminal_size()


class Painter:
    """A region of lines on the terminal behind a stream. `size` returns the stream's columns and rows."""

    def __init__(self, stream: TextIO, size: Callable[[TextIO], os.terminal_size] = size_of) -> None:
        self._stream, self._size = stream, size
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._rows: list[int] = []  # the columns that each takes
        self._drawn: tuple[Sequence[Line], int] = ([], 0)

    @property
    def screen(self) -> Screen:
        """The present size of the terminal, whose window may have been resized."""
        columns, rows = self._size(self._stream)
        return Screen(columns, rows, self._console.options.ascii_only)

    def paint(self, above: Sequence[tuple[Line, bool]], region: Sequence[Line]) -> None:
        """Print lines, and the region below them in place of the region of the last call.

        `above`: lines that stay, each with True if it is cut to the terminal's width, not wrapped. Lines of the region
        are always cut. Writes nothing if nothing has changed.
        """
        width = self.screen.width
        if not above and self._drawn == (region, width):
            return
        with self._console:  # one write
            self._erase(width)
            for line, cut in above:
                self._print(line, width if cut else None)
            self._rows = [self._print(line, width) for line in region]
        self._drawn = (region, width)

    def _print(self, line: Line, width: int | None) -> int:
        """Print a line, or as much of it as fits; return the number of columns used."""
        text = Text.assemble(*((printable(text), style) for text, style in line))
        text.rstrip()
        if width is not None:
            text.truncate(width, overflow="crop" if self._console.options.ascii_only else "ellipsis")
        self._console.print(text)
        return text.cell_len

    def _erase(self, width: int) -> None:
        """Go back to the region's first row. If the window is narrower than before, its lines may have been wrapped."""
        rows = sum(max(1, -(-columns // width)) for columns in self._rows)
        clear = (ControlType.ERASE_IN_LINE, 2)
        up = ((ControlType.CURSOR_UP, 1), clear)
        self._console.control(Control(ControlType.CARRIAGE_RETURN, clear, *(up * rows)))
