"""Same answers: sides whose read tasks answer differently have no speed to compare (docs/method.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from esbench.comparison.comparability import ANSWERS
from esbench.comparison.model import AnswerPair, AnswersOf, Difference, Side, TaskAnswers
from esbench.record.answers import (
    COUNT,
    ERROR,
    ERROR_BOUND,
    FIRST,
    HITS,
    LAST,
    RANKS,
    SAMPLED,
    SEARCH,
    TOP_HITS,
    HeldDocuments,
    Line,
    NotAsked,
    RequestAnswer,
)
from esbench.record.figures import Notice, task_label
from esbench.record.index_prefix import index_prefix, without_prefix
from esbench.record.model import ClusterFacts, RaceRecord

_FEWEST_OF_MANY = 30
_SHORT, _LONG = 60, 160  # characters of an answer
_SHOWN = 3  # of the answers that differ
_SCORE_TOLERANCE = 2e-5  # relative to the best: scores are floats of 32 bits
_FIGURE_TOLERANCE = 2e-6  # relative
_SAMPLED_TOLERANCE = 0.05  # of cardinality, and of percentiles as a part of their range: their usual error
_ONLY_TOTALS = "only totals and sets were compared: scores depend on {}"
_ONLY_BOUNDS = "of terms only the counts were compared, within the error that the servers state"


@dataclass(frozen=True)
class _Asked:
    """The answers of a race by the label of its tasks, the reasons why some have none, and its indices by name: the
    documents that they held, the most that were deleted, their number of primary shards. `routes_since_7`: an id falls
    into another shard than before Elasticsearch 7.0, whose indices can be split more often."""

    answers: Mapping[str, Mapping[tuple[int, str | None], RequestAnswer]]  # by number and values
    reasons: Mapping[str, str]
    held: Mapping[str, int]
    deleted: int
    shards: Mapping[str, Any]
    routes_since_7: bool

    @classmethod
    def of(cls, record: RaceRecord, lines: Sequence[Line]) -> _Asked:
        labels = {task.name: task_label(record, task) for task in record.tasks}
        answers: dict[str, dict[tuple[int, str | None], RequestAnswer]] = {}
        for line in lines:
            if isinstance(line, RequestAnswer):
                answers.setdefault(labels.get(line.task, line.task), {})[line.number, line.values] = line
        held = [line for line in lines if isinstance(line, HeldDocuments)]
        indices = {name: index for cluster in record.clusters.values() for name, index in cluster.indices.items()}
        return cls(
            answers,
            {labels.get(each.task, each.task): each.reason for each in lines if isinstance(each, NotAsked)},
            {each.index: each.documents for each in held},
            max((each.deleted for each in held), default=0),
            {
                name: index.get("primary_shards")
                for name, index in without_prefix(indices, index_prefix(record.track_params)).items()
            },
            not any(_is_before_7(cluster) for cluster in record.clusters.values()),
        )


def task_answers(baseline: Side, contender: Side, answers_of: AnswersOf) -> tuple[TaskAnswers, ...]:
    """Return how the read tasks of two sides were answered, in the order of the tasks; of rounds that asked on both.

    Races are compared in the order of their rounds, others in that of their start. Raises RecordError for damaged
    answers.
    """
    found: dict[str, TaskAnswers] = {}
    for records in zip(baseline.records, contender.records, strict=False):
        lines = list(map(answers_of, records))
        if not all(lines):
            continue
        one, other = map(_Asked.of, records, lines)
        for task in dict.fromkeys((*one.answers, *one.reasons, *other.answers, *other.reasons)):
            compared = _compared(task, one, other)
            found[task] = compared if task not in found else _merged(found[task], compared)
    return tuple(found.values())


def _compared(task: str, one: _Asked, other: _Asked) -> TaskAnswers:
    ours, theirs = one.answers.get(task, {}), other.answers.get(task, {})
    reason = one.reasons.get(task) or other.reasons.get(task) or ""
    if not ours or not theirs:
        return TaskAnswers(task, reason=reason or "only one side has answers")
    common = [key for key in ours if key in theirs]
    if not common:
        return TaskAnswers(task, reason="the sides ask for different values")
    stable = [key for key in common if ours[key].is_stable and theirs[key].is_stable]
    why = _why_loosely(one, other, [each[key].answer for each in (ours, theirs) for key in stable])
    is_bounded = any(_has_bounds(each[key].answer) for each in (ours, theirs) for key in stable)
    found = {key: _is_same_answer(ours[key].answer, theirs[key].answer, loosely=bool(why)) for key in stable}
    differing = [key for key, is_same in found.items() if is_same is False]
    if stable and set(found.values()) == {None}:
        reason = reason or "both sides answer with errors"
    return TaskAnswers(
        task,
        equal=sum(is_same is True for is_same in found.values()),
        differing=len(differing),
        unstable=len(common) - len(stable),
        examples=tuple(
            AnswerPair(ours[key].request, *_where_they_differ(ours[key].answer, theirs[key].answer))
            for key in islice(differing, _SHOWN)
        ),
        reason=reason,
        limits=_ONLY_TOTALS.format(why) if why else _ONLY_BOUNDS if is_bounded else "",
        documents=tuple(_documents(one.held, other.held)),
    )


def _where_they_differ(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the parts of two answers, of the same kind, that are not equal; the answers of different kinds."""
    if not (isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys() and len(one) == 1):
        return one, other
    (ours,), (theirs,) = one.values(), other.values()
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return one, other
    keys = [key for key in dict.fromkeys((*ours, *theirs)) if ours.get(key) != theirs.get(key)]
    return {key: ours.get(key) for key in keys}, {key: theirs.get(key) for key in keys}


