"""Counting requests: which second, which phase, which window; and handing closed seconds over."""

from __future__ import annotations

import pickle

import pytest

from esbench.load.recorder import Recorder
from esbench.measure.histogram import Counts
from esbench.measure.slices import WholeTime
from esbench.measure.tally import Errors, PartTally, Tally
from esbench.measure.verdict import GOOD, TIMEOUT, Details, Evidence, Verdict
from esbench.operations.replies import CREATED, UPDATED

NS = 1_000_000_000
MS = 1_000_000
START = 777 * NS + 123_456_789  # seconds count from here, not from the clock's zero


def at(seconds: float) -> int:
    return START + round(seconds * NS)


def closed(recorder: Recorder, until: float = 1000) -> dict[tuple[int, bool], Tally]:
    return {(second.second, second.warmup): second.tally for second in recorder.closed_seconds(at(until))}


def complete(
    recorder: Recorder, sent: float, received: float, verdict: Verdict = GOOD, *, warmup: bool = False
) -> None:
    """A request of a closed loop."""
    recorder.sent(at(sent), warmup)
    recorder.completed(0, at(sent), at(sent), at(received), warmup, verdict)


def test_a_request_belongs_to_the_second_in_which_it_completed() -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    complete(recorder, 0.2, 0.9)
    complete(recorder, 0.9, 1.1)
    complete(recorder, 0.95, 2.0)
    complete(recorder, 2.0, 2.9999)
    tallies = closed(recorder)
    assert {second: tally.requests for (second, _), tally in tallies.items()} == {0: 1, 1: 1, 2: 2}
    assert {second: tally.sent for (second, _), tally in tallies.items()} == {0: 3, 1: 0, 2: 1}


def test_a_request_belongs_to_the_phase_that_it_was_sent_in() -> None:
    recorder = Recorder(WholeTime(START), is_open=False, window_ns=(at(1), at(3)))
    complete(recorder, 0.5, 1.5, warmup=True)
    complete(recorder, 1.2, 1.6)
    tallies = closed(recorder)
    assert tallies[1, True].requests == 1
    assert tallies[1, False].requests == 1


def test_units_count_for_the_window_by_their_completion() -> None:
    recorder = Recorder(WholeTime(START), is_open=False, window_ns=(at(1), at(3)))
    docs = Verdict(10)
    complete(recorder, 0.1, 0.999, docs, warmup=True)  # before
    complete(recorder, 0.5, 1.0, docs, warmup=True)  # sent before, completed in the window
    complete(recorder, 1.5, 2.9, docs)
    complete(recorder, 2.5, 3.0, docs)  # sent in the window, completed after it
    total = Tally()
    for tally in closed(recorder).values():
        total.merge(tally)
    assert total.units == 40
    assert total.in_window_units == 20


def test_without_a_window_the_units_of_the_measurement_phase_count() -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    complete(recorder, 0.0, 0.1, Verdict(3), warmup=True)
    complete(recorder, 0.1, 0.2, Verdict(5))
    tallies = closed(recorder)
    assert (tallies[0, True].units, tallies[0, True].in_window_units) == (3, 0)
    assert (tallies[0, False].units, tallies[0, False].in_window_units) == (5, 5)


def test_an_open_loop_charges_the_wait_from_the_due_time() -> None:
    recorder = Recorder(WholeTime(START), is_open=True)
    # due at 1.0, a client was free at 1.2, sent at 1.25, answered at 1.4
    recorder.arrived(at(1.0), False, True)
    recorder.sent(at(1.25), False)
    recorder.completed(at(1.0), at(1.2), at(1.25), at(1.4), False, GOOD)
    # due at 1.5 when a client had been free since 1.4
    recorder.arrived(at(1.5), False, False)
    recorder.sent(at(1.51), False)
    recorder.completed(at(1.5), at(1.4), at(1.51), at(1.6), False, GOOD)
    (tally,) = closed(recorder).values()
    assert (tally.due, tally.waited, tally.sent, tally.requests) == (2, 1, 2, 2)
    assert (tally.client_wait.max_ns, tally.client_wait.min_ns) == (200 * MS, 0)
    assert (tally.driver_lag.max_ns, tally.driver_lag.min_ns) == (50 * MS, 10 * MS)
    assert (tally.schedule_lag.max_ns, tally.schedule_lag.min_ns) == (250 * MS, 10 * MS)
    assert (tally.service_time.max_ns, tally.service_time.min_ns) == (150 * MS, 90 * MS)
    assert (tally.latency.max_ns, tally.latency.min_ns) == (400 * MS, 100 * MS)
    assert tally.latency.total_ns == tally.schedule_lag.total_ns + tally.service_time.total_ns
    assert tally.schedule_lag.total_ns == tally.client_wait.total_ns + tally.driver_lag.total_ns


