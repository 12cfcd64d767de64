"""Two sides, one race or several rounds each: what differs between them, and whether one is really better.

Pure: sides in, a frozen Comparison out. The method is docs/method.md's, its parts are in `esbench.comparison`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from esbench.comparison import drafts, gate, verdicts
from esbench.comparison.estimates import Design, last_of_sessions, places_in_session
from esbench.comparison.model import CompareOptions, Comparison, Difference, Pair, Side
from esbench.comparison.values import Race
from esbench.record import RaceRecord
from esbench.summary import TEST_MODE, Notice, notices, reported_tasks, task_label

_MOST_NOTICES = 5  # of the rounds of a side


def compare(baseline: Side, contenders: Sequence[Side], options: CompareOptions | None = None) -> Comparison:
    """Compare each contender with the baseline; the primary rows of all of them are one family of tests."""
    options = options or CompareOptions()
    history = last_of_sessions([Race.of(record) for record in options.history])
    races = tuple(Race.of(record) for record in baseline.records)
    drafted = []
    for contender in contenders:
        theirs = tuple(Race.of(record) for record in contender.records)
        design = Design(races, theirs, places_in_session(baseline, contender), history)
        differences = gate.differences(baseline, contender, options.allow)
        drafted.append((contender, design, differences, drafts.drafts(design, differences, options)))
    family = [draft for *_, of_a_pair in drafted for draft in of_a_pair]
    rows = iter(verdicts.judged(family, options))
    pairs = [
        Pair(
            baseline,
            contender,
            differences,
            tuple(next(rows) for _ in of_a_pair),
            tuple(_notices(baseline, contender, differences)),
            design.places is not None,
            drafts.speed_ratio(design, differences),
        )
        for contender, design, differences, of_a_pair in drafted
    ]
    tested = sum(draft.waits for draft in family)
    return Comparison(tuple(pairs), options.looks, options.min_effect_ratio, tested, len(history))


def _notices(baseline: Side, contender: Side, differences: Sequence[Difference]) -> Iterator[Notice]:
    """What stands in the way of comparing, then what is to be known of the races."""
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
    on_baseline, on_contender = (_notices_of(side) for side in (baseline, contender))
    for notice in on_baseline:
        side = "both" if notice in on_contender else "baseline"
        yield replace(notice, text=f"{side}: {notice.text}")
    for notice in on_contender:
        if notice not in on_baseline:
            yield replace(notice, text=f"contender: {notice.text}")


def _discarded(record: RaceRecord) -> bool:
    return record.session is not None and record.session.round == 0


def _labels(records: Sequence[RaceRecord]) -> Iterator[str]:
    return (task_label(record, task) for record in records for task in reported_tasks(record))


def _notices_of(side: Side) -> list[Notice]:
    """The notices of a side's races, each once; of several rounds the first ones, unusable figures before all else."""
    found = list(dict.fromkeys(notice for record in side.records for notice in notices(record)))
    if len(side.records) == 1 or len(found) <= _MOST_NOTICES:
        return found
    found.sort(key=lambda notice: not (notice.unusable or notice == TEST_MODE))
    return [*found[:_MOST_NOTICES], Notice(f"and {len(found) - _MOST_NOTICES} more: esbench show RACE", note=True)]
