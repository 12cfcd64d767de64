"""Recorded arrivals and requests as files, and tasks that send them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bound import bound_operation

from esbench.model import Schedule, Task
from esbench.requests.recordings import read_recording, track_file


def arrivals_file(folder: Path, times_s: Sequence[float]) -> Path:
    path = folder / "searches.arrivals"
    path.write_text("".join(f"{at_s:.6f}\n" for at_s in times_s))
    return path


def requests_file(folder: Path, count: int, **keys: Any) -> Path:
    """Searches of /orders/_search?n=0, 1, 2 ..."""
    path = folder / "searches.requests"
    body = json.dumps({"query": {"match_all": {}}})
    lines = ({"method": "POST", "path": f"/orders/_search?n={number}", "body": body, **keys} for number in range(count))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def recorded_task(folder: Path, times_s: Sequence[float], *, clients: int, is_open: bool = True) -> Task:
    """A task that sends request n at time n; in a closed loop, one after the other."""
    operation = bound_operation(
        "searches", "recorded-requests", {"file": track_file(requests_file(folder, len(times_s)))}
    )
    schedule = Schedule(kind="recorded", recorded=read_recording(arrivals_file(folder, times_s)))
    return Task(
        "searches",
        operation,
        clients=clients,
        schedule=schedule if is_open else Schedule(),
        requests=len(times_s) if is_open else None,
    )
