"""Every test has an ESBENCH_HOME of its own; node tests share the machine's download cache."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # below nohup it is ignored, and tests hang up what they start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def esbench_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "esbench-home"
    monkeypatch.setenv("ESBENCH_HOME", str(home))
    return home


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes that are not text are named by their length: packed ones hold the second at which they were made,

    and workers that collect in different seconds would disagree on the names of the tests.
    """
    return f"{len(val)}-bytes" if isinstance(val, bytes) and not val.isascii() else None
