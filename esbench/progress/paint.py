"""Draws lines at the lower end of a terminal, in place of those that it drew before. The only module that knows rich.

The cursor stays visible, on the empty row below: nothing has to be put back, however the process ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from esbench.progress.frame import Line, Screen


class Painter:
    """A region of lines on the terminal behind a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._rows: list[int] = []  # the columns that each takes
        self._drawn: tuple[Sequence[Line], int] = ([], 0)

    @property
    def screen(self) -> Screen:
        """What there is to draw on now: a window may have been resized."""
        size = self._console.size
        return Screen(size.width, size.height, self._console.options.ascii_only)

    def paint(self, above: Sequence[Line], region: Sequence[Line]) -> None:
        """Print lines, whole, and the region below them; nothing is written when nothing has changed."""
        width = self._console.width
        if not above and self._drawn == (region, width):
            return
        with self._console:  # one write
            self._erase(width)
            for line in above:
                self._console.print(Text.assemble(*line))
            self._rows = [self._print(line, width) for line in region]
        self._drawn = (region, width)

    def _print(self, line: Line, width: int) -> int:
        """Print as much of a line as fits; how many columns that took."""
        text = Text.assemble(*line)
        text.rstrip()
        text.truncate(width, overflow="ellipsis")
        self._console.print(text)
        return text.cell_len

    def _erase(self, width: int) -> None:
        """Go back to the region's first row. Since it was drawn, a narrower window may have wrapped its lines."""
        rows = sum(max(1, -(-columns // width)) for columns in self._rows)
        clear = (ControlType.ERASE_IN_LINE, 2)
        up = ((ControlType.CURSOR_UP, 1), clear)
        self._console.control(Control(ControlType.CARRIAGE_RETURN, clear, *(up * rows)))