def _merged(first: TaskAnswers, last: TaskAnswers) -> TaskAnswers:
    """Return the answers of two rounds as one: those of the round with more differences, so that none is lost."""
    return max(first, last, key=lambda each: (each.differing, each.equal))


def _documents(ours: Mapping[str, int], theirs: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence for each index that holds another number of documents on the other side."""
    for name in ours:
        if name in theirs and ours[name] != theirs[name]:
            yield f"{name} holds {ours[name]:,} documents in baseline, {theirs[name]:,} in contender"


def _why_loosely(one: _Asked, other: _Asked, answers: Collection[Any]) -> str:
    """Return what makes the scores of two sides differ though they hold the same documents; "" if nothing does, or if
    nothing has scores."""
    searches = [
        each[SEARCH]
        for answer in answers
        for each in (answer if isinstance(answer, list) else [answer])
        if SEARCH in each
    ]
    if not searches:
        return ""
    common = one.shards.keys() & other.shards.keys()
    if any(one.shards[name] != other.shards[name] for name in common):
        return "the number of shards"
    if one.deleted or other.deleted:
        return "deleted documents"
    is_spread = any((shards or 1) > 1 for asked in (one, other) for shards in asked.shards.values())
    if is_spread and one.routes_since_7 != other.routes_since_7:
        return "the shards of documents, which 7.0 has changed"
    if is_spread and any(RANKS in search for search in searches):
        return "the shards of documents, whose ids the server has made"
    return ""


def _is_before_7(cluster: ClusterFacts) -> bool:
    return cluster.distribution == "elasticsearch" and cluster.version.partition(".")[0] in ("1", "2", "5", "6")


def _has_bounds(value: Any) -> bool:
    """True if somewhere in an answer the counts of terms have a stated error."""
    if isinstance(value, dict):
        return ERROR_BOUND in value or any(map(_has_bounds, value.values()))
    return isinstance(value, list) and any(map(_has_bounds, value))


def _is_same_answer(one: Any, other: Any, *, loosely: bool) -> bool | None:
    """True if two answers are the same, None if both are errors; `loosely`: but for scores, and hits that the scores
    have chosen."""
    if isinstance(one, list) and isinstance(other, list):
        found = [_is_same_answer(*pair, loosely=loosely) for pair in zip(one, other, strict=False)]
        return len(one) == len(other) and False not in found and (True in found or None)
    if ERROR in one and ERROR in other:
        return None
    if SEARCH in one and SEARCH in other:
        return _is_same_search(one[SEARCH], other[SEARCH], loosely)
    return bool(one == other)


def _is_same_search(one: Mapping[str, Any], other: Mapping[str, Any], loosely: bool) -> bool:
    others = (one.keys() | other.keys()) - {HITS, LAST, FIRST, RANKS, COUNT, "aggregations"}
    if any(one.get(key) != other.get(key) for key in others) or not _are_same_hits(one, other, loosely):
        return False
    ours, theirs = one.get("aggregations", {}), other.get("aggregations", {})
    if loosely and "digest" in (*ours, *theirs):
        return True
    return _is_same_node(ours, theirs, loosely)


def _are_same_hits(one: Mapping[str, Any], other: Mapping[str, Any], loosely: bool) -> bool:
    ours, theirs = one.get(HITS, {}), other.get(HITS, {})
    is_complete = not any(key in answer for key in (LAST, FIRST) for answer in (one, other))
    if loosely:
        return not is_complete or (ours.keys() == theirs.keys() and ours.get("digest") == theirs.get("digest"))
    if ours.keys() != theirs.keys():
        return False
    if not all(_is_near(rank, theirs[each], _SCORE_TOLERANCE) for each, rank in ours.items()):
        return False
    return all(_is_near(one.get(key), other.get(key), _SCORE_TOLERANCE) for key in (LAST, FIRST, RANKS, COUNT))


def _is_same_node(one: Any, other: Any, loosely: bool) -> bool:
    """True if two aggregations, or parts of them, are the same. Keys that only one side has are a version's."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_is_same_node(*pair, loosely) for pair in zip(one, other, strict=True))
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return _is_near(one, other, _FIGURE_TOLERANCE)
    if one.keys() == other.keys() == {TOP_HITS}:
        return _is_same_search(one[TOP_HITS], other[TOP_HITS], loosely)
    common = one.keys() & other.keys()
    sampled = {key for key in common if _is_sampled(one[key]) and _is_sampled(other[key])}
    if not common or not _are_near_samples([(one[key][SAMPLED], other[key][SAMPLED]) for key in sampled]):
        return one == other
    if "buckets" in common and not _are_same_buckets(one, other, loosely):
        return False
    is_counted = not loosely and ERROR_BOUND not in {*one, *other}
    uncounted = {"buckets", ERROR_BOUND, *(() if is_counted else ["sum_other_doc_count"])}
    return all(_is_same_node(one[key], other[key], loosely) for key in common - sampled - uncounted)


def _is_sampled(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {SAMPLED}


def _are_near_samples(pairs: Sequence[tuple[float, float]]) -> bool:
    """True if sampled figures of one aggregation are near each other: by a part of their range, or of a single one."""
    known = [value for pair in pairs for value in pair if value is not None]
    if not known:
        return True
    range_ = max(known) - min(known) if len(pairs) > 1 else max(map(abs, known))
    return all(
        one == other or (one is not None and other is not None and abs(one - other) <= _SAMPLED_TOLERANCE * range_)
        for one, other in pairs
    )


def _are_same_buckets(one: Mapping[str, Any], other: Mapping[str, Any], loosely: bool) -> bool:
    """True if buckets may be of the same documents: of several shards, if their counts lie within the stated error."""
    ours, theirs = one["buckets"], other["buckets"]
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(_is_same_node(ours[key], theirs[key], loosely) for key in ours)
    errors = [each.get(ERROR_BOUND, 0) for each in (one, other)]
    if not loosely and not any(errors):
        return _is_same_node(ours, theirs, loosely)
    if min(errors) < 0:
        return True  # the server does not know how far its counts are off
    by_key, of_others = ({str(each.get("key")): each for each in side} for side in (ours, theirs))
    common = by_key.keys() & of_others.keys()
    if not any(errors):
        return by_key.keys() == of_others.keys() and all(
            _is_same_node(by_key[key], of_others[key], loosely) for key in common
        )
    counts = [(by_key[key]["doc_count"], of_others[key]["doc_count"]) for key in common]
    return bool(common or not ours or not theirs) and all(abs(a - b) <= sum(errors) for a, b in counts)


def _is_near(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_is_near(*pair, tolerance) for pair in zip(one, other, strict=True))
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if numbers and (isinstance(one, float) or isinstance(other, float)):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=1e-12)
    return bool(one == other)


def differences(answers: Sequence[TaskAnswers], allow: Collection[str]) -> tuple[Difference, ...]:
    """Return a difference for each task whose answers differ between the sides; `allow` as of comparability."""
    return tuple(
        Difference(
            f"{each.task}: answers",
            _text(each.examples[0].baseline, _SHORT),
            _text(each.examples[0].contender, _SHORT),
            key=ANSWERS,
            task=each.task,
            allowed=ANSWERS in allow,
        )
        for each in answers
        if each.differing
    )


def notices(answers: Sequence[TaskAnswers]) -> Iterator[Notice]:
    """Yield what the answers of two sides show: first the requests whose answers differ, last what is the same."""
    for each in (each for each in answers if each.differing):
        yield Notice(f"{each.task}: other answers to {each.differing} of {each.equal + each.differing} requests")
        for example in each.examples:
            ours, theirs = _text(example.baseline), _text(example.contender)
            yield Notice(f"{each.task}: {example.request}: baseline {ours}, contender {theirs}", note=True)
    for text in dict.fromkeys(text for each in answers for text in each.documents):
        yield Notice(text)
    if same := [each for each in answers if each.equal and not each.differing]:
        yield Notice(f"same answers: {', '.join(map(_shows, same))}", note=True)
    for reason in dict.fromkeys(each.limits for each in answers if each.limits):
        yield Notice(f"answers: {reason}", note=True)
    for each in answers:
        if not each.equal and not each.differing:
            why = each.reason or f"the answers to all {each.unstable} requests change from one moment to the next"
            yield Notice(f"{each.task}: answers not compared: {why}", note=True)


def _shows(answers: TaskAnswers) -> str:
    """Return what equal answers show: with 95 % confidence fewer requests differ than 3 / n (the rule of three)."""
    shown = f": under {300 / answers.equal:.2g}% differ" if answers.equal >= _FEWEST_OF_MANY else ""
    others = [f"{answers.unstable} unstable" if answers.unstable else "", answers.reason]
    return f"{answers.task} ({', '.join(filter(None, [f'{answers.equal}{shown}', *others]))})"


def _text(answer: Any, most: int = _LONG) -> str:
    text = json.dumps(answer, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 3]}..."
