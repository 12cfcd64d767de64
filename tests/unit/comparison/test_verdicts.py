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

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Pair, RowVerdict, Side
from esbench.comparison.reasons import FEW_IN_TAIL, LOWER_SCORES, MISSING, MORE_ROUNDS, NO_TURNS, ONE_RACE
from esbench.comparison.stats import rounds_to_settle
from esbench.measure.histogram import Counts, encode
from esbench.record.model import Check, RaceRecord, ScoreFigures, Session, Throughput, Window
from esbench.record.series import SecondLine

WITH_SECONDS = CompareOptions(seconds=seconds_of)
RATES_ALLOWED = replace(WITH_SECONDS, allow=("target rate",))
MISSED = Check("target-rate", "unusable", "only 80 % of the target rate was reached")


def bulk(contender: float, options: CompareOptions = WITH_SECONDS, places: dict[str, Any] = TURNS) -> RowVerdict:
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


def one_of(change: dict[str, Any], race_id: str) -> Side:
    """A single race of the open task."""
    return Side(race_id, (with_task(usable(golden_race(race_id=race_id)), OPEN, **change),))


def verdict_of(pair: Pair, metric: str, task: str) -> RowVerdict:
    verdict = row_of(pair, metric, task).verdict
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(("factor", "kind"), [(1.2, "faster"), (0.8, "slower"), (1.0, "same"), (1.02, "same")])
def test_rounds_in_turn_have_a_verdict(factor: float, kind: str) -> None:
    assert bulk(factor).reason.v1 == kind


def test_swapping_the_sides_mirrors_the_verdict_and_the_interval() -> None:
    forth = sides(docs_per_s(scaled(20000)), docs_per_s(scaled(24000)), "bulk")
    back = sides(docs_per_s(scaled(24000)), docs_per_s(scaled(20000)), "bulk")
    one, other = (row_of(pair, "Mean throughput", "bulk").estimate for pair in (forth, back))
    assert one is not None and other is not None
    assert verdict_of(back, "Mean throughput", "bulk").reason.v1 == "slower"
    assert one.ratio * other.ratio == pytest.approx(1, rel=1e-2)


def test_less_latency_is_faster() -> None:
    pair = sides(latencies(scaled(2.0)), latencies(scaled(1.0)), OPEN)
    assert verdict_of(pair, "p50 latency", OPEN).reason.v1 == "faster"
    assert row_of(pair, "p50 latency", OPEN).diff_percent == pytest.approx(-50, abs=1)


def test_what_is_different_has_an_adjusted_p_below_5_percent_and_is_not_the_same() -> None:
    """Changes from none to a large one, between rounds that differ by some percent."""
    noise, seen = (1.0, 1.06, 0.95, 1.02), set()
    for percent in range(0, 40):
        level = 20000 * (1 + percent / 100)
        pair = sides(docs_per_s([20000 * each for each in noise]), docs_per_s([level / each for each in noise]), "bulk")
        verdict = verdict_of(pair, "Mean throughput", "bulk")
        assert verdict.p is not None and verdict.reason.v1 != "same"
        assert verdict.reason.v1 == ("faster" if verdict.p < 0.05 else "~")
        seen.add((verdict.p < 0.03, verdict.p < 0.05, verdict.p < 0.10))
    assert len(seen) == 4


def test_a_change_of_8_percent_counts_in_a_median_and_not_in_a_tail() -> None:
    for change, p50, p99 in ((1.04, "same", "same"), (1.055, "slower", "same"), (1.09, "slower", "same")):
        pair = sides(latencies([2.0] * 4), latencies([2.0 * change] * 4), OPEN)
        assert [verdict_of(pair, f"{name} latency", OPEN).reason.v1 for name in ("p50", "p99")] == [p50, p99]
    assert (
        verdict_of(sides(latencies([2.0] * 4), latencies([2.25] * 4), OPEN), "p99 latency", OPEN).reason.v1 == "slower"
    )


def test_the_smallest_effect_can_be_said() -> None:
    assert bulk(1.02, replace(WITH_SECONDS, min_effect_ratio=0.005)).reason.v1 != "same"
    assert bulk(1.08, replace(WITH_SECONDS, min_effect_ratio=0.2)).reason.v1 == "same"


