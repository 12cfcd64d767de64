"""The parts of a log that the rounds of a duel send: of one length for all shapes, one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from recorded import recorded_task

from esbench.events.progress import Progress
from esbench.features.duel.planner import DuelPlanner, Terms
from esbench.features.duel.recorded_parts import paced_in_parts, parts_text
from esbench.features.duel.session import planned
from esbench.features.duel.slices import shaped
from esbench.measure.schedule import length_s
from esbench.model import Challenge, Step
from esbench.race.recorded import part_of
from esbench.record.sessions import Pacing, SessionSide

HOUR_S = 3600.0


@pytest.fixture
def challenge(tmp_path: Path) -> Challenge:
    """An hour of one shape, and one search of another at its begin."""
    tasks = []
    for name, times_s in (("often", [0.5, HOUR_S]), ("once", [7.0])):
        (tmp_path / name).mkdir()
        tasks.append(replace(recorded_task(tmp_path / name, times_s, clients=1), name=name))
    return Challenge("c", (Step(tuple(tasks)),))


def begins(challenge: Challenge, pacing: Pacing, rounds: int) -> list[list[float]]:
    """From where each round sends each task, in s, in the rounds of two sides."""
    found = []
    for number in range(1, rounds + 1):
        (step,) = part_of(shaped(challenge, pacing, 2), number).steps
        found.append([task.schedule.recorded.from_s for task in step.tasks if task.schedule.recorded is not None])
    return found


def own_s(challenge: Challenge, pacing: Pacing) -> list[float | None]:
    return [length_s(task) for task in shaped(challenge, pacing, 2).tasks]


def test_six_rounds_of_four_minutes_send_twelve_minutes(challenge: Challenge) -> None:
    pacing = paced_in_parts(challenge, Pacing(task_time_s=240.0), 2, 6, 900.0)
    assert begins(challenge, pacing, 6) == [[120.0 * number] * 2 for number in range(6)]
    assert parts_text(shaped(challenge, pacing, 2)) == "2 min of 1 h in each round, 30 rounds for all of it"


def test_a_plan_gives_each_round_the_part_that_its_budget_has_time_for(challenge: Challenge) -> None:
    pacing = paced_in_parts(challenge, Pacing(), 2, 6, 900.0)
    assert own_s(challenge, pacing) == [64.0, 64.0]  # of 75 s, with gaps, and a tenth for what is beside
    assert begins(challenge, pacing, 3) == [[64.0 * number] * 2 for number in range(3)]


@pytest.mark.parametrize(("rounds", "expected_s"), [(1, 3600.0), (6, 600.0), (400, 20.0)])
def test_rounds_that_the_user_asks_for_send_the_log_once(challenge: Challenge, rounds: int, expected_s: float) -> None:
    assert own_s(challenge, paced_in_parts(challenge, Pacing(), 2, rounds)) == [expected_s] * 2


def test_a_short_log_is_no_longer_than_it_is(tmp_path: Path) -> None:
    short = Challenge("c", (Step((recorded_task(tmp_path, [0.0, 4.9], clients=1),)),))
    pacing = paced_in_parts(short, Pacing(), 2, 6, 900.0)
    assert own_s(short, pacing) == [6.0]
    assert parts_text(shaped(short, pacing, 2)) == "all 5 s of it in each round"


def test_the_parts_stay_as_long_when_the_plan_goes_on(challenge: Challenge) -> None:
    pacing = paced_in_parts(challenge, Pacing(), 2, 6, 900.0)
    sides = (SessionSide("baseline"), SessionSide("contender"))
    session = planned("duel", sides, 6, seed=1, words=(), pacing=pacing, budget_s=900.0, effect_ratio=0.1)
    done = tuple(replace(each, race_id="x", status="complete", took_s=140.0) for each in session.of_round(1))
    session = replace(session, plan=(*done, *session.plan[2:]))
    terms = Terms(2, 0.1, 900.0, 6, 6, 0.01, is_fresh=False, pacing=replace(pacing, tasks=()))

    def never(session: object) -> None:
        raise AssertionError

    planner = DuelPlanner(terms, challenge, Progress(lambda: 0.0), never)  # type: ignore[arg-type]
    assert planner.after(session).pacing == pacing
