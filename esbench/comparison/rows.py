"""The rows of two sides before all are judged together: one that cannot be judged has a verdict with the reason, the
others wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from esbench.comparison import stats
from esbench.comparison.comparability import ANSWERS
from esbench.comparison.effects import (
    Design,
    Fit,
    differences_of_turns,
    fit,
    fit_at_once,
    fit_tasks,
    round_differences,
)
from esbench.comparison.metrics import (
    FEWEST_BEYOND,
    FEWEST_SECONDS,
    NS_PER_MS,
    SHORTEST_S,
    THROUGHPUT,
    Key,
    Percentile,
    Race,
    has_interval,
    is_long,
    is_primary,
    min_effect,
    primary_keys,
    samples_beyond,
    seconds_beyond,
    sections,
    typical,
)
from esbench.comparison.model import (
    INTERLEAVED,
    PAIRED,
    CompareOptions,
    Difference,
    Estimate,
    Row,
    RowVerdict,
    SecondsOf,
)
from esbench.comparison.nodes import TheseClusters
from esbench.comparison.preconditions import Leak, leak, of_checks, of_slices, remarks, tasks_of
from esbench.comparison.reasons import (
    ANSWERS_DIFFER,
    NO_SECONDS,
    NO_TURNS,
    NO_VALUE,
    NOT_COMPARABLE,
    ONE_RACE,
    OTHER_LOOP,
    RECALL_UNKNOWN,
    SHORT_FOR_TAIL,
    SHORT_RACES,
    TREND,
)
from esbench.comparison.settling import few_requests, of_tail, too_few_rounds
from esbench.comparison.side_by_side import TAIL_FROM
from esbench.measure.measures import LATENCY, SERVICE_TIME
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import SecondLine, by_task

_FEWEST_OF_A_TREND = 4  # rounds: three leave one degree of freedom
_CHANCE = 0.05


@dataclass(frozen=True)
class CandidateRow:
    """A row before all rows are judged together. A row with an effect (`fitted`) waits for a verdict unless it has one
    already. `work`: the effect in the service time, of a row of latencies; `leak`: of sides that were raced at once;
    `notes` beside its verdict, None if they follow from its task."""

    row: Row
    design: Design
    fitted: Fit | None = None
    work: Fit | None = None
    leak: Leak | None = None
    notes: tuple[str, ...] | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes beside the row's verdict."""
        return remarks(self.design, self.row.metric, self.row.task) if self.notes is None else self.notes

    @property
    def clusters(self) -> TheseClusters | None:
        """The clusters that the row is about, if rounds had the same two that esbench did not start."""
        of_rounds = self.fitted is not None and self.fitted.method in (PAIRED, INTERLEAVED)
        return self.design.clusters if of_rounds else None

    @property
    def waits(self) -> bool:
        """True if the row is one of the family of rows that are tested."""
        return self.row.is_primary and self.row.verdict is None and self.fitted is not None


def candidate_rows(
    design: Design, differences: Sequence[Difference], options: CompareOptions
) -> tuple[CandidateRow, ...]:
    """Return a row for each figure that both sides have, and for each that should be judged, in the order of the
    summary. Figures of whole nodes are left out if the sides shared these at once."""
    finder = _Candidates(design, differences, options)
    keys, left_out = _keys_of_rows(design), _of_shared_nodes(design)
    return tuple(finder.candidate(key) for key in keys if key not in left_out)


def _of_shared_nodes(design: Design) -> set[Key]:
    """Return the figures of whole nodes that both sides used at once; none if their nodes were separate."""
    if not design.shares_nodes:
        return set()
    return {key for race in design.races for key, figure in race.figures.items() if figure.of_nodes}


