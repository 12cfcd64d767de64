"""Sums of files: two files are the same if their sums are, whatever their sizes and times say."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import astuple, dataclass
from pathlib import Path

from esbench.record.private import private_folder, process_name

_KEPT_BYTES = 16 << 20  # from this size on: a smaller file is read in less than a tenth of a second
_SETTLED_NS = 2_000_000_000  # since its last change: a later one may have the same time on coarse clocks


@dataclass(frozen=True)
class _State:
    """The state of a file, which any change of its content changes: no program can set the last time (ctime)."""

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> _State:
        found = path.stat()
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


class FileSums:
    """The sha256 of files. Those of large ones are kept in a folder, and read again only after a change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, path: Path) -> str:
        """Return the sha256 of a file, in hexadecimal digits. Raises OSError if it cannot be read."""
        state = _State.of(path)
        kept = self._folder / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"
        if state.size_bytes >= _KEPT_BYTES and (known := _read(kept, state)):
            return known
        with path.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        is_settled = time.time_ns() - state.ctime_ns > _SETTLED_NS
        if state.size_bytes >= _KEPT_BYTES and is_settled and _State.of(path) == state:
            written = private_folder(self._folder) / f"{kept.name}.{process_name()}"
            written.write_text(json.dumps([*astuple(state), found]))
            written.replace(kept)
        return found


def _read(kept: Path, state: _State) -> str | None:
    """Return the sum that was kept of a file in this state; None without one."""
    try:
        *then, found = json.loads(kept.read_text())
    except (OSError, ValueError, TypeError):
        return None
    return found if then == [*astuple(state)] and isinstance(found, str) else None