def test_a_closed_loop_has_service_time_only() -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    complete(recorder, 0.1, 0.2)
    (tally,) = closed(recorder).values()
    assert tally.service_time.count == 1
    for name in ("latency", "client_wait", "driver_lag", "schedule_lag"):
        assert getattr(tally, name).count == 0


def test_failures_have_a_histogram_of_their_own() -> None:
    recorder = Recorder(WholeTime(START), is_open=True)
    refused = Verdict(0, "HTTP 429 es_rejected_execution_exception", "queue full")
    for verdict in (GOOD, refused, refused, Verdict(0, "HTTP 503", "no master")):
        recorder.completed(at(0), at(0), at(0.001), at(0.003), False, verdict)
    (tally,) = closed(recorder).values()
    assert (tally.requests, tally.units) == (4, 1)
    assert tally.errors.counts == {"HTTP 429 es_rejected_execution_exception": 2, "HTTP 503": 1}
    assert tally.errors.examples["HTTP 503"] == "no master"
    assert (tally.failed.count, tally.service_time.count, tally.latency.count) == (3, 1, 1)
    assert tally.driver_lag.count == 4
    assert (tally.latency_beyond.count, tally.service_time_beyond.count) == (0, 0)


def test_what_a_failed_bulk_got_acknowledged_still_counts() -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    complete(recorder, 0.1, 0.2, Verdict(997, "bulk item 429", "3 of 1000"))
    (tally,) = closed(recorder).values()
    assert (tally.units, tally.in_window_units, tally.errors.total) == (997, 997, 1)


@pytest.mark.parametrize("is_open", [False, True])
def test_timeouts_are_counted_apart_with_the_time_after_which_they_were_given_up(is_open: bool) -> None:
    recorder = Recorder(WholeTime(START), is_open=is_open)
    for kind in (TIMEOUT, "connection lost"):
        recorder.completed(at(0.1), at(0.2), at(0.3), at(60.3), False, Verdict(0, kind, "no reply"))
    tally = closed(recorder)[60, False]
    assert (tally.service_time_beyond.count, tally.service_time_beyond.min_ns) == (1, 60 * NS)
    assert (tally.latency_beyond.count, tally.latency_beyond.total_ns) == ((1, 60_200 * MS) if is_open else (0, 0))
    assert tally.errors.total == 2


def test_an_arrival_that_was_never_sent_is_known_to_have_waited() -> None:
    recorder = Recorder(WholeTime(START), is_open=True)
    recorder.arrived(at(0.5), False, waits=True)
    waits = Counts()
    waits.add(1_750 * MS)
    recorder.never_sent(at(2.25), waits)
    waited = closed(recorder)[2, False].latency_beyond
    assert (waited.count, waited.min_ns) == (1, 1_750 * MS)


def test_parts_of_a_sequence_that_timed_out_are_counted_apart() -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    recorder.part("read", at(0.1), at(30.1), False, TIMEOUT)
    recorder.part("read", at(0.1), at(30.2), False, "HTTP 503")
    part = closed(recorder)[30, False].parts["read"]
    assert (part.errors, part.beyond.count, part.beyond.max_ns) == (2, 1, 30 * NS)


def test_thresholds_are_counted_exactly() -> None:
    recorder = Recorder(WholeTime(0), is_open=False, within_ns=(3 * MS, 5 * MS, 10 * MS))
    for service_ns in (3 * MS - 1, 3 * MS, 3 * MS + 1, 5 * MS, 10 * MS, 10 * MS + 1, 50 * MS):
        recorder.completed(0, 0, 0, service_ns, False, GOOD)
    recorder.completed(0, 0, 0, MS, False, Verdict(0, "HTTP 500", ""))
    (second,) = recorder.closed_seconds(NS)
    assert second.tally.within == [2, 2, 1]


