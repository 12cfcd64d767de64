"""What all workers measured of a task: windows, throughput, percentiles, shares."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from esbench.load.measurements import TaskMeasurements
from esbench.load.messages import TaskEnd, TaskSeconds
from esbench.load.recorder import Recorder
from esbench.load.task_results import params_digest, task_result
from esbench.measure.histogram import Counts, decode
from esbench.measure.slices import SlicedTime, WholeTime
from esbench.measure.tally import Second
from esbench.measure.verdict import GOOD, TIMEOUT, Verdict
from esbench.model import Operation, Schedule, Stage, Task
from esbench.operations.replies import CREATED, UPDATED
from esbench.record.model import TaskResult, Window, WorkerHealth
from esbench.record.series import SecondLine
from esbench.units import Rate

NS = 1_000_000_000
START = 5_000 * NS
WHOLE = WholeTime(START)
TIMED_OUT = Verdict(0, TIMEOUT, "no reply within 60 s")


def at(seconds: float) -> int:
    return START + round(seconds * NS)


def task(rate: float | None = None, **keys: Any) -> Task:
    operation = keys.pop("operation", Operation("read", "get", {"id": "1"}))
    keys.setdefault("schedule", Schedule(rate=None if rate is None else Rate(rate, "ops")))
    return Task("a-task", operation, **keys)


class Share:
    """One worker's recorder of a task, and what it says at the end."""

    def __init__(self, task: Task, time: WholeTime = WHOLE) -> None:
        window = None
        if task.is_time_based and time is WHOLE:
            warmup_s = task.warmup_time_s or 0.0
            period_s = task.time_period_s
            window = (at(warmup_s), 1 << 62 if period_s is None else at(warmup_s + period_s))
        within = tuple(round(limit * 1_000_000) for limit in task.limits_ms)
        self.recorder = Recorder(time, is_open=task.schedule.is_open, window_ns=window, within_ns=within)
        self.warmup_end_s = task.warmup_time_s or 0.0
        self.end_s = 0.0

    def arrive(self, due: float, *, waits: bool = False) -> None:
        self.recorder.arrived(at(due), due < self.warmup_end_s, waits)

    def serve(
        self, due: float, sent: float, received: float, verdict: Verdict = GOOD, *, warmup: bool | None = None
    ) -> None:
        """One request, whose client had been free since its due time."""
        phase = due < self.warmup_end_s if warmup is None else warmup
        self.recorder.sent(at(sent), phase)
        self.recorder.completed(at(due), at(due), at(sent), at(received), phase, verdict)
        self.end_s = max(self.end_s, received)

    def ended(self, unsent: int = 0, end_s: float | None = None, feed_waits: int = 0) -> TaskEnd:
        return TaskEnd(
            "a-task",
            START,
            at(self.end_s if end_s is None else end_s),
            unsent,
            self.recorder.first_measured_ns,
            self.recorder.last_received_ns,
            feed_waits,
        )


def measure(task: Task, *shares: Share, unsent: int = 0, end_s: float | None = None, **keys: Any) -> TaskResult:
    """The result of shares that each close all their seconds at once."""
    measurements = TaskMeasurements(
        task,
        0,
        unit=keys.get("unit", "ops"),
        admin=keys.get("admin", False),
        per_request=keys.get("per_request", {"ops": 1.0}),
        workers=frozenset(range(len(shares))),
        units_in_all=keys.get("units_in_all"),
        ended_by_itself=keys.get("ended_by_itself", False),
        time=keys.get("time", WHOLE),
    )
    for number, share in enumerate(shares):
        list(measurements.add(number, TaskSeconds("a-task", tuple(share.recorder.closed_seconds(1 << 62)), 1 << 40)))
        measurements.end(number, share.ended(unsent if number == 0 else 0, end_s))
    assert measurements.ended
    list(measurements.flush())
    return task_result(measurements, WorkerHealth())


def steady(share: Share, rate: float, until: float, service: float = 0.01, start: float = 0.0) -> None:
    """An open loop that is served in time."""
    for n in range(round((until - start) * rate)):
        due = start + n / rate
        share.arrive(due)
        share.serve(due, due, due + service)


# Windows and throughput


def test_throughput_is_what_completed_in_the_window_over_its_length() -> None:
    t = task(100, warmup_time_s=2.0, time_period_s=4.0)
    share = Share(t)
    steady(share, 100, until=6)
    result = measure(t, share)
    assert result.window == Window(2.0, 6.0)
    assert result.throughput.mean == pytest.approx(100)
    assert result.requests == 400  # due in the window
    assert (result.warmup.requests, result.warmup.duration_s) == (200, 2.0)
    assert result.due == 400


