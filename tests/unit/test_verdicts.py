"""Faster, slower, the same, or not to be told: what rounds, single races and their checks come to."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from compared_sides import (
    ALONE,
    OPEN,
    TURNS,
    docs_per_s,
    latencies,
    line,
    row_of,
    scaled,
    seconds_of,
    side,
    usable,
)
from races import golden_race, task_of, with_task

from esbench.compare import compare
from esbench.comparison.model import CompareOptions, Pair, Side, Verdict
from esbench.load.histogram import Counts, encode
from esbench.record import Check, RaceRecord, Throughput, Window
from esbench.series_files import SecondLine

WITH_SECONDS = CompareOptions(seconds=seconds_of)
MISSED = Check("target-rate", "unusable", "only 80 % of the target rate was reached")


def bulk(contender: float, options: CompareOptions = WITH_SECONDS, places: dict[str, Any] = TURNS) -> Verdict:
    """The verdict on a bulk that does 20,000 docs/s, and `contender` times as many."""
    pair = sides(docs_per_s(scaled(20000)), docs_per_s(scaled(20000 * contender)), "bulk", options, places)
    return verdict_of(pair, "Mean throughput", "bulk")


def sides(
    baseline: list[dict[str, Any]],
    contender: list[dict[str, Any]],
    task: str,
    options: CompareOptions = WITH_SECONDS,
    places: dict[str, Any] = TURNS,
) -> Pair:
    ours = side("baseline", task, baseline, places["baseline"][: len(baseline)])
    theirs = side("contender", task, contender, places["contender"][: len(contender)])
    return compare(ours, [theirs], options).pairs[0]


def verdict_of(pair: Pair, metric: str, task: str) -> Verdict:
    verdict = row_of(pair, metric, task).verdict
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(("factor", "kind"), [(1.2, "faster"), (0.8, "slower"), (1.0, "same"), (1.02, "same")])
def test_rounds_in_turn_have_a_verdict(factor: float, kind: str) -> None:
    assert bulk(factor).kind == kind


def test_swapping_the_sides_mirrors_the_verdict_and_the_interval() -> None:
    forth = sides(docs_per_s(scaled(20000)), docs_per_s(scaled(24000)), "bulk")
    back = sides(docs_per_s(scaled(24000)), docs_per_s(scaled(20000)), "bulk")
    one, other = (row_of(pair, "Mean throughput", "bulk").estimate for pair in (forth, back))
    assert one is not None and other is not None
    assert verdict_of(back, "Mean throughput", "bulk").kind == "slower"
    assert one.ratio * other.ratio == pytest.approx(1, rel=1e-2)


def test_less_latency_is_faster() -> None:
    pair = sides(latencies(scaled(2.0)), latencies(scaled(1.0)), OPEN)
    assert verdict_of(pair, "p50 latency", OPEN).kind == "faster"
    assert row_of(pair, "p50 latency", OPEN).diff_percent == pytest.approx(-50, abs=1)


def test_the_smallest_effect_can_be_said() -> None:
    assert bulk(1.02, replace(WITH_SECONDS, min_effect_ratio=0.005)).kind != "same"
    assert bulk(1.08, replace(WITH_SECONDS, min_effect_ratio=0.2)).kind == "same"


def test_what_is_not_told_says_how_many_rounds_would_settle_it() -> None:
    pair = sides(docs_per_s([20000, 21500, 19000, 20500]), docs_per_s([20500, 19500, 21000, 19000]), "bulk")
    verdict = verdict_of(pair, "Mean throughput", "bulk")
    assert verdict.kind == "~"
    assert verdict.note.endswith(" rounds would settle 5%")


def test_rounds_that_did_not_take_turns_are_of_their_session_only() -> None:
    pair = sides(docs_per_s(scaled(20000)), docs_per_s(scaled(24000)), "bulk", places=ALONE)
    row = row_of(pair, "Mean throughput", "bulk")
    assert not pair.is_interleaved
    assert row.verdict == Verdict("session-only")
    assert row.estimate is not None and row.estimate.method == "independent"


def test_a_trend_over_the_session_is_no_difference() -> None:
    falling = {name: docs_per_s([20000 * (1 - 0.02 * place) for place in TURNS[name]]) for name in TURNS}
    pair = sides(falling["baseline"], falling["contender"], "bulk")
    assert verdict_of(pair, "Mean throughput", "bulk").kind == "same"


def test_the_throughput_of_an_open_loop_carries_no_verdict() -> None:
    pair = sides(latencies(scaled(2.0)), latencies(scaled(2.0)), OPEN)
    assert row_of(pair, "Mean throughput", OPEN).verdict is None
    shown = row_of(pair, "p50 service time", OPEN)
    assert shown.estimate is not None and shown.verdict is None


# What a percentile stands on


def test_a_percentile_with_too_few_samples_beyond_it_has_no_verdict() -> None:
    pair = sides([{"requests": 400}] * 4, [{"requests": 400}] * 4, "bulk")
    assert verdict_of(pair, "p99 service time", "bulk").kind == "few events"
    assert row_of(pair, "p99 service time", "bulk").estimate is None


def test_a_percentile_whose_samples_are_of_few_seconds_has_no_verdict() -> None:
    def four_seconds(record: RaceRecord) -> list[SecondLine]:
        return [each for each in seconds_of(record) if each.second < 4]

    found = sides(latencies(scaled(2.0)), latencies(scaled(2.0)), OPEN, CompareOptions(seconds=four_seconds))
    assert verdict_of(found, "p99 latency", OPEN).kind == "few events"
    assert verdict_of(found, "Mean throughput", "bulk").kind == "same"


def test_a_percentile_among_requests_that_timed_out_has_no_verdict() -> None:
    beyond = latencies(scaled(2.0))
    beyond[1] = {"latency_ms": {"p50": 2.0, "p99": math.inf, "max": 60.0}}
    pair = sides(latencies(scaled(2.0)), beyond, OPEN)
    assert verdict_of(pair, "p99 latency", OPEN).kind == "!"
    assert row_of(pair, "p99 latency", OPEN).contender_rounds[1] is None
    assert verdict_of(pair, "p50 latency", OPEN).kind == "same"


# What the checks of the races say


def test_a_rate_that_one_side_alone_misses_in_every_round_is_a_verdict() -> None:
    missed = latencies(scaled(9.0), checks=(MISSED,), throughput=Throughput("ops", 800.0))
    pair = sides(latencies(scaled(2.0)), missed, OPEN)
    verdict = verdict_of(pair, "p99 latency", OPEN)
    assert (verdict.kind, verdict.note) == ("slower", "contender reached 800/s of 1000/s")
    assert verdict_of(sides(missed, latencies(scaled(2.0)), OPEN), "p99 latency", OPEN).kind == "faster"


def test_a_rate_that_is_missed_now_and_then_leaves_latency_undefined() -> None:
    mixed = latencies(scaled(2.0))
    mixed[0] = {**mixed[0], "checks": (MISSED,)}
    verdict = verdict_of(sides(latencies(scaled(2.0)), mixed, OPEN), "p99 latency", OPEN)
    assert (verdict.kind, verdict.note) == ("!", "overloaded: latency undefined")


def test_a_driver_that_was_the_limit_in_one_round_spoils_the_row() -> None:
    rounds = latencies(scaled(2.0))
    rounds[2] = {**rounds[2], "checks": (Check("driver-lag", "unusable", "the driver was the limit"),)}
    verdict = verdict_of(sides(latencies(scaled(1.0)), rounds, OPEN), "p50 latency", OPEN)
    assert (verdict.kind, verdict.note) == ("!", "the driver was the limit")


def test_a_gain_with_more_errors_is_none() -> None:
    failing = [{**each, "errors": 4} for each in docs_per_s(scaled(24000))]  # of 400: 1 %
    pair = sides(docs_per_s(scaled(20000)), failing, "bulk")
    assert verdict_of(pair, "Mean throughput", "bulk").kind == "! errors"
    assert verdict_of(sides(failing, docs_per_s(scaled(20000)), "bulk"), "Mean throughput", "bulk").kind == "! errors"
    lenient = replace(WITH_SECONDS, max_error_rise_ratio=0.02)
    pair = sides(docs_per_s(scaled(20000)), failing, "bulk", lenient)
    assert verdict_of(pair, "Mean throughput", "bulk").kind == "faster"


def test_a_latency_that_moved_with_the_drivers_lag_has_no_verdict() -> None:
    lagging = latencies(scaled(2.4), driver_lag_ms={"p50": 0.35, "p99": 0.5})
    level = latencies(scaled(2.0), driver_lag_ms={"p50": 0.05, "p99": 0.1})
    pair = sides(level, lagging, OPEN)
    assert verdict_of(pair, "p50 latency", OPEN).kind == "driver lag"
    assert verdict_of(pair, "p99 latency", OPEN).kind == "slower"  # by 1.2 ms, and the lag by 0.4


def test_waiting_is_told_from_work_and_saturation_is_noted() -> None:
    pair = sides(latencies(scaled(2.0)), latencies(scaled(3.0)), OPEN)
    assert verdict_of(pair, "p50 latency", OPEN).note == "waiting, not work"
    slow = latencies(scaled(3.0), service_time_ms={"mean": 14.5, "p50": 3.0, "p99": 9.0})
    verdict = verdict_of(sides(latencies(scaled(2.0)), slow, OPEN), "p50 latency", OPEN)
    assert verdict.note == "near saturation: percentages overstate"


def test_a_workload_that_differs_has_no_verdict_until_it_is_allowed() -> None:
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    theirs = side("contender", "bulk", docs_per_s(scaled(24000)), TURNS["contender"], host_class="4 cores")
    refused = compare(ours, [theirs], WITH_SECONDS).pairs[0]
    verdict = verdict_of(refused, "Mean throughput", "bulk")
    assert (verdict.kind, verdict.note) == ("!", "not comparable: host")
    assert any("--allow=host" in notice.text for notice in refused.notices)
    allowed = compare(ours, [theirs], replace(WITH_SECONDS, allow=("host",))).pairs[0]
    assert verdict_of(allowed, "Mean throughput", "bulk").kind == "faster"


def test_a_task_that_was_raced_otherwise_spoils_its_own_rows_only() -> None:
    pair = sides(docs_per_s(scaled(20000)), [{**each, "clients": 9} for each in docs_per_s(scaled(24000))], "bulk")
    assert verdict_of(pair, "Mean throughput", "bulk").note == "not comparable: clients"
    assert verdict_of(pair, "Mean throughput", "get-by-id").kind == "same"


def test_what_is_under_test_forbids_nothing() -> None:
    theirs = side("contender", "bulk", docs_per_s(scaled(24000)), TURNS["contender"], track_params={"shards": 1})
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"], track_params={"shards": 5})
    pair = compare(ours, [theirs], WITH_SECONDS).pairs[0]
    assert [each.name for each in pair.differences] == ["param shards"]
    assert verdict_of(pair, "Mean throughput", "bulk").kind == "faster"


def test_identical_rounds_are_the_same_throughout() -> None:
    pair = sides(docs_per_s([20000] * 4), docs_per_s([20000] * 4), "bulk")
    assert pair.is_same
    assert {row.verdict.kind for row in pair.primary if row.verdict is not None} <= {"same", "few events"}
    assert pair.speed_ratio is not None and pair.speed_ratio.ratio == 1


# Single races


def alone(docs: float, race_id: str, **race: Any) -> Side:
    record = usable(golden_race(race_id=race_id, **race))
    return Side(race_id, (with_task(record, "bulk", throughput=Throughput("docs", docs), window=Window(0, 200)),))


def level_seconds(record: RaceRecord) -> list[SecondLine]:
    task = task_of(record, "bulk")
    assert task.throughput.mean is not None
    return [line(task, second, task.throughput.mean * (1 + 0.01 * math.sin(second / 20))) for second in range(200)]


def test_two_short_races_are_too_short() -> None:
    pair = compare(alone(20000, "a"), [alone(24000, "b")], WITH_SECONDS).pairs[0]
    assert verdict_of(pair, "Mean throughput", "get-by-id").kind == "too short"


def test_two_long_races_have_an_interval_and_no_verdict_on_their_sides() -> None:
    pair = compare(alone(20000, "a"), [alone(24000, "b")], CompareOptions(seconds=level_seconds)).pairs[0]
    row = row_of(pair, "Mean throughput", "bulk")
    assert row.verdict == Verdict("within-race only")
    assert row.estimate is not None and row.estimate.method == "sections"
    assert row.estimate.low < 1.2 < row.estimate.high


@pytest.mark.parametrize(("contender", "kind"), [(24000, "faster"), (20050, "same")])
def test_earlier_races_give_two_single_ones_a_verdict(contender: float, kind: str) -> None:
    history = tuple(alone(20000 * (1 + 0.004 * (-1) ** n), f"h{n}").records[0] for n in range(8))
    pair = compare(alone(20000, "a"), [alone(contender, "b")], replace(WITH_SECONDS, history=history)).pairs[0]
    row = row_of(pair, "Mean throughput", "bulk")
    assert row.verdict is not None and row.verdict.kind == kind
    assert row.estimate is not None and row.estimate.method == "history"


def test_four_earlier_races_are_too_few() -> None:
    history = tuple(alone(20000 + n, f"h{n}").records[0] for n in range(4))
    pair = compare(alone(20000, "a"), [alone(24000, "b")], replace(WITH_SECONDS, history=history)).pairs[0]
    assert verdict_of(pair, "Mean throughput", "bulk").kind == "too short"


def test_a_section_with_too_few_samples_beyond_a_percentile_is_too_short() -> None:
    def seconds(record: RaceRecord) -> list[SecondLine]:
        counts = Counts()
        for _ in range(20):  # 4,000 in all, 8 beyond p99 in each fifth
            counts.add(10**9)
        encoded = encode(counts)
        return [line(task_of(record, "bulk"), second, service_time=encoded) for second in range(200)]

    sides = [
        Side(name, (with_task(alone(20000, name).records[0], "bulk", requests=4000, service_time_ms={"p99": 0.5}),))
        for name in "ab"
    ]
    pair = compare(sides[0], [sides[1]], CompareOptions(seconds=seconds)).pairs[0]
    assert verdict_of(pair, "p99 service time", "bulk").kind == "too short"
