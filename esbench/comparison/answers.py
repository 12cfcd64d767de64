"""Same answers: sides whose read tasks answer differently have no speed to compare (docs/verdicts.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from typing import Any

from esbench.comparison.comparability import ANSWERS
from esbench.comparison.model import AnswerPair, AnswersOf, Difference, Side, TaskAnswers
from esbench.comparison.scores import scored_on_both
from esbench.record.answers import (
    APPROXIMATE,
    COUNT,
    DOCUMENT,
    ERROR,
    ERROR_BOUND,
    FIRST,
    HITS,
    LAST,
    RANKS,
    ROWS,
    SAMPLED,
    SCORE_TOLERANCE,
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
_CONTEXT = 10  # characters before the place where two texts differ
_SHOWN = 3  # of the answers that differ
_FIGURE_TOLERANCE = 2e-6  # relative
_CENT, _SUM_TOLERANCE = 0.01, 1e-12  # of figures in rows; relative: of sums of doubles
_SAMPLED_TOLERANCE = 0.05  # of cardinality, and of percentiles as a part of their range: their usual error
_ONLY_TOTALS = "only totals and sets were compared: scores depend on {}"
_ONLY_IDS = "of long pages only totals, ids and whole sort values were compared"
_ONLY_BOUNDS = "of terms only the counts were compared, within the error that the servers state"


@dataclass(frozen=True)
class _Asked:
    """The answers of a race by the label of its tasks, the reasons why some have none, the indices that were there when
    a task was asked, and the primary shards of the race's indices by name.

    `seed`: of what is drawn. `routes_since_7`: an id falls into another shard than before Elasticsearch 7.0, whose
    indices can be split more often.
    """

    answers: Mapping[str, Mapping[tuple[int, str | None], RequestAnswer]]  # by number and values
    reasons: Mapping[str, str]
    held: Mapping[str, Sequence[HeldDocuments]]
    shards: Mapping[str, Any]
    routes_since_7: bool
    seed: int

    @classmethod
    def of(cls, record: RaceRecord, lines: Sequence[Line]) -> _Asked:
        labels = {task.name: task_label(record, task) for task in record.tasks}
        answers: dict[str, dict[tuple[int, str | None], RequestAnswer]] = {}
        reasons: dict[str, str] = {}
        held_then: list[HeldDocuments] = []
        held: dict[str, Sequence[HeldDocuments]] = {}
        before: Line | None = None
        for line in lines:  # the indices come before the tasks that were asked with them
            if isinstance(line, HeldDocuments):
                held_then = [*(held_then if isinstance(before, HeldDocuments) else ()), line]
            else:
                task = labels.get(line.task, line.task)
                held[task] = held_then
                if isinstance(line, NotAsked):
                    reasons[task] = line.reason
                else:
                    answers.setdefault(task, {})[line.number, line.values] = line
            before = line
        indices = {name: index for cluster in record.clusters.values() for name, index in cluster.indices.items()}
        return cls(
            answers,
            reasons,
            held,
            {
                name: index.get("primary_shards")
                for name, index in without_prefix(indices, index_prefix(record.track_params)).items()
            },
            not any(_is_before_7(cluster) for cluster in record.clusters.values()),
            record.seed,
        )


def task_answers(baseline: Side, contender: Side, answers_of: AnswersOf) -> tuple[TaskAnswers, ...]:
    """Return how the read tasks of two sides were answered, in the order of the tasks; of rounds that asked on both.

    Races that asked are compared in the order of their rounds, others in that of their start. Raises RecordError for
    damaged answers.
    """
    found: dict[str, TaskAnswers] = {}
    ours, theirs = (
        [_Asked.of(record, lines) for record in side.records if (lines := answers_of(record))]
        for side in (baseline, contender)
    )
    for one, other in zip(ours, theirs, strict=False):
        for task in dict.fromkeys((*one.answers, *one.reasons, *other.answers, *other.reasons)):
            compared = _compared(task, one, other)
            found[task] = compared if task not in found else _merged(found[task], compared)
    scored = scored_on_both(baseline, contender)
    for task in (task for each in (*ours, *theirs) for task in each.reasons if each.reasons[task] == APPROXIMATE):
        if task in scored:
            found.pop(task, None)  # how good they are is known
            continue
        found[task] = TaskAnswers(task, reason=APPROXIMATE)  # whatever else was answered
    return tuple(found.values())


def _compared(task: str, one: _Asked, other: _Asked) -> TaskAnswers:
    ours, theirs = one.answers.get(task, {}), other.answers.get(task, {})
    reason = one.reasons.get(task) or other.reasons.get(task) or ""
    if not ours or not theirs:
        return TaskAnswers(task, reason=reason or "only one side has answers")
    gives_rows = {_gives_rows(ours), _gives_rows(theirs)}
    if len(gives_rows) > 1:
        if one.seed != other.seed:
            return TaskAnswers(task, reason="the sides have two seeds, and so ask for different values")
        ours, theirs = _by_number(ours), _by_number(theirs)
    common = [key for key in ours if key in theirs]
    if not common:
        return TaskAnswers(task, reason="the sides ask for different values")
    stable = [key for key in common if ours[key].is_stable and theirs[key].is_stable]
    compared = [each[key].answer for each in (ours, theirs) for key in stable]
    why = "" if any(gives_rows) else _why_loosely(task, one, other, compared)
    found = {key: _is_same_answer(ours[key].answer, theirs[key].answer, loosely=bool(why)) for key in stable}
    differing = [key for key, is_same in found.items() if is_same is False]
    if not stable:
        reason = reason or f"the answers to all {len(common)} requests change from one moment to the next"
    elif set(found.values()) == {None}:
        reason = reason or "both sides answer with errors"
    return TaskAnswers(
        task,
        equal=sum(is_same is True for is_same in found.values()),
        differing=len(differing),
        unstable=len(common) - len(stable),
        examples=tuple(
            AnswerPair(ours[key].request, *_where_they_differ(*_shown(ours[key].answer, theirs[key].answer)))
            for key in islice(differing, _SHOWN)
        ),
        reason=reason,
        limits="; ".join(_limits(why, compared)),
        documents=tuple(_documents(one.held.get(task, ()), other.held.get(task, ()))),
    )


def _shown(one: Any, other: Any) -> tuple[Any, Any]:
    """Return what is compared of two answers: of a SQL server's and a cluster's the rows."""
    return (_rows_of(one), _rows_of(other)) if ROWS in one or ROWS in other else (one, other)


def _gives_rows(answers: Mapping[Any, RequestAnswer]) -> bool:
    """True if a SQL server has answered: its draws have no digests that a cluster's have, but the same numbers."""
    return any(ROWS in each.answer for each in answers.values())


