"""How the workers of a task fared during its measurement."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import pytest

from esbench.load.health import Stretches, Watch
from esbench.measure.cpu_time import Usage
from esbench.measure.slices import WholeTime
from esbench.record.model import WorkerHealth

NS = 1_000_000_000
MS = 1_000_000
START = 77 * NS


def watch(before: dict[int, Usage] | None = None, stolen_s: dict[int, float] | None = None) -> Watch:
    return Watch(WholeTime(START), before or {}, stolen_s or {})


def health(step: Watch, begin_s: float, end_s: float, *workers: int) -> WorkerHealth:
    found = step.health(workers or (0,), START + round(begin_s * NS), START + round(end_s * NS))
    assert found is not None
    return found


def follow(step: Watch, seconds: Mapping[range, tuple[int, int, int]], worker: int = 0) -> None:
    """Tick once a second, a little late as workers do; ms of CPU, of run delay and of loop lag in each second."""
    cpu_ns = delay_ns = 0
    for stretch, (cpu_ms, delay_ms, lag_ms) in seconds.items():
        for second in stretch:
            cpu_ns, delay_ns = cpu_ns + cpu_ms * MS, delay_ns + delay_ms * MS
            step.tick(worker, START + (second + 1) * NS + 2 * MS, Usage(cpu_ns, delay_ns), lag_ms * MS)


def test_a_task_is_judged_by_its_own_window() -> None:
    """It kept its worker busy for ten seconds of a step of a hundred."""
    step = watch({0: Usage()})
    follow(step, {range(10): (800, 200, 15), range(10, 100): (50, 0, 0)})
    short, long = health(step, 0, 10), health(step, 0, 100)
    assert (short.busy_ratio, short.busy_above_ratio) == (pytest.approx(1, abs=0.01), pytest.approx(1, abs=0.01))
    assert (short.run_delay_ratio, short.run_delay_above_ratio) == (pytest.approx(0.2, abs=0.01), pytest.approx(1))
    assert (short.loop_lag_ratio, short.loop_lag_above_ratio) == (pytest.approx(0.015, abs=0.001), pytest.approx(1))
    assert short.loop_lag_ms == 15
    assert (long.busy_ratio, long.busy_above_ratio) == (pytest.approx(0.145, abs=1e-3), pytest.approx(0.1, abs=0.01))


def test_a_task_is_judged_by_its_own_workers() -> None:
    step = watch({0: Usage(), 1: Usage()})
    follow(step, {range(60): (970, 10, 30)}, worker=0)
    follow(step, {range(60): (20, 0, 1)}, worker=1)
    assert health(step, 0, 60, 1).busy_ratio == pytest.approx(0.02, abs=0.001)
    assert health(step, 0, 60, 1).loop_lag_ms == 1
    assert health(step, 0, 60, 0, 1).busy_ratio == pytest.approx(0.98, abs=0.001)  # the worst of them


def test_seconds_above_the_limit_are_seen_though_the_mean_is_below_it() -> None:
    """Sixty busy seconds, and one reply that is waited for as long."""
    step = watch({0: Usage()})
    follow(step, {range(60): (1000, 0, 0), range(60, 120): (0, 0, 0)})
    waited = health(step, 0, 120)
    assert (waited.busy_ratio, waited.busy_above_ratio) == (pytest.approx(0.5), pytest.approx(0.5, abs=0.01))


def test_what_was_before_the_window_is_left_out() -> None:
    step = watch({0: Usage(9 * NS, 500 * MS)})
    for second in range(1, 11):
        busy_s = min(second, 5)
        step.tick(0, START + second * NS, Usage((9 + busy_s) * NS, 500 * MS), 900 * MS if second <= 5 else MS)
    warm = health(step, 5, 10)
    assert (warm.busy_ratio, warm.busy_above_ratio, warm.loop_lag_ms) == (0, 0, 1)


def test_a_stretch_that_lies_partly_in_the_window_counts_in_part() -> None:
    step = watch({0: Usage()})
    step.tick(0, START + 2 * NS, Usage(NS), 0)
    assert health(step, 1, 4).busy_ratio == pytest.approx(0.5 / 3)


def test_a_tick_at_the_end_of_a_task_ends_a_stretch() -> None:
    """Two tasks of a worker, of which the second one has hardly anything to do."""
    step = watch({0: Usage()})
    follow(step, {range(1): (1000, 0, 0)})
    step.tick(0, START + 1400 * MS, Usage(1400 * MS), 0)
    step.tick(0, START + 2002 * MS, Usage(1400 * MS), 0)
    assert health(step, 0, 1.4).busy_ratio == pytest.approx(1, abs=0.01)
    assert health(step, 1.4, 2.4).busy_ratio == pytest.approx(0, abs=0.01)


def test_a_tick_more_than_there_are_seconds_does_not_add_to_loop_lag() -> None:
    step = watch()
    step.tick(0, START + NS, Usage(), 10 * MS)
    step.tick(0, START + 1200 * MS, Usage(), 10 * MS)
    assert health(step, 0, 1.2).loop_lag_ratio == pytest.approx(0.01)


def test_a_stall_of_several_seconds_is_one_tick() -> None:
    step = watch({0: Usage()})
    step.tick(0, START + 4 * NS, Usage(), 2 * NS)
    assert health(step, 0, 4).loop_lag_ratio == pytest.approx(0.5)


def test_a_worker_that_was_not_there_before_is_judged_from_its_first_tick_on() -> None:
    step = watch()
    step.tick(3, START + NS, Usage(90 * NS, 90 * NS), 0)
    step.tick(3, START + 2 * NS, Usage(91 * NS, 90 * NS), 0)
    assert health(step, 0, 2, 3).busy_ratio == pytest.approx(0.5)


def test_a_worker_that_never_ticked_is_left_out() -> None:
    assert health(watch({0: Usage()}), 0, 10) == WorkerHealth()


def test_steal_is_that_of_the_cpu_that_lost_most_in_the_window() -> None:
    step = watch(stolen_s={0: 10.0, 1: 3.0})
    for second in range(1, 21):
        step.stolen(START + second * NS, {0: 10.5, 1: 3.0 + max(0, second - 10) * 0.2})
    assert health(step, 10, 20).steal_ratio == pytest.approx(0.2)
    assert health(step, 10, 20).steal_above_ratio == 1
    assert health(step, 0, 10).steal_ratio == pytest.approx(0.05)


def test_a_cpu_that_was_not_there_before_is_left_out() -> None:
    step = watch(stolen_s={0: 1.0})
    step.stolen(START + 10 * NS, {0: 1.0, 7: 900.0})
    assert health(step, 0, 10).steal_ratio == 0


def test_totals_that_could_not_be_read_for_once_are_no_steal() -> None:
    step = watch(stolen_s={0: 9000.0})
    step.stolen(START + NS, {})
    step.stolen(START + 2 * NS, {0: 9000.5})
    assert health(step, 0, 2).steal_ratio == pytest.approx(0.25)


def test_a_window_under_a_second_is_not_judged() -> None:
    step = watch({0: Usage()})
    step.tick(0, START + 900 * MS, Usage(400 * MS, 400 * MS), 400 * MS)
    assert step.health((0,), START, START + NS - 1) is None


def test_a_day_takes_little_memory() -> None:
    stretches = Stretches()
    for second in range(86_400):
        stretches.add((second + 1) * 1000, 500_000 + second % 7)
    assert sum(part.itemsize * len(part) for part in vars(stretches).values() if isinstance(part, array)) == 8 * 86_400
    quiet = Stretches()
    for second in range(86_400):
        quiet.add((second + 1) * 1000, 0)
    assert sum(len(part) for part in vars(quiet).values() if isinstance(part, array)) == 2
