"""Target rates in percent of a capacity that an earlier race has found: they become rates before a race begins."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esbench.errors import UsageError
from esbench.errors.short import first_of
from esbench.features.capacity.parts import KNOWN, SEARCH
from esbench.features.capacity.record import FoundCapacity, KnownCapacity
from esbench.measure.schedule import rates
from esbench.model import Challenge, Schedule, Task
from esbench.race.hook import Hook
from esbench.race.options import RaceOptions
from esbench.record.store import LAST, RaceStore
from esbench.track.library import options_of
from esbench.track.selection import choose_challenge
from esbench.units import PERCENT, Rate, format_number

if TYPE_CHECKING:
    from esbench.race.track import RacedTrack

_ANY_SEARCH = "find it with: esbench capacity --track=orders --task=get-by-id --objective 'p99<50ms'"
_MOST_NAMES = 3


class PercentRates(Hook):
    """The rates of a track in percent of a capacity: they become those that they are of it, before the race begins."""

    def __init__(self, options: RaceOptions) -> None:
        self._options = options
        self._known: KnownCapacity | None = None

    def tasks(self, challenge: Challenge, raced: RacedTrack) -> Challenge:
        """Return the challenge with rates of requests in place of those in percent.

        Raises a UsageError if they are of no capacity, or if one is given and no rate is in percent.
        """
        options, paced = self._options, in_percent(challenge)
        if options.capacity is None:
            if paced:
                raise capacity_missing(paced[0], choose_challenge(raced.track, challenge.name), options)
            return challenge
        if not paced:
            what = f'no task of challenge "{challenge.name}" that is raced has a target-throughput in percent'
            raise UsageError(what, where="--capacity", hint='leave it out, or say target-throughput: "70%"')
        self._known = known_capacity(RaceStore(options.home), options.capacity)
        raced.warnings += tuple(objections(self._known, raced.track.name, paced))
        return at_capacity(challenge, self._known.rate_per_s)

    def parts(self) -> Mapping[str, Any]:
        return {} if self._known is None else {KNOWN.key: self._known}

    def planned(self) -> Iterator[tuple[str, str]]:
        if (known := self._known) is not None:
            yield "Capacity", f"{format_number(known.rate_per_s)}/s of task {known.task}, found by race {known.race_id}"


def known_capacity(store: RaceStore, race: str) -> KnownCapacity:
    """Return the capacity that a race has found: an id, the beginning of one, or `last`, the newest that has found one.

    Raises a UsageError if there is no such race, or it has found no rate.
    """
    where = f"--capacity={race}"
    try:
        record = store.load(_newest(store, where) if race == LAST else race)
    except UsageError as error:
        raise UsageError(error.what, where=where, hint=error.hint) from None
    search = SEARCH.kept_in(record)
    if search is None:
        raise UsageError(f"race {record.race_id} has searched for no capacity", where=where, hint=_ANY_SEARCH)
    if record.damage:
        raise UsageError(record.damage, where=where, hint="name another race, or search again")
    if record.test_mode:
        raise UsageError(f"race {record.race_id} was a test", where=where, hint=_ANY_SEARCH)
    if search.found is None:
        what = f"the search of race {record.race_id} has not ended: its status is {record.status}"
        raise UsageError(what, where=where, hint="name another race, or search again")
    if not _has_rate(search.found):
        what = f'race {record.race_id} has found no rate at which task "{search.task}" holds'
        raise UsageError(f"{what} {' and '.join(search.objectives)}", where=where, hint="name another race")
    probed = {probe.task for probe in search.probes}
    operation = next((task.operation for task in record.tasks if task.name in probed), search.task)
    found = search.found
    why = found.why if found.estimate_per_s else "at least"
    return KnownCapacity(record.race_id, record.track.name, search.task, operation, found.rate_per_s, why)


def _newest(store: RaceStore, where: str) -> str:
    entries, _ = store.entries()
    for entry in entries:
        search = SEARCH.listed_in(entry)
        if search is not None and _has_rate(search.found) and not entry.test_mode:
            return entry.race_id
    raise UsageError("no race has found a capacity", where=where, hint=_ANY_SEARCH)


def _has_rate(found: FoundCapacity | None) -> bool:
    return found is not None and 0 < found.rate_per_s < math.inf


def in_percent(challenge: Challenge) -> list[Task]:
    """Return the tasks whose target rates are in percent of a capacity."""
    return [task for task in challenge.tasks if any(rate.unit == PERCENT for rate in rates(task.schedule))]


def at_capacity(challenge: Challenge, capacity_per_s: float) -> Challenge:
    """Return the challenge with rates of requests in place of those in percent of a capacity (1/s)."""

    def of(rate: Rate) -> Rate:
        return Rate(rate.value / 100 * capacity_per_s, "ops") if rate.unit == PERCENT else rate

    def at(schedule: Schedule) -> Schedule:
        stages = tuple(replace(stage, rate=of(stage.rate)) for stage in schedule.stages)
        return replace(schedule, rate=schedule.rate and of(schedule.rate), stages=stages)

    steps = (
        replace(step, tasks=tuple(replace(task, schedule=at(task.schedule)) for task in step.tasks))
        for step in challenge.steps
    )
    return replace(challenge, steps=tuple(steps))


def capacity_missing(task: Task, challenge: Challenge, options: RaceOptions) -> UsageError:
    """Return the error of a task with a rate in percent, and no capacity; it names the command that finds one.

    `challenge`: the whole one of the task. The search is of a task with the same operation that needs no capacity.
    """
    (rate, *_) = (rate for rate in rates(task.schedule) if rate.unit == PERCENT)
    paced = in_percent(challenge)
    alike = (each.name for each in challenge.tasks if each.operation == task.operation and each not in paced)
    searched = next(alike, None)
    words = [options_of(options.track_path)]
    words += [] if options.challenge is None else [f"--challenge={shlex.quote(options.challenge)}"]
    command = f'esbench capacity {" ".join(words)} --task={shlex.quote(searched or task.name)} --objective "p99<50ms"'
    same = " and the same --track-params" if options.track_params else ""
    return UsageError(
        f'task "{task.name}" has target-throughput {rate.value:g} %: of which capacity?',
        hint=f"find it with: {command}{same}, then add --capacity=last",
    )


def objections(capacity: KnownCapacity, track: str, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield a sentence for each reason why the rates of tasks of `track` are not percents of what these can carry."""
    others = [task.name for task in tasks if capacity.task != task.name and capacity.operation != task.operation.name]
    if capacity.track != track:
        yield f"the capacity was found for track {capacity.track}, not {track}"
    elif others:
        yield f"the capacity was found for task {capacity.task}, not {first_of(others, _MOST_NAMES)}"
    if capacity.why == "at least":
        yield f"the capacity is {format_number(capacity.rate_per_s)}/s at least: how much more is not known"
    if capacity.why in ("flat", "out of time"):
        yield f"the capacity is {format_number(capacity.rate_per_s)}/s or so: its search had not found it when it ended"
