"""Several hooks as one: what each is given, and what the race sees of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bound import bound_operation

from esbench.model import Challenge, Step, Task
from esbench.race.hook import Hook, Hooks, Pace, PreparedRace, SideHook, with_hooks_of_features
from esbench.race.options import RaceOptions
from esbench.race.track import RacedTrack

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


def test_features_decide_on_every_race(tmp_path: Path) -> None:
    options = RaceOptions(tmp_path, "", tmp_path)
    assert with_hooks_of_features(Noting("one"), options).parts() == {"one": 1}
