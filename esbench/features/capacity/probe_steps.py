"""The steps of a search for a capacity: what the track loads, a closed loop, then probes at the rates asked for.

The search itself is pure (search.py): it is shown what each probe has seen, and says what comes next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from esbench.errors import RaceError, UsageError, did_you_mean
from esbench.errors.short import first_of
from esbench.events.progress import Progress
from esbench.features.capacity.parts import SEARCH
from esbench.features.capacity.record import (
    CapacitySearch,
    FoundCapacity,
    LateCounts,
    Probe,
    SearchTerms,
    SeenProbe,
    beside_probe,
    holds,
)
from esbench.features.capacity.search import found_so_far, next_of, next_of_sides
from esbench.measure.tally import Second, Tally
from esbench.model import Challenge, Objective, Schedule, Step, Task
from esbench.operations.base import is_load, kind_of
from esbench.race.hook import Hook, Pace, PreparedRace
from esbench.race.track import RacedTrack
from esbench.record.figures import missed_target, requests_per_s
from esbench.record.model import DRIVER_SUBJECTS, Check, CheckKind, TaskResult
from esbench.units import Rate, format_duration

_BATCHES = 15  # equal parts of a probe
_DISCARDED_LIMITS = 20
_CERTAIN = 20  # abort at 20 times the allowed late requests
_MOST_NAMES = 3
_LEFT_OUT = (
    "what {} may write is not there: before its own task a search runs only those that are done once, or end with "
    "their documents"
)
_CLIENTS_FOR, _MOST_CLIENTS = 2, 512  # times the requests that are in flight when all take as long as they may


Choose = Callable[[SearchTerms, Sequence[SeenProbe]], Probe | FoundCapacity]


def agreed_by(pace: Pace) -> Choose:
    """Return the choice of a side of a round: each probe has one rate on all sides, each of which asks in its turn."""

    def choose(terms: SearchTerms, seen: Sequence[SeenProbe]) -> Probe | FoundCapacity:
        side, searches = pace.exchange((terms, tuple(seen)))
        return next_of_sides(searches, side)

    return choose


@dataclass(frozen=True)
class ProbeTimes:
    """The lengths, in seconds, of the closed loop and of a probe: both discard some time, after a probe's ramp."""

    closed_discarded_s: float = 5.0
    closed_s: float = 15.0
    ramp_s: float = 2.0
    discarded_s: float = 3.0  # or 20 limits, where that is longer
    probe_s: float = SearchTerms.probe_s


@dataclass(frozen=True)
class CapacityOptions:
    """The options of a search: a task of the challenge, and objectives; without any, those of the task hold.

    `beside`: the tasks that run beside each probe, with their rates (1/s). `ceiling_per_s`: what the driver can send.
    """

    task: str
    objectives: tuple[Objective, ...]
    beside: Mapping[str, float]
    ceiling_per_s: float
    budget_s: float
    sustain_s: float
    times: ProbeTimes = ProbeTimes()


def in_test_mode(options: CapacityOptions) -> CapacityOptions:
    """Return options of a search that shows within seconds that it works; its figures mean nothing."""
    times = ProbeTimes(closed_discarded_s=0.2, closed_s=1.0, ramp_s=0.2, discarded_s=0.3, probe_s=1.0)
    return replace(options, budget_s=min(20.0, options.budget_s), sustain_s=min(1.0, options.sustain_s), times=times)


