"""Homes and nodes of node tests: every test has a home of its own, all share the machine's downloads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from esbench.cluster.client import Cluster
from esbench.features.node.embedded import EmbeddedEngine
from esbench.race.node_options import EmbeddedOptions


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test of a node may have to download it first."""
    for item in items:
        if item.get_closest_marker("node") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))


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


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEngine]:
    """The default node, one for all tests."""
    home = home_in(tmp_path_factory.mktemp("node"))
    engine = EmbeddedEngine(EmbeddedOptions(home=home, race_id=f"test-node-{os.getpid()}", logs=home / "logs"))
    try:
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="session")
def node_url(node: EmbeddedEngine) -> str:
    return node.start().urls[0]


@pytest.fixture(scope="module")
def url(request: pytest.FixtureRequest, node: EmbeddedEngine) -> str:
    """Where the default node is: it has what the module's FEATURES say that it must have, and no index yet."""
    node.require(getattr(request.module, "FEATURES", ()))
    started: str = request.getfixturevalue("node_url")
    with Cluster([started]) as cluster:
        cluster.request("DELETE", "/*")
    return started
