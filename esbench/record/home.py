"""The home folder of esbench: records, caches, sessions."""

from __future__ import annotations

import os
from pathlib import Path

from esbench.errors.user_paths import user_path

_HOME = "ESBENCH_HOME"


def esbench_home() -> Path:
    """Return the folder that $ESBENCH_HOME names, by default ~/.esbench. It need not exist.

    Raises UsageError for a home folder that is not there.
    """
    return user_path(os.environ.get(_HOME, "").strip() or "~/.esbench", _HOME).absolute()
