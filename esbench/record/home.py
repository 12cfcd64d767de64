"""The home folder of esbench: records, caches, sessions."""

from __future__ import annotations

import os
from pathlib import Path


def esbench_home() -> Path:
    """Return the folder that $ESBENCH_HOME names, by default ~/.esbench. It need not exist."""
    named = os.environ.get("ESBENCH_HOME", "").strip()
    return Path(named).expanduser().absolute() if named else Path.home() / ".esbench"
