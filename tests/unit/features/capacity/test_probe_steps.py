"""The steps of a search for capacity: how a probe is counted, when it ends early or is void, what its names are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from bound import bound_operation
from races import golden_race, task_of

from esbench.errors import RaceError, UsageError
from esbench.events.progress import Progress
from esbench.features.capacity.probe_steps import CapacityOptions, ProbeSteps
from esbench.features.capacity.record import Probe, SeenProbe
from esbench.measure.objectives import parse_objective
from esbench.measure.tally import Errors, Second, Tally
from esbench.model import Challenge, Step, Task
from esbench.record.model import Check, TaskResult, Throughput, Window

GET = Task("get", bound_operation("get", "get", {"id": "1"}), clients=4, time_period_s=10.0)
INSERT = Task("insert", bound_operation("insert", "index", {}), time_period_s=10.0)
MADE = Step((Task("make", bound_operation("make", "create-index", {})),))
CHALLENGE = Challenge("default", (MADE, Step((GET,)), Step((INSERT,))))
READY: Any = SimpleNamespace(cluster=SimpleNamespace(settle=lambda: None))


def asked(*objectives: str, beside: dict[str, float] | None = None) -> CapacityOptions:
    return CapacityOptions("get", tuple(map(parse_objective, objectives)), beside or {}, 1e9, 600.0, 120.0)


class Search:
    """A search whose probes are given, and what is seen of each of them."""

    def __init__(self, *probes: Probe, objectives: str = "p99<50ms", **options: Any) -> None:
        self._given = iter(probes)
        search = asked(*objectives.split(","), **options)
        self.probing = ProbeSteps(search, Progress(), lambda terms, seen: next(self._given))
        chosen = self.probing.tasks(CHALLENGE, READY)
        self.steps: Iterator[Step] = self.probing.steps(iter(chosen.steps), READY)
        self.made, self.closed = (self._begun(next(self.steps)) for _ in chosen.steps)
        self.end(self.closed, units=1500, seconds=15.0)

    def _begun(self, step: Step) -> Step:
        self.probing.step_begins(0, step)
        return step

    def next(self) -> Step:
        return self._begun(next(self.steps))

    def second(self, step: Step, number: int, requests: int, within: int, failed: int = 0, **keys: Any) -> None:
        tally = Tally(requests=requests, within=[within], errors=Errors({"HTTP 500": failed} if failed else {}))
        self.probing.second(step.tasks[0].name, Second(number, keys.get("warmup", False), tally))

    def end(self, step: Step, units: int = 1, seconds: float = 30.0, **changes: Any) -> None:
        for task in step.tasks:
            self.probing.task_ended(result(task, units, seconds, **changes))


def result(task: Task, units: int = 1, seconds: float = 30.0, **changes: Any) -> TaskResult:
    plain = replace(
        task_of(golden_race(), "get-by-id"),
        name=task.name,
        checks=(),
        units=units,
        requests=units,
        unsent=0,
        throughput=Throughput("ops", units / seconds),
        window=Window(0.0, seconds),
        duration_s=(task.warmup_time_s or 0.0) + seconds,
    )
    return replace(plain, **changes)


def seen(search: Search) -> SeenProbe:
    """What the last probe has shown; the search goes on to its next one."""
    search.next()
    return search.probing.parts()["capacity"].probes[-1]


PROBE = Probe(100.0, 30.0, "bracket")


def test_the_closed_loop_and_a_probe_are_tasks_with_their_lengths() -> None:
    search = Search(PROBE)
    assert search.made == MADE
    (closed,) = search.closed.tasks
    assert (closed.name, closed.warmup_time_s, closed.time_period_s) == ("get@closed", 5.0, 15.0)
    (probe,) = search.next().tasks
    assert (probe.name, probe.clients, probe.warmup_time_s, probe.time_period_s) == ("get@100", 10, 5.0, 30.0)
    assert probe.schedule.rate is not None
    assert (probe.schedule.rate.value, probe.schedule.ramp_up_s, probe.within_ms) == (100.0, 2.0, (50.0,))


def test_late_failed_and_unsent_requests_are_counted_in_batches() -> None:
    search = Search(PROBE, PROBE, objectives="p99<50ms,errors<1%")
    step = search.next()
    search.second(step, 0, 100, 0, warmup=True)
    for number in range(30):
        search.second(step, number, 100, 99 if number < 2 else 100, failed=number == 0)
    search.end(step, unsent=7)
    late, failed = seen(search).counts
    assert (late.due, late.late) == ((200,) * 14 + (207,), (2, *[0] * 13, 7))
    assert (failed.due, failed.late) == ((200,) * 15, (1, *[0] * 14))


def test_a_probe_ends_when_it_is_certain_but_not_the_one_that_holds_the_result() -> None:
    search = Search(PROBE, replace(PROBE, stage="sustain"), PROBE)
    step = search.next()
    search.second(step, 0, 600, 0)  # 20 times 1 % of 3,000 requests
    assert not search.probing.enough()
    search.second(step, 1, 1, 0)
    assert search.probing.enough()
    search.end(step, seconds=6.0)
    held = search.next()
    assert search.probing.parts()["capacity"].probes[-1].cut_short
    search.second(held, 0, 3000, 0)
    assert not search.probing.enough()
    search.end(held)
    assert not seen(search).cut_short


LAG = "driver lag is 60% of p99"


@pytest.mark.parametrize(
    ("check", "void"),
    [
        (Check("driver-lag", "unusable", "driver lag is 60% of p99"), "driver lag is 60% of p99"),
        (Check("driver-lag", "warning", "driver lag is 11% of p99"), ""),
        (Check("target-rate", "unusable", "only 80% of the rate"), ""),
    ],
)
def test_a_probe_whose_driver_was_the_limit_is_void(check: Check, void: str) -> None:
    search = Search(PROBE, PROBE)
    step = search.next()
    search.end(step, checks=(check,))
    assert seen(search).void == void


@pytest.mark.parametrize(
    ("late", "unsent", "missed", "void"),
    [(5, 0, False, ""), (900, 0, False, LAG), (5, 1, False, LAG), (5, 0, True, LAG)],
)
def test_a_probe_that_held_its_rate_counts_though_the_driver_was_late(
    late: int, unsent: int, missed: bool, void: str
) -> None:
    """Lag only adds to latency: what held with it holds without."""
    search = Search(PROBE, PROBE)
    step = search.next()
    search.second(step, 0, 3000, 3000 - late)
    rate = (Check("target-rate", "unusable", "only 80% of the rate"),) if missed else ()
    search.end(step, unsent=unsent, checks=(Check("driver-lag", "unusable", LAG), *rate))
    assert seen(search).void == void


def test_the_driver_of_a_task_beside_counts_too() -> None:
    search = Search(PROBE, PROBE, beside={"insert": 20.0})
    step = search.next()
    probe, beside = step.tasks
    assert (beside.name, step.completed_by) == ("insert beside get@100", ("get@100",))
    late = Check("driver-lag", "unusable", "driver lag is 60% of p99")
    search.probing.task_ended(result(beside, checks=(late,)))
    search.probing.task_ended(result(probe))
    assert seen(search).void == "driver lag is 60% of p99"


def test_no_two_probes_have_one_name() -> None:
    search = Search(PROBE, PROBE, replace(PROBE, rate_per_s=4210.4), replace(PROBE, stage="sustain"), PROBE)
    names = []
    for _ in range(4):
        step = search.next()
        names.append(step.tasks[0].name)
        search.end(step)
    assert names == ["get@100", "get@100 (2)", "get@4210", "get@100 sustained"]


@pytest.mark.parametrize("duration_s", [2.0, 34.0])
def test_requests_that_end_before_their_probe_end_the_search(duration_s: float) -> None:
    search = Search(PROBE, PROBE)
    step = search.next()
    search.end(step, duration_s=duration_s)
    with pytest.raises(RaceError) as caught:
        search.next()
    hint = "a search needs a task whose requests do not end"
    assert str(caught.value) == f'task "get@100": its requests ended after {duration_s:g} s of 35 ({hint})'


def test_a_probe_of_a_low_rate_in_which_nothing_was_due_is_one() -> None:
    search = Search(PROBE, PROBE)
    search.end(search.next(), window=Window(0.0, 35.0))
    last = seen(search)
    assert (last.counts[0].due, last.cut_short) == ((), False)


def test_a_result_is_kept_while_it_is_held() -> None:
    """Who waits no longer has it, unless it did not hold and is searched again."""
    probes = [Probe(rate, 30.0, "near") for rate in (100.0, 104.0)]
    hold, again = Probe(100.0, 120.0, "sustain"), Probe(96.0, 30.0, "near")
    search = Search(*probes, hold, again, replace(hold, rate_per_s=96.0))
    found = []
    for late in (0, 100, 20, 0):
        step = search.next()
        found.append(search.probing.parts()["capacity"].found)
        for number in range(30):
            search.second(step, number, 100, 100 - late)
        search.end(step, seconds=120.0 if step.tasks[0].time_period_s == 120.0 else 30.0)
    search.next()
    found.append(search.probing.parts()["capacity"].found)
    assert [each and (each.why, each.low_per_s, each.high_per_s) for each in found] == [
        *(None, None),
        ("cliff", 100.0, 104.0),
        None,
        ("cliff", 96.0, 100.0),
    ]


def test_a_closed_loop_without_a_good_reply_ends_the_search() -> None:
    search = Search(PROBE)
    search.end(search.closed, units=0, seconds=15.0)
    with pytest.raises(
        RaceError, match=r"no request succeeded in the closed loop of .* s from which the search begins"
    ):
        search.next()


FILL = Task("fill", bound_operation("fill", "bulk", {}))
LEFT_OUT = (
    "what {} may write is not there: before its own task a search runs only those that are done once, or end with "
    "their documents"
)


def test_what_fills_the_index_beside_the_task_is_done_before() -> None:
    probing = ProbeSteps(asked("p99<50ms"), Progress())
    challenge = Challenge("default", (MADE, Step((FILL, GET), clients=2, completed_by=("fill",))))
    made, filled, closed = probing.tasks(challenge, READY).steps
    assert (made, filled) == (MADE, Step((FILL,)))
    assert [task.name for task in closed.tasks] == ["get@closed"]
    assert probing.warnings == ()


@pytest.mark.parametrize(
    ("beside", "named"), [({}, "add, insert, looped and 1 more"), ({"insert": 5.0, "add": 5.0}, "looped, own")]
)
def test_tasks_that_may_write_and_are_left_out_are_named(beside: dict[str, float], named: str) -> None:
    add = replace(INSERT, name="add", time_period_s=None, iterations=1000)
    find = Task("find", bound_operation("find", "search", {"body": {}}), time_period_s=10.0)
    looped = Task("looped", bound_operation("looped", "bulk", {"looped": True}), time_period_s=10.0)
    own = Task("own", bound_operation("own", "raw-request", {"path": "/_bulk", "method": "POST"}), iterations=9)
    steps = (MADE, Step((find,)), Step((add, INSERT)), Step((looped, own, GET)), Step((replace(add, name="later"),)))
    probing = ProbeSteps(asked("p99<50ms", beside=beside), Progress())
    probing.tasks(Challenge("default", steps), READY)
    assert probing.warnings == (LEFT_OUT.format(named),)


def own_objectives(*objectives: str) -> ProbeSteps:
    """The search of a task with these objectives, for which none is given."""
    probing = ProbeSteps(asked(), Progress())
    task = replace(GET, objectives=tuple(map(parse_objective, objectives)))
    chosen = probing.tasks(Challenge("default", (Step((task,)),)), READY)
    next(probing.steps(iter(chosen.steps), READY))
    return probing


def test_objectives_of_a_track_that_a_search_cannot_use_are_left_out() -> None:
    probing = own_objectives("p99<50ms", "mean<5ms", "throughput>=1000", "errors<=0%", "errors<1%")
    assert probing.parts()["capacity"].objectives == ("p99 < 50 ms", "errors < 1 %")
    no_share = "is left out: it counts no requests, and a search for capacity does"
    assert probing.warnings == (
        f'task "get": "mean < 5 ms" {no_share}',
        f'task "get": "throughput >= 1000" {no_share}',
        'task "get": "errors <= 0 %" is left out: it allows no request to be late, which no number of requests can '
        "prove",
    )


@pytest.mark.parametrize(
    ("objectives", "error"),
    [
        ((), 'task "get": it has no objectives that a search can use (say --objective "p99<50ms")'),
        (("mean<5ms",), 'task "get": it has no objectives that a search can use (say --objective "p99<50ms")'),
        (
            ("mean<5ms", "errors<1%"),
            'task "get": errors < 1 %: without a time, a queue holds it at any rate (add one with a time: --objective '
            '"p99<50ms")',
        ),
    ],
)
def test_a_task_without_an_objective_that_a_search_can_use_is_one_line(objectives: tuple[str, ...], error: str) -> None:
    with pytest.raises(UsageError) as caught:
        own_objectives(*objectives)
    assert str(caught.value) == error
