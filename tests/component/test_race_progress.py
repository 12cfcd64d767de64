"""What `esbench race` says on stderr: a view on a terminal, JSON for programs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Races


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path)
    yield races
    races.end()


def test_every_line_is_json_also_that_of_the_error(null_server: NullServerFactory, races: Races) -> None:
    server = null_server({"rules": [{"path": "_search", "reply": {"status": 503}}]})
    outcome = races.run(server, "--progress=json", "--include-tasks=bulk,paced,found", "--telemetry=none")
    events = [json.loads(line) for line in outcome.stderr.splitlines()]
    assert outcome.code == 1
    bulk, paced = (
        next(each for each in events if each["event"] == "second" and each["task"] == name)
        for name in ("bulk", "paced")
    )
    assert (bulk["units"], bulk["unit"], bulk["target_per_s"]) == (500, "docs", None)
    assert paced["target_per_s"] == 100
    assert [each["task"] for each in events if each["event"] == "task"] == ["bulk", "paced", "found"]
    *_, over, error = (each for each in events if each["event"] in ("end", "message"))
    assert over["status"] == "failed"
    assert error["level"] == "error"
    assert error["text"].startswith('the race failed: task "found": HTTP 503')
    assert "bulk" in outcome.stdout


def test_a_terminal_gets_a_view_and_keeps_the_results(null_server: NullServerFactory, races: Races) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "esbench.cli.main", "race", f"--track-path={races.track}"]
    process = subprocess.Popen(
        [
            *command,
            f"--target-hosts={null_server().url}",
            "--include-tasks=paced",
            "--telemetry=none",
            "--track-params=period:2",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "ESBENCH_HOME": str(races.home), "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the end of a pty
        while read := os.read(ours, 65536):
            shown += read
    os.close(ours)
    stdout, _ = process.communicate(timeout=60)
    view = shown.decode()
    assert process.returncode == 0, view
    assert "step 1 of 1" in view
    assert " s left" in view
    assert "[1/1] paced: " in "".join(part.partition("m")[2] for part in view.split("\x1b["))
    assert "\x1b" not in stdout
    assert "Per second" in stdout