def test_requests_that_were_due_in_the_warmup_and_completed_in_the_window_count() -> None:
    # offered 200/s, served 100/s: what completes in the window was due long before
    t = task(200, clients=8, warmup_time_s=2.0, time_period_s=4.0)
    share = Share(t)
    for n in range(1200):
        due, received = n / 200, (n + 1) / 100
        share.arrive(due, waits=n > 0)
        if received <= 6:
            share.serve(due, received - 0.01, received)
    result = measure(t, share, unsent=600, end_s=6.0)
    assert result.throughput.mean == pytest.approx(100, rel=0.005)
    assert (result.due, result.requests) == (800, 200)  # arrivals 400 to 599 were answered
    assert "target-rate" in {check.name for check in result.checks}


def test_completions_after_the_window_do_not_count_for_its_throughput() -> None:
    t = task(time_period_s=3.0)
    share = Share(t)
    share.serve(0, 0.5, 1.0, Verdict(30))
    share.serve(0, 2.9, 3.0, Verdict(500))
    result = measure(t, share)
    assert result.throughput.mean == pytest.approx(10)
    assert result.units == 530


def test_by_numbers_the_window_is_from_the_first_send_to_the_last_reply() -> None:
    t = task(iterations=4, warmup_iterations=2)
    share = Share(t)
    for n in range(2):
        share.serve(0, n * 0.5, n * 0.5 + 0.5, Verdict(7), warmup=True)
    for n in range(4):
        share.serve(0, 1.25 + n * 0.5, 1.75 + n * 0.5, Verdict(5), warmup=False)
    result = measure(t, share)
    assert result.window == Window(1.25, 3.25)
    assert result.throughput.mean == pytest.approx(20 / 2.0)
    assert (result.warmup.requests, result.warmup.units, result.warmup.duration_s) == (2, 14, 1.25)
    assert result.requests == 4


@pytest.mark.parametrize("late_s", [0.0, 0.0099])
def test_by_numbers_each_arrival_of_an_open_loop_has_its_gap(late_s: float) -> None:
    t = task(rate=100, iterations=6, warmup_iterations=3)
    share = Share(t)
    for n in range(9):
        due, warmup = n / 100, n < 3
        share.recorder.arrived(at(due), warmup, waits=False)
        sent = due + (late_s if n == 3 else 0.0)
        share.serve(due, sent, sent + 0.001, warmup=warmup)
    result = measure(t, share)
    assert (result.window.start_s, result.window.end_s) == pytest.approx((0.03, 0.081))
    assert result.throughput.mean == pytest.approx(100)


def test_by_numbers_an_open_loop_that_is_late_takes_until_its_last_reply() -> None:
    t = task(rate=100, requests=10)
    share = Share(t)
    for n in range(10):
        share.arrive(n / 100)
        share.serve(n / 100, n / 10, n / 10 + 0.1)
    result = measure(t, share)
    assert result.window == Window(0.0, 1.0)
    assert result.throughput.mean == pytest.approx(10)
    assert "target-rate" in {check.name for check in result.checks}


def test_by_numbers_the_gaps_of_a_ramp_up_are_its_own() -> None:
    t = task(requests=50, schedule=Schedule(rate=Rate(100, "ops"), ramp_up_s=1.0))
    share = Share(t)
    for n in range(50):  # half of the rate x the ramp-up
        due = (n / 50) ** 0.5
        share.arrive(due)
        share.serve(due, due, due + 0.001)
    assert measure(t, share).throughput.mean == pytest.approx(50)


def test_by_numbers_the_seconds_are_of_measured_units_alone() -> None:
    t = task(iterations=5, warmup_iterations=1)
    share = Share(t)
    share.serve(0, 0.0, 2.5, Verdict(1000), warmup=True)  # still in flight when the measurement begins
    for n in range(5):
        share.serve(0, 0.2 + n, 1.2 + n, Verdict(10), warmup=False)
    throughput = measure(t, share).throughput
    assert throughput.mean == pytest.approx(10)
    assert (throughput.min, throughput.median, throughput.max) == (10, 10, 10)


def test_with_a_warmup_only_the_window_lasts_until_the_last_reply() -> None:
    t = task(warmup_time_s=1.0)
    share = Share(t)
    for n in range(10):
        share.serve(n * 0.3, n * 0.3, n * 0.3 + 0.3, Verdict(1000))
    result = measure(t, share)
    assert result.window == Window(1.0, 3.0)
    assert result.throughput.mean == pytest.approx(7000 / 2.0)  # replies at 1.2, 1.5 ... 3.0


def test_stages_have_the_window_after_the_warmup_up_to_their_end() -> None:
    schedule = Schedule(stages=(Stage(2, Rate(10, "ops")), Stage(3, Rate(20, "ops"))))
    t = task(schedule=schedule, warmup_time_s=1.0)
    share = Share(t)
    steady(share, 10, until=2)
    steady(share, 20, start=2, until=5)
    result = measure(t, share, end_s=5.01)
    assert result.window == Window(1.0, 5.0)
    assert result.target_rate_per_s is None


def test_a_task_that_ended_early_has_a_window_up_to_its_end() -> None:
    t = task(warmup_time_s=1.0, time_period_s=60.0)
    share = Share(t)
    share.serve(2.0, 2.0, 3.0)
    assert measure(t, share, end_s=3.5).window == Window(1.0, 3.5)