def test_what_is_not_told_says_how_many_rounds_would_settle_it() -> None:
    pair = sides(docs_per_s([20000, 21500, 19000, 20500]), docs_per_s([20500, 19500, 21000, 19000]), "bulk")
    row, tested = (
        row_of(pair, "Mean throughput", "bulk"),
        [row for row in pair.primary if row.verdict and row.verdict.p],
    )
    assert row.estimate is not None and row.verdict is not None
    rounds = rounds_to_settle(row.estimate.residual_sd, math.log(1.05), len(tested))
    assert row.verdict.detail == f"about {rounds} rounds in all would show a difference of 5%"
    assert row.verdict.remedy == f"esbench duel --resume s --rounds={rounds}"
    assert rounds_to_settle(row.estimate.residual_sd, math.log(1.05), 1) != rounds
    assert row.verdict.reason.v1 == "~"


def test_what_so_many_rounds_settle_on_average_and_did_not_settle_now_needs_a_few_more() -> None:
    verdict = bulk(1.048, replace(WITH_SECONDS, looks=10**9))
    resume = "esbench duel --resume s --rounds=6"
    assert verdict == RowVerdict(MORE_ROUNDS, "a few more rounds would settle it", resume, 1.0)


def test_the_rows_of_all_contenders_are_one_family() -> None:
    """The smallest p of m rows is m times as large, whosever rows they are."""
    noisy = docs_per_s([19000, 20500, 21000, 19500])
    ours = side("baseline", "bulk", noisy, TURNS["baseline"])
    faster = side("contender", "bulk", docs_per_s(scaled(24500)), TURNS["contender"])
    level = side("contender", "bulk", noisy, TURNS["contender"])
    alone, three = (compare(ours, others, WITH_SECONDS) for others in ([faster], [faster, level, level]))
    assert three.tested == sum(row.estimate is not None for pair in three.pairs for row in pair.primary)
    assert three.tested > alone.tested
    p, p_of_three = (verdict_of(found.pairs[0], "Mean throughput", "bulk").p for found in (alone, three))
    assert p is not None and p_of_three == pytest.approx(p * three.tested / alone.tested)


def test_rounds_that_did_not_take_turns_are_of_their_session_only() -> None:
    pair = sides(docs_per_s(scaled(20000)), docs_per_s(scaled(24000)), "bulk", places=ALONE)
    row = row_of(pair, "Mean throughput", "bulk")
    assert not pair.is_interleaved
    assert row.verdict == RowVerdict(NO_TURNS)
    assert row.estimate is not None and row.estimate.method == "independent"


def test_a_trend_over_the_session_is_no_difference() -> None:
    falling = {name: docs_per_s([20000 * (1 - 0.02 * place) for place in TURNS[name]]) for name in TURNS}
    pair = sides(falling["baseline"], falling["contender"], "bulk")
    assert verdict_of(pair, "Mean throughput", "bulk").reason.v1 == "same"


def test_the_throughput_of_an_open_loop_carries_no_verdict() -> None:
    pair = sides(latencies(scaled(2.0)), latencies(scaled(2.0)), OPEN)
    assert row_of(pair, "Mean throughput", OPEN).verdict is None
    shown = row_of(pair, "p50 service time", OPEN)
    assert shown.estimate is not None and shown.verdict is None


# What a percentile stands on


@pytest.mark.parametrize(
    ("requests", "errors", "kind"), [(999, 0, "few events"), (1000, 0, "same"), (1005, 6, "few events")]
)
def test_ten_samples_beyond_a_percentile_are_enough(requests: int, errors: int, kind: str) -> None:
    """In the race that has the fewest; requests that failed are none of them."""
    fewest = {"requests": requests, "errors": errors}
    pair = sides([{"requests": 9000}] * 4, [{"requests": 9000}] * 3 + [fewest], "bulk")
    assert verdict_of(pair, "p99 service time", "bulk").reason.v1 == kind


def test_a_percentile_with_too_few_samples_beyond_it_has_no_verdict() -> None:
    pair = sides([{"requests": 400}] * 4, [{"requests": 400}] * 4, "bulk")
    assert verdict_of(pair, "p99 service time", "bulk").reason.v1 == "few events"
    assert row_of(pair, "p99 service time", "bulk").estimate is None


