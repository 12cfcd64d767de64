"""`esbench race --install-dependencies`: what a track's own code imports is there for the race and for its workers."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from racing import Races

from esbench.null_server import NullServer

CODE = """
import esbench_demo_library

async def ping(es, params):
    await es.perform_request(method="GET", path="/")
    return {"weight": esbench_demo_library.WEIGHT, "unit": "pings"}

def register(registry):
    registry.register_runner("ping", ping, async_runner=True)
"""


@pytest.fixture
def races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Races]:
    """Races of a track that needs a package, which pip can get without a network."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    wheel = tmp_path / "esbench_demo_library-1.0-py3-none-any.whl"
    info = "esbench_demo_library-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("esbench_demo_library.py", "WEIGHT = 3\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: esbench_demo_library\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    races = Races(tmp_path)
    (races.track / "track.yml").write_text(
        f'dependencies: ["esbench_demo_library @ {wheel.as_uri()}"]\n'
        "schedule: [{operation: {operation-type: ping}, iterations: 4}]\n"
    )
    (races.track / "track.py").write_text(CODE)
    yield races
    races.end()


def test_missing_package_is_named_and_then_installed_for_the_workers_too(
    null_server: Callable[..., NullServer], races: Races
) -> None:
    server = null_server()
    refused = races.run(server, "--quiet")
    assert refused.code == 2
    assert f"{races.track}/track.yml:1: the track needs the Python package esbench_demo_library" in refused.error
    assert "--install-dependencies" in refused.error

    raced = races.run(server, "--install-dependencies")
    assert raced.code == 0, raced.stderr
    assert "installing esbench_demo_library" in raced.stderr
    (task,) = races.record().tasks
    assert (task.requests, task.units, task.unit) == (4, 12, "pings")

    again = races.run(server)
    assert again.code == 0, again.stderr
    assert "installing" not in again.stderr