def test_ingest_that_ended_inside_its_warmup_still_has_figures() -> None:
    t = task(warmup_time_s=10.0, within_ms=(300,), operation=Operation("load", "bulk", {"bulk-size": 1000}))
    share = Share(t)
    for n in range(8):
        share.serve(0.5 * n, 0.5 * n, 0.5 * n + 0.25, Verdict(1000))
    result = measure(t, share, unit="docs", end_s=4.0)
    assert result.window == Window(0.0, 4.0)
    assert result.throughput.mean == pytest.approx(2000)
    assert (result.throughput.min, result.throughput.max) == (2000, 2000)
    assert result.units == 8000
    assert result.warmup.requests == 0
    assert result.within_ms == {"300": 100.0}
    assert [check.name for check in result.checks] == ["inside-warmup"]


def test_a_corpus_that_ended_inside_the_warmup_ends_it_however_many_arrivals_were_due_since() -> None:
    t = task(100, clients=1, warmup_time_s=1.0)
    share = Share(t)
    for n in range(80):
        share.arrive(n / 100, waits=True)
        share.serve(n / 100, n / 20, n / 20 + 0.05)
    for n in range(100, 400):
        share.arrive(n / 100, waits=True)
    result = measure(t, share)
    assert (result.requests, result.window) == (80, Window(0.0, 4.0))
    assert "inside-warmup" in {check.name for check in result.checks}


def test_a_cluster_that_hangs_from_the_warmup_on_did_not_end_inside_it() -> None:
    t = task(10, clients=1, warmup_time_s=1.0, time_period_s=4.0)
    share = Share(t)
    steady(share, 10, until=0.9)
    share.arrive(0.9)  # sent in the warmup, and never answered in time
    for n in range(10, 50):
        share.arrive(n / 10, waits=True)
    share.serve(0.9, 0.9, 7.0, TIMED_OUT)
    result = measure(t, share, unsent=40)
    assert result.window == Window(1.0, 5.0)
    assert result.throughput.mean == 0
    assert (result.due, result.unsent, result.requests) == (40, 40, 0)
    assert {check.name for check in result.checks} >= {"unsent", "target-rate"}
    assert "inside-warmup" not in {check.name for check in result.checks}


def test_the_seconds_of_throughput_are_the_whole_ones_of_the_window() -> None:
    t = task(warmup_time_s=0.5, time_period_s=4.0)  # whole: 1, 2 and 3
    share = Share(t)
    for received, units in ((0.7, 1000), (1.5, 10), (2.5, 30), (3.5, 20), (4.2, 5000)):
        share.serve(received - 0.01, received - 0.01, received, Verdict(units))
    result = measure(t, share, end_s=4.5)
    throughput = result.throughput
    assert (throughput.min, throughput.median, throughput.max) == (10, 20, 30)
    assert throughput.mean == pytest.approx(6060 / 4)


def test_a_second_without_completions_is_a_zero() -> None:
    t = task(time_period_s=4.0)
    share = Share(t)
    for received in (0.5, 1.5, 3.5):
        share.serve(0, received - 0.1, received, Verdict(8))
    throughput = measure(t, share, end_s=4.0).throughput
    assert (throughput.min, throughput.median, throughput.max) == (0, 8, 8)


def test_fewer_than_three_whole_seconds_have_no_extremes() -> None:
    t = task(time_period_s=2.9)
    share = Share(t)
    share.serve(0, 0.1, 0.2)
    throughput = measure(t, share, end_s=2.9).throughput
    assert throughput.mean is not None
    assert (throughput.min, throughput.median, throughput.max) == (None, None, None)


def test_nothing_at_all_has_no_figures() -> None:
    t = task(iterations=1)
    result = measure(t, Share(t), end_s=0.0)
    assert result.throughput.mean is None
    assert result.service_time_ms is None
    assert (result.error_rate_ratio, result.driver_share_ratio) == (None, None)


# Distributions


def test_percentiles_come_from_the_merged_histograms_of_all_workers() -> None:
    t = task(clients=2, iterations=500)
    shares = [Share(t), Share(t)]
    for number, share in enumerate(shares):
        for n in range(500):
            service = 0.001 + 0.001 * number + n * 1e-6
            share.serve(0, n * 0.01, n * 0.01 + service)
    result = measure(t, *shares)
    assert result.service_time_ms is not None
    assert result.service_time_ms["p50"] == pytest.approx(1.5, rel=0.002)
    assert result.service_time_ms["p99"] == pytest.approx(2.49, rel=0.002)
    assert result.service_time_ms["min"] == 1.0
    assert result.service_time_ms["max"] == pytest.approx(2.499, abs=1e-9)
    assert result.service_time_ms["mean"] == pytest.approx(1.7495, abs=1e-6)
    assert (result.requests, result.workers) == (1000, 2)
    assert decode(result.histograms["service_time"]).count == 1000
    assert result.latency_ms is None
    assert "latency" not in result.histograms