def _by_number(answers: Mapping[tuple[int, str | None], RequestAnswer]) -> dict[tuple[int, str | None], RequestAnswer]:
    return {(number, None): answer for (number, _), answer in answers.items()}


def _limits(why: str, answers: Collection[Any]) -> Iterator[str]:
    """Yield what was not compared of some answers; `why`: what makes scores differ."""
    if why:
        yield _ONLY_TOTALS.format(why)
        return
    if any(_has(answer, _is_digest_of_hits) for answer in answers):
        yield _ONLY_IDS
    if any(_has(answer, lambda inner: ERROR_BOUND in inner) for answer in answers):
        yield _ONLY_BOUNDS


def _where_they_differ(one: Any, other: Any) -> tuple[Any, Any]:
    """Return only the differing parts of two JSON values.

    Long strings are cut to some context before the first difference; lists of different length, to the items from it
    on.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [key for key in dict.fromkeys((*one, *other)) if one.get(key) != other.get(key)]
        parts = {key: _where_they_differ(one.get(key), other.get(key)) for key in keys}
        return {key: ours for key, (ours, _) in parts.items()}, {key: theirs for key, (_, theirs) in parts.items()}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [_where_they_differ(*pair) for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
        return [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
    if isinstance(one, list | str) and isinstance(other, type(one)):
        begin = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        if isinstance(one, list):
            return one[begin:], other[begin:]
        if begin > _CONTEXT:
            return f"...{one[begin - _CONTEXT :]}", f"...{other[begin - _CONTEXT :]}"
    return one, other


def _merged(first: TaskAnswers, last: TaskAnswers) -> TaskAnswers:
    """Return the answers of two rounds as one: the counts of the round with more differences, and what either says of
    limits and documents."""
    worse = max(first, last, key=lambda each: (each.differing, each.equal))
    return replace(
        worse,
        limits=worse.limits or first.limits or last.limits,
        documents=tuple(dict.fromkeys((*first.documents, *last.documents))),
    )


def _documents(ours: Sequence[HeldDocuments], theirs: Sequence[HeldDocuments]) -> Iterator[str]:
    """Yield a sentence for each index that holds another number of documents on the other side."""
    held = {each.index: each.documents for each in theirs}
    for index, count, other in ((each.index, each.documents, held.get(each.index)) for each in ours):
        if count is not None and other is not None and count != other:
            yield f"{index} holds {count:,} documents in baseline, {other:,} in contender"


def _why_loosely(task: str, one: _Asked, other: _Asked, answers: Collection[Any]) -> str:
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
    deleted = [held.deleted for asked in (one, other) for held in asked.held.get(task, ())]
    if any(count is None or count > 0 for count in deleted):
        return "deleted documents, whose number the cluster does not say" if None in deleted else "deleted documents"
    is_spread = any((shards or 1) > 1 for asked in (one, other) for shards in asked.shards.values())
    if is_spread and one.routes_since_7 != other.routes_since_7:
        return "the shards of documents, which 7.0 has changed"
    if is_spread and any(RANKS in search for search in searches):
        return "the shards of documents, whose ids the server has made"
    return ""


def _is_before_7(cluster: ClusterFacts) -> bool:
    return cluster.distribution == "elasticsearch" and cluster.version.partition(".")[0] in ("1", "2", "5", "6")


def _has(value: Any, holds: Callable[[Mapping[str, Any]], bool]) -> bool:
    """True if something holds of one of the mappings in an answer."""
    if isinstance(value, dict):
        return holds(value) or any(_has(inner, holds) for inner in value.values())
    return isinstance(value, list) and any(_has(inner, holds) for inner in value)


def _is_digest_of_hits(part: Mapping[str, Any]) -> bool:
    return any(isinstance(part.get(name), dict) and "digest" in part[name] for name in (HITS, RANKS))


def _is_same_answer(one: Any, other: Any, *, loosely: bool) -> bool | None:
    """True if two answers are the same, None if both are errors; `loosely`: but for scores, and hits that the scores
    have chosen."""
    if isinstance(one, list) and isinstance(other, list):
        found = [_is_same_answer(*pair, loosely=loosely) for pair in zip(one, other, strict=False)]
        return len(one) == len(other) and False not in found and (True in found or None)
    if ERROR in one and ERROR in other:
        return None
    if ROWS in one or ROWS in other:
        return _are_same_rows(_rows_of(one), _rows_of(other))
    if DOCUMENT in one and DOCUMENT in other:
        return bool(_without_rows(one[DOCUMENT]) == _without_rows(other[DOCUMENT]))
    if SEARCH in one and SEARCH in other:
        return _is_same_search(one[SEARCH], other[SEARCH], loosely)
    return bool(one == other)


def _rows_of(answer: Any) -> Any:
    """Return the rows of an answer of either kind of server; None if its operation does not say which they are."""
    if isinstance(answer, list):  # of a multi-search
        return None
    return answer.get(ROWS, (answer.get(SEARCH) or answer.get(DOCUMENT) or {}).get(ROWS))


def _are_same_rows(ours: Any, theirs: Any) -> bool:
    if not (isinstance(ours, list) and isinstance(theirs, list)):
        return ours is not None and bool(ours == theirs)  # digests
    figures = {name for row in (*ours, *theirs) for name, value in row.items() if isinstance(value, float | dict)}
    key = partial(_row_key, figures)
    pairs = zip(sorted(ours, key=key), sorted(theirs, key=key), strict=False)
    return len(ours) == len(theirs) and all(_is_same_row(*pair) for pair in pairs)


def _is_same_row(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if two rows have the same values, figures to 6 digits, larger ones to half a hundredth: sums to the cent."""
    if one.keys() != other.keys():
        return False
    for ours, theirs in ((value, other[name]) for name, value in one.items()):
        if isinstance(ours, float | int) and isinstance(theirs, float | int):
            most = min(_FIGURE_TOLERANCE * abs(theirs), max(_CENT / 2, _SUM_TOLERANCE * abs(theirs)))
            if abs(ours - theirs) > (most if isinstance(ours, float) or isinstance(theirs, float) else 0):
                return False
        elif _is_sampled(ours) and _is_sampled(theirs):
            if not _are_near_samples([(ours[SAMPLED], theirs[SAMPLED])]):
                return False
        elif ours != theirs:
            return False
    return True


