"""The plan of a duel while it runs: by the pilot of each task in round 1, then by the spread of its first rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev

from esbench.comparison.model import Comparison, Row
from esbench.comparison.reasons import UNCLEAR
from esbench.errors.short import first_of
from esbench.events.progress import Progress
from esbench.features.duel.forecast import Expected, Forecast
from esbench.features.duel.looks import SettlingAim
from esbench.features.duel.pilot import Frame, SeenTask, TaskPlan, planned, together
from esbench.features.duel.session import lengthened
from esbench.features.duel.slices import may_be_planned, slicing
from esbench.model import Challenge, Step, Task
from esbench.operations.base import is_load, kind_of
from esbench.record.figures import task_label
from esbench.record.sessions import Pacing, RaceSession, SeenLuck, TaskPacing

FRESH_LUCK, LUCK = 0.05, 0.01  # of rounds, until this home has seen more of them
_ASSUMED = SeenTask(requests_per_s=2000.0, cycle_s=0.004, longest_s=0.02, units=(), tail_spread=None, beside=None)
_OF_OTHERS = 0.03  # the spread of a task that no pilot plans
_MOST_LUCK = 10  # sessions whose luck counts
_MOST_NAMED = 8


@dataclass(frozen=True)
class Terms:
    """The terms of a plan: a change by `effect_ratio`, settled within `budget_s`, by `fewest` rounds or more.

    `fixed`: the number of rounds that the user asked for. `luck`: the standard deviation of a round's difference beside
    what happens within rounds; `is_fresh`: each side has fresh nodes in each round. `pacing`: what the user says.
    """

    sides: int
    effect_ratio: float
    budget_s: float
    fewest: int
    fixed: int | None
    luck: float
    is_fresh: bool
    pacing: Pacing

    def aim(self, rows: int) -> SettlingAim:
        """Return what is to be settled in a number of rows."""
        return SettlingAim(math.log1p(self.effect_ratio), max(1, rows), self.fewest)

    def unplanned(self, challenge: Challenge) -> dict[str, Expected]:
        """Return what is expected of the tasks that are compared, before any pilot."""
        compared = (t for t in challenge.tasks if is_load(t) and t.operation.include_in_reporting is not False)
        return {task.name: Expected(math.hypot(_OF_OTHERS, self.luck)) for task in compared}

    def step(
        self, step: Step, seen: Sequence[Mapping[str, SeenTask]], most_s: float, cost_s: float
    ) -> dict[str, TaskPlan]:
        """Return the plan of each task of a step by what its pilot has shown on each side, by the tasks' names.

        `most_s`: the time that the step may take; `cost_s`: what a round takes for a step beside it.
        """
        slices = slicing(step, replace(self.pacing, tasks=()))
        assert slices is not None
        least_s = self.sides * self.pacing.least_s if self.is_fresh else 0.0
        frame = Frame(
            self.sides, slices.length_s, slices.gap_s, self.pacing, self.luck, least_s, max(1.0, most_s), cost_s
        )
        plans = together([planned([side[task.name] for side in seen], frame) for task in step.tasks])
        return {task.name: plan for task, plan in zip(step.tasks, plans, strict=True)}


def luck_of(sessions: Collection[RaceSession], *, is_fresh: bool) -> float:
    """Return the luck of rounds that the newest sessions with such nodes have seen; a usual one if none has."""
    seen = [each.luck.ratio for each in sessions if each.luck is not None and each.luck.fresh_nodes == is_fresh]
    return median(seen[:_MOST_LUCK]) if seen else FRESH_LUCK if is_fresh else LUCK


def forecast_of(challenge: Challenge, terms: Terms, others_s: float) -> Forecast:
    """Return what is expected of a duel before its pilots: a usual spread.

    `others_s`: the time of the steps of a round that have no pilot, at least.
    """
    steps = [step for step in challenge.steps if may_be_planned(step)]
    most_s = (terms.budget_s / (terms.fixed or terms.fewest) - others_s) / max(1, len(steps))
    plans: dict[str, TaskPlan] = {}
    for step in steps:
        assumed = {task.name: _ASSUMED for task in step.tasks}
        plans |= terms.step(step, [assumed] * terms.sides, most_s, 0.0)
    tasks = {**terms.unplanned(challenge), **{name: Expected(plan.spread) for name, plan in plans.items()}}
    round_s = others_s + sum(max(plans[task.name].task_s for task in step.tasks) for step in steps)
    rows = 2 * len(tasks) * (terms.sides - 1)
    return Forecast(terms.aim(rows), tasks, max(1.0, round_s), terms.budget_s, is_whole=False, fixed=terms.fixed)


def removable(challenge: Challenge) -> frozenset[str]:
    """Return the tasks that later rounds can do without: those that read, and those after which no load follows."""
    steps = [step for step in challenge.steps if any(map(is_load, step.tasks))]
    names = [
        task.name
        for number, step in enumerate(steps, 1)
        for task in step.tasks
        if len(step.tasks) == 1 and (number == len(steps) or _reads(task))
    ]
    return frozenset(names)


class DuelPlanner:
    """The plan of one session, whose sides race the `challenge`. `compared` saves a session and compares its rounds."""

    def __init__(
        self,
        terms: Terms,
        challenge: Challenge,
        progress: Progress,
        compared: Callable[[RaceSession], Comparison],
    ) -> None:
        self.terms, self._challenge, self._progress, self._compared = terms, challenge, progress, compared
        self._plans: dict[str, TaskPlan] = {}
        self._pilots_s = 0.0

    def keep(self, plans: Mapping[str, TaskPlan], pilots_s: float) -> None:
        """Keep the plans of tasks, and the time that all pilots of the round have taken so far. Each side says the
        same."""
        self._plans = {**self._plans, **plans}
        self._pilots_s = pilots_s

    def after(self, session: RaceSession) -> RaceSession:
        """Return a session as it goes on after the rounds that it has."""
        if session.rounds_done == 1 and self._plans and session.pacing is not None:
            unplanned = (task for task in session.pacing.tasks if task.task not in self._plans)
            pacing = replace(session.pacing, tasks=(*unplanned, *paced(self._plans)))
            session = replace(session, pacing=pacing, pilots_s=round(self._pilots_s, 3))
            self._tell(session)
            self._plans = {}
        return self._looked(session) if session.auto and not session.left else session

    def _tell(self, session: RaceSession) -> None:
        """Say what is expected of the session by the pilots of its first round."""
        tasks = self.terms.unplanned(self._challenge)
        tasks |= {name: Expected(plan.spread, plan.tail_spread, plan.tail_s) for name, plan in self._plans.items()}
        aim = self.terms.aim(2 * len(tasks) * (self.terms.sides - 1))
        left_s = self.terms.budget_s - self._pilots_s
        forecast = Forecast(aim, tasks, session.next_round_s or 1.0, left_s, fixed=self.terms.fixed)
        self._progress.say(f"plan: {forecast.text}")
        for remedy in forecast.remedies():
            self._progress.say(f"for the rest, {remedy}")

    def _looked(self, session: RaceSession) -> RaceSession:
        """Return a session with the rounds that its spread asks for, without tasks that are settled; its number of
        looks is known before the first one.

        It is `auto` while it is looked at: a session that is interrupted then is looked at again when it goes on.
        """
        compared = self._compared(session)
        spreads = [stdev(row.differences) for row in _primary(compared) if len(row.differences) > 1]
        aim, done = self.terms.aim(compared.tested or len(spreads)), session.rounds
        looks = aim.looks(spreads, self._most(session, 0.0)) if spreads else (done,)
        looks = looks if looks[-1] > done else (done,)
        session = replace(session, look_at=looks, looks=len(looks), luck=self._luck(compared))
        if len(looks) == 1:
            if looks[-1] > done:
                self._progress.say(f"by the spread of {done} rounds and the budget, {looks[-1]} are raced")
            return lengthened(replace(session, auto=False), looks[-1])
        compared = self._compared(session)
        session = replace(session, auto=False)
        settled, is_open = self._settled(compared)
        if not is_open:
            self._progress.say(f"all tasks are settled after {done} rounds")
            return session
        can_be_left_out = removable(self._challenge)
        left_out = [name for name in settled if name in can_be_left_out]
        last = aim.later(spreads, self._most(session, self._takes_s(session, left_out)))
        self._progress.say(_news(done, settled, left_out, last))
        pacing = session.pacing and replace(session.pacing, settled=tuple(left_out))
        return lengthened(replace(session, look_at=(done, last), pacing=pacing), last)

    def _most(self, session: RaceSession, less_s: float) -> int:
        """Return the rounds that the budget holds in all, if the next ones take `less_s` less than those so far."""
        took_s = session.rounds_took_s
        next_s = max(1.0, fmean(took_s[1:] or took_s) - less_s)
        return session.rounds + max(0, math.floor((self.terms.budget_s - sum(took_s)) / next_s))

    def _takes_s(self, session: RaceSession, names: Sequence[str]) -> float:
        """Return the time that tasks take in a round, all sides together."""
        tasks = session.pacing.tasks if session.pacing is not None else ()
        return sum(
            self.terms.sides * task.own_s * (1 + task.gap_s / task.slice_s) for task in tasks if task.task in names
        )

    def _luck(self, compared: Comparison) -> SeenLuck | None:
        plans = [
            pair.sliced.plan for pair in compared.pairs if pair.sliced is not None and pair.sliced.plan is not None
        ]
        return SeenLuck(max(plan.between_ratio for plan in plans), self.terms.is_fresh) if plans else None

    def _settled(self, compared: Comparison) -> tuple[list[str], bool]:
        """Return the names of the tasks of which no further round would settle a row, and whether any other is left."""
        record = compared.pairs[0].baseline.records[0]
        names = {task_label(record, task): task.name for task in record.tasks}
        rows: dict[str, list[Row]] = {}
        for row in _primary(compared):
            rows.setdefault(row.task, []).append(row)
        is_open = {label: any(map(_is_open, of_task)) for label, of_task in rows.items()}
        return [names[label] for label, still in is_open.items() if not still and label in names], any(is_open.values())


def _primary(compared: Comparison) -> Iterator[Row]:
    return (row for pair in compared.pairs for row in pair.primary)


def _is_open(row: Row) -> bool:
    """True if a row was tested, and is neither the same nor different yet."""
    return row.verdict is not None and row.verdict.p is not None and row.word == UNCLEAR


def _news(done: int, settled: Sequence[str], left_out: Sequence[str], last: int) -> str:
    if not settled:
        return f"no task is settled after {done} rounds: by their spread and the budget, {last} are raced"
    kept = [name for name in settled if name not in left_out]
    on = f"; raced on, as others follow: {first_of(kept, _MOST_NAMED)}" if kept else ""
    return f"settled after {done} rounds: {first_of(settled, _MOST_NAMED)}; the others are raced up to {last}{on}"


def paced(plans: Mapping[str, TaskPlan]) -> tuple[TaskPacing, ...]:
    """Return how the tasks of a plan are raced."""
    return tuple(TaskPacing(name, plan.slice_s, plan.gap_s, plan.own_s) for name, plan in plans.items())


def _reads(task: Task) -> bool:
    return task.operation.python != "runner" and kind_of(task.operation).reads(task.operation.params)
