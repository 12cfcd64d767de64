"""The plan of a session while it runs: its looks, the tasks that it leaves out, its rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from bound import bound_operation
from sliced_sides import CLOSED, OPEN, Drawn, Level, rounds

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Comparison, Side
from esbench.events.progress import Progress
from esbench.features.duel.pilot import SeenTask
from esbench.features.duel.planner import FRESH_LUCK, LUCK, DuelPlanner, Terms, forecast_of, luck_of, removable
from esbench.features.duel.session import planned
from esbench.model import Challenge, Step, Task
from esbench.record.model import RaceRecord
from esbench.record.series import SecondLine
from esbench.record.sessions import Pacing, RaceSession, SeenLuck, SessionSide, TaskPacing

SIDES = (SessionSide("baseline"), SessionSide("contender"))
TERMS = Terms(2, 0.1, 3600.0, 6, None, 0.05, is_fresh=True, pacing=Pacing())
LUCKY, UNLUCKY = (0.01, -0.01, 0.0), (0.12, -0.1, 0.08, -0.09, 0.04, -0.05)


def timed(name: str, kind: str = "search") -> Step:
    operation = bound_operation(name, kind, {"body": {}} if kind == "search" else {})
    return Step((Task(name, operation, time_period_s=60.0),))


CHALLENGE = Challenge("default", (timed(CLOSED), timed(OPEN)))


class Told(Progress):
    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


def session(done: int, took_s: float = 100.0) -> RaceSession:
    pacing = Pacing(tasks=(TaskPacing(CLOSED, 1.0, 0.05, 20.0), TaskPacing(OPEN, 1.0, 0.05, 20.0)))
    made = planned("duel", SIDES, done, seed=1, words=(), pacing=pacing, budget_s=3600.0, auto=True, effect_ratio=0.1)
    plan = tuple(
        replace(race, race_id=f"{race.side}-{race.round}", status="complete", took_s=took_s) for race in made.plan
    )
    return replace(made, plan=plan)


def compared(closed: Sequence[float], opened: Sequence[float], factor: float = 1.0) -> Comparison:
    """Two tasks whose rounds are off by these."""
    drawn, other = Drawn(), Drawn()

    def side(name: str, *levels: Sequence[Level]) -> Side:
        pairs = zip(drawn.side(name, levels[0]).records, other.side(name, levels[1], task=OPEN).records, strict=True)
        return Side(name, tuple(replace(one, tasks=(*one.tasks, *two.tasks)) for one, two in pairs), "s")

    def read(record: RaceRecord) -> Iterator[SecondLine]:
        yield from drawn.seconds[record.race_id]
        yield from other.seconds[record.race_id]

    flat = rounds(noise=(0.0,))
    contender = side("contender", rounds(factor, noise=closed), rounds(noise=opened))
    return compare(side("baseline", flat, flat), [contender], CompareOptions(0.1, seconds=read, looks=2))


def after(first: Comparison, terms: Terms = TERMS, done: int = 6) -> tuple[RaceSession, list[str]]:
    told = Told()
    return DuelPlanner(terms, CHALLENGE, told, lambda session: first).after(session(done)), told.lines


def test_a_session_whose_rows_are_all_settled_ends() -> None:
    ended, told = after(compared(LUCKY, LUCKY))
    assert (ended.left, ended.looks, ended.look_at, ended.auto) == ((), 1, (6,), False)
    assert ended.luck is not None and ended.luck.fresh_nodes
    assert told == []


def test_tasks_that_are_settled_are_left_out_and_the_others_raced_on() -> None:
    on, told = after(compared(LUCKY, UNLUCKY))
    assert on.pacing is not None
    assert on.pacing.settled == (CLOSED,)
    assert on.looks == 2
    assert on.look_at == (6, on.rounds)
    assert on.rounds > 7
    assert told == [f"settled after 6 rounds: {CLOSED}; the others are raced up to {on.rounds}"]


def test_the_plan_is_the_same_whichever_side_is_faster_and_however_much() -> None:
    plans = [after(compared(UNLUCKY, UNLUCKY, factor))[0] for factor in (1.0, 1.02, 1 / 1.02)]
    assert len({(plan.look_at, plan.looks) for plan in plans}) == 1


@pytest.mark.parametrize("opened", [LUCKY, UNLUCKY])
def test_a_session_that_is_interrupted_at_a_look_is_looked_at_again(opened: Sequence[float]) -> None:
    saved: list[RaceSession] = []

    def look(session: RaceSession) -> Comparison:
        saved.append(session)
        return compared(LUCKY, opened)

    ended = DuelPlanner(TERMS, CHALLENGE, Told(), look).after(session(6))
    assert [each.auto or bool(each.left) for each in saved] == [True] * len(saved)
    assert not ended.auto


def test_no_more_rounds_are_planned_than_the_budget_holds() -> None:
    on, _ = after(compared(UNLUCKY, UNLUCKY), replace(TERMS, budget_s=950.0))
    assert on.look_at == (6, 9)


@pytest.mark.parametrize("fixed", [6, 9])
def test_rounds_that_the_user_asked_for_are_not_planned_anew(fixed: int) -> None:
    begun = replace(session(6), auto=False)
    told = Told()
    planner = DuelPlanner(replace(TERMS, fixed=fixed), CHALLENGE, told, lambda session: compared(LUCKY, LUCKY))
    assert planner.after(begun) == begun


def test_the_first_round_sets_how_tasks_are_raced_and_says_what_to_expect() -> None:
    told, seen = Told(), SeenTask(2000.0, 0.004, 0.02, (), 3.0, None)
    planner = DuelPlanner(TERMS, CHALLENGE, told, lambda session: compared(LUCKY, LUCKY))
    for step in CHALLENGE.steps:
        planner.keep(TERMS.step(step, [{step.tasks[0].name: seen}] * 2, 100.0, 10.0), 20.0)
    begun = replace(session(1), auto=False)
    assert begun.pacing is not None
    on = planner.after(replace(begun, pacing=replace(begun.pacing, tasks=())))
    assert on.pacing is not None
    assert [(task.task, task.own_s >= 20.0) for task in on.pacing.tasks] == [(CLOSED, True), (OPEN, True)]
    assert told.lines[0].startswith("plan: ")
    assert "expected to settle 10 % for 2 of 2 tasks" in told.lines[0]
    assert planner.after(on) == on


def test_before_any_pilot_a_usual_spread_is_expected() -> None:
    forecast = forecast_of(CHALLENGE, TERMS, others_s=30.0)
    assert forecast.settled == (CLOSED, OPEN)
    assert not forecast.is_whole
    assert "p99" not in forecast.text
    assert not forecast_of(CHALLENGE, replace(TERMS, budget_s=100.0), others_s=30.0).settled


def test_only_tasks_that_nothing_depends_on_are_left_out() -> None:
    steps = (timed("first", "index"), timed("read"), timed("last", "index"))
    assert removable(Challenge("default", steps)) == {"read", "last"}


def test_luck_is_what_this_home_has_seen_of_such_nodes() -> None:
    sessions = [replace(session(1), luck=SeenLuck(ratio, fresh_nodes=True)) for ratio in (0.02, 0.03, 0.07)]
    assert luck_of(sessions, is_fresh=True) == 0.03
    assert luck_of(sessions, is_fresh=False) == LUCK
    assert luck_of([], is_fresh=True) == FRESH_LUCK