@pytest.mark.parametrize(("seconds", "kind"), [(4, "few events"), (5, "same")])
def test_a_percentile_whose_samples_are_of_few_seconds_has_no_verdict(seconds: int, kind: str) -> None:
    def few_of_one(record: RaceRecord) -> list[SecondLine]:
        return [each for each in seconds_of(record) if each.second < seconds or record.race_id != "contender-2"]

    found = sides(latencies(scaled(2.0)), latencies(scaled(2.0)), OPEN, CompareOptions(seconds=few_of_one))
    assert verdict_of(found, "p99 latency", OPEN).reason.v1 == kind
    assert verdict_of(found, "Mean throughput", "bulk").reason.v1 == "same"


def test_a_percentile_among_requests_that_timed_out_has_no_verdict() -> None:
    beyond = latencies(scaled(2.0))
    beyond[1] = {"latency_ms": {"p50": 2.0, "p99": math.inf, "max": 60.0}}
    pair = sides(latencies(scaled(2.0)), beyond, OPEN)
    assert verdict_of(pair, "p99 latency", OPEN).reason.v1 == "!"
    assert row_of(pair, "p99 latency", OPEN).contender_rounds[1] is None
    assert verdict_of(pair, "p50 latency", OPEN).reason.v1 == "same"


def test_seconds_of_a_warmup_do_not_count() -> None:
    def warm(record: RaceRecord) -> list[SecondLine]:
        return [replace(each, phase="measurement" if each.second < 4 else "warmup") for each in seconds_of(record)]

    found = sides(latencies(scaled(2.0)), latencies(scaled(2.0)), OPEN, CompareOptions(seconds=warm))
    assert verdict_of(found, "p99 latency", OPEN).reason.v1 == "few events"


def test_a_task_that_ended_inside_its_warmup_stands_on_the_seconds_of_that() -> None:
    def warm(record: RaceRecord) -> list[SecondLine]:
        return [replace(each, phase="warmup") for each in seconds_of(record)]

    inside = latencies(scaled(2.0), checks=(Check("inside-warmup", "warning", "ended inside its warmup"),))
    found = sides(inside, inside, OPEN, CompareOptions(seconds=warm))
    assert verdict_of(found, "p99 latency", OPEN).reason.v1 == "same"


def test_seconds_that_are_missing_are_said_to_be() -> None:
    """Not that there were few events: nobody knows."""

    def missing_in_one(record: RaceRecord) -> list[SecondLine]:
        return [] if record.race_id == "contender-3" else list(seconds_of(record))

    found = sides(latencies(scaled(2.0)), latencies(scaled(2.0)), OPEN, CompareOptions(seconds=missing_in_one))
    verdict = verdict_of(found, "p99 latency", OPEN)
    assert (verdict.reason.v1, verdict.note) == ("!", "the seconds of contender-3 are missing (seconds.jsonl)")
    assert verdict_of(found, "Mean throughput", "bulk").reason.v1 == "same"  # needs none


@pytest.mark.parametrize("swapped", [False, True])
def test_what_should_be_judged_and_one_side_lacks_is_a_row_all_the_same(swapped: bool) -> None:
    failed = [{"throughput": Throughput("docs", None), "service_time_ms": None, "requests": 90, "errors": 90}] * 4
    level = docs_per_s(scaled(20000))
    pair = sides(failed, level, "bulk") if swapped else sides(level, failed, "bulk")
    verdict = verdict_of(pair, "Mean throughput", "bulk")
    assert (verdict.reason.v1, verdict.note) == ("!", "4 of 8 races have no value: timed out, or nothing completed")
    assert verdict_of(pair, "p99 service time", "bulk").reason.v1 == "few events"
    row = row_of(pair, "Mean throughput", "bulk")
    assert (row.diff, row.unit) == (None, "docs/s")


def test_a_percentile_that_no_race_could_print_has_few_events() -> None:
    short = [{"requests": 90, "service_time_ms": {"p50": 1.0}}] * 4
    row = row_of(sides(short, short, "bulk"), "p99 service time", "bulk")
    assert (row.baseline, row.contender) == (None, None)
    assert row.verdict is not None and row.verdict.reason is FEW_IN_TAIL
    assert row.verdict.detail == "only 90 requests, and it needs 1,000"


