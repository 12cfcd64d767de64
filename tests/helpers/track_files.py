"""Tracks for tests: written to a folder, loaded with the operation types of esbench."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from esbench.model import Challenge, Task, Track
from esbench.race.loading import load_with_python
from esbench.track.rendering import RenderContext

NOW = 1_735_689_600.0  # 2025-01-01
# With an operation that a parameter source of the track draws, and one that a runner of it runs.
PYTHON_TRACK = """
version: 2
indices: [{name: docs}]
operations:
  - {name: find, operation-type: search, param-source: mine, cache: true}
  - {name: own, operation-type: ping, depth: 2}
schedule:
  - operation: find
  - operation: own
"""


def context(version: str = "7.10.2", **params: Any) -> RenderContext:
    return RenderContext(params=params, distribution="elasticsearch", version=version, now=NOW)


def write_track(folder: Path, text: str, suffix: str = ".yml", **files: str) -> Path:
    """Write `shop/track.yml` and further files, whose names are given with `__` for `.` and `_in_` for `/`."""
    root = folder / "shop"
    root.mkdir(parents=True)
    for name, content in {f"track{suffix}": text, **files}.items():
        path = root.joinpath(*name.replace("__", ".").split("_in_"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def load(path: Path, *, test_mode: bool = False, version: str = "7.10.2", **params: Any) -> Track:
    own = context(version, **params)
    return load_with_python(path, own, path.parent, test_mode=test_mode).track


def task_named(owner: Track | Challenge, name: str) -> Task:
    challenge = owner.challenges[0] if isinstance(owner, Track) else owner
    return next(task for task in challenge.tasks if task.name == name)
