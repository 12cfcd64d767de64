"""How the workers fared while a step ran."""

from __future__ import annotations

import pytest

from esbench.load.health import Usage, Watch, WorkerHealth

NS = 1_000_000_000
MS = 1_000_000
START = 77 * NS


def watch(before: dict[int, Usage] | None = None, stolen_s: dict[int, float] | None = None) -> Watch:
    return Watch(START, before or {}, stolen_s or {})


def test_run_delay_is_what_came_on_top_while_the_step_ran() -> None:
    step = watch({0: Usage(9 * NS, 500 * MS), 1: Usage(NS, 100 * MS)})
    for second in range(1, 11):
        step.tick(0, Usage(9 * NS + second * 900 * MS, 500 * MS + second * 10 * MS), 0)
        step.tick(1, Usage(NS + second * 200 * MS, 100 * MS + second * 60 * MS), 0)
    health = step.health(START + 10 * NS, {})
    assert health.run_delay_ratio == pytest.approx(0.06)  # of the worst worker
    assert health.busy_ratio == pytest.approx(0.91)  # of the busiest


def test_a_first_step_is_judged_too() -> None:
    step = watch({0: Usage(0, 0)})
    step.tick(0, Usage(4500 * MS, 900 * MS), 0)
    health = step.health(START + 9 * NS, {})
    assert (health.run_delay_ratio, health.busy_ratio) == (pytest.approx(0.1), pytest.approx(0.6))


def test_a_worker_that_was_not_there_before_is_left_out() -> None:
    step = watch()
    step.tick(3, Usage(90 * NS, 90 * NS), 0)
    assert step.health(START + 10 * NS, {}) == WorkerHealth()


def test_steal_is_that_of_the_cpu_that_lost_most() -> None:
    step = watch(stolen_s={0: 10.0, 1: 3.0})
    assert step.health(START + 20 * NS, {0: 10.5, 1: 5.0}).steal_ratio == pytest.approx(0.1)


def test_a_cpu_that_was_not_there_before_is_left_out() -> None:
    assert watch(stolen_s={0: 1.0}).health(START + 10 * NS, {0: 1.0, 7: 900.0}).steal_ratio == 0
    assert watch().health(START + 10 * NS, {0: 9.0}).steal_ratio == 0


def test_loop_lag_is_the_sum_of_each_seconds_worst_over_the_time() -> None:
    step = watch()
    for lag_ms in (10, 30, 200, 0):
        step.tick(0, Usage(0, 0), lag_ms * MS)
        step.tick(1, Usage(0, 0), 1 * MS)
    health = step.health(START + 4 * NS, {})
    assert health.loop_lag_ratio == pytest.approx(0.06)
    assert health.loop_lag_ms == 200


def test_a_tick_more_than_there_are_seconds_does_not_add_to_loop_lag() -> None:
    step = watch()
    step.tick(0, Usage(), 10 * MS)
    step.tick(0, Usage(), 10 * MS)  # the task ended after 1.2 s
    assert step.health(START + 1200 * MS, {}).loop_lag_ratio == pytest.approx(0.01)


def test_a_step_under_a_second_is_not_judged() -> None:
    step = watch({0: Usage(0, 0)})
    step.tick(0, Usage(400 * MS, 400 * MS), 400 * MS)
    assert step.health(START + NS - 1, {}) == WorkerHealth()