def test_a_closed_loop_and_an_open_loop_have_no_verdict() -> None:
    options = replace(WITH_SECONDS, allow=("loop", "target rate", "schedule"))
    pair = sides(
        [{}] * 4, [{"loop": "open", "target_rate_per_s": 9.0, "latency_ms": {"p50": 1.0}}] * 4, "bulk", options
    )
    judged = {row.metric: row.verdict for row in pair.primary if row.task == "bulk"}
    assert set(judged) == {"Mean throughput", "p99 service time", "p50 latency", "p99 latency"}
    assert {verdict.reason.v1 for verdict in judged.values() if verdict} == {"!"}


# What the checks of the races say


def test_a_rate_that_one_side_alone_misses_in_every_round_is_a_verdict() -> None:
    missed = latencies(scaled(9.0), checks=(MISSED,), throughput=Throughput("ops", 800.0))
    pair = sides(latencies(scaled(2.0)), missed, OPEN)
    verdict = verdict_of(pair, "p99 latency", OPEN)
    assert (verdict.reason.v1, verdict.note) == ("slower", "contender reached 800/s of 1000/s")
    assert verdict_of(sides(missed, latencies(scaled(2.0)), OPEN), "p99 latency", OPEN).reason.v1 == "faster"


def test_the_reached_rate_is_told_in_the_unit_of_the_target() -> None:
    window, docs = Window(0, 100), Throughput("docs", 80_000.0)
    missed = latencies(scaled(9.0), checks=(MISSED,), throughput=docs, window=window, requests=8_000)
    level = latencies(scaled(2.0), throughput=replace(docs, mean=100_000.0), window=window, requests=10_000)
    pair = sides([{**each, "target_rate_per_s": 100.0} for each in level], missed, OPEN, RATES_ALLOWED)
    assert verdict_of(pair, "p99 latency", OPEN).note == "contender reached 80/s of 1000/s"


def test_a_rate_that_is_reached_by_failing_is_no_gain() -> None:
    missed = latencies(scaled(9.0), checks=(MISSED,), throughput=Throughput("ops", 800.0))
    failing = latencies(scaled(2.0), errors=300)
    assert verdict_of(sides(missed, failing, OPEN), "p99 latency", OPEN).reason.v1 == "! errors"
    assert verdict_of(sides(failing, missed, OPEN), "p99 latency", OPEN).reason.v1 == "! errors"


def test_a_rate_that_a_single_race_misses_is_no_verdict_on_its_side() -> None:
    pair = compare(one_of(latencies([2.0])[0], "a"), [one_of({"checks": (MISSED,)}, "b")], WITH_SECONDS).pairs[0]
    verdict = verdict_of(pair, "p50 latency", OPEN)
    assert (verdict.reason.v1, verdict.note) == ("!", "contender reached 999/s of 1000/s")


def test_a_rate_that_is_missed_now_and_then_leaves_latency_undefined() -> None:
    mixed = latencies(scaled(2.0))
    mixed[0] = {**mixed[0], "checks": (MISSED,)}
    verdict = verdict_of(sides(latencies(scaled(2.0)), mixed, OPEN), "p99 latency", OPEN)
    assert (verdict.reason.v1, verdict.note) == (
        "!",
        "some of the races missed the target rate: their latency says nothing",
    )


def test_a_driver_that_was_the_limit_in_one_round_spoils_the_row() -> None:
    rounds = latencies(scaled(2.0))
    rounds[2] = {**rounds[2], "checks": (Check("driver-lag", "unusable", "the driver was the limit"),)}
    verdict = verdict_of(sides(latencies(scaled(1.0)), rounds, OPEN), "p50 latency", OPEN)
    assert (verdict.reason.v1, verdict.note) == ("!", "the driver was the limit")


