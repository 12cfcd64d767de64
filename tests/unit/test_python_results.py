"""What a runner of a track's own may return, and what it is worth."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from esbench.errors import TrackError
from esbench.operations.base import Verdict
from esbench.operations.python import judge_result

WHERE = 'task "own"'


@pytest.mark.parametrize(
    ("returned", "verdict", "unit"),
    [
        (None, Verdict(1), "ops"),
        (5, Verdict(5), "ops"),
        (2.5, Verdict(2.5), "ops"),
        ((500, "docs"), Verdict(500), "docs"),
        ({}, Verdict(1), "ops"),
        ({"weight": 3, "unit": "pages", "took": 7}, Verdict(3), "pages"),
        (SimpleNamespace(meta="of elasticsearch-py", body={"hits": {}}), Verdict(1), "ops"),
        (
            {"weight": 9, "unit": "docs", "success": False, "error-type": "bulk", "error-description": "3 refused"},
            Verdict(0, "bulk", "3 refused"),
            "docs",
        ),
        ({"success": False, "success-count": 4, "weight": 9}, Verdict(4, "failed"), "ops"),
        ({"success": False, "error-type": "transport", "http-status": 503}, Verdict(0, "HTTP 503 transport"), "ops"),
    ],
)
def test_a_result_is_a_verdict_and_a_unit(returned: Any, verdict: Verdict, unit: str) -> None:
    judged, counted, _ = judge_result(returned, 'runner "x"', WHERE)
    assert (judged, counted) == (verdict, unit)


@pytest.mark.parametrize(
    "returned",
    [
        "done",
        True,
        -1,
        float("nan"),
        [1, "ops"],
        (1, 2),
        (1, "ops", {}),
        ("docs", 5),
        {"weight": "5"},
        {"unit": ""},
        {"success": "yes"},
    ],
)
def test_nonsense_is_one_line_with_task_and_runner(returned: Any) -> None:
    with pytest.raises(TrackError) as raised:
        judge_result(returned, 'runner "x"', WHERE)
    assert str(raised.value).startswith('task "own": runner "x" returned ')
    assert "it returns nothing, a number, (weight, unit), or a dict" in str(raised.value)
    assert "\n" not in str(raised.value)
