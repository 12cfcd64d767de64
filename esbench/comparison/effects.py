"""Effects: the difference of two sides in one value per race, by the strongest model that their races allow, with its
interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import correlation, fmean

from esbench.comparison import stats
from esbench.comparison.metrics import Race
from esbench.comparison.model import HISTORY, INDEPENDENT, INTERLEAVED, PAIRED, SECTIONS, Estimate, Side
from esbench.comparison.nodes import TheseClusters, share_nodes
from esbench.comparison.side_by_side import SideBySide

_MOST_CORRELATED = 0.5  # of side and place: ABAB has 0.45, AABB 0.89


@dataclass(frozen=True)
class Design:
    """The races of two sides and how they are related.

    `places`: each race's place in the session, baseline first, if the sides took turns in one session, else None.
    `history`: earlier races of the baseline's setup, in their order, one of each session. `at_once`: None unless both
    sides were raced at once. `clusters`: None unless the races tell of two clusters of the user alone.
    """

    baseline: tuple[Race, ...]
    contender: tuple[Race, ...]
    places: tuple[int, ...] | None
    history: tuple[Race, ...] = ()
    at_once: SideBySide | None = None
    clusters: TheseClusters | None = None

    @property
    def rounds(self) -> tuple[tuple[Race, Race], ...]:
        """The rounds that held both sides at once, each with the baseline's race and the contender's."""
        if self.at_once is None:
            return ()
        by_id = {race.record.race_id: race for race in self.races}
        return tuple((by_id[one.race_id], by_id[other.race_id]) for one, other in self.at_once.rounds)

    def is_at_once(self, label: str) -> bool:
        """True if all races of both sides raced this task at once, in slices."""
        return self.at_once is not None and label in self.at_once.tasks

    def has_short_slices(self, label: str) -> bool:
        """True if the throughput of a task that was raced at once is not that of its sides: its slices are too short,
        or none was whole."""
        if self.at_once is None or not self.is_at_once(label):
            return False
        task = self.at_once.tasks[label]
        return task.shortest_s > task.slice_s or (task.shortest_s > 0 and task.slices < 1)

    def without_seconds(self, label: str) -> str:
        """Return the id of a race that lacks the seconds of a task that was raced at once; "" if none does."""
        return self.at_once.tasks[label].without_seconds if self.at_once and self.is_at_once(label) else ""

    def of(self, labels: Collection[str]) -> Design:
        """Return the design of some tasks: without places if one of them was raced in slices, which take no turns."""
        tasks = [race.tasks[label] for race in self.races for label in labels if label in race.tasks]
        return replace(self, places=None) if any(task.slices for task in tasks) else self

    def has_turns(self, label: str) -> bool:
        """True if each side had its turns in all conditions of the session: the races took turns, or slices."""
        return self.is_at_once(label) or self.of({label}).places is not None

    @property
    def shares_nodes(self) -> bool:
        """True if both sides used the same nodes at once, so that figures of nodes are no side's."""
        return share_nodes(*([race.record for race in races] for races in (self.baseline, self.contender)))

    @property
    def has_fresh_nodes(self) -> bool:
        """True if each round held both sides at once, each on nodes that were started for it."""
        return self.at_once is not None and self.at_once.nodes.fresh

    @property
    def races(self) -> tuple[Race, ...]:
        return (*self.baseline, *self.contender)

    @property
    def single(self) -> bool:
        """True if each side is one race."""
        return len(self.races) == 2


@dataclass(frozen=True)
class Fit:
    """An effect and the method that found it: paired, interleaved, history, sections, searches or independent."""

    effect: stats.Effect
    method: str

    @property
    def holds_for_sides(self) -> bool:
        """True if the effect holds for the sides, not only for these races or this session."""
        return self.method in (PAIRED, INTERLEAVED, HISTORY)

    @property
    def estimate(self) -> Estimate:
        """The effect as ratios, with its 95 % interval and its p value, which is not adjusted for other rows."""
        low, high = stats.interval(self.effect)
        ratio, low_ratio, high_ratio = (
            math.exp(round(float(log), 12)) for log in (self.effect.log_ratio, low, high)
        )  # equal values differ by rounding alone
        p = float(stats.p_value(self.effect))
        return Estimate(ratio, low_ratio, high_ratio, p, float(self.effect.residual_sd), self.method)