def test_a_gain_with_more_errors_is_none() -> None:
    failing = [{**each, "errors": 4} for each in docs_per_s(scaled(24000))]  # of 400: 1 %
    pair = sides(docs_per_s(scaled(20000)), failing, "bulk")
    assert verdict_of(pair, "Mean throughput", "bulk").reason.v1 == "! errors"
    assert (
        verdict_of(sides(failing, docs_per_s(scaled(20000)), "bulk"), "Mean throughput", "bulk").reason.v1 == "! errors"
    )
    lenient = replace(WITH_SECONDS, max_error_rise_ratio=0.02)
    pair = sides(docs_per_s(scaled(20000)), failing, "bulk", lenient)
    assert verdict_of(pair, "Mean throughput", "bulk").reason.v1 == "faster"


def test_a_gain_with_lower_recall_is_none() -> None:
    """0.5 points lower is as good; a side that is slower and finds less is slower."""

    def speeds(per_s: float, recall: float) -> list[dict[str, Any]]:
        scores = ScoreFigures("recall@10", 100, 50, 0.5, recall, 0.8, 0.1)
        return [{**each, "scores": scores} for each in docs_per_s(scaled(per_s))]

    def judged(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], **options: Any) -> RowVerdict:
        pair = sides(ours, theirs, "bulk", replace(WITH_SECONDS, **options))
        return verdict_of(pair, "Mean throughput", "bulk")

    verdict = judged(speeds(20000, 0.97), speeds(24000, 0.91))
    assert (verdict.reason, verdict.note) == (LOWER_SCORES, "faster, but recall@10 is 0.910 against 0.970")
    assert judged(speeds(24000, 0.91), speeds(20000, 0.97)).note == "slower, but recall@10 is 0.970 against 0.910"
    assert judged(speeds(20000, 0.97), speeds(24000, 0.966)).word == "faster"
    assert judged(speeds(20000, 0.91), speeds(24000, 0.97)).word == "faster"
    assert judged(speeds(24000, 0.97), speeds(20000, 0.91)).word == "slower"
    assert judged(speeds(20000, 0.97), speeds(24000, 0.91), min_score_effect=0.1).word == "faster"
    assert judged(speeds(20000, 0.97), docs_per_s(scaled(24000))).word == "faster"  # unknown on one side


@pytest.mark.parametrize(
    ("errors", "kind"),
    [((9, 9, 9, 0), "! errors"), ((18, 18, 0, 0), "faster"), ((36, 0, 0, 0), "faster"), ((1, 0, 1, 1), "faster")],
)
def test_more_errors_are_those_of_all_rounds_but_one_and_of_all_together(errors: tuple[int, ...], kind: str) -> None:
    """Of 400 requests each, with 0.1 points to spare for the last of them: 3 of 1,600 are 0.19."""
    failing = [{**each, "errors": count} for each, count in zip(docs_per_s(scaled(24000)), errors, strict=True)]
    options = replace(WITH_SECONDS, max_error_rise_ratio=0.002)
    pair = sides(docs_per_s(scaled(20000)), failing, "bulk", options)
    assert verdict_of(pair, "Mean throughput", "bulk").reason.v1 == kind


def test_a_task_that_some_rounds_lack_has_no_verdict() -> None:
    ours, theirs = (side(name, "bulk", docs_per_s(scaled(20000)), TURNS[name]) for name in TURNS)
    last = theirs.records[-1]
    without = replace(last, tasks=tuple(task for task in last.tasks if task.name != "bulk"))
    lacking = replace(theirs, records=(*theirs.records[:-1], without))
    pair = compare(ours, [lacking], replace(WITH_SECONDS, allow=("tasks",))).pairs[0]
    assert verdict_of(pair, "Mean throughput", "bulk") == RowVerdict(MISSING, "missing in some of the races")
    assert verdict_of(pair, "Mean throughput", "get-by-id").reason.v1 == "same"


def test_a_latency_that_moved_with_the_drivers_lag_has_no_verdict() -> None:
    lagging = latencies(scaled(2.4), driver_lag_ms={"p50": 0.35, "p99": 0.5})
    level = latencies(scaled(2.0), driver_lag_ms={"p50": 0.05, "p99": 0.1})
    pair = sides(level, lagging, OPEN)
    assert verdict_of(pair, "p50 latency", OPEN).reason.v1 == "driver lag"
    assert verdict_of(pair, "p99 latency", OPEN).reason.v1 == "slower"  # by 1.2 ms, and the lag by 0.4


