"""The steps of a search for capacity: what the track loads, a closed loop, then probes at the rates that are asked for.

The search itself is pure (esbench.capacity.search): it is shown what each probe has seen, and says what comes next.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from esbench.capacity.search import next_of
from esbench.cluster.client import Cluster
from esbench.errors import ClusterError, UsageError, closest
from esbench.measure.schedule import measured_period_s
from esbench.measure.tally import Second, Tally
from esbench.model import ANY_TASK, Challenge, Objective, Schedule, Step, Task
from esbench.operations import OperationTypes
from esbench.race.round import is_load
from esbench.race.steps import Steps
from esbench.record.capacity import BATCHES, CapacitySearch, LateCounts, Probe, SearchTerms, SeenProbe
from esbench.record.model import TaskResult
from esbench.units import Rate, format_number

_CLOSED_WARMUP_S, _CLOSED_S = 5.0, 15.0
_RAMP_S, _DISCARDED_S, _DISCARDED_LIMITS = 2.0, 3.0, 20
_CERTAIN = 20  # times the late requests that a probe may have: it ends
_MOST_CLIENTS = 512
_SETTLED_WITHIN_S, _LOOK_S = 30.0, 0.5


@dataclass(frozen=True)
class CapacityOptions:
    """What to search the capacity of: a task of the challenge, by objectives that count requests.

    `beside`: the tasks that run beside each probe, with their rates (1/s). `ceiling_per_s`: what the driver can send.
    """

    task: str
    objectives: tuple[Objective, ...]
    beside: Mapping[str, float]
    ceiling_per_s: float
    budget_s: float
    sustain_s: float


class Probing(Steps):
    """The steps of a search. What each probe has shown is taken from the seconds that the race reports."""

    def __init__(self, options: CapacityOptions) -> None:
        self._options = options
        self._limits_ms = sorted({limit for each in options.objectives if (limit := each.limit_ms) is not None})
        self._found = CapacitySearch(options.task, tuple(each.text for each in options.objectives), options.beside)
        self._thresholds: list[float] = []
        self._watched = ""  # the name of the probe's task
        self._most_late: tuple[float, ...] = ()  # requests of the present probe, by objective
        self._seconds: list[Tally] = []
        self._result: TaskResult | None = None

    @property
    def search(self) -> CapacitySearch:
        return self._found

    def chosen(self, challenge: Challenge, types: OperationTypes) -> Challenge:
        """Return the challenge up to the task, without other tasks that read or are raced for a time, and with the
        task and those beside it in a closed loop as its last step."""
        number, task = _named(challenge, self._options.task, "--task")
        beside = {name: _named(challenge, name, "--while")[1] for name in self._options.beside}
        for each in (task, *beside.values()):
            _check(each, types)
        before = (_without_measured(step, types) for step in challenge.steps[:number])
        self._task, self._beside = task, beside
        self._thresholds = sorted({*task.within_ms, *self._limits_ms})
        return replace(challenge, steps=(*(step for step in before if step.tasks), self._closed()))

    def of(self, challenge: Challenge, cluster: Cluster) -> Iterator[Step]:
        yield from challenge.steps
        assert self._result is not None
        options = self._options
        most_late = tuple(each.most_ratio for each in options.objectives if each.most_ratio is not None)
        terms = SearchTerms(
            *(most_late, self._result.throughput.mean or 0.0),
            *(options.ceiling_per_s, options.budget_s, options.sustain_s),
        )
        self._found = replace(self._found, terms=terms)
        names: set[str] = set()
        while isinstance(found := next_of(terms, self._found.probes), Probe):
            began_s = time.monotonic()
            settle(cluster)
            name = next(name for name in _names(self._task.name, found) if name not in names)
            names.add(name)
            self._most_late = tuple(_CERTAIN * ratio * found.rate_per_s * found.measured_s for ratio in most_late)
            yield self._step(name, found)
            seen = self._seen(found, time.monotonic() - began_s)
            self._found = replace(self._found, probes=(*self._found.probes, seen))
        self._found = replace(self._found, found=found)

    def step_begins(self, number: int, step: Step) -> None:
        self._watched, self._seconds, self._result = step.tasks[0].name, [], None

    def second(self, task: str, second: Second) -> None:
        if task == self._watched and not second.warmup:
            self._seconds.append(second.tally)

    def task_ended(self, result: TaskResult) -> None:
        if result.name == self._watched:
            self._result = result

    def enough(self) -> bool:
        late = (sum(self._late(objective, tally) for tally in self._seconds) for objective in self._options.objectives)
        return any(so_far > most for so_far, most in zip(late, self._most_late, strict=False))

    def _closed(self) -> Step:
        task = replace(
            self._task,
            name=f"{self._task.name}@closed",
            schedule=Schedule(),
            think_time_s=0.0,
            warmup_time_s=_CLOSED_WARMUP_S,
            time_period_s=_CLOSED_S,
            **_ENDS_BY_TIME,
        )
        return self._with_beside(task)

    def _step(self, name: str, probe: Probe) -> Step:
        longest_s = max(self._limits_ms, default=0.0) / 1000
        in_flight = 2 * probe.rate_per_s * longest_s
        task = replace(
            self._task,
            name=name,
            clients=max(self._task.clients, min(_MOST_CLIENTS, round(in_flight))),
            schedule=Schedule("poisson", Rate(probe.rate_per_s, "ops"), ramp_up_s=_RAMP_S),
            warmup_time_s=_RAMP_S + max(_DISCARDED_S, _DISCARDED_LIMITS * longest_s),
            time_period_s=probe.measured_s,
            within_ms=tuple(self._thresholds),
            objectives=(),
            **_ENDS_BY_TIME,
        )
        return self._with_beside(task)

    def _with_beside(self, task: Task) -> Step:
        others = (
            replace(
                other,
                name=f"{name} beside {task.name}",
                schedule=Schedule("poisson", Rate(self._options.beside[name], "ops")),
                warmup_time_s=task.warmup_time_s,
                time_period_s=measured_period_s(task),
                **_ENDS_BY_TIME,
            )
            for name, other in self._beside.items()
        )
        return Step((task, *others), completed_by=(task.name,) if self._beside else ())

    def _seen(self, probe: Probe, took_s: float) -> SeenProbe:
        assert self._result is not None
        is_cut_short = self._result.window.end_s - self._result.window.start_s < probe.measured_s - 1
        counts = tuple(self._counts(objective, probe) for objective in self._options.objectives)
        void = next((c.message for c in self._result.checks if c.level == "unusable" and c.subject != "rate"), "")
        return SeenProbe(probe, counts, took_s, void, is_cut_short, self._result.name)

    def _counts(self, objective: Objective, probe: Probe) -> LateCounts:
        """Count the requests of each batch of seconds; those that were never sent belong to the last one."""
        assert self._result is not None
        due, late = [0] * BATCHES, [0] * BATCHES
        for second, tally in enumerate(self._seconds):
            batch = min(BATCHES - 1, int(second * BATCHES / probe.measured_s))
            due[batch] += tally.requests
            late[batch] += self._late(objective, tally)
        unsent = self._result.unsent or 0
        due[-1] += unsent
        late[-1] += unsent
        used = [number for number in range(BATCHES) if due[number]]
        return LateCounts(
            probe.rate_per_s, tuple(due[number] for number in used), tuple(late[number] for number in used)
        )

    def _late(self, objective: Objective, tally: Tally) -> int:
        if objective.limit_ms is None:
            return tally.errors.total
        kept = tally.within[: self._thresholds.index(objective.limit_ms) + 1]
        return tally.requests - sum(kept)