def test_thresholds_are_of_latency_in_an_open_loop() -> None:
    recorder = Recorder(WholeTime(0), is_open=True, within_ns=(5 * MS,))
    recorder.completed(0, 6 * MS, 6 * MS, 7 * MS, False, GOOD)  # 1 ms of service, 7 ms of latency
    recorder.completed(6 * MS, 0, 6 * MS, 7 * MS, False, GOOD)
    (second,) = recorder.closed_seconds(NS)
    assert second.tally.within == [1]


def test_thresholds_are_counted_in_each_phase_apart() -> None:
    recorder = Recorder(WholeTime(0), is_open=False, within_ns=(5 * MS,))
    recorder.completed(0, 0, 0, MS, True, GOOD)
    recorder.completed(0, 0, 0, MS, False, GOOD)
    assert {second.warmup: second.tally.within for second in recorder.closed_seconds(NS)} == {True: [1], False: [1]}


def test_closed_seconds_are_handed_over_once_and_in_order() -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    for received in (0.5, 1.5, 2.5):
        complete(recorder, received - 0.1, received)
        complete(recorder, received - 0.1, received, warmup=True)
    assert [(s.second, s.warmup) for s in recorder.closed_seconds(at(2.0))] == [
        (0, False),
        (0, True),
        (1, False),
        (1, True),
    ]
    assert list(recorder.closed_seconds(at(2.999))) == []
    assert [(s.second, s.warmup) for s in recorder.closed_seconds(at(3.0))] == [(2, False), (2, True)]


def test_the_second_that_runs_stays_open() -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    complete(recorder, 0.1, 0.2)
    assert closed(recorder, 0.99) == {}
    complete(recorder, 0.3, 0.95)
    assert closed(recorder, 1.0)[0, False].requests == 2


def test_no_earlier_second_comes_after_it_was_closed() -> None:
    # an arrival that the loop dispatches late, a failure that is told after a pause
    recorder = Recorder(WholeTime(START), is_open=True)
    recorder.arrived(at(0.5), True, False)
    assert closed(recorder, 1.1)[0, True].due == 1
    recorder.arrived(at(0.999), True, False)
    recorder.sent(at(0.9999), True)
    recorder.completed(at(0.999), 0, at(0.9999), at(0.99999), True, GOOD)
    recorder.arrived(at(1.2), True, False)
    tallies = closed(recorder, 2.0)
    assert list(tallies) == [(1, True)]
    assert (tallies[1, True].due, tallies[1, True].sent, tallies[1, True].requests) == (2, 1, 1)


def test_memory_does_not_grow_with_requests() -> None:
    recorder = Recorder(WholeTime(0), is_open=True, within_ns=(MS,))
    for second in range(50):
        for _ in range(20):
            now = second * NS + 5
            recorder.arrived(now, False, False)
            recorder.completed(now, 0, now, now + MS, False, GOOD)
        list(recorder.closed_seconds((second + 1) * NS))
    assert recorder._tallies == {}


def test_the_ends_of_the_measurement_phase_are_remembered() -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    assert (recorder.first_measured_ns, recorder.last_measured_received_ns) == (None, None)
    complete(recorder, 0.1, 0.2, warmup=True)
    assert (recorder.first_measured_ns, recorder.last_measured_received_ns) == (None, None)
    complete(recorder, 0.3, 0.4)
    complete(recorder, 0.5, 0.6)
    complete(recorder, 0.6, 0.7, warmup=True)
    assert (recorder.first_measured_ns, recorder.last_measured_received_ns) == (at(0.3), at(0.6))


def test_an_open_loop_measures_from_its_first_arrival_on() -> None:
    recorder = Recorder(WholeTime(START), is_open=True)
    for due, warmup in ((0.1, True), (0.2, False), (0.3, False)):
        recorder.arrived(at(due), warmup, waits=False)
        recorder.sent(at(due + 0.05), warmup)
    assert recorder.first_measured_ns == at(0.2)


