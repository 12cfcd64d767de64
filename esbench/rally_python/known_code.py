"""The Python code of tracks that this user has met: code that is new is named on the screen before it runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from esbench.record.private import open_private, private_folder
from esbench.track.python_part import python_entry, python_files


def name_new_code(folder: Path, home: Path, say: Callable[[str], None]) -> None:
    """Say which file of a track's folder runs as code, the first time that its code is met, and when it has changed.

    The digests of known code are in the file `known-code` of esbench's home, one a line.
    """
    digest = hashlib.sha256()
    for file in python_files(folder):
        digest.update(f"{os.path.relpath(file, folder)}\0".encode() + file.read_bytes())
    known = home / "known-code"
    if known.is_file() and digest.hexdigest() in known.read_text("utf-8").split():
        return
    say(f"the track runs its own Python: {python_entry(folder)} (--no-python refuses it)")
    with suppress(OSError):  # then it is named again
        private_folder(home)
        with open_private(known, "ab") as lines:
            lines.write(f"{digest.hexdigest()}\n".encode())
