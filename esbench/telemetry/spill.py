"""A file for readings of a long step, which would fill the memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

from esbench.record.private import private_folder


class SpillFile:
    """An overflow of series in a file without a name, so that nothing is left of it however its process ends.

    It is made in `folder`, a race's, once something is kept. Used by one thread.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._size = 0

    def append(self, content: bytes) -> int:
        """Keep content; returns its offset. Raises OSError if there is no room."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=private_folder(self._folder), buffering=0)  # noqa: SIM115
        offset = self._size
        written = 0
        while written < len(content):
            written += os.pwrite(self._file.fileno(), content[written:], offset + written)
        self._size += len(content)
        return offset

    def read(self, offset: int, length: int) -> bytes:
        """Return what was kept at an offset. Raises OSError."""
        assert self._file is not None
        return os.pread(self._file.fileno(), length, offset)

    def clear(self) -> None:
        """Give back the room of all that was kept; offsets begin at 0 again."""
        if self._file is not None and self._size:
            self._file.close()
            self._file = None
        self._size = 0