def test_results_of_different_kinds_are_counted_apart() -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    for verdict in (CREATED, UPDATED, CREATED, Verdict(0, "HTTP 409", "exists")):
        complete(recorder, 0.1, 0.2, verdict)
    (tally,) = closed(recorder).values()
    assert {name: part.requests for name, part in tally.parts.items()} == {"created": 2, "updated": 1}
    assert tally.parts["created"].service_time.count == 2
    assert tally.units == 3


def test_requests_of_a_sequence_are_counted_by_name() -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    recorder.part("write", at(0.1), at(0.2), False)
    recorder.part("read", at(0.2), at(0.5), False)
    recorder.part("write", at(0.6), at(0.7), False, "HTTP 503")
    (tally,) = closed(recorder).values()
    assert (tally.parts["write"].requests, tally.parts["write"].errors) == (2, 1)
    assert tally.parts["write"].service_time.count == 1
    assert tally.parts["read"].service_time.max_ns == 300 * MS
    assert tally.requests == 0


def test_tallies_of_two_workers_add_up() -> None:
    tallies = []
    for number in range(2):
        recorder = Recorder(WholeTime(0), is_open=True, within_ns=(MS, 10 * MS))
        for n in range(1, 101):
            recorder.arrived(0, False, waits=n % 10 == 0)
            recorder.sent(10, False)
            verdict = Verdict(0, TIMEOUT, f"worker {number}") if n % 50 == 0 else CREATED
            recorder.completed(0, 0, 10, n * 100_000, False, verdict)
        (second,) = recorder.closed_seconds(NS)
        tallies.append(second.tally)
    merged = Tally()
    for tally in tallies:
        merged.merge(tally)
    assert (merged.due, merged.sent, merged.requests, merged.waited) == (200, 200, 200, 20)
    assert merged.units == merged.in_window_units == 196
    assert merged.errors.counts == {TIMEOUT: 4}
    assert merged.errors.examples == {TIMEOUT: "worker 0"}
    assert merged.within == [20, 176]
    assert merged.latency.count == 196
    assert merged.latency.total_ns == sum(tally.latency.total_ns for tally in tallies)
    assert (merged.latency_beyond.count, merged.service_time_beyond.count) == (4, 4)
    assert (merged.failed.count, merged.parts["created"].requests) == (4, 196)


def test_a_tally_that_was_merged_into_several_sums_is_no_part_of_them() -> None:
    recorder = Recorder(WholeTime(0), is_open=True, within_ns=(MS, 10 * MS))
    recorder.arrived(0, False, waits=True)
    recorder.sent(10, False)
    details = Details(results={"created": 3}, took_ms=2, returned={"recall": 0.5})
    recorder.completed(0, 0, 10, 5 * MS, False, Verdict(label="hit", details=details))
    recorder.completed(0, 0, 10, 6 * MS, False, Verdict(0, TIMEOUT, "late", evidence=Evidence("GET /")))
    recorder.part("write", 10, 5 * MS, False)
    (second,) = recorder.closed_seconds(NS)
    as_it_was = pickle.dumps(second.tally)
    record, listener = Tally(), Tally()
    record.merge(second.tally)
    listener.merge(second.tally)
    listened = pickle.dumps(listener)
    record.merge(second.tally)
    assert (pickle.dumps(second.tally), pickle.dumps(listener)) == (as_it_was, listened)


def test_errors_and_parts_merge_with_what_is_empty() -> None:
    errors = Errors()
    errors.add("a", "first", 2)
    errors.merge(Errors())
    assert (errors.total, errors.examples) == (2, {"a": "first"})
    part = PartTally()
    part.merge(PartTally(3, 1, Counts()))
    assert (part.requests, part.errors) == (3, 1)


def test_seconds_travel_between_processes() -> None:
    import pickle

    recorder = Recorder(WholeTime(START), is_open=True, within_ns=(MS,))
    recorder.completed(at(0), at(0), at(0), at(0.1), False, CREATED)
    (second,) = recorder.closed_seconds(at(1))
    assert pickle.loads(pickle.dumps(second)).tally.parts["created"].requests == 1


@pytest.mark.parametrize("warmup", [True, False])
def test_a_second_names_its_phase(warmup: bool) -> None:
    recorder = Recorder(WholeTime(START), is_open=False)
    complete(recorder, 0.1, 0.2, warmup=warmup)
    assert [(s.second, s.warmup) for s in recorder.closed_seconds(at(1))] == [(0, warmup)]
