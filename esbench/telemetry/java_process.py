"""What the Java process of a node of esbench's own was started with."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

from esbench.telemetry.device import Unseen


def file_in_command(pid: int, name: str) -> Path:
    """The path of a file of that name that an option of Java tells it to write; Unseen where there is none."""
    try:
        arguments = psutil.Process(pid).cmdline()
    except psutil.Error as error:
        raise Unseen(str(error)) from error
    option = re.compile(rf"\bfile(?:name)?=(/.*/{re.escape(name)})(?:[:,]|$)")
    for argument in arguments:
        if found := option.search(argument):
            return Path(found[1])
    raise Unseen(f"the process was not started with {name} (pid={pid})")
