"""Progress as lines that a test reads, by a clock that it sets."""

from __future__ import annotations

import pytest
from followed import Clock

from esbench.progress.lines import LineProgress


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def progress(lines: list[str], clock: Clock) -> LineProgress:
    return LineProgress(lines.append, clock)
