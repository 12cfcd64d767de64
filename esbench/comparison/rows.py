"""The rows of two sides before all are judged together: one that cannot be judged has a verdict with the reason, the
others wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from esbench.comparison.effects import Design, Fit, fit
from esbench.comparison.metrics import (
    FEWEST_BEYOND,
    FEWEST_SECONDS,
    SHORTEST_S,
    THROUGHPUT,
    Key,
    Percentile,
    Race,
    has_interval,
    is_long,
    is_primary,
    primary_keys,
    samples_beyond,
    seconds_beyond,
    sections,
    typical,
)
from esbench.comparison.model import (
    FEW_EVENTS,
    SESSION_ONLY,
    TOO_SHORT,
    UNUSABLE,
    WITHIN_RACE,
    CompareOptions,
    Difference,
    Estimate,
    Row,
    RowVerdict,
    SecondsOf,
)
from esbench.comparison.preconditions import of_checks, saturation, tasks_of
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import SecondLine


@dataclass(frozen=True)
class CandidateRow:
    """A row before all rows are judged together. A row with an effect (`fitted`) waits for a verdict unless it has one
    already."""

    row: Row
    design: Design
    fitted: Fit | None = None

    @property
    def waits(self) -> bool:
        """True if the row is one of the family of rows that are tested."""
        return self.row.is_primary and self.row.verdict is None and self.fitted is not None


def candidate_rows(
    design: Design, differences: Sequence[Difference], options: CompareOptions
) -> tuple[CandidateRow, ...]:
    """Return a row for each figure that both sides have, and for each that should be judged, in the order of the
    summary."""
    finder = _Candidates(design, [difference for difference in differences if difference.forbids], options)
    return tuple(finder.candidate(key) for key in _keys_of_rows(design))


def speed_ratio(design: Design, differences: Sequence[Difference]) -> Estimate | None:
    """Return the contender's speed / the baseline's over all tasks that are valid in every race and may be compared.

    It is based on the mean of ln throughput (closed loops) and -ln p50 latency (open loops). None if no model applies.
    """
    forbidden = {difference.task for difference in differences if difference.forbids}
    signs = {}
    for key in _keys(design):
        metric, label, _ = key
        tasks = tasks_of(design.races, label)
        if forbidden & {"", label} or any(race.log(key) is None for race in design.races):
            continue
        for loop, summed, sign in (("closed", THROUGHPUT, 1), ("open", "p50 latency", -1)):
            if metric == summed and all(task.include_in_reporting and task.loop == loop for task in tasks):
                signs[key] = sign

    def mean(race: Race) -> float | None:
        logs = [sign * log for key, sign in signs.items() if (log := race.log(key)) is not None]
        return fmean(logs) if logs and len(logs) == len(signs) else None

    fitted = fit(design, mean)
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

    def __init__(self, design: Design, forbidding: Sequence[Difference], options: CompareOptions) -> None:
        self._design = design
        self._forbidding = forbidding
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
        if forbids := [each for each in self._forbidding if each.task in ("", label)]:
            keys = ", ".join(dict.fromkeys(difference.key for difference in forbids))
            return CandidateRow(
                replace(row, comparable=False, verdict=RowVerdict(UNUSABLE, f"not comparable: {keys}")), design
            )
        if not any(has_interval(task, metric) for task in tasks):
            return CandidateRow(row, design)
        verdict = self._without_values(key, tasks)
        if verdict is not None:
            return CandidateRow(replace(row, verdict=verdict if row.is_primary else None), design)
        fitted = fit(design, lambda race: race.log(key), lambda race: self._sections(race, key))
        if fitted is None:
            return CandidateRow(replace(row, verdict=self._without_basis(key) if row.is_primary else None), design)
        row = replace(row, estimate=fitted.estimate)
        if row.is_primary and not fitted.holds_for_sides:
            kind = WITHIN_RACE if design.single else SESSION_ONLY
            row = replace(row, verdict=RowVerdict(kind, saturation(design, metric, label)))
        return CandidateRow(row, design, fitted)

    def _without_values(self, key: Key, tasks: Sequence[TaskResult]) -> RowVerdict | None:
        """Return the verdict that is clear before values are compared; None if they can be compared."""
        metric, label, _ = key
        if len({is_primary(task, metric) for task in tasks}) > 1:
            return RowVerdict(UNUSABLE, "a closed loop and an open loop")
        return of_checks(self._design, label, self._options) or self._of_events(key) or _of_values(self._design, key)

    def _of_events(self, key: Key) -> RowVerdict | None:
        """Return `few events` if a percentile is based on too few samples or seconds in a race, `!` if its seconds are
        missing."""
        percentile = Percentile.of(key[0])
        if percentile is None:
            return None
        fewest = min(samples_beyond(race.tasks[key[1]], percentile) for race in self._design.races)
        if fewest < FEWEST_BEYOND:
            return RowVerdict(
                FEW_EVENTS, f"too few requests: {max(0, fewest)} above it in a race, {FEWEST_BEYOND} needed"
            )
        seconds = [beyond.get(key, FEWEST_SECONDS) for beyond in self._beyond]
        if None in seconds:
            return _no_seconds_of(self._design.races[seconds.index(None)])
        if any(number < FEWEST_SECONDS for number in seconds if number is not None):
            return RowVerdict(FEW_EVENTS, f"all slow requests of a race fall into fewer than {FEWEST_SECONDS} seconds")
        return None

    def _seconds_beyond(self, race: Race) -> dict[Key, int | None]:
        """Return the number of seconds in which samples lie beyond each percentile with enough samples; None if none
        were kept."""
        keys = [key for key in race.figures if _stands_on_enough(race, key)]
        return seconds_beyond(race, keys, self._options.seconds(race.record))

    def _sections(self, race: Race, key: Key) -> tuple[float, ...] | None:
        task = race.tasks[key[1]]
        return sections(task, key[0], self._seconds.of(race.record, task.name)) if is_long(task) else None

    def _without_basis(self, key: Key) -> RowVerdict:
        design, (metric, label, _) = self._design, key
        if not design.single:
            return RowVerdict(SESSION_ONLY, "race both sides several times, in turn")
        if not all(is_long(race.tasks[label]) for race in design.races):
            return RowVerdict(TOO_SHORT, f"{SHORTEST_S} s at least, or several rounds a side")
        for race in design.races:
            if not self._seconds.of(race.record, race.tasks[label].name):
                return _no_seconds_of(race)
        if Percentile.of(metric) is None:
            return RowVerdict(TOO_SHORT, "nothing was completed in a fifth of a race")
        return RowVerdict(TOO_SHORT, f"too few requests: fewer than {FEWEST_BEYOND} above it in a fifth of a race")


def _stands_on_enough(race: Race, key: Key) -> bool:
    task, percentile = race.tasks.get(key[1]), Percentile.of(key[0])
    if task is None or percentile is None or not has_interval(task, key[0]):
        return False
    return samples_beyond(task, percentile) >= FEWEST_BEYOND


def _no_seconds_of(race: Race) -> RowVerdict:
    return RowVerdict(UNUSABLE, f"the seconds of {race.record.race_id} are missing (seconds.jsonl)")


class _SecondsByTask:
    """The seconds of races by task; each race's are read once, when they are first needed."""

    def __init__(self, read: SecondsOf) -> None:
        self._read = read
        self._known: dict[str, dict[str, list[SecondLine]]] = {}

    def of(self, record: RaceRecord, task: str) -> Sequence[SecondLine]:
        if record.race_id not in self._known:
            by_task: dict[str, list[SecondLine]] = {}
            for line in self._read(record):
                by_task.setdefault(line.task, []).append(line)
            self._known[record.race_id] = by_task
        return self._known[record.race_id].get(task, ())


def _of_values(design: Design, key: Key) -> RowVerdict | None:
    """Return `!` if a race has no value: nothing was completed, or the percentile lies among requests that timed
    out."""
    missing = sum(race.log(key) is None for race in design.races)
    if not missing:
        return None
    return RowVerdict(
        UNUSABLE, f"{missing} of {len(design.races)} races have no value: timed out, or nothing completed"
    )
