"""Faster, slower, the same, or not to be told: the rows of two sides with their verdicts (docs/method.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from esbench import stats
from esbench.comparison.estimates import Design, Found, find
from esbench.comparison.model import (
    DRIVER_LAG,
    ERRORS,
    FASTER,
    FEW_EVENTS,
    SAME,
    SESSION_ONLY,
    SLOWER,
    TOO_SHORT,
    UNDECIDED,
    UNUSABLE,
    WITHIN_RACE,
    CompareOptions,
    Difference,
    Estimate,
    Row,
    SecondsOf,
    Verdict,
)
from esbench.comparison.values import (
    FEWEST_BEYOND,
    FEWEST_SECONDS,
    SHORTEST_S,
    THROUGHPUT,
    Key,
    Percentile,
    Race,
    has_interval,
    is_primary,
    keys_of_few_seconds,
    missed_target,
    other_fault,
    samples_beyond,
    sections,
    typical,
    usable_everywhere,
)
from esbench.record import RaceRecord, TaskResult
from esbench.series_files import SecondLine
from esbench.summary import HIGHER

SIGNIFICANT = 0.05
MIN_EFFECT, MIN_EFFECT_OF_TAILS, TAIL = 0.05, 0.10, 99.0
_SATURATED = 0.8


@dataclass(frozen=True)
class Draft:
    """A row before all rows are judged together: `found` waits for a verdict unless there is one already."""

    row: Row
    found: Found | None = None
    design: Design | None = None

    @property
    def waits(self) -> bool:
        """Whether it is one of the family of rows that are tested."""
        return self.row.is_primary and self.row.verdict is None and self.found is not None


def drafts(design: Design, differences: Sequence[Difference], options: CompareOptions) -> tuple[Draft, ...]:
    """A row for each figure that both sides have, in the order of the summary."""
    forbidding = [difference for difference in differences if difference.forbids]
    few, seconds = _few_seconds(design, options), _SecondsByTask(options.seconds)
    return tuple(_draft(design, key, forbidding, few, seconds) for key in _keys(design))


def judged(found: Sequence[Draft], options: CompareOptions) -> tuple[Row, ...]:
    """The rows of all drafts, each with its verdict: together they are one family (Benjamini and Hochberg)."""
    family = [draft for draft in found if draft.waits]
    raw = [float(stats.p_value(draft.found.effect)) for draft in family if draft.found is not None]
    p_values = iter(map(float, stats.adjusted(raw, options.looks)))
    return tuple(_judged(draft, next(p_values), len(family), options) if draft.waits else draft.row for draft in found)


def speed_ratio(design: Design) -> Estimate | None:
    """Over the tasks that are valid in every race: the mean of ln throughput (closed) or -ln p50 latency (open)."""
    keys = []
    for key in _keys(design):
        task = design.races[0].tasks.get(key[1])
        if task is None or not task.include_in_reporting or not usable_everywhere(design.races, key[1]):
            continue
        if key[0] == (THROUGHPUT if task.loop == "closed" else "p50 latency"):
            keys.append((key, 1 if task.loop == "closed" else -1))

    def mean(race: Race) -> float | None:
        logs = [(sign, race.log(key)) for key, sign in keys]
        known = [sign * log for sign, log in logs if log is not None]
        return fmean(known) if known and len(known) == len(logs) else None

    found = find(design, mean)
    return found.estimate if found is not None else None


def _keys(design: Design) -> Iterator[Key]:
    """The figures that a race of each side has at least."""
    theirs = {key for race in design.contender for key in race.figures}
    yield from (key for key in dict.fromkeys(k for race in design.baseline for k in race.figures) if key in theirs)


def _few_seconds(design: Design, options: CompareOptions) -> set[Key]:
    """Percentiles that some race has from fewer than five different seconds."""
    few: set[Key] = set()
    for race in design.races:
        keys = [key for key in race.figures if _stands_on_enough(race, key)]
        few |= keys_of_few_seconds(race, keys, options.seconds(race.record))
    return few


def _stands_on_enough(race: Race, key: Key) -> bool:
    task, percentile = race.tasks.get(key[1]), Percentile.of(key[0])
    if task is None or percentile is None or not has_interval(task, key[0]):
        return False
    return samples_beyond(task, percentile) >= FEWEST_BEYOND


class _SecondsByTask:
    """The seconds of races by task, each race's read when they are first asked for, and once."""

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


