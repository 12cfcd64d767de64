"""Reading of stored files, which may come from strangers: regular files alone, and bounded in size and nesting."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from esbench.errors import RecordError

_MOST_BYTES = 100_000_000
_LONGEST_LINE_BYTES = 10_000_000
_DEEPEST = 200  # levels; some of what shows a record goes a call deeper for each


def open_stored(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError also for what is no regular file: a pipe or a device has no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait for its writer
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return os.fdopen(descriptor, "rb")


def read_stored(path: Path) -> bytes:
    """Return the content of a file. Raises ValueError for one that is too large, OSError as `open_stored`."""
    with open_stored(path) as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES // 1_000_000} MB")
    return content


def stored_lines(path: Path, *, finished: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines of a file with their numbers; a last line without its end is left out.

    Raises RecordError for a line that is too long, and for a last line without its end if the file was `finished`;
    OSError as `open_stored`.
    """
    with open_stored(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE_BYTES), b""), 1):
            if line.endswith(b"\n"):
                yield number, line
            elif len(line) == _LONGEST_LINE_BYTES:
                what = f"a line is longer than {_LONGEST_LINE_BYTES // 1_000_000} MB"
                raise RecordError(what, where=f"{path}:{number}")
            elif finished:
                raise RecordError("the end of the last line is missing: the file was damaged", where=f"{path}:{number}")


def check_nesting(document: Any, deepest: int = _DEEPEST) -> None:
    """Raise ValueError for a decoded JSON document that is nested deeper than `deepest` levels."""
    level = [document]
    for _ in range(deepest):
        inner = [list(outer.values()) if isinstance(outer, dict) else outer for outer in level]
        level = [value for values in inner if isinstance(values, list) for value in values]
    if level:
        raise ValueError(f"it is nested deeper than {deepest} levels")


def check_numbers(document: Any) -> None:
    """Raise OverflowError if a whole number of a decoded JSON document is beyond floats, which figures are made of."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, int):
            float(value)
        elif isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)


@contextmanager
def reading(file: Path, hint: str = "") -> Iterator[None]:
    """Turn whatever is wrong with a file into a RecordError that names it."""
    try:
        yield
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}", where=str(file)) from error
    except (ValueError, OverflowError) as error:  # msgspec's errors are ValueErrors, and so is a newer schema
        raise RecordError(str(error), where=str(file), hint=hint) from error
    except RecursionError as error:
        raise RecordError("it is nested too deeply", where=str(file), hint=hint) from error
