"""When requests are due: the integral of the rate, the same whatever the number of workers."""

from __future__ import annotations

import math
from itertools import islice, pairwise, takewhile

import pytest

from esbench.errors import UsageError
from esbench.measure.schedule import NS, arrival_seed, arrivals, due_times, rate_segments, rates, stages_duration_s
from esbench.model import Schedule, Stage
from esbench.units import Rate


def at(value: float, unit: str = "ops", **keys: object) -> Schedule:
    return Schedule(rate=Rate(value, unit), **keys)  # type: ignore[arg-type]


def due(schedule: Schedule, count: int, seed: int = 1, docs: float = 1.0) -> list[int]:
    """The first due times, of a task with one client."""
    times = arrivals(schedule, seed=seed, clients=1, slots=(0,), per_request={"ops": 1.0, "docs": docs})
    return list(islice(times, count))


def before(schedule: Schedule, seconds: float, seed: int = 1) -> int:
    """How many arrivals are due in the first seconds."""
    times = arrivals(schedule, seed=seed, clients=1, slots=(0,))
    return sum(1 for _ in takewhile(lambda ns: ns < seconds * NS, times))


STAGES = Schedule(stages=(Stage(2, Rate(100, "ops")), Stage(1, Rate(400, "ops")), Stage(3, Rate(50, "ops"))))


