"""Every test has an ESBENCH_HOME of its own; node tests share the machine's download cache."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # below nohup it is ignored, and tests hang up what they start


@pytest.fixture(autouse=True)
def esbench_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "esbench-home"
    monkeypatch.setenv("ESBENCH_HOME", str(home))
    return home
