"""The compiled classes of the hot path count and hear the same as Python's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from esbench.load.hot import IS_COMPILED

LOOPS = 30
WHY_NOT = "no compiler where esbench was installed, or ESBENCH_PURE is set"


def outcomes(script: str, *arguments: int, pure: str) -> list[Any]:
    command = [sys.executable, str(Path(__file__).with_name(script)), *map(str, arguments)]
    env = {**os.environ, "ESBENCH_PURE": pure}
    if pure:  # a sanitizer has nothing to find in Python, which takes five times as long with it
        env = {name: text for name, text in env.items() if name not in ("LD_PRELOAD", "PYTHONMALLOC")}
    printed = subprocess.run(command, env=env, capture_output=True, check=True).stdout
    found = json.loads(printed)
    assert found["compiled"] is (not pure)
    return list(found["outcomes"])


@pytest.mark.skipif(not IS_COMPILED, reason=WHY_NOT)
@pytest.mark.parametrize("seed", range(3))
def test_compiled_and_python_classes_do_the_same(seed: int) -> None:
    both = (outcomes("hot_outcomes.py", seed, pure=pure) for pure in ("1", ""))
    for python, compiled in zip(*both, strict=True):
        assert compiled == python


@pytest.mark.skipif(not IS_COMPILED, reason=WHY_NOT)
@pytest.mark.parametrize("seed", range(3))
def test_loops_record_the_same_of_a_hostile_server_with_either(seed: int) -> None:
    python, compiled = (outcomes("loop_outcomes.py", seed, LOOPS, pure=pure) for pure in ("1", ""))
    for theirs, ours in zip(python, compiled, strict=True):
        assert ours == theirs
    good = sum(each["measured"]["service_time"] for each in compiled)
    failed = sum(sum(each["failures"].values()) for each in compiled)
    assert good > 20 * LOOPS and failed > 10 * LOOPS