def speed_ratio(design: Design, differences: Sequence[Difference]) -> Estimate | None:
    """Return the contender's speed / the baseline's over all tasks that are valid in every race and may be compared.

    It is based on the mean of ln throughput (closed loops) and -ln p50 latency (open loops). None if no model applies.
    """
    forbidden = {difference.task for difference in differences if difference.forbids}
    signs = {}
    for key in _keys(design):
        metric, label, _ = key
        tasks = tasks_of(design.races, label)  # none of a part of a task
        if not tasks or forbidden & {"", label} or any(race.log(key) is None for race in design.races):
            continue
        if design.without_seconds(label) or design.has_short_slices(label):
            continue
        for loop, summed, sign in (("closed", THROUGHPUT, 1), ("open", "p50 latency", -1)):
            if metric == summed and all(task.include_in_reporting and task.loop == loop for task in tasks):
                signs[key] = sign

    def mean(race: Race) -> float | None:
        logs = [sign * log for key, sign in signs.items() if (log := race.log(key)) is not None]
        return fmean(logs) if logs and len(logs) == len(signs) else None

    fitted = fit_tasks(design, {label for _, label, _ in signs}, mean)
    return fitted.estimate if fitted is not None else None


def _keys(design: Design) -> list[Key]:
    """Return the figures that at least one race of each side has."""
    theirs = {key for race in design.contender for key in race.figures}
    return [key for key in dict.fromkeys(k for race in design.baseline for k in race.figures) if key in theirs]


def _keys_of_rows(design: Design) -> list[Key]:
    """Return the figures that both sides have, and those of common tasks that should be judged although a side lacks
    them."""
    keys = _keys(design)
    ours, theirs = ({label for race in races for label in race.tasks} for races in (design.baseline, design.contender))
    common = [each for race in design.races for each in race.tasks.items() if each[0] in ours & theirs]
    for metric, label, unit in dict.fromkeys(key for name, task in common for key in primary_keys(task, name)):
        if (metric, label) not in {key[:2] for key in keys}:
            after = [place for place, key in enumerate(keys, 1) if key[1] == label]
            keys.insert(max(after, default=len(keys)), (metric, label, unit))
    return keys