class ProbeSteps(Hook):
    """The steps of a search. What each probe has shown is taken from the seconds that the race reports.

    `choose` returns the next probe, or what was found.
    """

    def __init__(self, options: CapacityOptions, progress: Progress, choose: Choose = next_of) -> None:
        self.options, self._progress, self._choose = options, progress, choose
        self._objectives = options.objectives
        self._found = CapacitySearch(options.task, (), options.beside)
        self._has_begun = False
        self._most_late: tuple[float, ...] = ()  # requests of the running probe, by objective; none if it has its time

    def parts(self) -> Mapping[str, Any]:
        """Return the search so far, from its first step on."""
        return {SEARCH.key: self._found} if self._has_begun else {}

    def planned(self) -> Iterator[tuple[str, str]]:
        yield "Takes", f"probes that begin within {format_duration(self.options.budget_s)}"
        if self.options.sustain_s:
            yield "Takes", f"{format_duration(self.options.sustain_s)} that hold the result"

    def tasks(self, challenge: Challenge, raced: RacedTrack) -> Challenge:
        """Return the challenge up to the task: the tasks that do something once or end with their documents, those
        beside the task included, and then the task with those that run beside it in a closed loop."""
        number, self._task = _step_of(challenge, self.options.task, "--task")
        _check(self._task, "--task")
        self._objectives, self.warnings = _objectives(self.options.objectives, self._task)
        self._found = replace(self._found, objectives=tuple(each.text for each in self._objectives))
        self._limits_ms = tuple(sorted({each.limit_ms for each in self._objectives if each.limit_ms is not None}))
        self._beside = [_step_of(challenge, name, "--while")[1] for name in self.options.beside]
        if self._task in self._beside:
            raise UsageError("--while must name another task than --task", where=f"--while={self._task.name}")
        for task in self._beside:
            _check(task, "--while")
        steps = challenge.steps[: number + 1]
        before = tuple(left for step in steps if (left := _without_measured(step)).tasks)
        kept = {self._task.name, *self.options.beside, *(task.name for step in before for task in step.tasks)}
        others = (task for step in steps for task in step.tasks if task.name not in kept)
        writing = [task.name for task in others if not kind_of(task.operation).reads(task.operation.params)]
        if writing:
            self.warnings += (_LEFT_OUT.format(first_of(writing, _MOST_NAMES)),)
        return replace(challenge, steps=(*before, self._closed()))

    def steps(self, steps: Iterator[Step], race: PreparedRace) -> Iterator[Step]:
        self._has_begun = True
        yield from steps
        options, closed_per_s = self.options, requests_per_s(self._result)
        if not closed_per_s:
            window = self._result.window
            loop = f"the closed loop of {window.end_s - window.start_s:.3g} s from which the search begins"
            raise RaceError(f"no request succeeded in {loop}", where=f'task "{self._task.name}"')
        most_late = tuple(each.most_ratio for each in self._objectives if each.most_ratio is not None)
        terms = SearchTerms(
            most_late,
            closed_per_s,
            ceiling_per_s=options.ceiling_per_s,
            budget_s=options.budget_s,
            sustain_s=options.sustain_s,
            probe_s=options.times.probe_s,
        )
        self._found = replace(self._found, terms=terms)
        names: set[str] = set()
        while isinstance(found := self._choose(terms, self._found.probes), Probe):
            began_s = time.monotonic()
            race.cluster.settle()
            name = next(name for name in _names(self._task.name, found) if name not in names)
            names.add(name)
            planned = found.rate_per_s * found.measured_s
            self._most_late = (
                () if found.stage == "sustain" else tuple(_CERTAIN * ratio * planned for ratio in most_late)
            )
            so_far = found_so_far(terms, self._found.probes) if found.stage in ("sustain", "again") else None
            self._found = replace(self._found, found=so_far)
            yield self._probe(name, found)
            seen = self._seen(found, time.monotonic() - began_s)
            self._found = replace(self._found, probes=(*self._found.probes, seen))
            self._progress.say(_news(name, seen, terms))
        self._found = replace(self._found, found=found)

    def step_begins(self, number: int, step: Step) -> None:
        self._running = step.tasks[0]
        self._seconds: list[Tally] = []
        self._is_certain = False
        self._checks_beside: list[Check] = []

    def second(self, task: str, second: Second) -> None:
        if task == self._running.name and not second.warmup:
            self._seconds.append(second.tally)

    def task_ended(self, result: TaskResult) -> None:
        if result.name == self._running.name:
            self._result: TaskResult = result
        else:
            self._checks_beside += [check for check in result.checks if check.subject in DRIVER_SUBJECTS]

    def enough(self) -> bool:
        late = (sum(self._late(objective, tally) for tally in self._seconds) for objective in self._objectives)
        self._is_certain = any(so_far > most for most, so_far in zip(self._most_late, late, strict=False))
        return self._is_certain

    def _closed(self) -> Step:
        task = replace(
            self._task,
            name=self._found.closed_task,
            schedule=Schedule(),
            think_time_s=0.0,
            think_spread=None,
            objectives=(),
        )
        times = self.options.times
        return self._step(_for_a_time(task, times.closed_discarded_s, times.closed_s))

    def _probe(self, name: str, probe: Probe) -> Step:
        times, longest_s = self.options.times, max(self._limits_ms) / 1000
        clients = min(_MOST_CLIENTS, round(_CLIENTS_FOR * probe.rate_per_s * longest_s))
        task = replace(
            self._task,
            name=name,
            clients=max(self._task.clients, clients),
            schedule=Schedule("poisson", Rate(probe.rate_per_s, "ops"), ramp_up_s=times.ramp_s),
            within_ms=self._limits_ms,
            objectives=(),
        )
        discarded_s = max(times.discarded_s, _DISCARDED_LIMITS * longest_s)
        return self._step(_for_a_time(task, times.ramp_s + discarded_s, probe.measured_s))

    def _step(self, task: Task) -> Step:
        """Return the step of a task with the tasks beside it, which end with it."""
        rates = self.options.beside
        others = (
            replace(
                _for_a_time(other, task.warmup_time_s or 0.0, task.time_period_s or 0.0),
                name=beside_probe(other.name, task.name),
                schedule=Schedule("poisson", Rate(rates[other.name], "ops")),
            )
            for other in self._beside
        )
        return Step((task, *others), completed_by=(task.name,) if rates else ())

    def _seen(self, probe: Probe, took_s: float) -> SeenProbe:
        planned_s = (self._running.warmup_time_s or 0.0) + probe.measured_s
        is_cut_short = self._result.duration_s < planned_s - 0.5
        if is_cut_short and not self._is_certain:
            what = f"its requests ended after {self._result.duration_s:.3g} s of {planned_s:.3g}"
            hint = "a search needs a task whose requests do not end"
            raise RaceError(what, where=f'task "{self._result.name}"', hint=hint)
        counts = tuple(self._counts(objective, probe) for objective in self._objectives)
        checks = [*(check for check in self._result.checks if check.subject != "rate"), *self._checks_beside]
        seen = SeenProbe(probe, counts, took_s, "", is_cut_short, self._result.name)
        own_lag = [check for check in self._result.checks if check.name == CheckKind.DRIVER_LAG.label]
        unusable = [check for check in checks if check.level == "unusable"]
        if self._held_at_its_rate(seen):  # lag only adds to latency
            unusable = [check for check in unusable if check not in own_lag]
        return replace(seen, void=unusable[0].message if unusable else "")

    def _held_at_its_rate(self, seen: SeenProbe) -> bool:
        """True if all requests of a probe were sent at its rate, and no more of them were late than may be."""
        reached = not self._result.unsent and not missed_target(self._result) and not seen.cut_short
        has_requests = all(sum(counts.due) for counts in seen.counts)
        return reached and has_requests and self._found.terms is not None and holds(self._found.terms, seen)

    def _counts(self, objective: Objective, probe: Probe) -> LateCounts:
        """Count the requests of each batch of seconds. Those that were never sent are late, in the last one."""
        due, late = [0] * _BATCHES, [0] * _BATCHES
        for second, tally in enumerate(self._seconds):
            batch = min(_BATCHES - 1, int(second * _BATCHES / probe.measured_s))
            due[batch] += tally.requests
            late[batch] += self._late(objective, tally)
        unsent = 0 if objective.limit_ms is None else self._result.unsent or 0
        due[-1] += unsent
        late[-1] += unsent
        used = [number for number in range(_BATCHES) if due[number]]
        return LateCounts(
            probe.rate_per_s, tuple(due[number] for number in used), tuple(late[number] for number in used)
        )

    def _late(self, objective: Objective, tally: Tally) -> int:
        if objective.limit_ms is None:
            return tally.errors.total
        return tally.requests - tally.within_limits(self._running.limits_ms)[objective.limit_ms]


