"""The core without any feature: it races a cluster, lists and compares races, and says what is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from driver import NullServerFactory

import esbench

TRACK = '{"schedule": [{"operation": {"operation-type": "get", "index": "a", "id": "1"}, "requests": 20}]}'

NO_PAGES = 'esbench: the feature "pages" of esbench is not installed (install the whole package)\n'


@pytest.fixture
def core(tmp_path: Path) -> Path:
    left_out = shutil.ignore_patterns("features", "seams.py", "__pycache__")
    shutil.copytree(Path(esbench.__file__).parent, tmp_path / "esbench", ignore=left_out)
    (tmp_path / "track.json").write_text(TRACK)
    return tmp_path


def run(core: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "esbench", *words],
        cwd=core,
        env={**os.environ, "PYTHONPATH": str(core)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_core_races_lists_and_compares(core: Path, null_server: NullServerFactory) -> None:
    url = null_server().url
    for race_id in ("one", "two"):
        words = ("--track-path=track.json", f"--target-hosts={url}", f"--race-id={race_id}", "--quiet")
        raced = run(core, "race", *words)
        assert (raced.returncode, raced.stderr) == (0, "")
    refused = run(core, "race", "--track-path=track.json", f"--target-hosts={url}", "--html=page.html")
    assert (refused.returncode, refused.stderr) == (2, NO_PAGES)
    listed = run(core, "list", "races")
    assert [line.split()[0] for line in listed.stdout.splitlines()[2:]] == ["two", "one"]
    compared = run(core, "compare", "one", "two", "--format=json")
    assert compared.returncode == 0, compared.stderr
    page = run(core, "compare", "one", "two", "--html=page.html")
    assert (page.returncode, page.stderr) == (2, NO_PAGES)


def test_a_command_of_a_feature_says_that_it_is_not_installed(core: Path) -> None:
    asked = run(core, "calibrate")
    assert (asked.returncode, asked.stderr) == (
        2,
        'esbench: the feature "calibration" of esbench is not installed (install the whole package)\n',
    )


def test_rates_in_percent_of_a_capacity_need_the_feature_that_knows_it(
    core: Path, null_server: NullServerFactory
) -> None:
    (core / "track.json").write_text(TRACK.replace('"requests"', '"target-throughput": "50%", "requests"'))
    raced = run(core, "race", "--track-path=track.json", f"--target-hosts={null_server().url}", "--quiet")
    what = 'the feature "capacity" of esbench is not installed (install the whole package)'
    assert (raced.returncode, raced.stderr) == (2, f"esbench: {what}\n")
