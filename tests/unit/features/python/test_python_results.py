"""What a runner of a track's own may return, and what it is worth."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from esbench.errors import TrackError
from esbench.features.python.custom_runners import RunnerTurns, judge_result, returned_numbers
from esbench.load.recorder import NS, Recorder
from esbench.measure.slices import WholeTime
from esbench.measure.tally import MOST_RETURNED, Spread, Tally
from esbench.measure.verdict import Details, Verdict
from esbench.model import DEFAULT_CLUSTER, Operation, Task
from esbench.requests.exchange import Exhausted

WHERE = 'task "own"'


@pytest.mark.parametrize(
    ("returned", "verdict", "unit"),
    [
        (None, Verdict(1), "ops"),
        (True, Verdict(1), "ops"),
        (False, Verdict(0, "failed", "it returned False"), "ops"),
        (5, Verdict(5), "ops"),
        (2.5, Verdict(2.5), "ops"),
        (numpy.int64(6), Verdict(6), "ops"),
        ({"weight": numpy.int64(7), "success": numpy.bool_(True)}, Verdict(7), "ops"),
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


def test_numbers_under_names_of_its_own_are_what_a_runner_returned() -> None:
    result = {"weight": 30, "unit": "queries", "success": True, "recall": 0.5, "k": numpy.int64(10), "exact": True}
    assert returned_numbers(result | {"worst": None, "index": "vectors", "nan": math.nan}) == {"recall": 0.5, "k": 10.0}


def test_returned_numbers_are_spread_over_the_measured_requests() -> None:
    recorder = Recorder(WholeTime(0), is_open=False)
    for number, (warmup, recall) in enumerate([(True, 0.0), (False, 0.5), (False, 1.0)]):
        verdict = Verdict(details=Details(returned={"recall": recall, f"of-{number}": 1.0}))
        recorder.completed(0, 0, number * NS, number * NS + 1, warmup, verdict)
    measured = Tally()
    for second in recorder.closed_seconds(9 * NS):
        if not second.warmup:
            measured.merge(second.tally)
    assert measured.returned["recall"] == Spread(2, 1.5, 0.5, 1.0)
    assert list(measured.returned) == ["recall", "of-1", "of-2"]


def test_of_many_returned_names_the_first_ones_are_kept() -> None:
    tally, more = Tally(), Tally()
    for number in range(MOST_RETURNED + 5):
        more.add_returned(str(number), Spread(1, 1.0, 1.0, 1.0))
    tally.merge(more)
    assert list(tally.returned) == [str(number) for number in range(MOST_RETURNED)]


@pytest.mark.parametrize(
    "returned",
    [
        "done",
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
    assert "it returns nothing, true, a number, (weight, unit), or a dict" in str(raised.value)
    assert "\n" not in str(raised.value)


class OneRequest:
    """A runner that has completed from its first request on; one object serves all tasks."""

    completed = False

    async def __call__(self, es: object, params: object) -> None:
        self.completed = True


async def test_a_runner_that_an_earlier_task_completed_runs_once_in_each_task() -> None:
    runner = OneRequest()
    context: Any = SimpleNamespace(task=Task("t", Operation("o", "own")), params={}, where=WHERE)
    for _ in range(2):
        turns = RunnerTurns(context, runner, None, lambda _: None)
        assert turns.draw() == {}
        await turns.run({DEFAULT_CLUSTER: None}, {})
        with pytest.raises(Exhausted):
            turns.draw()