@pytest.mark.parametrize(
    ("p50_ms", "lag_ms", "kind"),
    [
        ([2.02, 2.03, 2.01, 2.024], 0.55, "driver lag"),  # as if the same, and the cluster became faster
        ([2.0, 2.01, 1.99, 2.004], 0.14, "driver lag"),  # 4.5 % of lag, and half an interval of 1 %
        ([2.0, 2.01, 1.99, 2.004], 0.06, "same"),
        ([1.95, 2.1, 2.2, 1.8], 0.55, "driver lag"),
        ([1.95, 2.1, 2.2, 1.8], 0.06, "~"),
    ],
)
def test_lag_that_changed_leaves_less_room_for_the_same(p50_ms: list[float], lag_ms: float, kind: str) -> None:
    ours = latencies([2.0, 2.01, 1.99, 2.004], driver_lag_ms={"p50": 0.05, "p99": 0.1})
    theirs = latencies(p50_ms, driver_lag_ms={"p50": lag_ms, "p99": 0.1})
    assert verdict_of(sides(ours, theirs, OPEN), "p50 latency", OPEN).reason.v1 == kind


def test_waiting_is_told_from_work_and_saturation_is_noted() -> None:
    pair = sides(latencies(scaled(2.0)), latencies(scaled(3.0)), OPEN)
    assert (
        verdict_of(pair, "p50 latency", OPEN).note
        == "only the time that requests waited for changed, not their service time"
    )
    slow = latencies(scaled(3.0), service_time_ms={"mean": 14.5, "p50": 3.0, "p99": 9.0})
    verdict = verdict_of(sides(latencies(scaled(2.0)), slow, OPEN), "p50 latency", OPEN)
    assert verdict.note == "near saturation: percentages overstate"


def test_a_service_time_that_may_have_moved_as_much_is_not_called_waiting() -> None:
    """The noise of the service time hides whether it moved: that is not a sign that it did not."""
    noisy = [{"mean": 1.0, "p50": value, "p99": 9.0} for value in (0.5, 4.0, 1.5, 2.0)]
    ours = [{**each, "service_time_ms": service} for each, service in zip(latencies(scaled(2.0)), noisy, strict=True)]
    theirs = [{**each, "service_time_ms": service} for each, service in zip(latencies(scaled(3.0)), noisy, strict=True)]
    verdict = verdict_of(sides(ours, theirs, OPEN), "p50 latency", OPEN)
    assert (verdict.reason.v1, verdict.note) == ("slower", "")


def test_saturation_is_noted_beside_what_has_no_verdict_too() -> None:
    busy = latencies(scaled(3.0), service_time_ms={"mean": 14.5, "p50": 3.0, "p99": 9.0})
    pair = sides(latencies(scaled(2.0)), busy, OPEN, places=ALONE)
    verdict = verdict_of(pair, "p50 latency", OPEN)
    assert verdict == RowVerdict(NO_TURNS, remarks=("near saturation: percentages overstate",))


def test_tasks_that_may_not_be_compared_are_in_no_speed_ratio() -> None:
    pair = sides(docs_per_s(scaled(20000)), [{**each, "clients": 9} for each in docs_per_s(scaled(40000))], "bulk")
    assert pair.speed_ratio is not None and pair.speed_ratio.ratio == 1
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    theirs = side("contender", "bulk", docs_per_s(scaled(24000)), TURNS["contender"], host_class="4 cores")
    assert compare(ours, [theirs], WITH_SECONDS).pairs[0].speed_ratio is None


def test_a_task_without_a_value_in_a_race_leaves_the_speed_ratio_to_the_others() -> None:
    rounds = docs_per_s(scaled(20000))
    rounds[2] = {"throughput": Throughput("docs", None)}
    pair = sides(docs_per_s(scaled(30000)), rounds, "bulk")
    assert pair.speed_ratio is not None and pair.speed_ratio.ratio == 1


