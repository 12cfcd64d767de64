"""The standard streams of the command. Their reader may go away, which changes nothing but what is seen."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from pathlib import Path
from typing import Any, TextIO

from esbench.errors import EsbenchError

_GONE = (errno.EPIPE, errno.EIO)  # the reader of a pipe; a terminal that was closed


class _Output(io.FileIO):
    """A descriptor whose writes are dropped once they fail, with an EsbenchError if they have a reader.

    `is_needless`: without an error in any case.
    """

    def __init__(self, descriptor: int, *, is_needless: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_needless = is_needless

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            is_missed = not (self._is_needless or self._has_lost_its_reader(error))
            self._drop()
            if is_missed:
                raise EsbenchError(f"cannot be written: {error.strerror}", where="stdout") from error
            return memoryview(data).nbytes

    def _has_lost_its_reader(self, error: OSError) -> bool:
        # of a file, EIO is a fault of the disk
        return error.errno in _GONE and not stat.S_ISREG(os.fstat(self.fileno()).st_mode)

    def _drop(self) -> None:
        """Lead to /dev/null, so that what a stream still holds is not tried again when Python exits."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def open_standard_streams() -> None:
    """Make stdin, stdout and stderr usable, whatever they are.

    One that is closed (`>&-`) is /dev/null: otherwise the next file that is opened would get its descriptor, and child
    processes would print into it. What is written to stdout or stderr is dropped, without an error, once the reader of
    the pipe has gone or the terminal is closed. An exit code says what the command found, so it does not depend on who
    is still there to read. Other faults of stdout, such as a full disk, are an EsbenchError.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = _output(sys.stdout, 1, is_needless=False)
    sys.stderr = _output(sys.stderr, 2, is_needless=True)  # a full disk below it must not end a race


def _output(stream: TextIO | None, descriptor: int, *, is_needless: bool) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return Path(os.devnull).open("w")
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(descriptor, is_needless=is_needless)),
        encoding=stream.encoding,
        errors="backslashreplace",  # a letter that the locale lacks must not cost a result
        line_buffering=stream.line_buffering or stream.write_through,
    )