@pytest.mark.parametrize(
    ("samples", "ranks"), [(35, ["p50"]), (100, ["p50", "p90", "p95"]), (400, ["p50", "p90", "p95", "p99"])]
)
def test_percentiles_are_given_where_the_samples_carry_them(samples: int, ranks: list[str]) -> None:
    t = task(iterations=samples)
    share = Share(t)
    for n in range(samples):
        share.serve(0, n * 0.01, n * 0.01 + 0.001)
    figures = measure(t, share).service_time_ms
    assert figures is not None
    assert [name for name in figures if name.startswith("p")] == ranks


def test_unsent_and_timed_out_requests_rank_above_all_others() -> None:
    t = task(100, clients=4, time_period_s=4.0)
    share = Share(t)
    steady(share, 100, until=3.8)
    for n in range(380, 390):
        share.arrive(n / 100)
        share.serve(n / 100, n / 100, n / 100 + 60, TIMED_OUT)
    for n in range(390, 400):
        share.arrive(n / 100, waits=True)
        share.recorder.never_sent(at(4.0), durations(4.0 - n / 100))
    result = measure(t, share, unsent=10)
    assert result.latency_ms is not None
    assert result.service_time_ms is not None
    assert result.latency_ms["p90"] == pytest.approx(10, rel=0.001)
    assert result.latency_ms["p95"] == pytest.approx(10, rel=0.001)  # the 380th of 400
    assert result.latency_ms["p99"] == math.inf
    # of 400: 380 replies, 10 waits of 10 to 100 ms, 10 timeouts; the 396th is one of these
    assert 60_000 <= result.latency_ms["p99_at_least"] <= 60_001
    assert result.latency_ms["max"] == math.inf
    assert result.latency_ms["max_at_least"] == 60_000
    assert "p95_at_least" not in result.latency_ms
    assert result.service_time_ms["p95"] == pytest.approx(10, rel=0.001)  # unsent ones have no service time
    assert result.service_time_ms["p99"] == math.inf
    assert result.service_time_ms["p99_at_least"] == result.service_time_ms["max_at_least"] == 60_000
    assert (result.unsent, result.errors) == (10, 10)
    assert decode(result.histograms["failed"]).count == 10
    assert decode(result.histograms["latency"]).count == 380
    beyond = (decode(result.histograms[name]).count for name in ("latency_beyond", "service_time_beyond"))
    assert tuple(beyond) == (20, 10)


def durations(*seconds: float) -> Counts:
    counts = Counts()
    for duration in seconds:
        counts.add(round(duration * NS))
    return counts


def test_arrivals_that_were_never_sent_are_above_what_they_waited() -> None:
    t = task(100, clients=1, time_period_s=4.0)
    share = Share(t)
    for n in range(400):
        share.arrive(n / 100, waits=n > 0)
        if n < 40:  # ten a second
            share.serve(n / 100, n / 10, n / 10 + 0.1)
        else:
            share.recorder.never_sent(at(4.0), durations(4.0 - n / 100))
    times = measure(t, share, unsent=360).latency_ms
    assert times is not None
    assert (times["p50"], times["max"]) == (math.inf, math.inf)
    # the 200th of replies after 0.1 to 3.61 s and waits of 0.01 to 3.6 s: half of them lie above
    assert times["p50_at_least"] == pytest.approx(1_810, rel=0.01)
    assert times["max_at_least"] == pytest.approx(3_610)


def test_where_everything_timed_out_its_times_are_known_to_be_that_long() -> None:
    t = task(iterations=3)
    share = Share(t)
    for n in range(3):
        share.serve(0, n, n + 1 + n / 100, TIMED_OUT)
    times = measure(t, share).service_time_ms
    assert times == {
        **{"max": math.inf, "max_at_least": 1020.0},
        **{"p50": math.inf, "p50_at_least": pytest.approx(1010, rel=0.001)},
    }


def test_a_timeout_that_was_shorter_than_a_reply_does_not_read_as_that_long() -> None:
    t = task(iterations=1000)
    share = Share(t)
    share.serve(0, 0, 5.0)  # on a client with another timeout
    for n in range(899):
        share.serve(0, n * 0.01, n * 0.01 + 0.001)
    for n in range(100):
        share.serve(0, n * 0.01, n * 0.01 + 1.0, TIMED_OUT)
    times = measure(t, share).service_time_ms
    assert times is not None
    assert times["p99_at_least"] == pytest.approx(1000, rel=0.001)
    assert times["max_at_least"] == 5000


def test_other_failures_do_not_rank_above() -> None:
    t = task(100, time_period_s=4.0)
    share = Share(t)
    steady(share, 100, until=3.9)
    for n in range(390, 400):
        share.arrive(n / 100)
        share.serve(n / 100, n / 100, n / 100 + 0.001, Verdict(0, "HTTP 429", "queue full"))
    latency = measure(t, share).latency_ms
    assert latency is not None
    assert latency["p99"] == pytest.approx(10, rel=0.001)