@pytest.mark.parametrize(("rate", "gap_ns"), [(1, NS), (1000, NS // 1000), (0.5, 2 * NS), (50_000, 20_000)])
def test_deterministic_arrivals_are_evenly_spaced_from_the_start(rate: float, gap_ns: int) -> None:
    assert due(at(rate), 5) == [0, gap_ns, 2 * gap_ns, 3 * gap_ns, 4 * gap_ns]


def test_a_deterministic_schedule_does_not_drift() -> None:
    assert due(at(3), 300_001)[-1] == pytest.approx(100_000 * NS, abs=100)


def test_poisson_arrivals_are_the_same_for_the_same_seed_only() -> None:
    schedule = at(1000, kind="poisson")
    assert due(schedule, 100, seed=7) == due(schedule, 100, seed=7)
    assert due(schedule, 100, seed=7) != due(schedule, 100, seed=8)


def test_poisson_gaps_are_exponential() -> None:
    gaps = [(b - a) / NS for a, b in pairwise(due(at(1000, kind="poisson"), 20_001))]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(0.001, rel=0.03)
    assert math.sqrt(variance) == pytest.approx(mean, rel=0.05)
    assert sum(gap > mean for gap in gaps) / len(gaps) == pytest.approx(math.exp(-1), abs=0.02)


def test_a_ramp_up_is_part_of_the_rate() -> None:
    schedule = at(100, ramp_up_s=10)
    times = due(schedule, 600)
    assert times[0] == 0
    # n = rate / (2 * ramp) * t^2
    assert times[125] == pytest.approx(5 * NS, abs=2)
    assert times[500] == pytest.approx(10 * NS, abs=2)
    assert times[501] - times[500] == pytest.approx(NS // 100, abs=2)
    assert all(a < b for a, b in pairwise(times))


def test_a_poisson_ramp_up_has_half_of_the_arrivals_in_it() -> None:
    counts = [before(at(100, kind="poisson", ramp_up_s=10), 10, seed) for seed in range(40)]
    assert sum(counts) / 40 == pytest.approx(500, abs=4 * math.sqrt(500 / 40))


def test_stages_follow_one_another_and_end() -> None:
    times = due(STAGES, 10_000)
    assert len(times) == 200 + 400 + 150
    assert times[199] == 1_990_000_000
    assert times[200:202] == [2_000_000_000, 2_002_500_000]
    assert times[600:602] == [3_000_000_000, 3_020_000_000]
    assert times[-1] == 5_980_000_000


@pytest.mark.parametrize("kind", ["deterministic", "poisson"])
@pytest.mark.parametrize("schedule", [at(130), at(90, ramp_up_s=4), STAGES], ids=["constant", "ramp-up", "stages"])
def test_the_number_of_arrivals_is_the_integral_of_the_rate(schedule: Schedule, kind: str) -> None:
    schedule = Schedule(kind, schedule.rate, schedule.ramp_up_s, schedule.stages)
    for seconds in (0.5, 2, 3.3, 6):
        expected = 0.0
        for segment in rate_segments(schedule):
            length_s = min(seconds, segment.end_s) - segment.start_s
            if length_s > 0:
                slope = (segment.rate_end - segment.rate_start) / (segment.end_s - segment.start_s)
                expected += segment.rate_start * length_s + slope * length_s**2 / 2
        tolerance = 1 if kind == "deterministic" else 4 * math.sqrt(expected)
        assert before(schedule, seconds) == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("kind", ["deterministic", "poisson"])
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_the_arrivals_of_all_workers_together_are_the_schedule(kind: str, workers: int) -> None:
    clients = 8
    schedule = at(1000, kind=kind, ramp_up_s=1)
    whole = list(islice(arrivals(schedule, seed=3, clients=clients, slots=tuple(range(clients))), 2000))
    last_ns = whole[-1]
    parts = []
    for worker in range(workers):
        slots = tuple(range(worker, clients, workers))
        part = arrivals(schedule, seed=3, clients=clients, slots=slots)
        parts.append(list(takewhile(lambda ns: ns <= last_ns, part)))
    assert sorted(ns for part in parts for ns in part) == whole


def test_an_arrival_belongs_to_the_slot_that_its_number_gives() -> None:
    mine = arrivals(at(10), seed=1, clients=4, slots=(1, 3))
    assert list(islice(mine, 4)) == [NS // 10, 3 * NS // 10, 5 * NS // 10, 7 * NS // 10]


def test_a_worker_without_arrivals_left_ends() -> None:
    schedule = Schedule(stages=(Stage(1, Rate(2, "ops")),))
    assert list(arrivals(schedule, seed=1, clients=4, slots=(3,))) == []


def test_a_rate_in_units_is_divided_by_the_units_of_a_request() -> None:
    assert due(at(5000, "docs"), 3, docs=1000) == [0, NS // 5, 2 * NS // 5]
    stages = Schedule(stages=(Stage(1, Rate(5000, "docs")), Stage(1, Rate(2, "ops"))))
    assert len(due(stages, 100, docs=1000)) == 5 + 2


def test_a_rate_in_requests_is_not_divided() -> None:
    assert due(at(5, "ops"), 3, docs=1000) == [0, NS // 5, 2 * NS // 5]


def test_a_closed_loop_has_no_rate() -> None:
    assert rates(Schedule()) == ()
    with pytest.raises(ValueError, match="no rate"):
        rate_segments(Schedule())


def test_an_unknown_schedule_is_an_error_with_a_guess() -> None:
    with pytest.raises(UsageError, match=r'unknown schedule "poison" \(did you mean "poisson"'):
        arrivals(at(1, kind="poison"), seed=1, clients=1, slots=(0,))


def test_stages_last_as_long_as_all_of_them() -> None:
    assert stages_duration_s(STAGES) == 6
    assert stages_duration_s(at(1)) == 0


def test_arrivals_have_a_seed_for_each_race_seed_and_task() -> None:
    seeds = {arrival_seed(race, task) for race in (1, 2) for task in ("a", "b", "c")}
    assert len(seeds) == 6
    assert arrival_seed(1, "a") == arrival_seed(1, "a")
    assert max(seeds) < 1 << 63


def test_stages_may_have_rates_in_several_units() -> None:
    stages = Schedule(stages=(Stage(2, Rate(1, "MB")), Stage(2, Rate(300, "docs")), Stage(2, Rate(5, "ops"))))
    segments = rate_segments(stages, {"ops": 1.0, "docs": 100.0, "MB": 0.5})
    assert [segment.rate_start for segment in segments] == [2, 3, 5]


def test_an_arrival_process_that_ends_ends_the_arrivals() -> None:
    assert list(due_times(rate_segments(at(10)), iter([0.0, 1.5]))) == [0, 150_000_000]