def _draft(design: Design, key: Key, forbidding: Sequence[Difference], few: set[Key], seconds: _SecondsByTask) -> Draft:
    metric, label, _ = key
    row = Row(
        typical(design.baseline, key),
        typical(design.contender, key),
        baseline_rounds=tuple(race.value(key) for race in design.baseline),
        contender_rounds=tuple(race.value(key) for race in design.contender),
    )
    if forbids := [each for each in forbidding if each.task in ("", label)]:
        row = replace(row, comparable=False, verdict=Verdict(UNUSABLE, f"not comparable: {_names(forbids)}"))
    first = next((race.tasks[label] for race in design.races if label in race.tasks), None)
    if first is None or not has_interval(first, metric):
        return Draft(row)
    row = replace(row, is_primary=is_primary(first, metric))
    if forbids:
        return Draft(row)
    verdict = _of_checks(design, label) or _of_events(design, key, few) or _of_values(design, key)
    if verdict is not None:
        return Draft(replace(row, verdict=verdict if row.is_primary else None))
    found = find(design, lambda race: race.log(key), lambda race: _sections(race, key, seconds))
    if found is None:
        return Draft(replace(row, verdict=_without_basis(design) if row.is_primary else None))
    row = replace(row, estimate=found.estimate)
    if row.is_primary and not found.tells_of_sides:
        row = replace(row, verdict=Verdict(WITHIN_RACE if design.single else SESSION_ONLY))
    return Draft(row, found, design)


def _names(differences: Sequence[Difference]) -> str:
    return ", ".join(dict.fromkeys(difference.key for difference in differences))


def _sections(race: Race, key: Key, seconds: _SecondsByTask) -> tuple[float, ...] | None:
    task = race.tasks[key[1]]
    if task.window.end_s - task.window.start_s < SHORTEST_S:
        return None
    return sections(task, key[0], seconds.of(race.record, task.name))


def _without_basis(design: Design) -> Verdict:
    if design.single:
        return Verdict(TOO_SHORT, f"{SHORTEST_S} s at least, or several rounds a side")
    return Verdict(SESSION_ONLY, "race both sides several times, in turn")


def _of_checks(design: Design, label: str) -> Verdict | None:
    """What the checks of the races say of a task, before any figure is looked at."""
    ours, theirs = (_tasks(races, label) for races in (design.baseline, design.contender))
    if len(ours) < len(design.baseline) or len(theirs) < len(design.contender):
        return Verdict(UNUSABLE, "missing in some of the races")
    if fault := next(filter(None, map(other_fault, (*ours, *theirs))), ""):
        return Verdict(UNUSABLE, fault)
    missed = [[missed_target(task) for task in tasks] for tasks in (ours, theirs)]
    if not any(missed[0]) and not any(missed[1]):
        return None
    clean = all(missed[0]) != all(missed[1]) and any(missed[0]) != any(missed[1])
    if not clean:
        return Verdict(UNUSABLE, "overloaded: latency undefined")
    reached = _reached("baseline", ours) if missed[0][0] else _reached("contender", theirs)
    if design.places is None:
        return Verdict(UNUSABLE, reached)
    return Verdict(FASTER if missed[0][0] else SLOWER, reached)


def _tasks(races: Sequence[Race], label: str) -> list[TaskResult]:
    return [race.tasks[label] for race in races if label in race.tasks]


def _reached(side: str, tasks: Sequence[TaskResult]) -> str:
    rates = [task.throughput.mean for task in tasks if task.throughput.mean is not None]
    target = tasks[0].target_rate_per_s
    if not rates or target is None:
        return f"{side} missed its rate"
    return f"{side} reached {fmean(rates):.4g}/s of {target:g}/s"


def _of_events(design: Design, key: Key, few: set[Key]) -> Verdict | None:
    """`few events` where a percentile stands on too little in one of the races."""
    percentile = Percentile.of(key[0])
    if percentile is None:
        return None
    fewest = min(samples_beyond(race.tasks[key[1]], percentile) for race in design.races)
    if fewest < FEWEST_BEYOND:
        return Verdict(FEW_EVENTS, f"{max(0, fewest)} samples beyond it in a race, {FEWEST_BEYOND} at least")
    if key in few:
        return Verdict(FEW_EVENTS, f"samples beyond it from under {FEWEST_SECONDS} seconds of a race")
    return None


def _of_values(design: Design, key: Key) -> Verdict | None:
    """`!` where a race has no value: nothing was completed, or the percentile lies among requests that timed out."""
    missing = sum(race.log(key) is None for race in design.races)
    if not missing:
        return None
    return Verdict(UNUSABLE, f"{missing} of {len(design.races)} races have no value: timed out, or nothing completed")


def _judged(draft: Draft, p: float, rows: int, options: CompareOptions) -> Row:
    assert draft.found is not None and draft.design is not None
    row, effect = draft.row, draft.found.effect
    effect_ratio = min_effect(row.metric, options.min_effect_ratio)
    margin = math.log1p(effect_ratio)
    if stats.is_same(effect, margin):
        verdict = Verdict(SAME, p=p)
    elif p < SIGNIFICANT:
        verdict = _direction(draft, p, options)
    else:
        verdict = Verdict(UNDECIDED, _to_settle(draft, effect_ratio, rows), p)
    notes = [verdict.note, *_notes(draft, verdict)]
    return replace(row, verdict=replace(verdict, note="; ".join(filter(None, notes))))


