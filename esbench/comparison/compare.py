"""Comparison of two sides, one race or several rounds each: their differences, and a verdict for each primary figure.

Pure: sides in, a frozen Comparison out. docs/verdicts.md describes the method, the modules of `esbench.comparison` are
its parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter

from esbench.comparison import answers, causes, comparability, scores, verdicts
from esbench.comparison.effects import Design, last_of_sessions, places_in_session
from esbench.comparison.metrics import min_effect, primary_keys, races_of
from esbench.comparison.model import CompareOptions, Comparison, Difference, Pair, Row, Side
from esbench.comparison.nodes import NodesOfRounds, these_clusters
from esbench.comparison.notices import Repeated, merged, place, repeated
from esbench.comparison.parts import rows_of_parts, without_parts
from esbench.comparison.preconditions import is_idle_measured
from esbench.comparison.rows import candidate_rows, speed_ratio
from esbench.comparison.side_by_side import SideBySide, after_cuts, side_by_side
from esbench.record.figures import Notice, reported_tasks, task_label
from esbench.record.model import RaceRecord, TaskResult

_MOST_NOTICES = 8  # of several rounds


def compare(baseline: Side, contenders: Sequence[Side], options: CompareOptions | None = None) -> Comparison:
    """Compare each contender with the baseline: differences, rows with verdicts, notices.

    The primary rows of all contenders are one family of tests: their p values are adjusted together. Tasks that a
    session left out after a look are compared as they were then.
    """
    options = options or CompareOptions()
    if (early := _early_look((baseline, *contenders))) is not None:
        return _compare_looks(baseline, contenders, options, early)
    return _compare(baseline, contenders, options)


def _compare(baseline: Side, contenders: Sequence[Side], options: CompareOptions) -> Comparison:
    history = last_of_sessions(races_of(options.history))
    judged_together = []
    for at_once, contender in zip(_at_once(baseline, contenders, options), contenders, strict=True):
        sides = (baseline, contender) if at_once is None else (at_once.baseline, at_once.contender)
        own = options if at_once is None else replace(options, seconds=after_cuts(options.seconds, at_once.tasks))
        races, count = races_of([record for side in sides for record in side.records]), len(baseline.records)
        compared = _without_parts(sides[0]), _without_parts(sides[1])
        answered = answers.task_answers(*compared, options.answers)
        clusters = these_clusters(
            baseline.records,
            contender.records,
            [each.task for each in answered if each.documents],
            hosts_may_differ=comparability.NODE_HOST in options.allow,
            documents_may_differ=comparability.ANSWERS in options.allow,
        )
        design = Design(races[:count], races[count:], places_in_session(*sides), history, at_once, clusters)
        differences = comparability.differences(*sides, options.allow) + answers.differences(answered, options.allow)
        of_parts = rows_of_parts(design, differences, own)
        rows = (*of_parts, *candidate_rows(design, differences, own))
        judged_together.append((sides, design, differences, answered, rows, len(of_parts)))
    family = [candidate for *_, of_a_pair, _ in judged_together for candidate in of_a_pair]
    tested = options.decided + sum(candidate.waits for candidate in family)
    # also rows that are not tested yet, for want of rounds: a plan is for them
    planned = sum(each.row.is_primary and each.design.is_at_once(each.row.task) for each in family)
    judged = iter(verdicts.judged(family, options))
    pairs = []
    for sides, design, differences, answered, of_a_pair, first in judged_together:
        found = tuple(next(judged) for _ in of_a_pair)
        of_tasks = found[first:]
        moved = tuple(causes.causes(design, of_tasks))
        notices = (
            *(Notice(causes.text(each), note=True) for each in moved),
            *_notices(_without_parts(sides[0]), _without_parts(sides[1]), differences, design),
            *answers.notices(answered),
            *scores.notices(*map(_without_parts, sides)),
        )
        pairs.append(
            Pair(
                *sides,
                differences,
                found,
                notices,
                _took_turns(design),
                speed_ratio(design, differences) if not first else None,
                comparability.known_of_one(*sides),
                design.at_once.sliced_rounds(planned) if design.at_once is not None else None,
                answered,
                moved,
            )
        )
    return Comparison(tuple(pairs), options.looks, options.min_effect_ratio, tested, len(history), options.notices)


def _without_parts(side: Side) -> Side:
    return replace(side, records=tuple(map(without_parts, side.records)))


def _at_once(baseline: Side, contenders: Sequence[Side], options: CompareOptions) -> tuple[SideBySide | None, ...]:
    """Return each contender's rounds with the baseline, after the cut of the warmup, if they held both at once."""

    def margin(task: TaskResult, nodes: NodesOfRounds) -> float:
        metric = primary_keys(task, task.name)[0][0] if task.include_in_reporting else ""
        return math.log1p(min_effect(metric, options.min_effect_ratio, fresh_nodes=nodes.fresh))

    return side_by_side(baseline, contenders, options.seconds, margin)