def _row_key(figures: Collection[str], row: Mapping[str, Any]) -> str:
    """Return a text by which the same rows of two servers have the same order, though `figures` differ a little."""
    exact = [value for name, value in row.items() if name not in figures]
    return json.dumps([exact, [_six_digits(value) for name, value in row.items() if name in figures]])


def _six_digits(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else "" if isinstance(value, dict) else str(value)


def _without_rows(document: Any) -> Any:
    return {name: value for name, value in document.items() if name != ROWS}


def _is_same_search(one: Mapping[str, Any], other: Mapping[str, Any], loosely: bool) -> bool:
    others = (one.keys() | other.keys()) - {HITS, LAST, FIRST, RANKS, COUNT, ROWS, "aggregations"}
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
    if not all(_is_near(rank, theirs[each], SCORE_TOLERANCE) for each, rank in ours.items()):
        return False
    return all(_is_near(one.get(key), other.get(key), SCORE_TOLERANCE) for key in (LAST, FIRST, RANKS, COUNT))


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
    if type(ours) is not type(theirs) or (not loosely and not any(errors)):
        return _is_same_node(ours, theirs, loosely)
    if min(errors) < 0 or not (ours and theirs):  # below 0 the server does not know how far its counts are off
        return bool(ours) == bool(theirs)
    by_key, of_others = ({str(each.get("key")): each for each in side} for side in (ours, theirs))
    common = by_key.keys() & of_others.keys()
    if not any(errors):
        return by_key.keys() == of_others.keys() and all(
            _is_same_node(by_key[key], of_others[key], loosely) for key in common
        )
    counts = [{key: each["doc_count"] for key, each in side.items()} for side in (by_key, of_others)]
    if not common or any(abs(counts[0][key] - counts[1][key]) > sum(errors) for key in common):
        return False
    return all(  # what the other side does not show has no more than the last that it shows
        count <= min(there.values()) + sum(errors)
        for here, there in (counts, counts[::-1])
        for key, count in here.items()
        if key not in there
    )


def _is_near(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_is_near(*pair, tolerance) for pair in zip(one, other, strict=True))
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if numbers and (isinstance(one, float) or isinstance(other, float)):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=1e-12)
    return bool(one == other)


