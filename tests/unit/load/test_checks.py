"""When figures must not be used, or with care: each check on and off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from esbench.load.checks import (
    NEVER_BEGUN,
    Amount,
    TaskFigures,
    clock_offset,
    host_skew,
    incomplete,
    lost_hosts,
    task_checks,
)
from esbench.measure.tally import Tally
from esbench.model import Operation, Schedule, Stage, Task
from esbench.record.model import Check, CheckKind, WorkerHealth
from esbench.units import Rate

MS = 1_000_000


def tally(due: int = 1000, requests: int = 1000, service_ms: float = 5, max_lag_ms: float = 0, **keys: Any) -> Tally:
    result = Tally(due=due, sent=requests, requests=requests, **keys)
    for _ in range(requests):
        result.service_time.add(int(service_ms * MS))
    result.schedule_lag.add(int(max_lag_ms * MS))
    return result


OPEN = Task("t", Operation("o", "search"), clients=8, schedule=Schedule(rate=Rate(100, "ops")), time_period_s=10.0)
POISSON = Schedule("poisson", Rate(100, "ops"))
BY_NUMBER = Task("t", Operation("o", "search"), clients=8, schedule=Schedule(rate=Rate(100, "ops")), requests=1000)
CLOSED = Task("t", Operation("o", "search"), clients=8, time_period_s=10.0)


def checks(
    task: Task = OPEN, counted: Tally | None = None, health: WorkerHealth | None = None, **keys: Any
) -> dict[str, Check]:
    figures: dict[str, Any] = {
        "in_window": 1000,
        "window_s": 10.0,
        "target_requests_per_s": 100.0 if task.schedule.rate else None,
        "unsent": 0,
        "backlog_rise": None,
        "drift_ratio": None,
        "reported_ms": {"p50": 4.0, "p99": 10.0},
        "driver_lag_ms": {"p50": 0.05, "p99": 0.2} if task.schedule.is_open else None,
        "driver_share_ratio": None if task.schedule.is_open else 0.02,
        "inside_warmup": False,
        "feed_waits": 0,
    }
    counted = tally(due=1000 if task.schedule.is_open else 0) if counted is None else counted
    return {check.name: check for check in task_checks(TaskFigures(task, counted, **{**figures, **keys}), health)}


@pytest.mark.parametrize("task", [OPEN, BY_NUMBER, CLOSED], ids=["open", "by number", "closed"])
def test_a_healthy_task_has_no_checks(task: Task) -> None:
    assert checks(task) == {}


def test_unsent_arrivals_make_figures_unusable() -> None:
    check = checks(unsent=3)["unsent"]
    assert check.level == "unusable"
    assert check.message == "3 arrivals were due and never sent"
    assert "lower the rate" in check.hint


def test_a_line_that_grows_makes_figures_unusable_even_where_the_rate_was_nearly_reached() -> None:
    check = checks(BY_NUMBER, backlog_rise=45.2)["backlog"]
    assert check.level == "unusable"
    assert check.message == "the line of arrivals that waited for a client grew by 45"
    assert "lower the rate" in check.hint


def test_a_line_that_shrinks_or_that_the_clients_can_hold_is_no_overload() -> None:
    assert checks(backlog_rise=8.0) == {}
    assert checks(backlog_rise=-300.0) == {}


def test_a_line_that_was_never_served_is_told_once() -> None:
    assert set(checks(unsent=300, backlog_rise=280.0)) == {"unsent"}


def test_a_task_that_sent_less_than_all_of_its_work_makes_figures_unusable() -> None:
    assert checks(CLOSED, amount=Amount(5000, 5000, "docs")) == {}
    check = checks(CLOSED, amount=Amount(250, 5000, "docs"))["short"]
    assert (check.level, check.message) == ("unusable", "the task ended after 250 of 5,000 docs")
    assert check.value == 0.05


# The target rate


def test_a_missed_rate_makes_figures_unusable() -> None:
    check = checks(in_window=855)["target-rate"]
    assert check.level == "unusable"
    assert check.message == "only 85.5% of the target rate was reached"


def test_a_hundredth_of_the_rate_may_be_missing() -> None:
    assert checks(in_window=990) == {}
    assert "target-rate" in checks(in_window=985)


def test_what_is_in_flight_at_the_end_is_no_miss() -> None:
    # 100/s of 200 ms: 20 are in flight whenever one looks
    assert checks(counted=tally(requests=980, service_ms=200), in_window=980) == {}
    assert "target-rate" in checks(counted=tally(requests=980, service_ms=5), in_window=980)


def test_a_short_window_is_not_judged_by_one_request() -> None:
    assert checks(counted=tally(due=30, requests=29), in_window=29, window_s=0.3) == {}


def test_requests_that_pile_up_in_many_clients_are_a_miss() -> None:
    # 64 more in flight at the end than at the start: on average 32
    counted = tally(due=2000, requests=1936, service_ms=160)
    assert "target-rate" in checks(counted=counted, in_window=1936)


def test_nothing_in_the_window_is_a_miss() -> None:
    message = checks(counted=tally(requests=0), in_window=0, unsent=1000)["target-rate"].message
    assert message == "only 0.0% of the target rate was reached"


def test_stages_are_judged_by_what_was_due() -> None:
    stages = Schedule(stages=(Stage(5, Rate(100, "ops")), Stage(5, Rate(200, "ops"))))
    task = Task("t", Operation("o", "search"), schedule=stages)
    assert checks(task, tally(due=1500, requests=1500), in_window=1500, target_requests_per_s=None) == {}
    assert "target-rate" in checks(task, tally(due=1500), in_window=1000, target_requests_per_s=None)


def test_a_number_of_requests_must_not_take_longer_than_their_schedule() -> None:
    # 1,000 arrivals at 100/s span 9.99 s
    assert checks(BY_NUMBER, window_s=9.995) == {}
    check = checks(BY_NUMBER, tally(max_lag_ms=2500), window_s=12.5)["target-rate"]
    assert check.message == "only 80.0% of the target rate was reached"


def test_the_time_of_the_last_request_is_no_miss() -> None:
    assert checks(BY_NUMBER, tally(due=20, requests=20, service_ms=150), window_s=0.19 + 0.15) == {}


def test_the_last_of_few_requests_may_be_late_by_a_part_of_its_gap() -> None:
    assert checks(BY_NUMBER, tally(due=3, requests=3, max_lag_ms=5), window_s=0.03) == {}
    assert "target-rate" in checks(BY_NUMBER, tally(due=3, requests=3, max_lag_ms=20), window_s=0.045)


def test_a_stall_that_was_made_good_is_no_miss() -> None:
    assert checks(BY_NUMBER, tally(max_lag_ms=500), window_s=9.995) == {}


def test_long_gaps_that_were_drawn_are_no_miss() -> None:
    task = Task("t", Operation("o", "search"), schedule=POISSON, requests=100)
    counted = tally(due=100, requests=100, max_lag_ms=1)
    assert checks(task, counted, window_s=1.3) == {}
    late = tally(due=100, requests=100, max_lag_ms=300)
    assert "target-rate" in checks(task, late, window_s=1.3)


def test_one_arrival_has_no_rate() -> None:
    assert checks(BY_NUMBER, tally(due=1, requests=1), window_s=0.5) == {}


def test_a_task_that_ended_inside_its_warmup_is_not_judged_by_its_rate() -> None:
    assert set(checks(in_window=0, inside_warmup=True)) == {"inside-warmup"}


def test_a_window_without_an_end_is_judged_by_the_time_that_the_arrivals_took() -> None:
    task = Task("t", Operation("o", "bulk"), schedule=Schedule(rate=Rate(100, "ops")), warmup_time_s=1.0)
    assert checks(task, window_s=10.0) == {}
    assert "target-rate" in checks(task, tally(max_lag_ms=5000), window_s=15.0)


# Clients and the driver


def test_too_few_clients_are_a_warning() -> None:
    assert checks(counted=tally(waited=10)) == {}
    check = checks(counted=tally(waited=25))["client-limited"]
    assert (check.level, check.message) == ("warning", "25 of 1,000 requests had to wait for a free client")
    assert "the cluster is slower" in check.hint


def test_clients_that_wait_for_documents_are_not_laid_to_the_cluster() -> None:
    found = checks(counted=tally(waited=25), feed_waits=2)
    assert set(found) == {"client-limited", "feed-waits"}
    assert found["client-limited"].hint == "clients waited for their documents: see feed-waits first"


@pytest.mark.parametrize(
    ("lag_ms", "reported_ms", "level"),
    [
        (0.5, 2.0, None),  # up to 500 us is nobody's business
        (0.51, 2.0, "warning"),
        (1.0, 10.0, None),  # a tenth
        (1.01, 10.0, "warning"),
        (5.0, 10.0, "warning"),  # half
        (5.01, 10.0, "unusable"),
        (0.3, 0.5, "unusable"),
        (80.0, float("inf"), None),  # the cluster hung: the driver was not the limit
    ],
)
def test_driver_lag_is_judged_by_what_is_reported(lag_ms: float, reported_ms: float, level: str | None) -> None:
    found = checks(reported_ms={"p99": reported_ms}, driver_lag_ms={"p99": lag_ms})
    assert [check.level for check in found.values()] == ([] if level is None else [level])


INFINITE = float("inf")


@pytest.mark.parametrize(
    ("lag_ms", "reported_ms", "level", "percentile"),
    [
        ({"p50": 0.3, "p99": 1.5}, {"p50": 0.4, "p99": 20.0}, "unusable", "p50"),
        ({"p50": 0.1, "p99": 1.0, "p99.9": 30.0}, {"p50": 4.0, "p99": 10.0, "p99.9": 40.0}, "unusable", "p99.9"),
        ({"p50": 0.1, "p99": 1.0, "p99.9": 8.0}, {"p50": 4.0, "p99": 10.0, "p99.9": 40.0}, "warning", "p99.9"),
        ({"p50": 3.0, "p99": 9.0}, {"p50": 5.0, "p99": 10.0}, "unusable", "p99"),  # the larger part of the two
        ({"p50": 3.0, "p99": 4.0}, {"p50": 5.0, "p99": 10.0}, "unusable", "p50"),  # the worse level
        # too few samples for a p99
        ({"p50": 2.0, "p90": 30.0, "max": 33.0}, {"p50": 30.0, "p90": 35.0, "max": 40.0}, "unusable", "p90"),
        # so few that there is the median alone
        ({"p50": 0.1, "max": 33.0}, {"p50": 5.0, "max": 40.0}, "unusable", "max"),
        ({"p50": 0.1, "p90": 0.2, "max": 33.0}, {"p50": 5.0, "p90": 9.0, "max": 40.0}, None, ""),
        # timeouts: the largest percentile that is known
        ({"p50": 1.0, "p95": 300.0, "p99": 400.0}, {"p50": 20.0, "p95": 310.0, "p99": INFINITE}, "unusable", "p95"),
        ({"p50": 0.1, "max": 33.0}, {"p50": 5.0, "max": INFINITE}, None, ""),
    ],
)
def test_driver_lag_is_held_against_each_percentile_that_is_reported(
    lag_ms: dict[str, float], reported_ms: dict[str, float], level: str | None, percentile: str
) -> None:
    found = checks(reported_ms=reported_ms, driver_lag_ms=lag_ms)
    assert [check.level for check in found.values()] == ([] if level is None else [level])
    assert all(check.message.startswith(f"driver lag {percentile} is ") for check in found.values())


def test_without_figures_there_is_no_driver_lag_to_judge() -> None:
    assert checks(reported_ms=None, driver_lag_ms={"p99": 1.0}) == {}


def test_a_closed_loop_whose_clients_wait_for_the_driver_is_a_warning() -> None:
    assert checks(CLOSED, driver_share_ratio=0.1) == {}
    check = checks(CLOSED, driver_share_ratio=0.25)["driver-share"]
    assert check.level == "warning"
    assert check.message == "clients spent 25% of their time in the driver, which limits the throughput"


def test_waiting_for_documents_is_a_warning() -> None:
    assert checks(feed_waits=2)["feed-waits"].level == "warning"


@pytest.mark.parametrize(
    ("ratio", "task", "message"),
    [
        (0.1, CLOSED, None),
        (-0.1, CLOSED, None),
        (0.101, CLOSED, "throughput rose by 10% in the course of the measurement"),
        (-0.3, CLOSED, "throughput fell by 30% in the course of the measurement"),
        (1.5, OPEN, "p50 latency rose by 150% in the course of the measurement"),
    ],
)
def test_drift_beyond_a_tenth_is_a_warning(ratio: float, task: Task, message: str | None) -> None:
    found = checks(task, drift_ratio=ratio)
    assert [check.message for check in found.values()] == ([] if message is None else [message])
    assert [check.level for check in found.values()] == ([] if message is None else ["warning"])


@pytest.mark.parametrize("task", [OPEN, CLOSED])
def test_a_worker_without_time_to_spare_is_a_warning(task: Task) -> None:
    assert checks(task, health=WorkerHealth(busy_ratio=0.9)) == {}
    check = checks(task, health=WorkerHealth(busy_ratio=0.97))["driver-busy"]
    assert (check.level, check.value) == ("warning", 0.97)
    assert check.message.startswith("load workers were busy, up to 97% of the time: ")


def test_a_worker_that_was_busy_for_a_while_is_a_warning() -> None:
    assert checks(health=WorkerHealth(busy_ratio=0.2, busy_above_ratio=0.1)) == {}
    check = checks(health=WorkerHealth(busy_ratio=0.5, busy_above_ratio=0.5))["driver-busy"]
    assert check.message.startswith("load workers were busy, over 90% of the time in up to 50% of the measurement:")


@pytest.mark.parametrize(
    ("task", "more", "hint"),
    [
        (CLOSED, True, "add workers, or fewer clients"),
        (CLOSED, False, "fewer clients"),
        (replace(CLOSED, clients=16), False, "fewer clients"),  # on all workers that there can be
        (
            replace(CLOSED, clients=16, time_period_s=None, iterations=9),
            False,
            "give the task a time-period, so that several workers share it, or fewer clients",
        ),
    ],
)
def test_more_workers_are_a_remedy_only_where_the_task_would_use_them(task: Task, more: bool, hint: str) -> None:
    assert checks(task, driver_share_ratio=0.2, can_use_more_workers=more)["driver-share"].hint == hint


def test_an_open_loop_that_needs_one_worker_is_not_given_another() -> None:
    found = checks(driver_lag_ms={"p99": 9.0}, health=WorkerHealth(busy_ratio=1.0, loop_lag_ratio=0.5))
    assert not [check for check in found.values() if "add workers" in check.hint]
    assert "add workers" in checks(driver_lag_ms={"p99": 9.0}, can_use_more_workers=True)["driver-lag"].hint


def test_a_cpu_that_the_hypervisor_took_away_is_a_warning() -> None:
    assert checks(health=WorkerHealth(steal_ratio=0.05)) == {}
    check = checks(health=WorkerHealth(steal_ratio=0.08))["steal"]
    assert (check.level, check.value) == ("warning", 0.08)
    assert check.message == "the hypervisor took CPUs of the load workers away, up to 8% of the time"


def test_an_event_loop_that_is_late_is_a_warning_where_the_p99_would_feel_it() -> None:
    assert checks(health=WorkerHealth(loop_lag_ratio=0.01, loop_lag_ms=900.0)) == {}
    late = WorkerHealth(loop_lag_ratio=0.014, loop_lag_ms=85.0)
    check = checks(health=late)["loop-lag"]
    assert (check.level, check.value) == ("warning", 0.014)
    assert check.message == "a load worker reacted late, 14 ms in an average second and 85 ms at worst"
    assert checks(health=late, reported_ms={"p99": 150.0}) == {}
    assert set(checks(health=late, reported_ms={"p99": 130.0})) == {"loop-lag"}
    assert set(checks(health=late, reported_ms=None)) == {"loop-lag"}


def test_a_worker_that_waits_for_a_cpu_is_a_warning() -> None:
    assert checks(health=WorkerHealth(run_delay_ratio=0.05)) == {}
    check = checks(health=WorkerHealth(run_delay_ratio=0.12))["run-delay"]
    assert (check.level, check.message) == ("warning", "load workers had to wait for a CPU, up to 12% of the time")


# Replies


def test_errors_are_a_warning_with_the_most_frequent_kind() -> None:
    counted = tally()
    counted.errors.add("HTTP 404", "no such index")
    counted.errors.add("HTTP 429", "queue full", 3)
    check = checks(counted=counted)["errors"]
    assert check.level == "warning"
    assert check.message == "4 of 1,000 requests failed, most with HTTP 429: queue full"


@pytest.mark.parametrize(
    ("kinds", "hint"),
    [
        ({"HTTP 429": 3}, "they are in no percentile"),
        ({"timeout": 3}, "they rank as longer than all replies"),
        ({"HTTP 429": 3, "timeout": 2}, "2 timeouts rank as longer than all replies, the others not"),
    ],
)
def test_the_percentiles_of_failures_are_told(kinds: dict[str, int], hint: str) -> None:
    counted = tally()
    for kind, count in kinds.items():
        counted.errors.add(kind, "an example", count)
    assert checks(counted=counted)["errors"].hint == f"{hint}: see error_kinds in the record"


def test_a_long_example_of_an_error_stays_in_one_line() -> None:
    counted = tally()
    counted.errors.add("HTTP 400", '{\n  "error": "' + "x" * 500)
    message = checks(counted=counted)["errors"].message
    assert '{ "error": "xxx' in message
    assert len(message) < 300


def test_a_task_inside_its_warmup_is_a_warning() -> None:
    check = checks(inside_warmup=True)["inside-warmup"]
    assert check.level == "warning"
    assert "shorten the warmup" in check.hint


def test_clamped_durations_are_a_warning() -> None:
    counted = tally()
    counted.service_time.add(-5)
    assert checks(counted=counted)["clamped"].message == "1 durations lay outside 0 to 24 h"


@pytest.mark.parametrize("measure", ["client_wait", "schedule_lag", "failed"])
def test_clamped_durations_of_every_measure_are_told(measure: str) -> None:
    counted = tally()
    getattr(counted, measure).add(-5)
    assert set(checks(counted=counted)) == {"clamped"}


def test_every_check_names_its_cause_and_its_remedy_in_one_line() -> None:
    counted = tally(waited=500)
    counted.errors.add("HTTP 429", "queue full")
    counted.latency.add(-1)
    bad = WorkerHealth(busy_ratio=1.0, run_delay_ratio=0.5, steal_ratio=0.5, loop_lag_ratio=0.5, loop_lag_ms=500.0)
    lagging = {"driver_lag_ms": {"p99": 9.0}, "driver_share_ratio": 0.5, "feed_waits": 1, "drift_ratio": 0.5}
    found = checks(counted=counted, health=bad, in_window=500, unsent=1, inside_warmup=False, **lagging)
    found |= checks(inside_warmup=True, backlog_rise=99.0, amount=Amount(1, 2, "docs"))
    found |= {check.name: check for check in (incomplete("worker 1 died"), lost_hosts(["a:9200"], 2), NEVER_BEGUN)}
    found |= {check.name: check for check in (clock_offset(9.0, 1.0), host_skew({"a": 1.0, "b": 2.0})) if check}
    assert set(found) == {kind.label for kind in CheckKind}
    for check in found.values():
        assert check.message and check.hint
        assert "\n" not in check.message + check.hint
