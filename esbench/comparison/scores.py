"""Scores of replies in comparisons: a side that finds less is not called faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from esbench.comparison.model import CompareOptions, RowVerdict, Side
from esbench.comparison.reasons import FASTER, LOWER_SCORES
from esbench.record.figures import Notice, reported_tasks, task_label
from esbench.record.model import ScoreFigures, TaskResult


def unless_lower(
    verdict: RowVerdict, ours: Sequence[TaskResult], theirs: Sequence[TaskResult], options: CompareOptions
) -> RowVerdict:
    """Return no verdict in place of a gain if the replies of the side that gained score lower, else the verdict.

    `verdict` is faster or slower; `ours` are the task's results on the baseline, `theirs` those on the contender. The
    scores may be lower by `min_score_effect`. Tasks without scores on both sides keep their verdict.
    """
    before, after = _mean(ours), _mean(theirs)
    if before is None or after is None:
        return verdict
    fall = before - after if verdict.word == FASTER else after - before
    if fall <= options.min_score_effect:
        return verdict
    (name, *_) = {each.scores.name for each in ours if each.scores is not None}
    text = f"{verdict.word}, but {name} is {after:.3f} against {before:.3f}"
    return RowVerdict(LOWER_SCORES, "; ".join(filter(None, [text, verdict.detail])), p=verdict.p)


def _mean(tasks: Sequence[TaskResult]) -> float | None:
    """Return the mean score of a task in several races; None if one of them has none."""
    scores = [each.scores for each in tasks]
    known = [each.mean for each in scores if each is not None]
    return fmean(known) if known and len(known) == len(scores) else None


def scored_on_both(baseline: Side, contender: Side) -> frozenset[str]:
    """Return the names of the tasks whose replies were scored alike in all races of both sides."""
    races = [
        {(task.name, task.scores.name) for task in record.tasks if task.scores is not None}
        for record in (*baseline.records, *contender.records)
    ]
    return frozenset(name for name, _ in set.intersection(*races)) if races else frozenset()


def notices(baseline: Side, contender: Side) -> Iterator[Notice]:
    """Yield the scores of each task that both sides have scored, with the intervals of single races."""
    both = scored_on_both(baseline, contender)
    sides = [
        [(task_label(record, task), task) for record in side.records for task in reported_tasks(record)]
        for side in (baseline, contender)
    ]
    for label, task in dict(sides[0]).items():
        if task.name in both and task.scores is not None:
            found = [[other for name, other in side if name == label] for side in sides]
            if all(found):
                ours, theirs = map(_shown, found)
                yield Notice(f"{label}: {task.scores.name} {ours} on baseline, {theirs} on contender", note=True)


def _shown(tasks: Sequence[TaskResult]) -> str:
    scores: list[ScoreFigures] = [each.scores for each in tasks if each.scores is not None]
    mean = f"{fmean(each.mean for each in scores):.4f}"
    if len(scores) == 1 and scores[0].low is not None:
        return f"{mean} ({scores[0].low:.4f} to {scores[0].high:.4f})"
    return mean
