"""The current folder may be a stranger's: no process that esbench starts imports a module from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from esbench.null_server.launch import NullServer

TRACK = {
    "version": 2,
    "indices": [{"name": "a"}],
    "corpora": [
        {
            "name": "made",
            "documents": [
                {"target-index": "a", "document-count": 100, "generate": {"fields": {"n": {"type": "sequence"}}}}
            ],
        }
    ],
    "schedule": [{"operation": {"operation-type": "bulk", "bulk-size": 10}}],
}


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "track.json").write_text(json.dumps(TRACK))
    for name in ("msgspec", "numpy", "psutil", "yaml"):
        (tmp_path / f"{name}.py").write_text(f'open("{tmp_path}/taken", "a").write("{name}\\n")')
    monkeypatch.chdir(tmp_path)
    with NullServer() as server:
        race = subprocess.run(
            [
                *(sys.executable, "-P", "-m", "esbench.cli.main"),
                "race",
                "--track-path=.",
                f"--target-hosts={server.url}",
            ],
            env={**os.environ, "ESBENCH_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
    assert not (tmp_path / "taken").exists()
    assert race.returncode == 0, race.stderr


def test_each_process_is_started_without_the_current_folder() -> None:
    package = Path(__file__).parents[2] / "esbench"
    assert [path for path in package.rglob("*.py") if 'sys.executable, "-m"' in path.read_text()] == []
