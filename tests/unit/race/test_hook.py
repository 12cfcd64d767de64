"""Several hooks as one: what each is given, and what the race sees of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from bound import bound_operation

from esbench.model import Challenge, Operation, Schedule, Step, Task, Track
from esbench.race.hook import HOOKS, Hook, Hooks, Pace, PreparedRace, SideHook
from esbench.race.options import RaceOptions
from esbench.race.track import RacedTrack
from esbench.units import Rate

NOTHING: Any = None


def step(name: str) -> Step:
    return Step((Task(name, bound_operation(name, "search", {"body": {}})),))


class Noting(Hook):
    """Adds its name to what it is given, and a step to the steps."""

    def __init__(self, name: str, enough: bool = False) -> None:
        self.name, self.is_enough, self.warnings = name, enough, (f"warning of {name}",)

    def tasks(self, challenge: Challenge, raced: RacedTrack) -> Challenge:
        return Challenge(f"{challenge.name} {self.name}", challenge.steps)

    def steps(self, steps: Iterator[Step], race: PreparedRace) -> Iterator[Step]:
        yield from steps
        yield step(self.name)

    def enough(self) -> bool:
        return self.is_enough

    def parts(self) -> Mapping[str, Any]:
        return {self.name: 1}

    def planned(self) -> Iterator[tuple[str, str]]:
        yield self.name, "planned"


def names(steps: Iterator[Step]) -> list[str]:
    return [task.name for step in steps for task in step.tasks]


def test_a_lone_race_has_the_steps_of_its_challenge() -> None:
    hook, challenge = Hook(), Challenge("default", (step("a"), step("b")))
    assert hook.tasks(challenge, NOTHING) is challenge
    assert names(hook.steps(iter(challenge.steps), NOTHING)) == ["a", "b"]
    assert (hook.enough(), hook.parts(), hook.node, hook.warnings) == (False, {}, None, ())
    assert type(hook.pace) is Pace


def test_each_hook_is_given_what_those_before_it_return() -> None:
    hooks = Hooks([Noting("one"), Noting("two")])
    assert hooks.tasks(Challenge("default", ()), NOTHING).name == "default one two"
    assert names(hooks.steps(iter((step("a"),)), NOTHING)) == ["a", "one", "two"]
    assert (hooks.parts(), hooks.warnings) == ({"one": 1, "two": 1}, ("warning of one", "warning of two"))
    assert dict(hooks.planned()) == {"one": "planned", "two": "planned"}


def test_a_step_need_not_go_on_as_soon_as_one_hook_has_enough() -> None:
    assert not Hooks([Noting("one"), Noting("two")]).enough()
    assert Hooks([Noting("one"), Noting("two", enough=True)]).enough()


def test_the_pace_is_that_of_the_side() -> None:
    pace, node = Pace(), NOTHING
    assert Hooks([Noting("one"), SideHook(pace, node)]).pace is pace
    assert Hooks([Noting("one")]).pace is Hook.pace


@pytest.mark.parametrize(
    ("operation", "schedule", "asked"),
    [
        ({"body": {}}, Schedule(), ["ReadTasks"]),
        ({"body": {}}, Schedule(rate=Rate(50, "%")), ["PercentRates", "ReadTasks"]),
        ({"data": "glove"}, Schedule(), ["ReadTasks", "VectorTasks"]),
    ],
)
def test_features_decide_on_the_races_that_ask_for_them(
    operation: Mapping[str, Any], schedule: Schedule, asked: list[str]
) -> None:
    task = Task("a", Operation("a", "search", operation), schedule=schedule)
    challenge = Challenge("default", (Step((task,)),))
    track = Track("orders", Path("track.json"), "", "", (challenge,))
    options = RaceOptions(Path(), "", Path())
    found = [row.place.partition(":")[2] for row in HOOKS if row.decides(options, track, challenge)]
    assert found == asked