def _for_a_time(task: Task, warmup_s: float, measured_s: float) -> Task:
    return replace(
        task,
        warmup_time_s=warmup_s,
        time_period_s=measured_s,
        warmup_iterations=None,
        iterations=None,
        requests=None,
        ignore_response_error_level="non-fatal",  # failed requests are counted
    )


def _news(name: str, seen: SeenProbe, terms: SearchTerms) -> str:
    if seen.void:
        return f"{name} is void: {seen.void}"
    late = ", ".join(
        f"{counts.late_ratio:.2%} late of {most:.4g} % allowed"
        for counts, most in zip(seen.counts, (100 * ratio for ratio in terms.most_late), strict=True)
    )
    return f"{name}: {late}{', ended early' if seen.cut_short else ''}"


def _names(task: str, probe: Probe) -> Iterator[str]:
    """Yield names for the task of a probe, none twice: the second is for the case that the first was used already."""
    name = f"{task}@{probe.rate_per_s:.4g}" if probe.rate_per_s < 1000 else f"{task}@{probe.rate_per_s:.0f}"
    name += " sustained" if probe.stage == "sustain" else ""
    yield name
    yield from (f"{name} ({number})" for number in count(2))


def _step_of(challenge: Challenge, name: str, option: str) -> tuple[int, Task]:
    """Return a task of a challenge and the number of its step. UsageError for a name that it lacks."""
    for number, step in enumerate(challenge.steps):
        for task in step.tasks:
            if task.name == name:
                return number, task
    names = [task.name for task in challenge.tasks]
    what = f'the challenge "{challenge.name}" has no task "{name}"'
    raise UsageError(what, where=option, hint=did_you_mean(name, names))