def _took_turns(design: Design) -> bool:
    """True if the sides were raced one after the other, in turns."""
    return design.of({label for race in design.races for label in race.tasks}).places is not None


def _notices(baseline: Side, contender: Side, differences: Sequence[Difference], design: Design) -> Iterator[Notice]:
    """Yield the notices of a pair: first those against comparing the sides, then those of their races."""
    if forbids := list(dict.fromkeys(difference.key for difference in differences if difference.forbids)):
        allow = " ".join(f"--allow={key.replace(' ', '-')}" for key in forbids)
        yield Notice(f"not comparable: {', '.join(forbids)} (see above; if it does not matter: {allow})", unusable=True)
    ids = [[record.race_id for record in side.records] for side in (baseline, contender)]
    if ids[0] == ids[1]:
        yield Notice("both sides are the same race" if len(ids[0]) == 1 else "both sides are the same races")
    elif shared := [race_id for race_id in ids[0] if race_id in ids[1]]:
        yield Notice(f"on both sides: {', '.join(shared)}")
    records = (*baseline.records, *contender.records)
    if discarded := [each.race_id for each in records if each.session and each.session.is_discarded]:
        yield Notice(f"discarded by their session, but compared here: {', '.join(discarded)}", unusable=True)
    ours, theirs = (dict.fromkeys(_labels(side.records)) for side in (baseline, contender))
    yield from (Notice(f"{name}: only the baseline has this task") for name in ours if name not in theirs)
    yield from (Notice(f"{name}: only the contender has this task") for name in theirs if name not in ours)
    if settings := comparability.known_of_one(baseline, contender):
        text = f"known of one side only: {', '.join(settings)} (esbench did not start the nodes of the other)"
        yield Notice(text, note=True)
    if design.at_once is not None and design.at_once.nodes.strangers:
        yield Notice("the sides share no host: what disturbs one of them is in the difference", note=True)
    if not is_idle_measured(design):
        yield Notice("idle side not measured: what a side's nodes do in the other's slices is not known", note=True)
    if design.shares_nodes:
        yield Notice("both sides share a node: rows of the whole node are left out", note=True)
    yield from _of_races(baseline.records, contender.records)


def _of_races(ours: Sequence[RaceRecord], theirs: Sequence[RaceRecord]) -> Iterator[Notice]:
    """Yield the notices of the races of both sides, unusable figures first; with more than two races only the first
    eight and the number of others."""
    on_baseline, on_contender = repeated(ours), repeated(theirs)
    by_side: dict[str, list[Repeated]] = {"both": [], "baseline": [], "contender": []}
    for about in dict.fromkeys((*on_baseline, *on_contender)):
        found = [side[about] for side in (on_baseline, on_contender) if about in side]
        side = "both" if len(found) == 2 else "baseline" if about in on_baseline else "contender"
        worst = max(found, key=attrgetter("notice.severity"))
        ids = frozenset().union(*(each.ids for each in found))
        by_side[side].append(replace(worst, ids=ids, races=sum(each.races for each in found)))
    told = [
        (place(each.notice), replace(notice, text=f"{side}: {notice.text}"))
        for side, found in by_side.items()
        for each in merged(found)
        for notice in [each.counted("race")]
    ]
    told.sort(key=itemgetter(0))
    most = _MOST_NOTICES if len(ours) + len(theirs) > 2 else len(told)
    yield from (notice for _, notice in told[:most])
    if told[most:]:
        yield Notice(f"and {len(told) - most} more: esbench show RACE", note=True)


def _labels(records: Sequence[RaceRecord]) -> Iterator[str]:
    return (task_label(record, task) for record in records for task in reported_tasks(record))


