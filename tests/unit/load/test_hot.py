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


def outcomes(seed: int, pure: str) -> list[Any]:
    command = [sys.executable, str(Path(__file__).with_name("hot_outcomes.py")), str(seed)]
    printed = subprocess.run(command, env={**os.environ, "ESBENCH_PURE": pure}, capture_output=True, check=True).stdout
    found = json.loads(printed)
    assert found["compiled"] is (not pure)
    return list(found["outcomes"])


@pytest.mark.skipif(not IS_COMPILED, reason="no compiler where esbench was installed, or ESBENCH_PURE is set")
@pytest.mark.parametrize("seed", range(3))
def test_compiled_and_python_classes_do_the_same(seed: int) -> None:
    for python, compiled in zip(outcomes(seed, "1"), outcomes(seed, ""), strict=True):
        assert compiled == python
