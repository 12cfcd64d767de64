"""Scores of searches by judged documents: recall, nDCG and MRR of the hits of a reply.

The judgements are TREC's qrels, which hold exact neighbours, too: the relevance of each is 1.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from esbench.errors import TrackError, did_you_mean
from esbench.model import TrackFile
from esbench.operations.base import TaskContext
from esbench.operations.search import QUERY
from esbench.requests.scoring import Scored
from esbench.requests.templates import Layout, RequestTemplate, encode

_MEASURE = re.compile(r"(\w+)@(\d{1,5})")
_SAY = "say recall@10, ndcg@10 or mrr@10"


class _Hit(msgspec.Struct):
    id: str = msgspec.field(name="_id", default="")


class _Hits(msgspec.Struct):
    hits: list[_Hit]


class _Reply(msgspec.Struct):
    hits: _Hits


_DECODER = msgspec.json.Decoder(_Reply)
Grades = Mapping[str, float]  # relevance by document id, above 0


def found_ids(body: bytes) -> list[str]:
    """Return the ids of a reply's hits, in their order, the first one only of ids that come again.

    Raises ValueError for a reply without hits.
    """
    return list(dict.fromkeys(hit.id for hit in _DECODER.decode(body).hits.hits))


def recall(found: Sequence[str], grades: Grades, k: int) -> float:
    """Return the share of the k relevant documents that are among the first k found: of all, where fewer are relevant.

    Where more than k are relevant, as neighbours at the same distance as the k-th, any k of them are all. 1 where
    nothing is relevant and nothing was to be found.
    """
    wanted = min(k, len(grades))
    if not wanted:
        return 1.0
    return min(wanted, sum(each in grades for each in found[:k])) / wanted


def ndcg(found: Sequence[str], grades: Grades, k: int) -> float:
    """Return the normalized discounted cumulative gain, with the relevance itself as the gain, as trec_eval's ndcg_cut.

    Source: Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 20(4), 2002. 0 where nothing
    is relevant.
    """
    best = _gain(sorted(grades.values(), reverse=True)[:k])
    return _gain([grades.get(each, 0.0) for each in found[:k]]) / best if best else 0.0


def _gain(grades: Sequence[float]) -> float:
    return math.fsum(grade / math.log2(place + 2) for place, grade in enumerate(grades))


def mrr(found: Sequence[str], grades: Grades, k: int) -> float:
    """Return the reciprocal rank of the first relevant document among the first k; 0 without one."""
    return next((1 / place for place, each in enumerate(found[:k], 1) if each in grades), 0.0)


MEASURES = {"recall": recall, "ndcg": ndcg, "mrr": mrr}


@dataclass(frozen=True)
class Judged:
    """A scorer of replies by the judgements of each query, by its number; `name` is "recall@10"."""

    name: str
    grades: Sequence[Grades]

    def score(self, query: int, body: bytes) -> float:
        kind, _, depth = self.name.partition("@")
        return MEASURES[kind](found_ids(body), self.grades[query], int(depth))


def measure_of(text: str, where: str) -> str:
    """Return the name of a measure, "recall@10". Raises TrackError for anything else."""
    parts = _MEASURE.fullmatch(text)
    if parts is None or int(parts[2]) < 1:
        raise TrackError(f'"score" cannot be "{text}"', where=where, hint=_SAY)
    if parts[1] not in MEASURES:
        raise TrackError(f'"score" cannot be "{text}"', where=where, hint=did_you_mean(parts[1], MEASURES))
    return f"{parts[1]}@{int(parts[2])}"


class CorpusQueries:
    """The queries of a file in an order drawn for this share of a task, again and again; each is encoded beforehand."""

    at_send = False

    def __init__(self, encoded: Sequence[Sequence[bytes]], random: Random) -> None:
        self._encoded = encoded
        self._order = list(range(len(encoded)))
        random.shuffle(self._order)
        self._next = 0
        self.number = 0

    def draw(self) -> Sequence[bytes]:
        self.number = self._order[self._next]
        self._next = (self._next + 1) % len(self._order)
        return self._encoded[self.number]


def read_queries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield id and value of each query of a file: a list of numbers where it is one as JSON, else text.

    Raises TrackError for a line without an id and a tab.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            name, tab, value = line.rstrip("\n").partition("\t")
            if not tab or not name:
                raise TrackError("a query has an id, a tab and its text", where=f"{path}:{number}")
            yield name, _value(value)


def _value(text: str) -> Any:
    if text.startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def read_judgements(path: Path) -> dict[str, dict[str, float]]:
    """Return the relevance of judged documents above 0, by query and document. TrackError for a line of another form.

    A line has four words: query, 0 (or Q0), document, relevance.
    """
    found: dict[str, dict[str, float]] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words:
                continue
            try:
                query, _, document, relevance = words
                grade = float(relevance)
            except ValueError:
                what = "a judgement has four words: query, 0, document, relevance"
                raise TrackError(what, where=f"{path}:{number}") from None
            judged = found.setdefault(query, {})
            if grade > 0:
                judged[document] = grade
    return found


def scored(context: TaskContext, template: RequestTemplate) -> Scored:
    """Return what draws $[[query]] from the `queries` of a task, and scores replies by its `judgements`.

    Without a `score` all queries are drawn, with one those that have judgements. Raises TrackError for a request that
    draws no query, and for files that do not fit one another.
    """
    places = Layout(template.slots).fields.get(QUERY)
    if places is None:
        what = f"the request draws no query: it has no $[[{QUERY}]]"
        raise TrackError(what, where=context.where, hint=f'"query": "$[[{QUERY}]]" in its body')
    asked, scorer = list(read_queries(_file(context, "queries").path)), None
    if (measure := context.params.get("score")) is not None:
        name = measure_of(str(measure), context.where)
        judged = read_judgements(_file(context, "judgements").path)
        asked = [(query, value) for query, value in asked if query in judged]
        scorer = Judged(name, [judged[query] for query, _ in asked])
    if not asked:
        names = [_file(context, name).path.name for name in ("queries", *(["judgements"] if scorer else []))]
        what = f"there is no query in {' that is judged in '.join(names)}"
        raise TrackError(what, where=context.where, hint="judgements have the ids of the queries")
    encoded = [tuple(encode(value, encoding) for _, encoding in places) for _, value in asked]
    return Scored(scorer, QUERY, CorpusQueries(encoded, context.random(QUERY)))


def _file(context: TaskContext, name: str) -> TrackFile:
    file = context.params.get(name)
    assert isinstance(file, TrackFile), name
    return file