@dataclass(frozen=True)
class _EarlyLook:
    """The first `rounds` of a session raced the `tasks`, by name, that none of its later ones did."""

    rounds: int
    tasks: frozenset[str]

    def first(self, side: Side) -> Side:
        """Return a side as it was at this look."""
        return replace(side, records=side.records[: self.rounds])

    def others(self, side: Side) -> Side:
        """Return a side with all its rounds, without the tasks that were left out."""
        return replace(side, records=tuple(map(self._without, side.records)))

    def _without(self, record: RaceRecord) -> RaceRecord:
        return replace(record, tasks=tuple(task for task in record.tasks if task.name not in self.tasks))


def _early_look(sides: Sequence[Side]) -> _EarlyLook | None:
    """Return the look after which a session left out tasks, the same on all sides; None if it did not."""
    found = {_left_out(side.records) for side in sides}
    return found.pop() if len(found) == 1 else None


def _left_out(records: Sequence[RaceRecord]) -> _EarlyLook | None:
    if len({record.session.id if record.session is not None else "" for record in records}) != 1:
        return None
    names = [frozenset(task.name for task in without_parts(record).tasks) for record in records]
    if names[0] <= names[-1] or not names[-1] < names[0]:
        return None
    rounds = names.index(names[-1])
    is_left_out = names == [names[0]] * rounds + [names[-1]] * (len(names) - rounds)
    return _EarlyLook(rounds, names[0] - names[-1]) if is_left_out and records[0].session is not None else None


def _compare_looks(
    baseline: Side, contenders: Sequence[Side], options: CompareOptions, early: _EarlyLook
) -> Comparison:
    """Return the comparison of a session that left out tasks after a look: their rows as they were then, which the
    family of the others counts as tested."""
    first = _compare(early.first(baseline), tuple(map(early.first, contenders)), options)
    labels = {
        task_label(record, task) for record in baseline.records for task in record.tasks if task.name in early.tasks
    }
    settled = sum(row.verdict is not None and row.verdict.p is not None for row in _rows(first, labels))
    others = tuple(map(early.others, contenders))
    last = _compare(early.others(baseline), others, replace(options, decided=settled))
    pairs = tuple(_joined(*both, labels) for both in zip(first.pairs, last.pairs, strict=True))
    return replace(last, pairs=pairs)


def _rows(compared: Comparison, labels: set[str]) -> Iterator[Row]:
    return (row for pair in compared.pairs for row in pair.rows if row.task in labels)


def _joined(first: Pair, last: Pair, labels: set[str]) -> Pair:
    """Return the pair of all rounds, with what was known of the tasks `labels` at the first look."""
    rows = {(row.metric, row.task, row.unit): row for row in last.rows}
    order = {(row.metric, row.task, row.unit): row for row in first.rows}
    kept = {key: row for key, row in order.items() if row.task in labels}
    joined = [kept.get(key) or rows.get(key) for key in {**order, **rows}]
    sliced = last.sliced
    if sliced is not None and first.sliced is not None:
        cuts = {label: cut for label, cut in first.sliced.cuts.items() if label in labels}
        lengths = tuple(sorted({*sliced.slices_s, *first.sliced.slices_s}))
        sliced = replace(sliced, cuts={**cuts, **sliced.cuts}, slices_s=lengths)
    return replace(
        last,
        baseline=_with_tasks(first.baseline, last.baseline),
        contender=_with_tasks(first.contender, last.contender),
        differences=tuple(dict.fromkeys((*first.differences, *last.differences))),
        rows=tuple(row for row in joined if row is not None),
        notices=tuple(dict.fromkeys((*last.notices, *(each for each in first.notices if each.unusable)))),
        speed_ratio=first.speed_ratio,
        answers=(*(each for each in first.answers if each.task in labels), *last.answers),
        causes=(*(each for each in first.causes if each.task in labels), *last.causes),
        sliced=sliced,
    )


def _with_tasks(first: Side, last: Side) -> Side:
    """Return a side with all rounds; those of the first look have all their tasks."""
    both = zip(first.records, last.records[: len(first.records)], strict=True)
    return replace(last, records=(*(_with(*each) for each in both), *last.records[len(first.records) :]))


def _with(first: RaceRecord, last: RaceRecord) -> RaceRecord:
    others = {(task.step, task.name): task for task in last.tasks}
    return replace(last, tasks=tuple(others.get((task.step, task.name), task) for task in first.tasks))
