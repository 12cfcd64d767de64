"""Requests in esbench's own format, one JSON object a line (docs/reference/replay-log.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from esbench.errors import UsageError
from esbench.features.replay.entries import Entry


def own_line(arrival_s: float, entry: Entry, is_hashed: bool) -> str:
    """Return the line of a request, without a line break; keys without a value are left out."""
    try:
        moment = datetime.fromtimestamp(arrival_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        raise UsageError("a time of the log is out of range", where=f"{arrival_s:g} s since 1970") from None
    fields = {
        "@timestamp": moment,
        "method": entry.method,
        "path": entry.path,
        "body": entry.body,
        "took_ms": entry.took_ms,
        "status": entry.status,
        "hits": entry.hits,
        "hashed": is_hashed or None,
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None}, separators=(",", ":"))


@contextmanager
def new_log(path: Path) -> Iterator[IO[str]]:
    """Open a log that replaces the file once it is complete; on an error the file stays as it was."""
    where = f"--export-log={path}"
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=where) from error
    finally:
        part.unlink(missing_ok=True)
