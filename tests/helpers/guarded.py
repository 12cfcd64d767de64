"""Guards of nodes that are no servers: a process with a child, and what became of both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from races import golden_race, keep

from esbench.features.node.folders import Folders
from esbench.features.node.kept import KeptNode, KeptNodes, start_of

NODE = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("logs/pids").write_text(f"{__import__('os').getpid()} {child.pid}")
print("hello", flush=True)
time.sleep(600)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + NODE
Keep = Callable[..., KeptNode]


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
        [sys.executable, "-m", "esbench.features.node.guard"],
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


@contextmanager
def keeping(home: Path) -> Iterator[Keep]:
    """Start nodes with their guards, and release them as --keep-node does; at the end all are killed."""
    groups: list[int] = []
    kept = KeptNodes(home)

    def start(race_id: str, name: str = "node-0", code: str = NODE, minute: int = 0) -> KeptNode:
        if not (home / "races" / race_id).exists():
            keep(home, golden_race(race_id=race_id))
        logs = home / "races" / race_id / "logs" / name
        folder = Folders.of(home).nodes / race_id / name
        guard = start_guard({**plan_of(folder, code, logs), "kept": str(kept.file(race_id, name))})
        pids = pids_in(folder)
        groups.extend([pids[0], guard.pid])
        node = KeptNode(
            race_id=race_id,
            name=name,
            distribution="elasticsearch-7.10.2",
            url="http://127.0.0.1:20390",
            heap_bytes=512 << 20,
            kept_at=f"2026-11-21T10:{minute:02}:00.000Z",
            user=os.geteuid(),
            group=pids[0],
            processes={pid: start_of(pid) for pid in pids},
        )
        kept.add(node)
        guard.communicate(b"release\n", timeout=60)
        return node

    yield start
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