def test_an_open_loop_has_all_its_distributions() -> None:
    t = task(10, clients=1, requests=3)
    share = Share(t)
    for n in range(3):
        share.arrive(n / 10, waits=n == 2)
        share.recorder.sent(at(n / 10 + 0.02), False)
        share.recorder.completed(at(n / 10), at(n / 10 + 0.005), at(n / 10 + 0.02), at(n / 10 + 0.05), False, GOOD)
    result = measure(t, share, end_s=0.25)
    means = [
        figures["mean"]
        for figures in (
            result.client_wait_ms,
            result.driver_lag_ms,
            result.schedule_lag_ms,
            result.service_time_ms,
            result.latency_ms,
        )
        if figures
    ]
    assert means == pytest.approx([5, 15, 20, 30, 50])
    assert result.waited_ratio == pytest.approx(1 / 3)
    assert result.driver_share_ratio is None
    assert set(result.histograms) == {"service_time", "latency", "client_wait", "driver_lag", "schedule_lag"}
    assert (result.loop, result.schedule) == ("open", "deterministic")


# Shares


def test_the_share_of_the_driver_is_the_time_outside_requests() -> None:
    t = task(clients=2, time_period_s=10.0)
    share = Share(t)
    for client in range(2):
        for n in range(100):
            begin = n * 0.1 + client * 0.01
            share.serve(begin, begin + 0.02, begin + 0.1)
    result = measure(t, share, end_s=10.0)
    assert result.driver_share_ratio == pytest.approx(0.2)
    assert [check.name for check in result.checks] == ["driver-share"]


def test_think_time_is_no_share_of_the_driver() -> None:
    t = task(clients=1, time_period_s=10.0, think_time_s=0.05)
    share = Share(t)
    for n in range(100):
        share.serve(n * 0.1, n * 0.1, n * 0.1 + 0.05)
    assert measure(t, share, end_s=10.0).driver_share_ratio == pytest.approx(0.0, abs=1e-9)


def test_clients_that_a_ramp_up_has_not_begun_yet_are_no_share_of_the_driver() -> None:
    t = task(clients=4, time_period_s=20.0, schedule=Schedule(ramp_up_s=8.0))
    share = Share(t)
    for client in range(4):
        for n in range(client * 20, 200):
            share.serve(n * 0.1, n * 0.1, n * 0.1 + 0.1)
    assert measure(t, share, end_s=20.0).driver_share_ratio == pytest.approx(0.0, abs=1e-9)