def test_the_speed_ratio_is_the_geometric_mean_over_tasks_and_above_1_where_the_contender_is_better() -> None:
    """Of four tasks one has twice the throughput, an open loop half the p50 latency, and two did not change."""
    ours, theirs = (
        side(name, OPEN, latencies(scaled(p50)), TURNS[name]) for name, p50 in (("baseline", 2.0), ("contender", 1.0))
    )
    faster = tuple(with_task(record, "bulk", throughput=Throughput("docs", 40000.0)) for record in theirs.records)
    level = tuple(with_task(record, "bulk", throughput=Throughput("docs", 20000.0)) for record in ours.records)
    ratio = compare(replace(ours, records=level), [replace(theirs, records=faster)], WITH_SECONDS).pairs[0].speed_ratio
    assert ratio is not None and ratio.ratio == pytest.approx(4 ** (1 / 4), rel=0.01)


def test_a_workload_that_differs_has_no_verdict_until_it_is_allowed() -> None:
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    theirs = side("contender", "bulk", docs_per_s(scaled(24000)), TURNS["contender"], host_class="4 cores")
    refused = compare(ours, [theirs], WITH_SECONDS).pairs[0]
    verdict = verdict_of(refused, "Mean throughput", "bulk")
    assert (verdict.reason.v1, verdict.note) == ("!", "not comparable: host (--allow=host)")
    assert any("--allow=host" in notice.text for notice in refused.notices)
    allowed = compare(ours, [theirs], replace(WITH_SECONDS, allow=("host",))).pairs[0]
    assert verdict_of(allowed, "Mean throughput", "bulk").reason.v1 == "faster"


def test_a_task_that_was_raced_otherwise_spoils_its_own_rows_only() -> None:
    pair = sides(docs_per_s(scaled(20000)), [{**each, "clients": 9} for each in docs_per_s(scaled(24000))], "bulk")
    assert verdict_of(pair, "Mean throughput", "bulk").note == "not comparable: clients (--allow=clients)"
    assert verdict_of(pair, "Mean throughput", "get-by-id").reason.v1 == "same"


def test_what_is_under_test_forbids_nothing() -> None:
    theirs = side("contender", "bulk", docs_per_s(scaled(24000)), TURNS["contender"], track_params={"shards": 1})
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"], track_params={"shards": 5})
    pair = compare(ours, [theirs], WITH_SECONDS).pairs[0]
    assert [each.name for each in pair.differences] == ["param shards"]
    assert verdict_of(pair, "Mean throughput", "bulk").reason.v1 == "faster"


def test_identical_rounds_are_the_same_throughout() -> None:
    pair = sides(docs_per_s([20000] * 4), docs_per_s([20000] * 4), "bulk")
    assert pair.is_same
    assert {row.verdict.reason.v1 for row in pair.primary if row.verdict is not None} <= {"same", "few events"}
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
    assert verdict_of(pair, "Mean throughput", "get-by-id").reason.v1 == "too short"


def test_two_long_races_have_an_interval_and_no_verdict_on_their_sides() -> None:
    pair = compare(alone(20000, "a"), [alone(24000, "b")], CompareOptions(seconds=level_seconds)).pairs[0]
    row = row_of(pair, "Mean throughput", "bulk")
    assert row.verdict == RowVerdict(ONE_RACE)
    assert row.estimate is not None and row.estimate.method == "sections"
    assert row.estimate.low < 1.2 < row.estimate.high


@pytest.mark.parametrize(("length", "kind"), [(119.9, "too short"), (120.0, "within-race only")])
def test_two_minutes_are_long_enough(length: float, kind: str) -> None:
    sides = [
        Side(name, (with_task(alone(docs, name).records[0], "bulk", window=Window(0.5, 0.5 + length)),))
        for name, docs in (("a", 20000), ("b", 24000))
    ]
    pair = compare(sides[0], [sides[1]], CompareOptions(seconds=level_seconds)).pairs[0]
    assert verdict_of(pair, "Mean throughput", "bulk").reason.v1 == kind


@pytest.mark.parametrize(("contender", "kind"), [(24000, "faster"), (20050, "same")])
def test_earlier_races_give_two_single_ones_a_verdict(contender: float, kind: str) -> None:
    history = tuple(alone(20000 * (1 + 0.004 * (-1) ** n), f"h{n}").records[0] for n in range(8))
    pair = compare(alone(20000, "a"), [alone(contender, "b")], replace(WITH_SECONDS, history=history)).pairs[0]
    row = row_of(pair, "Mean throughput", "bulk")
    assert row.verdict is not None and row.verdict.reason.v1 == kind
    assert row.estimate is not None and row.estimate.method == "history"