class _Candidates:
    """Maker of the rows of two sides, one by one: a row that cannot be judged gets a verdict with the reason, the
    others wait."""

    def __init__(self, design: Design, differences: Sequence[Difference], options: CompareOptions) -> None:
        self._design = design
        self._differences_of_sides = differences
        self._options = options
        self._seconds = _SecondsByTask(options.seconds)
        self._beyond = [self._seconds_beyond(race) for race in design.races]

    def candidate(self, key: Key) -> CandidateRow:
        """Return the row of a figure."""
        metric, label, unit = key
        design = self._design
        tasks = tasks_of(design.races, label)
        row = Row(
            metric,
            label,
            unit,
            typical(design.baseline, key),
            typical(design.contender, key),
            is_primary=any(is_primary(task, metric) for task in tasks),
            baseline_rounds=tuple(race.value(key) for race in design.baseline),
            contender_rounds=tuple(race.value(key) for race in design.contender),
        )
        if (forbidden := not_comparable(self._differences_of_sides, label)) is not None:
            return CandidateRow(replace(row, comparable=False, verdict=forbidden), design)
        if not any(has_interval(task, metric) for task in tasks):
            return CandidateRow(row, design)
        if (unjudged := self._without_values(key, tasks)) is not None:
            return CandidateRow(replace(row, verdict=unjudged if row.is_primary else None), design)
        row = self._with_values_of_sections(replace(row, differences=self._differences(key)))
        fitted = self._fit(key)
        if fitted is None:
            return CandidateRow(replace(row, verdict=self._without_basis(key) if row.is_primary else None), design)
        row = replace(row, estimate=fitted.estimate)
        if row.is_primary:
            margin = math.log1p(min_effect(metric, self._options.min_effect_ratio, fresh_nodes=design.has_fresh_nodes))
            found = beside_the_interval(design, fitted, label, lambda race: race.log(key), margin)
            row = replace(row, verdict=found and replace(found, remarks=remarks(design, metric, label)))
        percentile = Percentile.of(metric)
        is_latency = percentile is not None and percentile.measure is LATENCY
        work = self._fit((metric.replace(LATENCY.title, SERVICE_TIME.title), label, unit)) if is_latency else None
        return CandidateRow(row, design, fitted, work, self._leak(metric, label))

    def _fit(self, key: Key) -> Fit | None:
        """Return the effect in a figure by the strongest model that applies; None if none does."""
        design = self._design
        if not design.is_at_once(key[1]):
            return fit(design.of({key[1]}), lambda race: race.log(key), lambda race: self._sections(race, key))
        return fit_at_once(self._differences(key))

    def _differences(self, key: Key) -> tuple[float, ...]:
        """Return ln(contender / baseline) in each round that held both sides at once; empty unless rounds did."""
        design, (metric, label, _) = self._design, key
        if design.at_once is None or not design.is_at_once(label):
            return ()
        tail = design.at_once.tasks[label].tails.get(metric)
        return round_differences(design, lambda race: race.log(key)) if tail is None else tail.differences

    def _with_values_of_sections(self, row: Row) -> Row:
        """Return a row; of a percentile that is compared section by section with the values that its ratio is of."""
        at_once = self._design.at_once
        if at_once is None or not row.differences or row.baseline is None or row.contender is None:
            return row
        tail = at_once.tasks[row.task].tails.get(row.metric)
        if tail is None or tail.logs is None:
            return row
        values = (math.exp(log) / NS_PER_MS for log in tail.logs)
        figures = (replace(of, value=value) for of, value in zip((row.baseline, row.contender), values, strict=True))
        return replace(row, baseline=next(figures), contender=next(figures))

    def _without_values(self, key: Key, tasks: Sequence[TaskResult]) -> RowVerdict | None:
        """Return the verdict that is clear before values are compared; None if they can be compared."""
        metric, label, _ = key
        if len({is_primary(task, metric) for task in tasks}) > 1:
            return RowVerdict(OTHER_LOOP)
        design, options = self._design, self._options
        if missing := design.without_seconds(label):
            return _no_seconds_of(missing)
        return (
            of_checks(design, label, options)
            or of_slices(design, metric, label)
            or self._of_tail_that_leaked(metric, label)
            or self._of_events(key)
            or _of_values(design, key)
        )

    def _leak(self, metric: str, label: str) -> Leak | None:
        design, asked = self._design, self._options.min_effect_ratio
        return leak(design, label, math.log1p(min_effect(metric, asked, fresh_nodes=design.has_fresh_nodes)))

    def _of_tail_that_leaked(self, metric: str, label: str) -> RowVerdict | None:
        """Return the verdict of a percentile from p90 up if work leaked between slices: its few slow requests may be
        just those that met it."""
        percentile = Percentile.of(metric)
        leaked = self._leak(metric, label) if percentile is not None and percentile.rank >= TAIL_FROM else None
        return None if leaked is None else leaked.verdict

    def _of_events(self, key: Key) -> RowVerdict | None:
        """Return the verdict of a percentile that is based on too few samples or seconds in a race, or whose seconds
        are missing; None of others."""
        metric, label, _ = key
        percentile, design = Percentile.of(metric), self._design
        if percentile is None:
            return None
        fewest = min(samples_beyond(race.tasks[label], percentile) for race in design.races)
        if fewest < FEWEST_BEYOND:
            return few_requests(design, metric, label)
        if design.at_once is not None and design.is_at_once(label):
            tail = design.at_once.tasks[label].tails.get(metric)
            return few_requests(design, metric, label) if tail is not None and not tail.differences else None
        seconds = [beyond.get(key, FEWEST_SECONDS) for beyond in self._beyond]
        if None in seconds:
            return _no_seconds_of(design.races[seconds.index(None)].record.race_id)
        if any(number < FEWEST_SECONDS for number in seconds if number is not None):
            text = f"all slow requests of a race fall into fewer than {FEWEST_SECONDS} seconds"
            return few_requests(design, metric, label, text)
        return None

    def _seconds_beyond(self, race: Race) -> dict[Key, int | None]:
        """Return the number of seconds in which samples lie beyond each percentile with enough samples; None if none
        were kept. Sides raced at once are judged by their sections instead."""
        keys = [key for key in race.figures if not self._design.is_at_once(key[1]) and _stands_on_enough(race, key)]
        return seconds_beyond(race, keys, self._options.seconds(race.record)) if keys else {}

    def _sections(self, race: Race, key: Key) -> tuple[float, ...] | None:
        task = race.tasks[key[1]]
        return sections(task, key[0], self._seconds.of(race.record, task.name)) if is_long(task) else None

    def _without_basis(self, key: Key) -> RowVerdict:
        design, (metric, label, _) = self._design, key
        if design.at_once is not None and design.is_at_once(label):
            return too_few_rounds(design, design.at_once.nodes.fewest_rounds)
        if not design.single:
            return RowVerdict(NO_TURNS, remedy="race both sides in one session: esbench duel")
        if not all(is_long(race.tasks[label]) for race in design.races):
            return RowVerdict(SHORT_RACES, f"{SHORTEST_S} s at least, or several rounds a side", "esbench duel")
        for race in design.races:
            if not self._seconds.of(race.record, race.tasks[label].name):
                return _no_seconds_of(race.record.race_id)
        if Percentile.of(metric) is None:
            return RowVerdict(SHORT_RACES, "nothing was completed in a fifth of a race")
        text = f"too few requests: fewer than {FEWEST_BEYOND} above it in a fifth of a race"
        return RowVerdict(of_tail(SHORT_RACES, SHORT_FOR_TAIL, metric), text)