def test_the_ends_of_slices_are_no_share_of_the_driver() -> None:
    """A request that begins in the settling part of a slice, or ends after the slice, is a request all the same."""
    time = SlicedTime(START, 2 * NS, NS, NS // 10, 2, 0, seed=1)
    t = task(clients=1, time_period_s=8.0)
    share = Share(t, time)
    for number in range(4):
        begin_ns = time.at_ns(2 * number * NS)
        for n in range(4):  # 0.6 s each: 0, 0.6, 1.2, 1.8
            sent_ns = begin_ns + n * 6 * NS // 10
            share.recorder.sent(sent_ns, n == 0)
            share.recorder.completed(0, sent_ns, sent_ns, sent_ns + 6 * NS // 10, n == 0, GOOD)
    result = measure(t, share, end_s=8.0, time=time)
    assert result.requests == 12
    assert result.driver_share_ratio == pytest.approx(0.0, abs=1e-9)
    assert result.throughput.mean == pytest.approx(1 / 0.6, rel=0.003)  # whole requests in 1.9 s: 1.58


def test_failed_requests_are_time_in_requests_too() -> None:
    t = task(clients=1, time_period_s=10.0)
    share = Share(t)
    for n in range(100):
        share.serve(n * 0.1, n * 0.1, n * 0.1 + 0.1, GOOD if n % 2 else Verdict(0, "HTTP 500", ""))
    assert measure(t, share, end_s=10.0).driver_share_ratio == pytest.approx(0.0, abs=1e-9)


def test_few_requests_say_nothing_about_the_driver() -> None:
    t = task(clients=1, iterations=3)
    share = Share(t)
    for n in range(3):
        share.serve(0, n, n + 0.1)
    assert measure(t, share).driver_share_ratio is None


def test_within_is_the_share_of_all_requests_failed_and_unsent_ones_too() -> None:
    t = task(100, clients=4, time_period_s=1.0, within_ms=(50, 2.5, 10))
    share = Share(t)
    for n, service in enumerate([0.002] * 40 + [0.010] * 30 + [0.050] * 10 + [0.051] * 5):
        share.arrive(n / 100)
        share.serve(n / 100, n / 100, n / 100 + service)
    for n in range(85, 90):
        share.arrive(n / 100)
        share.serve(n / 100, n / 100, n / 100 + 0.001, Verdict(0, "HTTP 503", ""))
    result = measure(t, share, unsent=10)
    assert result.within_ms == {"2.5": 40.0, "10": 70.0, "50": 80.0}


def test_thresholds_that_nothing_met_are_zero() -> None:
    t = task(iterations=1, within_ms=(1,))
    share = Share(t)
    share.serve(0, 0, 1)
    assert measure(t, share).within_ms == {"1": 0.0}
    assert measure(task(iterations=1), share).within_ms == {}


def test_errors_are_told_by_kind() -> None:
    t = task(iterations=4)
    share = Share(t)
    for n, verdict in enumerate([GOOD, GOOD, GOOD, Verdict(0, "HTTP 404 index_not_found_exception", "no such index")]):
        share.serve(0, n, n + 0.5, verdict)
    result = measure(t, share)
    assert (result.requests, result.errors, result.error_rate_ratio) == (4, 1, 0.25)
    kind = result.error_kinds["HTTP 404 index_not_found_exception"]
    assert (kind.count, kind.example) == (1, "no such index")


def test_named_requests_have_rows_of_their_own() -> None:
    t = task(iterations=3)
    share = Share(t)
    for n, verdict in enumerate([CREATED, CREATED, UPDATED]):
        share.serve(0, n, n + 0.1 * (n + 1), verdict)
    result = measure(t, share)
    created, updated = result.requests_by_name
    assert (created.name, created.requests, updated.name, updated.requests) == ("created", 2, "updated", 1)
    assert created.service_time_ms is not None
    assert created.service_time_ms["max"] == pytest.approx(200)
    assert created.histogram is not None
    assert decode(created.histogram).count == 2


def test_parts_of_a_sequence_that_timed_out_rank_above_all_others() -> None:
    t = task(iterations=50)
    share = Share(t)
    for n in range(50):
        share.recorder.part("write", at(n), at(n + 0.2), False)
        share.recorder.part("read", at(n + 0.2), at(n + 0.3), False, TIMEOUT if n >= 44 else None)
        share.serve(0, n, n + 0.3, TIMED_OUT if n >= 44 else GOOD)
    read, write = measure(t, share).requests_by_name
    assert (read.name, read.requests, read.errors, write.errors) == ("read", 50, 6, 0)
    assert read.service_time_ms is not None
    assert write.service_time_ms is not None
    assert read.service_time_ms["p50"] == pytest.approx(100, rel=0.001)
    assert read.service_time_ms["p90"] == math.inf
    assert read.service_time_ms["p90_at_least"] == pytest.approx(100, rel=0.001)  # given up after as long
    assert write.service_time_ms["p90"] == pytest.approx(200, rel=0.001)


def test_administrative_tasks_are_left_out_of_the_report_unless_the_track_says_otherwise() -> None:
    t = task(iterations=1)
    share = Share(t)
    share.serve(0, 0, 1)
    assert measure(t, share).include_in_reporting is True
    assert measure(t, share, admin=True).include_in_reporting is False
    wanted = replace(t, operation=replace(t.operation, include_in_reporting=True))
    assert measure(wanted, share, admin=True).include_in_reporting is True


# What moves while it is measured


def drifting(rise: float, length: float, loop_rate: float | None = None, **keys: Any) -> TaskResult:
    """A measurement after 5 s of warmup, in which the service time rises in a line, by `rise` in all."""
    t = task(loop_rate, clients=1, warmup_time_s=5.0, time_period_s=length, **keys)
    share = Share(t)
    now, number = 0.0, 0
    while now < 5 + length:
        service = 0.02 * (1 + rise * max(0.0, now - 5) / length) * (1 + 0.05 * (number % 3))
        if loop_rate is not None:
            share.arrive(now)
        share.serve(now, now, now + service)
        number += 1
        now += service if loop_rate is None else 1 / loop_rate
    return measure(t, share, end_s=5 + length)


def drift_of(result: TaskResult) -> float | None:
    return next((check.value for check in result.checks if check.name == "drift"), None)


def test_a_closed_loop_that_slows_down_has_drift_in_its_throughput() -> None:
    assert drift_of(drifting(0.3, 60)) == pytest.approx(1 / 1.3 - 1, abs=0.02)
    assert drift_of(drifting(0.05, 60)) is None


def test_an_open_loop_has_drift_in_its_median_latency() -> None:
    assert drift_of(drifting(0.3, 60, 10)) == pytest.approx(0.3, abs=0.03)
    assert drift_of(drifting(0.3, 600, 10)) == pytest.approx(0.3, abs=0.03)
    assert drift_of(drifting(0.05, 60, 10)) is None
    assert drift_of(drifting(0.0, 60, 10)) is None


def test_drift_is_looked_for_from_a_minute_on() -> None:
    assert drift_of(drifting(0.5, 59.9)) is None
    assert drift_of(drifting(0.5, 59.9, 10)) is None


def test_stages_are_meant_to_move_the_latency() -> None:
    stages = Schedule(stages=(Stage(35, Rate(10, "ops")), Stage(30, Rate(10, "ops"))))
    assert drift_of(drifting(0.5, 60, 10, schedule=stages)) is None


def test_ingest_inside_its_warmup_has_no_drift() -> None:
    t = task(warmup_time_s=100.0, operation=Operation("load", "bulk", {"bulk-size": 1000}))
    share = Share(t)
    for n in range(90):
        share.serve(n, n, n + 0.9, Verdict(1000 + 50 * n))
    assert [check.name for check in measure(t, share, end_s=90.0).checks] == ["inside-warmup"]


def overloaded(served_per_s: float, *, requests: int = 2000) -> TaskResult:
    """A number of requests, due at 100/s, for one client that serves so many."""
    t = task(100, clients=1, requests=requests)
    share = Share(t)
    answered = [max(n / 100, n / served_per_s) + 1 / served_per_s for n in range(requests)]
    for n, received in enumerate(answered):
        due = n / 100
        share.arrive(due, waits=n > 0 and answered[n - 1] > due)
        share.serve(due, max(due, received - 1 / served_per_s), received)
    recorder = share.recorder
    close = recorder.closed_seconds

    def closed_seconds(now_ns: int) -> Iterator[Second]:
        for second in close(now_ns):
            end = second.second + 1
            second.tally.backlog = sum(n / 100 < end for n in range(requests)) - sum(a <= end for a in answered)
            yield second

    recorder.closed_seconds = closed_seconds  # type: ignore[method-assign]
    return measure(t, share)


def test_a_line_that_grows_is_told_even_where_the_rate_was_nearly_reached() -> None:
    found = {check.name: check for check in overloaded(99.5).checks}
    assert "target-rate" not in found
    assert found["backlog"].value == pytest.approx(10, abs=1)  # 0.5 % of 2,000


def test_a_line_that_does_not_grow_is_no_overload() -> None:
    assert "backlog" not in {check.name for check in overloaded(150).checks}
    assert "backlog" not in {check.name for check in overloaded(99.5, requests=800).checks}  # too short to tell


# Merging while the task runs


def seconds(*numbers: int, until: int, units: float = 1) -> TaskSeconds:
    recorder = Recorder(WHOLE, is_open=False)
    for number in numbers:
        recorder.completed(0, 0, at(number + 0.1), at(number + 0.5), False, Verdict(units))
    return TaskSeconds("a-task", tuple(recorder.closed_seconds(1 << 62)), until)


@pytest.fixture
def two_workers() -> Iterator[TaskMeasurements]:
    t = task(clients=2, time_period_s=60.0)
    yield TaskMeasurements(t, 0, unit="ops", admin=False, per_request={"ops": 1.0}, workers=frozenset({0, 1}))


def test_a_second_is_merged_when_every_worker_has_closed_it(two_workers: TaskMeasurements) -> None:
    def added(worker: int, news: TaskSeconds) -> list[tuple[int, int]]:
        return [(second.second, second.tally.requests) for second in two_workers.add(worker, news)]

    assert added(0, seconds(0, 1, until=2)) == []
    assert added(1, seconds(0, until=1)) == [(0, 2)]
    assert added(0, seconds(2, until=3)) == []
    assert added(1, seconds(until=3)) == [(1, 1), (2, 1)]
    assert two_workers.measured.requests == 4


def test_a_worker_that_has_ended_does_not_hold_the_seconds_of_the_others(two_workers: TaskMeasurements) -> None:
    def added(worker: int, news: TaskSeconds) -> list[tuple[int, int]]:
        return [(second.second, second.tally.requests) for second in two_workers.add(worker, news)]

    assert added(0, seconds(0, until=3)) == []
    two_workers.end(0, TaskEnd("a-task", START, at(1), 0, None, None))
    assert added(1, seconds(0, 1, 2, 3, until=4)) == [(0, 2), (1, 1), (2, 1), (3, 1)]
    assert added(1, seconds(4, until=5)) == [(4, 1)]


def test_what_a_silent_worker_left_open_is_closed_at_the_end(two_workers: TaskMeasurements) -> None:
    list(two_workers.add(0, seconds(0, 1, until=2)))
    assert [second.second for second in two_workers.flush()] == [0, 1]
    assert not two_workers.ended


def test_a_line_of_the_series_has_the_counts_and_the_histograms() -> None:
    recorder = Recorder(WHOLE, is_open=True)
    recorder.arrived(at(0.1), True, False)
    recorder.sent(at(0.1), True)
    recorder.completed(at(0.1), 0, at(0.1), at(0.2), True, Verdict(0, "HTTP 500", ""))
    recorder.arrived(at(0.1), False, False)
    recorder.completed(at(0.1), 0, at(0.1), at(0.2), False, Verdict(5))
    failed, good = sorted((SecondLine.of("t", s) for s in recorder.closed_seconds(at(1))), key=lambda s: s.units)
    assert failed == SecondLine("t", 0, "warmup", 1, 1, 1, 0, {"HTTP 500": 1}, driver_lag=failed.driver_lag)
    assert good.phase == "measurement"
    assert good.counts("latency").count == good.counts("service_time").count == 1


def test_the_digest_of_parameters_is_of_what_the_task_asks() -> None:
    base = task()
    assert params_digest(base) == params_digest(replace(base, name="other", clients=4))
    assert params_digest(base) != params_digest(replace(base, operation=Operation("read", "get", {"id": "2"})))
    assert params_digest(base) != params_digest(replace(base, operation=Operation("read", "delete", {"id": "1"})))


def test_the_digest_of_parameters_is_without_the_prefix_of_indices() -> None:
    ours, theirs, plain = (
        replace(task(), operation=Operation("read", "get", {"id": "1", "index": f"{prefix}orders"}))
        for prefix in ("side1-", "side2-", "")
    )
    assert params_digest(ours, "side1-") == params_digest(theirs, "side2-") == params_digest(plain)
    assert params_digest(ours) != params_digest(theirs)


# Tasks that waited for clients of others


def after_waiting(a_task: Task, *starts_s: float | None) -> TaskResult:
    """The result of a task whose workers began it so many seconds after the step, or never."""
    measurements = TaskMeasurements(
        a_task,
        0,
        unit="ops",
        admin=False,
        per_request={"ops": 1.0},
        workers=frozenset(range(len(starts_s))),
        step_start_ns=START,
    )
    for number, start_s in enumerate(starts_s):
        begun_ns = None if start_s is None else at(start_s)
        measurements.end(number, TaskEnd("a-task", begun_ns, at(9), 0, None, None))
    return task_result(measurements, WorkerHealth())


@pytest.mark.parametrize(
    "a_task", [task(100, warmup_time_s=2.0, time_period_s=4.0), task(iterations=5), task(100, iterations=5), task()]
)
def test_a_task_that_never_began_has_no_figures_and_says_so(a_task: Task) -> None:
    result = after_waiting(a_task, None, None)
    assert [check.name for check in result.checks] == ["never-begun"]
    assert (result.start_s, result.duration_s, result.window) == (0.0, 0.0, Window(0.0, 0.0))
    assert (result.requests, result.sent, result.throughput.mean, result.service_time_ms) == (0, 0, None, None)


def test_a_task_that_waited_says_when_it_began() -> None:
    result = after_waiting(task(iterations=5), 3.5, None)
    assert (result.start_s, result.duration_s) == (3.5, 5.5)
    assert "never-begun" not in [check.name for check in result.checks]


# Less than all of its work

REFUSED = Verdict(60, "bulk item 429", "refused")
LOST = Verdict(0, "connection lost", "it ended")
SOURCE = Operation("read", "get", {"id": "1"}, python="source")


@pytest.mark.parametrize(
    ("keys", "verdicts", "units_in_all", "message"),
    [
        ({"requests": 3}, [GOOD, LOST, GOOD], None, ""),
        ({"requests": 4, "clients": 2}, [GOOD] * 3, None, "the task ended after 3 of 4 requests"),
        ({"iterations": 2, "warmup_iterations": 1, "clients": 2}, [GOOD] * 6, None, ""),
        ({"iterations": 2, "clients": 2}, [GOOD] * 3, None, "the task ended after 3 of 4 requests"),
        ({"clients": 2}, [GOOD], None, "the task ended after 1 of 2 requests"),
        ({"time_period_s": 60.0}, [GOOD], None, ""),
        ({"warmup_time_s": 60.0}, [GOOD], None, ""),  # whose end is that of another task
        ({"schedule": Schedule(stages=(Stage(60.0, Rate(1, "ops")),))}, [GOOD], None, ""),
        ({"requests": 9, "operation": SOURCE}, [GOOD], None, ""),  # which may have an end
        # bulks of 100 documents
        ({"clients": 8}, [Verdict(100), Verdict(50)], 150, ""),
        ({"clients": 8}, [], 150, "the task ended after 0 of 150 docs"),
        ({"warmup_time_s": 1.0}, [Verdict(100)], 150, "the task ended after 100 of 150 docs"),
        ({"time_period_s": 60.0}, [Verdict(100)], 150, ""),
        ({}, [Verdict(100), REFUSED, LOST], 300, ""),
        ({}, [Verdict(100), LOST], 300, "the task ended after 200 of 300 docs"),
        ({"iterations": 2}, [Verdict(100)] * 2, 300, ""),
        ({"iterations": 9}, [Verdict(100)] * 3, 300, ""),  # the documents ended it
        ({"iterations": 9}, [Verdict(100)] * 2, 300, "the task ended after 200 of 300 docs"),
    ],
)
def test_a_task_that_ended_by_itself_has_sent_all_of_its_work(
    keys: dict[str, Any], verdicts: list[Verdict], units_in_all: float | None, message: str
) -> None:
    def result(ended_by_itself: bool) -> TaskResult:
        share = Share(t := task(**keys))
        for n, verdict in enumerate(verdicts):
            share.serve(n, n, n + 1, verdict)
        work = {"unit": "docs", "per_request": {"docs": 100.0, "ops": 1.0}} if units_in_all else {}
        return measure(t, share, units_in_all=units_in_all, ended_by_itself=ended_by_itself, **work)

    assert [check.message for check in result(True).checks if check.name == "short"] == ([message] if message else [])
    assert "short" not in {check.name for check in result(False).checks}
