"""Homes and nodes of node tests: every test has a home of its own, all share the machine's downloads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from esbench.engine.embedded import EmbeddedEngine, EmbeddedOptions


def home_in(folder: Path) -> Path:
    """An ESBENCH_HOME with nothing but the machine's cache of downloads: a node is downloaded once."""
    cache = Path(os.environ.get("ESBENCH_TEST_CACHE", "~/.esbench/cache")).expanduser()
    cache.mkdir(parents=True, exist_ok=True)
    home = folder / "home"
    home.mkdir()
    (home / "cache").symlink_to(cache)
    return home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = home_in(tmp_path)
    monkeypatch.setenv("ESBENCH_HOME", str(home))
    return home


@pytest.fixture(scope="module")
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A default node for the tests of one module, with what its FEATURES say a node must have."""
    home = home_in(tmp_path_factory.mktemp("node"))
    race_id = f"test-node-{os.getpid()}"
    engine = EmbeddedEngine(EmbeddedOptions(home=home, race_id=race_id, logs=home / "logs"))
    engine.require(getattr(request.module, "FEATURES", ()))
    try:
        yield engine.start().urls[0]
    finally:
        engine.stop()
