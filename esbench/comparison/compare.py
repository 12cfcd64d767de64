"""Comparison of two sides, one race or several rounds each: their differences, and a verdict for each primary figure.

Pure: sides in, a frozen Comparison out. docs/method.md describes the method, the modules of `esbench.comparison` are
its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter

from esbench.comparison import comparability, verdicts
from esbench.comparison.effects import Design, last_of_sessions, places_in_session
from esbench.comparison.metrics import Race
from esbench.comparison.model import CompareOptions, Comparison, Difference, Pair, Side
from esbench.comparison.notices import Repeated, merged, place, repeated
from esbench.comparison.rows import candidate_rows, speed_ratio
from esbench.record.figures import Notice, reported_tasks, task_label
from esbench.record.model import RaceRecord

_MOST_NOTICES = 8  # of several rounds


def compare(baseline: Side, contenders: Sequence[Side], options: CompareOptions | None = None) -> Comparison:
    """Compare each contender with the baseline: differences, rows with verdicts, notices.

    The primary rows of all contenders are one family of tests: their p values are adjusted together.
    """
    options = options or CompareOptions()
    history = last_of_sessions([Race.of(record) for record in options.history])
    races = tuple(Race.of(record) for record in baseline.records)
    judged_together = []
    for contender in contenders:
        theirs = tuple(Race.of(record) for record in contender.records)
        design = Design(races, theirs, places_in_session(baseline, contender), history)
        differences = comparability.differences(baseline, contender, options.allow)
        judged_together.append((contender, design, differences, candidate_rows(design, differences, options)))
    family = [candidate for *_, of_a_pair in judged_together for candidate in of_a_pair]
    rows = iter(verdicts.judged(family, options))
    pairs = [
        Pair(
            baseline,
            contender,
            differences,
            tuple(next(rows) for _ in of_a_pair),
            tuple(_notices(baseline, contender, differences)),
            design.places is not None,
            speed_ratio(design, differences),
            comparability.known_of_one(baseline, contender),
        )
        for contender, design, differences, of_a_pair in judged_together
    ]
    tested = sum(candidate.waits for candidate in family)
    return Comparison(tuple(pairs), options.looks, options.min_effect_ratio, tested, len(history), options.notices)


def _notices(baseline: Side, contender: Side, differences: Sequence[Difference]) -> Iterator[Notice]:
    """Yield the notices of a pair: first those against comparing the sides, then those of their races."""
    if forbids := list(dict.fromkeys(difference.key for difference in differences if difference.forbids)):
        allow = " ".join(f"--allow={key.replace(' ', '-')}" for key in forbids)
        yield Notice(f"not comparable: {', '.join(forbids)} (see above; if it does not matter: {allow})", unusable=True)
    ids = [[record.race_id for record in side.records] for side in (baseline, contender)]
    if ids[0] == ids[1]:
        yield Notice("both sides are the same race" if len(ids[0]) == 1 else "both sides are the same races")
    elif shared := [race_id for race_id in ids[0] if race_id in ids[1]]:
        yield Notice(f"on both sides: {', '.join(shared)}")
    if discarded := [record.race_id for side in (baseline, contender) for record in side.records if _discarded(record)]:
        yield Notice(f"discarded by their session, and here all the same: {', '.join(discarded)}", unusable=True)
    ours, theirs = (dict.fromkeys(_labels(side.records)) for side in (baseline, contender))
    yield from (Notice(f"{name}: only the baseline has this task") for name in ours if name not in theirs)
    yield from (Notice(f"{name}: only the contender has this task") for name in theirs if name not in ours)
    if settings := comparability.known_of_one(baseline, contender):
        text = f"known of one side only: {', '.join(settings)} (esbench did not start the nodes of the other)"
        yield Notice(text, note=True)
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


def _discarded(record: RaceRecord) -> bool:
    return record.session is not None and record.session.round == 0


def _labels(records: Sequence[RaceRecord]) -> Iterator[str]:
    return (task_label(record, task) for record in records for task in reported_tasks(record))