def not_comparable(differences: Sequence[Difference], label: str) -> RowVerdict | None:
    """Return the verdict of a task's rows by the differences that forbid to compare them; None if none does."""
    found = [each for each in differences if each.forbids and each.task in ("", label)]
    keys = list(dict.fromkeys(each.key for each in found))
    if keys == [ANSWERS]:
        unknown = found[0].unknown
        return RowVerdict(RECALL_UNKNOWN, unknown) if unknown else RowVerdict(ANSWERS_DIFFER)
    allow = " ".join(f"--allow={key.replace(' ', '-')}" for key in keys)
    return RowVerdict(NOT_COMPARABLE, f"not comparable: {', '.join(keys)}", allow) if keys else None


def beside_the_interval(
    design: Design, fitted: Fit, label: str, log: Callable[[Race], float | None], margin: float
) -> RowVerdict | None:
    """Return the verdict of a row whose interval says nothing of the sides; None if it is to be judged.

    `log` returns a race's value, `margin` is the logarithm of the change that counts as none.
    """
    if not fitted.holds_for_sides:
        return RowVerdict(ONE_RACE if design.single else NO_TURNS)
    of_rounds = fitted.method in (PAIRED, INTERLEAVED)
    if of_rounds and design.clusters is not None:
        if (refused := design.clusters.refusal(label)) is not None:
            return refused
        differences = round_differences(design, log) if design.at_once else differences_of_turns(design, log)
        if _has_trend(differences, margin):
            return RowVerdict(TREND)
    if design.at_once is None or fitted.method != PAIRED or len(design.rounds) >= design.at_once.nodes.fewest_rounds:
        return None
    few = too_few_rounds(design, design.at_once.nodes.fewest_rounds)
    return few if design.clusters is None else design.clusters.verdict(few)


def _has_trend(differences: Sequence[float], margin: float) -> bool:
    """True if a difference changes from the first round to the last by more than chance, and by more than a quarter of
    `margin`."""
    if len(differences) < _FEWEST_OF_A_TREND:
        return False
    change = stats.trend(differences)
    return abs(float(change.log_ratio)) > margin / 4 and float(stats.p_value(change)) < _CHANCE


def _stands_on_enough(race: Race, key: Key) -> bool:
    task, percentile = race.tasks.get(key[1]), Percentile.of(key[0])
    if task is None or percentile is None or not has_interval(task, key[0]):
        return False
    return samples_beyond(task, percentile) >= FEWEST_BEYOND


def _no_seconds_of(race_id: str) -> RowVerdict:
    return RowVerdict(NO_SECONDS, f"the seconds of {race_id} are missing (seconds.jsonl)")


class _SecondsByTask:
    """The seconds of races by task; each race's are read once, when they are first needed."""

    def __init__(self, read: SecondsOf) -> None:
        self._read = read
        self._known: dict[str, dict[str, list[SecondLine]]] = {}

    def of(self, record: RaceRecord, task: str) -> Sequence[SecondLine]:
        if record.race_id not in self._known:
            self._known[record.race_id] = by_task(self._read(record))
        return self._known[record.race_id].get(task, ())


def _of_values(design: Design, key: Key) -> RowVerdict | None:
    """Return the verdict of a row if a race has no value: nothing was completed, or the percentile lies among requests
    that timed out."""
    missing = sum(race.log(key) is None for race in design.races)
    if not missing:
        return None
    text = f"{missing} of {len(design.races)} races have no value: timed out, or nothing completed"
    return RowVerdict(NO_VALUE, text)
