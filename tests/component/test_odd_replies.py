"""Whole races against a cluster whose replies are changed: benchmarks/odd_replies.py, with 200 of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "odd_replies.py"


def test_odd_replies_of_every_api_cost_neither_a_race_nor_its_record() -> None:
    command = [sys.executable, str(SCRIPT), "--replies=200", "--seed=41"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.endswith(": 0 tracebacks, 0 races that cannot be read")
    counts = re.match(r"(\d+) changed replies of (\d+) paths in \d+ races", last)
    assert counts is not None
    assert int(counts[1]) >= 200
    assert int(counts[2]) >= 5