def differences(answers: Sequence[TaskAnswers], allow: Collection[str]) -> tuple[Difference, ...]:
    """Return a difference for each task whose answers differ between the sides, or are approximate, so that it is not
    known how much worse those of one side are. `allow` as of comparability."""
    found = tuple(
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
    return found + tuple(
        Difference(
            f"{each.task}: answers",
            APPROXIMATE,
            APPROXIMATE,
            key=ANSWERS,
            task=each.task,
            allowed=ANSWERS in allow,
            unknown=f"answers not compared: {each.reason}",
        )
        for each in answers
        if each.reason == APPROXIMATE
    )


def notices(answers: Sequence[TaskAnswers]) -> Iterator[Notice]:
    """Yield what the answers of two sides show: first the requests whose answers differ, last what is the same."""
    for each in (each for each in answers if each.differing):
        yield Notice(f"{each.task}: other answers to {each.differing} of {each.equal + each.differing} requests")
        yield from (Notice(_of_example(each.task, example), note=True) for example in each.examples)
    for text in dict.fromkeys(text for each in answers for text in each.documents):
        yield Notice(text)
    if same := [each for each in answers if each.equal and not each.differing]:
        yield Notice(f"same answers: {', '.join(map(_shows, same))}", note=True)
    for reason in dict.fromkeys(each.limits for each in answers if each.limits):
        yield Notice(f"answers: {reason}", note=True)
    for each in answers:
        if not each.equal and not each.differing:
            yield Notice(f"{each.task}: answers not compared: {each.reason}", note=True)


def example_text(found: TaskAnswers) -> str:
    """Return the first request of a task whose answers differ, with both answers."""
    return _of_example(found.task, found.examples[0])


def _of_example(task: str, example: AnswerPair) -> str:
    return f"{task}: {example.request}: baseline {_text(example.baseline)}, contender {_text(example.contender)}"


def _shows(answers: TaskAnswers) -> str:
    """Return what equal answers show: with 95 % confidence fewer requests differ than 3 / n (the rule of three)."""
    shown = f": under {300 / answers.equal:.2g}% differ" if answers.equal >= _FEWEST_OF_MANY else ""
    others = [f"{answers.unstable} unstable" if answers.unstable else "", answers.reason]
    return f"{answers.task} ({', '.join(filter(None, [f'{answers.equal}{shown}', *others]))})"


def _text(answer: Any, most: int = _LONG) -> str:
    text = json.dumps(answer, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 3]}..."