def places_in_session(baseline: Side, contender: Side) -> tuple[int, ...] | None:
    """Return the place of each race in the session that both sides belong to, baseline first; None unless the sides
    took turns in one session.

    Needs at least two races a side: fewer leave no degree of freedom beside side and trend.
    """
    sessions = [record.session for record in (*baseline.records, *contender.records)]
    if min(len(baseline.records), len(contender.records)) < 2:
        return None
    known = [session for session in sessions if session is not None and session.round > 0]
    if len(known) < len(sessions) or len({session.id for session in known}) > 1:
        return None
    places = tuple(session.position for session in known)
    if len(set(places)) < len(places):
        return None
    sides = [0] * len(baseline.records) + [1] * len(contender.records)
    turns = len(list(groupby(side for _, side in sorted(zip(places, sides, strict=True)))))
    return places if turns > 2 and abs(correlation(sides, places)) <= _MOST_CORRELATED else None


def fit(
    design: Design,
    log: Callable[[Race], float | None],
    sections: Callable[[Race], Sequence[float] | None] = lambda race: None,
) -> Fit | None:
    """Return the difference of `log` (a race's value on a log scale) between the sides, by the strongest model that
    applies.

    In this order: interleaved rounds; the spread of at least five earlier races; the `sections` of two single races
    (`log` for each part of a race, None if unknown); the spread of each side's own rounds. None if no model applies, or
    a race has no value.
    """
    values = [log(race) for race in design.races]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    count = len(design.baseline)
    baseline, contender = known[:count], known[count:]
    if design.places is not None:
        sides = [0] * count + [1] * len(contender)
        return Fit(stats.interleaved(known, sides, design.places), INTERLEAVED)
    parts = [sections(race) for race in design.races] if design.single else []
    earlier = [value for race in design.history if (value := log(race)) is not None]
    if len(earlier) >= stats.FEWEST_HISTORY:
        variances = [
            float(stats.section_variance(value, part))
            for value, part in zip(known, parts, strict=False)
            if part is not None
        ]
        means = _of_sessions(design.baseline, baseline), _of_sessions(design.contender, contender)
        return Fit(stats.with_history(*means, earlier, max(variances, default=0.0)), HISTORY)
    if design.single:
        return _of_sections(baseline[0], contender[0], parts)
    return Fit(stats.independent(baseline, contender), INDEPENDENT) if min(count, len(contender)) > 1 else None


def fit_tasks(design: Design, labels: Collection[str], log: Callable[[Race], float | None]) -> Fit | None:
    """Return the difference of `log`, a value of some tasks of a race, by the rounds that held both sides at once if
    all of the tasks were raced so, else as `fit`. None if no model applies, or a race has no value."""
    if labels and all(map(design.is_at_once, labels)):
        return fit_at_once(round_differences(design, log))
    return fit(design.of(labels), log)


def fit_at_once(differences: Sequence[float]) -> Fit | None:
    """Return the effect of rounds that held both sides at once, from the difference in each; None with fewer than two
    rounds."""
    return Fit(stats.paired(differences), PAIRED) if len(differences) > 1 else None


def round_differences(design: Design, log: Callable[[Race], float | None]) -> tuple[float, ...]:
    """Return the difference of `log` between the sides in each round that held both; empty if a race has no value."""
    logs = [(log(one), log(other)) for one, other in design.rounds]
    known = tuple(other - one for one, other in logs if one is not None and other is not None)
    return known if len(known) == len(logs) else ()


def differences_of_turns(design: Design, log: Callable[[Race], float | None]) -> tuple[float, ...]:
    """Return the difference of `log` between the sides in each round that has a race of both, in their order; empty if
    the races are in no rounds, or one has no value."""
    sides = [
        {race.record.session.round: log(race) for race in races if race.record.session is not None}
        for races in (design.baseline, design.contender)
    ]
    both = [(sides[0][number], sides[1][number]) for number in sorted(sides[0].keys() & sides[1].keys())]
    known = tuple(other - one for one, other in both if one is not None and other is not None)
    return known if len(known) == len(both) else ()


def last_of_sessions(races: Sequence[Race]) -> tuple[Race, ...]:
    """Return the races in their order, only the last one of each session: rounds of a session are not independent
    races."""
    last = {_session(race): number for number, race in enumerate(races)}
    return tuple(races[number] for number in sorted(last.values()))


def _of_sessions(races: Sequence[Race], values: Sequence[float]) -> list[float]:
    """Return the mean value of each session: its races share influences (a node, a neighbour) that more races do not
    average out."""
    by_session: dict[str, list[float]] = {}
    for race, value in zip(races, values, strict=True):
        by_session.setdefault(_session(race), []).append(value)
    return [fmean(each) for each in by_session.values()]


def _session(race: Race) -> str:
    """Return the id of a race's session, or the race's own id if it has no session."""
    session = race.record.session
    return race.record.race_id if session is None else session.id


def _of_sections(baseline: float, contender: float, parts: Sequence[Sequence[float] | None]) -> Fit | None:
    one, other = parts
    if one is None or other is None:
        return None
    return Fit(stats.of_two_races(baseline, one, contender, other), SECTIONS)
