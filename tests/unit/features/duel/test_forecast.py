"""The line before a duel says what its time should settle, and what would settle the rest."""

from __future__ import annotations

import math

from esbench.features.duel.forecast import Expected, Forecast
from esbench.features.duel.looks import SettlingAim

AIM = SettlingAim(math.log(1.1), 12, 6)
CALM = Expected(0.02, 0.03)


def test_the_line_says_rounds_their_time_and_what_they_should_settle() -> None:
    tasks = {"get": CALM, "term": CALM, "agg": Expected(0.03, None, 400.0), "bulk": Expected(0.15)}
    forecast = Forecast(AIM, tasks, round_s=140.0, budget_s=900.0)
    assert forecast.text == "6 rounds of 2 min 20 s, 14 min: expected to settle 10 % for 3 of 4 tasks, p99 for 2"
    assert list(forecast.remedies()) == [
        "bulk: more than 50 rounds, or a quieter machine",
        "p99 of agg: --task-time=7m",
    ]


def test_rounds_that_the_time_does_not_hold_are_said_with_a_longer_budget() -> None:
    forecast = Forecast(AIM, {"get": Expected(0.05)}, round_s=140.0, budget_s=900.0)
    assert not forecast.settled
    (remedy,) = forecast.remedies()
    assert remedy == f"get: about {AIM.needed(0.05)} rounds, --budget={math.ceil(AIM.needed(0.05) * 140 / 60)}m"


def test_a_time_without_a_verdict_settles_nothing() -> None:
    forecast = Forecast(AIM, {"get": CALM}, round_s=300.0, budget_s=900.0, is_whole=False)
    assert forecast.text == "3 rounds of 5 min, 15 min at least: expected to settle 10 % for 0 of 1 tasks, p99 for 0"


def test_rounds_that_the_user_asks_for_are_raced() -> None:
    forecast = Forecast(AIM, {"get": CALM}, round_s=140.0, budget_s=None, fixed=9)
    assert forecast.looks == (9,)
