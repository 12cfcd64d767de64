"""A side of a planned duel: a pilot before each task of its first round, and no task that is settled."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from esbench.events.listeners import Listeners
from esbench.features.duel.duel_round import PilotStep, SidePace
from esbench.features.duel.pilot import PILOT_S, SeenTask, seen
from esbench.features.duel.planner import DuelPlanner, paced
from esbench.features.duel.slices import may_be_planned, shaped_step
from esbench.measure.tally import Second
from esbench.model import Challenge, Step, Task
from esbench.race.hook import PreparedRace, SideHook

if TYPE_CHECKING:
    from esbench.race.node_engine import Engine
    from esbench.race.track import RacedTrack
    from esbench.record.model import RaceRecord


class PlannedSide(SideHook):
    """The hook of a side. With a `planner`, each task that can be planned has a pilot, after which all sides agree on
    its slices and its length; its results are in no record."""

    def __init__(self, pace: SidePace, node: Engine | None, planner: DuelPlanner | None) -> None:
        super().__init__(pace, node)
        self._side, self._planner = pace, planner
        self._began_s = time.monotonic()
        self._units: dict[str, list[float]] = {}  # of the seconds of the running step's tasks

    @property
    def has_pilots(self) -> bool:
        """True if tasks have pilots in this round."""
        return self._planner is not None

    def tasks(self, challenge: Challenge, raced: RacedTrack) -> Challenge:
        settled = self._side.pacing.settled
        steps = (replace(s, tasks=tuple(task for task in s.tasks if task.name not in settled)) for s in challenge.steps)
        return replace(challenge, steps=tuple(step for step in steps if step.tasks))

    def steps(self, steps: Iterator[Step], race: PreparedRace) -> Iterator[Step]:
        if self._planner is None:
            yield from steps
            return
        whole = list(steps)
        left = steps_in_all = sum(map(may_be_planned, whole))
        pilots_s = planned_s = 0.0
        for step in whole:
            if not may_be_planned(step):
                yield step
                continue
            began_s = time.monotonic()
            yield _pilot(step)
            took_s = time.monotonic() - began_s
            _, told = self._side.exchange((self._seen(step), took_s, time.monotonic() - self._began_s))
            pilots_s += max(took for _, took, _ in told)
            other_s = max(0.0, max(age_s for *_, age_s in told) - pilots_s - planned_s)
            terms = self._planner.terms
            left_s = terms.budget_s - pilots_s * steps_in_all / (steps_in_all - left + 1)
            most_s = (left_s / (terms.fixed or terms.fewest) - other_s - planned_s) / left
            plans = terms.step(step, [of_side for of_side, *_ in told], most_s, other_s / len(whole))
            self._planner.keep(plans, pilots_s)
            self._side.plan(paced(plans))
            planned_s, left = planned_s + max(plan.task_s for plan in plans.values()), left - 1
            yield shaped_step(step, self._side.pacing, len(told))

    def step_begins(self, number: int, step: Step) -> None:
        self._units = {task.name: [] for task in step.tasks}

    def second(self, task: str, second: Second) -> None:
        self._units.setdefault(task, []).append(second.tally.units)

    def _seen(self, step: Step) -> dict[str, SeenTask]:
        """Return what the pilot of a step has shown, by the names of its tasks."""
        results = {result.name: result for result in self._side.piloted}
        names = {task.name: _name(task) for task in step.tasks}
        return {task: seen(results[name], self._units[name][1:]) for task, name in names.items() if name in results}


class ForetellsPilots(Listeners):
    """Passes the events of a race with pilots on: its steps are announced with a pilot before each that has one."""

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        piloted = ((_pilot(step), step) if may_be_planned(step) else (step,) for step in steps)
        super().race_begins(record, tuple(chain.from_iterable(piloted)))


def _pilot(step: Step) -> PilotStep:
    """Return the first seconds of a step, as a step whose tasks have other names."""
    tasks = (
        replace(
            task,
            name=_name(task),
            operation=replace(task.operation, include_in_reporting=False),
            warmup_time_s=0.0,
            time_period_s=PILOT_S,
            objectives=(),
        )
        for task in step.tasks
    )
    return PilotStep(tuple(tasks), step.clients)


def _name(task: Task) -> str:
    return f"pilot of {task.name}"