def test_earlier_races_without_the_task_say_nothing_of_it() -> None:
    history = [alone(20000 * (1 + 0.004 * (-1) ** n), f"h{n}").records[0] for n in range(8)]
    history[0] = replace(history[0], tasks=tuple(task for task in history[0].tasks if task.name != "bulk"))
    options = replace(WITH_SECONDS, history=tuple(history), allow=("tasks",))
    row = row_of(compare(alone(20000, "a"), [alone(16000, "b")], options).pairs[0], "Mean throughput", "bulk")
    assert row.verdict is not None and row.verdict.reason.v1 == "slower"


def test_four_earlier_races_are_too_few() -> None:
    history = tuple(alone(20000 + n, f"h{n}").records[0] for n in range(4))
    pair = compare(alone(20000, "a"), [alone(24000, "b")], replace(WITH_SECONDS, history=history)).pairs[0]
    assert verdict_of(pair, "Mean throughput", "bulk").reason.v1 == "too short"


def test_two_long_races_without_their_seconds_say_so() -> None:
    pair = compare(alone(20000, "a"), [alone(24000, "b")], CompareOptions()).pairs[0]
    verdict = verdict_of(pair, "Mean throughput", "bulk")
    assert (verdict.reason.v1, verdict.note) == ("!", "the seconds of a are missing (seconds.jsonl)")


def test_the_rounds_of_a_session_are_one_race_of_the_history() -> None:
    """What they share is in all of them, so they say little of how far another session may be from theirs."""
    session = Session("t", "rounds", "race", 1, 1, 1)
    rounds = tuple(alone(20000 + 10 * n, f"h{n}", session=session).records[0] for n in range(8))
    others = tuple(alone(20000 * (1 + 0.004 * n), f"g{n}").records[0] for n in range(4))
    for history, kind in ((rounds, "too short"), ((*rounds, *others[:3]), "too short"), ((*rounds, *others), "faster")):
        compared = compare(alone(20000, "a"), [alone(24000, "b")], replace(WITH_SECONDS, history=history))
        assert verdict_of(compared.pairs[0], "Mean throughput", "bulk").reason.v1 == kind
    assert compared.history == 5


def test_a_session_that_its_history_covers_has_verdicts_by_the_spread_of_sessions() -> None:
    history = tuple(alone(20000 * (1 + 0.03 * (-1) ** n), f"h{n}").records[0] for n in range(8))
    ours, theirs = docs_per_s(scaled(20000)), docs_per_s(scaled(20000 * 1.10))
    pair = sides(ours, theirs, "bulk", replace(WITH_SECONDS, history=history), ALONE)
    estimate = row_of(pair, "Mean throughput", "bulk").estimate
    assert estimate is not None and estimate.method == "history"
    spread = math.log(1.03 / 0.97) / 2 * math.sqrt(8 / 7)
    half = 2.3646 * spread * math.sqrt(2)  # one session a side, however many rounds it has; 7 degrees of freedom
    assert math.log(estimate.high / estimate.low) / 2 == pytest.approx(half, rel=1e-3)
    assert verdict_of(pair, "Mean throughput", "bulk").reason.v1 == "~"


def test_one_race_against_several_says_what_is_needed() -> None:
    several = side("contender", "bulk", docs_per_s(scaled(24000)), TURNS["contender"])
    pair = compare(alone(20000, "a"), [several], WITH_SECONDS).pairs[0]
    verdict = verdict_of(pair, "Mean throughput", "bulk")
    assert verdict == RowVerdict(NO_TURNS, remedy="race both sides in one session: esbench duel")


def test_discarded_races_are_no_turns() -> None:
    ours, theirs = (side(name, "bulk", docs_per_s(scaled(20000)), TURNS[name]) for name in TURNS)
    first = ours.records[0]
    discarded = replace(first, session=Session("s", "duel", "baseline"))
    pair = compare(replace(ours, records=(discarded, *ours.records[1:])), [theirs], WITH_SECONDS).pairs[0]
    assert not pair.is_interleaved


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
    assert verdict_of(pair, "p99 service time", "bulk").reason.v1 == "too short"
