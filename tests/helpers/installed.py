"""Programs that a machine may lack: what needs one is skipped, with the reason."""

from __future__ import annotations

import shutil

import pytest


def need(program: str) -> None:
    """Skip the test that calls this if the program is not installed."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