def _check(task: Task, option: str) -> None:
    """Raise a UsageError for a task that cannot be raced at any rate for any time."""
    kind = kind_of(task.operation)
    if not is_load(task):
        what = f'task "{task.name}" does something once, so it is not load'
        raise UsageError(what, where=option, hint="name a task that reads or writes for a time")
    if kind.traits.sends_corpora and kind.ends(task.operation.params):
        what = f'task "{task.name}" ends with its documents, and a probe of a rate sends requests for any time'
        raise UsageError(what, where=option, hint="name a task that draws its documents, such as an insert")


def _objectives(asked: tuple[Objective, ...], task: Task) -> tuple[tuple[Objective, ...], tuple[str, ...]]:
    """Return the objectives of a search, and a warning for each of the task's own that it cannot use.

    Raises a UsageError for one that is asked for and cannot be used, and if none has a time.
    """
    faults = [(objective, *_fault(objective)) for objective in asked or task.objectives]
    where = "--objective" if asked else f'task "{task.name}"'
    if asked:
        for objective, what, hint in faults:
            if what:
                raise UsageError(f'"{objective.text}" {what}', where=where, hint=hint)
    used = tuple(objective for objective, what, _ in faults if not what)
    if not used:
        raise UsageError("it has no objectives that a search can use", where=where, hint='say --objective "p99<50ms"')
    if all(objective.limit_ms is None for objective in used):
        what = f"{' and '.join(each.text for each in used)}: without a time, a queue holds it at any rate"
        raise UsageError(what, where=where, hint='add one with a time: --objective "p99<50ms"')
    return used, tuple(f'{where}: "{each.text}" is left out: it {what}' for each, what, _ in faults if what)


def _fault(objective: Objective) -> tuple[str, str]:
    """Return why a search cannot use an objective, and what to say in its place; "" where it can."""
    if objective.most_ratio is None:
        hint = 'say "p99<50ms", "within 50ms>=99%" or "errors<0.1%"'
        return "counts no requests, and a search for capacity does", hint
    if 0 < objective.most_ratio < 1:
        return "", ""
    share = "every" if objective.most_ratio else "no"
    what = f"allows {share} request to be late, which no number of requests can prove"
    return what, 'say "p99.9<50ms" or "errors<0.1%"'


def _without_measured(step: Step) -> Step:
    """Return a step with the tasks that make and fill indices: those that are no load, or may write and end."""

    def prepares(task: Task) -> bool:
        kind, params = kind_of(task.operation), task.operation.params
        return not is_load(task) or (kind.ends(params) and not kind.reads(params))

    tasks = tuple(task for task in step.tasks if prepares(task))
    return replace(step, tasks=tasks, clients=None, completed_by=())