def min_effect(metric: str, given: float | None) -> float:
    """Below which change (ratio) the sides count as the same in a metric."""
    if given is not None:
        return given
    percentile = Percentile.of(metric)
    return MIN_EFFECT_OF_TAILS if percentile is not None and percentile.rank >= TAIL else MIN_EFFECT


def _to_settle(draft: Draft, effect_ratio: float, rows: int) -> str:
    """How many rounds would settle whether a row changed by as much."""
    assert draft.found is not None and draft.design is not None
    rounds = stats.rounds_to_settle(float(draft.found.effect.residual_sd), math.log1p(effect_ratio), rows)
    if rounds is None:
        return "too noisy: lengthen the task"
    if rounds <= len(draft.design.contender):  # so few settle it on average, and did not this time
        return "a few more rounds would settle it"
    return f"about {rounds} rounds would settle {effect_ratio * 100:g}%"


def _direction(draft: Draft, p: float, options: CompareOptions) -> Verdict:
    assert draft.found is not None and draft.design is not None
    more = float(draft.found.effect.log_ratio) > 0
    kind = FASTER if more == (draft.row.baseline.better == HIGHER) else SLOWER
    design, label = draft.design, draft.row.task
    if (lag := _lag_change_ms(draft)) is not None:
        return Verdict(DRIVER_LAG, f"the driver's lag changed by {lag:.2f} ms")
    ours, theirs = (_tasks(races, label) for races in (design.baseline, design.contender))
    gaining, other = (theirs, ours) if kind == FASTER else (ours, theirs)
    if rise := _error_rise(other, gaining, options):
        side = "contender" if kind == FASTER else "baseline"
        return Verdict(ERRORS, f"{kind}, with {rise * 100:.2f} points more errors of the {side}", p)
    return Verdict(kind, p=p)


def _error_rise(before: Sequence[TaskResult], after: Sequence[TaskResult], options: CompareOptions) -> float | None:
    """By how much the error rate is higher after: pooled, and in all rounds but at most one; None where it is not."""
    pooled = [
        sum(task.errors for task in tasks) / max(1, sum(task.requests for task in tasks)) for tasks in (before, after)
    ]
    rise = pooled[1] - pooled[0]
    if rise <= options.max_error_rise_ratio:
        return None
    rates = [[task.errors / max(1, task.requests) for task in tasks] for tasks in (before, after)]
    pairs = list(zip(*rates, strict=False))
    higher = sum(one < other for one, other in pairs)
    return rise if higher >= max(1, len(pairs) - 1) else None


def _lag_change_ms(draft: Draft) -> float | None:
    """The change of the driver's own lag, where it is above half of that of the latency; None where it is not."""
    percentile = Percentile.of(draft.row.metric)
    if percentile is None or percentile.measure != "latency" or draft.design is None or draft.row.diff is None:
        return None
    lags = [
        [(task.driver_lag_ms or {}).get(f"p{percentile.rank:g}") for task in _tasks(races, draft.row.task)]
        for races in (draft.design.baseline, draft.design.contender)
    ]
    ours, theirs = ([lag for lag in side if lag is not None] for side in lags)
    if not ours or not theirs:
        return None
    change = fmean(theirs) - fmean(ours)
    return change if abs(draft.row.diff) < 2 * abs(change) else None


def _notes(draft: Draft, verdict: Verdict) -> Iterator[str]:
    """What a reader must know beside a verdict on an open loop's latency."""
    percentile = Percentile.of(draft.row.metric)
    if percentile is None or percentile.measure != "latency" or draft.design is None:
        return
    if verdict.kind in (FASTER, SLOWER) and not _work_moved(draft, percentile):
        yield "waiting, not work"
    if any(_busy_ratio(task) > _SATURATED for task in _tasks(draft.design.races, draft.row.task)):
        yield "near saturation: percentages overstate"


def _work_moved(draft: Draft, percentile: Percentile) -> bool:
    """Whether the service time moved too, at the same percentile: its 95 % interval leaves out 1."""
    assert draft.design is not None
    key = (f"p{percentile.rank:g} service time", draft.row.task, "ms")
    found = find(draft.design, lambda race: race.log(key))
    if found is None:
        return True
    estimate = found.estimate
    return not estimate.low <= 1 <= estimate.high


def _busy_ratio(task: TaskResult) -> float:
    """Clients in a request, on average, of all clients: rate x mean service time / clients."""
    length_s = task.window.end_s - task.window.start_s
    mean_ms = (task.service_time_ms or {}).get("mean")
    if mean_ms is None or length_s <= 0:
        return 0.0
    return task.requests / length_s * mean_ms / 1000 / task.clients
