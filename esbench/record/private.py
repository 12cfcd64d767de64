"""Folders and files that only their owner can read, whatever the umask: records, sessions, locks, logs, documents."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO, Literal, cast


def private_folder(path: Path) -> Path:
    """Make a folder and its missing parents, which only their owner can enter; those that exist stay as they are.

    Returns `path`.
    """
    for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def process_name() -> str:
    """Return a name for files that this thread alone writes, also in a folder that several hosts share."""
    return f"{threading.get_native_id()}-{os.uname().nodename}"


def open_private(path: Path, mode: Literal["wb", "ab"]) -> BinaryIO:
    """Open a file for writing; if it is new, only its owner can read it."""
    return cast(BinaryIO, open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600)))
