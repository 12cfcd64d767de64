"""Guards of nodes that are no servers: a process with a child, and what became of both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NODE = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("logs/pids").write_text(f"{__import__('os').getpid()} {child.pid}")
print("hello", flush=True)
time.sleep(600)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + NODE


def plan_of(folder: Path, code: str, saved: Path, grace_s: float = 5.0) -> dict[str, Any]:
    (folder / "logs").mkdir(parents=True)
    return {
        "command": [sys.executable, "-c", code],
        "environment": dict(os.environ),
        "folder": str(folder),
        "console": str(folder / "logs" / "console.log"),
        "user": None,
        "logs": str(saved),
        "kept": str(saved.parent / "kept.json"),
        "grace_s": grace_s,
    }


def start_guard(plan: dict[str, Any]) -> subprocess.Popen[bytes]:
    guard = subprocess.Popen(
        [sys.executable, "-m", "esbench.engine.guard"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert guard.stdin is not None
    guard.stdin.write(json.dumps(plan).encode() + b"\n")
    guard.stdin.flush()
    return guard


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def pids_in(folder: Path) -> list[int]:
    wait_for(lambda: (folder / "logs" / "pids").exists() and (folder / "logs" / "pids").read_text().count(" "))
    return [int(pid) for pid in (folder / "logs" / "pids").read_text().split()]
