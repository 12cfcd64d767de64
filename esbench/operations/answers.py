"""Answers of reads: how they are asked, and taken from replies (docs/verdicts.md); record.answers has their form."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from esbench.cluster.dialect import Dialect
from esbench.errors import TrackError
from esbench.operations.approximate import NotComparable, is_approximate
from esbench.operations.drawn import RenderedRequest
from esbench.operations.tables import check_query, is_table, plain_value, table_answer
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
    TOTAL,
)

_MOST_BYTES = 1_000  # of a document, suggestions
_MOST_HITS = 50
_MOST_VALUES = 100  # in rows
_MOST_FIGURES = 500  # of aggregations, bucket by bucket: those of two versions are compared key by key
_SEARCH, _MULTI_SEARCH, _COUNT = "/_search", "/_msearch", "/_count"
_DOCUMENT = re.compile(r"/(?!_)[^/]+/(?:_doc|_source|(?!_)[^/]+)/[^/]+")
_CHANGED = ("scroll", "track_total_hits")  # of the parameters of a search
# Searches that two clusters with the same documents may answer otherwise, and why.
_OF_CHANCE = (
    (
        re.compile(
            rb'"(retriever|hybrid|random_score|(diversified_|random_)?sampler)"\s*:\s*[\[{]'
            rb'|"(significant_te(rms|xt)|rare_terms|categorize_text|variable_width_histogram)"\s*:\s*{'
        ),
        "its answers are approximate, or drawn",
    ),
    (
        re.compile(rb'\bnow([+-]\d|/[yMwdhHms]|\|\|)|"([gl]te?|from|to)"\s*:\s*"now"'),
        "its requests depend on the time of day",
    ),
    (re.compile(rb'"slice"\s*:\s*{'), "it is a part of a scroll"),
)
# Aggregations whose figures depend on the order in which segments are read, or on the version's hashes.
_SAMPLED = {"percentiles", "percentile_ranks", "median_absolute_deviation", "boxplot", "cardinality"}
_PLACES = {"_doc", "_shard_doc", "_seq_no"}  # sort keys that two indices do not share
_SOURCE = "_source"  # all hits have it, or none
_OF_SOME_HITS = {"fields", "highlight", "inner_hits"}
_MADE_BY_THE_SERVER = re.compile(r"(?=.*[a-z])(?=.*[A-Z])([\w-]{20} ?)+", re.ASCII)  # ids of documents without own ones


def asked(request: RenderedRequest, dialect: Dialect) -> tuple[str, bytes | None]:
    """Return the target and body with which a read's answer is asked. Raises NotComparable.

    Searches count all of their hits, from 7.0 on, and open no scroll.
    """
    path, _, query = request.target.partition("?")
    body = request.body or None
    if is_approximate([request.target, request.body.decode(errors="replace")]):
        raise NotComparable(APPROXIMATE)
    for pattern, reason in _OF_CHANCE:
        if pattern.search(request.body):
            raise NotComparable(reason)
    params = parse_qsl(query, keep_blank_values=True)
    if "source" in dict(params):
        raise NotComparable("its body is in its query string")
    counts_all = dialect.distribution == "opensearch" or dialect.version >= (7, 0)
    if path.endswith(_SEARCH):
        kept = [(name, value) for name, value in params if name not in _CHANGED]
        target = f"{path}?{urlencode(kept)}" if kept else path
        return target, _counting(body or b"{}") if counts_all else body
    if path.endswith(_MULTI_SEARCH) and body is not None:
        lines = body.split(b"\n")
        lines[1::2] = [_counting(line) if counts_all and line else line for line in lines[1::2]]
        return request.target, b"\n".join(lines)
    if path.endswith(_COUNT) or (request.method == "GET" and _DOCUMENT.fullmatch(path)):
        return request.target, body
    if is_table(path) and request.method == "POST":
        check_query(request.target, body)
        return request.target, body
    raise NotComparable("replies of this kind are not compared")


def _counting(body: bytes) -> bytes:
    """Return a search body that counts all hits; unchanged if it is not a JSON object."""
    try:
        content = json.loads(body)
    except ValueError:
        return body
    return json.dumps({**content, "track_total_hits": True}).encode() if isinstance(content, dict) else body


def answer(reply: Any, target: str, body: bytes | None, mapping: AnswerMapping | None = None) -> Any:
    """Return the answer in a decoded reply to a request that `asked` returned; with the rows that `mapping` finds in
    it.

    Raises AttributeError, KeyError, TypeError or ValueError for a reply of an unknown form.
    """
    found = _answer(reply, target, body)
    for kind in (SEARCH, DOCUMENT):
        if mapping is not None and kind in found:
            found[kind][ROWS] = mapping.rows(reply)
    return found


def _answer(reply: Any, target: str, body: bytes | None) -> Any:
    path, _, query = target.partition("?")
    if is_table(path):
        return table_answer(reply, path, body) or _error(reply)
    if path.endswith(_SEARCH):
        return _search_answer(reply, _Search({**_object(body or b"{}"), **dict(parse_qsl(query))}))
    if path.endswith(_MULTI_SEARCH) and "responses" in reply:
        searches = [_Search(_object(line)) for line in (body or b"").split(b"\n")[1::2]]
        return [_search_answer(*pair) for pair in zip(reply["responses"], searches, strict=False)]
    if "/_source/" in path and not (isinstance(reply.get("error"), dict) and isinstance(reply.get("status"), int)):
        return {DOCUMENT: {"found": True, "source": reply}}
    return {COUNT: reply["count"]} if path.endswith(_COUNT) and COUNT in reply else _document(reply)


def _document(reply: Mapping[str, Any]) -> dict[str, Any]:
    return {DOCUMENT: {"found": reply["found"], "source": reply.get("_source")}} if "found" in reply else _error(reply)


def _object(content: bytes) -> dict[str, Any]:
    try:
        decoded = json.loads(content)
    except ValueError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _error(reply: Mapping[str, Any]) -> dict[str, str]:
    error = reply["error"]
    return {ERROR: str(error["type"]) if isinstance(error, dict) else str(error)}


class _Search:
    """The parts of a search that its answer depends on; `keys` are those of its sort, none if scores sort it."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        sort = body.get("sort") or []
        keys = sort if isinstance(sort, list) else sort.split(",") if isinstance(sort, str) else [sort]
        self.keys = [next(iter(key), "") if isinstance(key, dict) else str(key).partition(":")[0] for key in keys]
        self.is_paged = str(body.get("from", 0)) != "0"
        self.is_collapsed = "collapse" in body
        self.sampled = frozenset(_sampled(body))


def _sampled(search: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of a search's aggregations whose figures are sampled, at any depth."""
    for name, content in {**(search.get("aggs") or {}), **(search.get("aggregations") or {})}.items():
        if isinstance(content, dict):
            if _SAMPLED & content.keys():
                yield name
            yield from _sampled(content)


def _search_answer(reply: Mapping[str, Any], search: _Search) -> dict[str, Any]:
    if "hits" not in reply:
        return _error(reply)
    found = _hits(reply["hits"], search)
    if aggregations := reply.get("aggregations"):
        found["aggregations"] = _aggregations(aggregations, search.sampled)
    if suggestions := reply.get("suggest"):
        found["suggest"] = {
            name: [sorted(option["text"] for option in entry["options"]) for entry in entries]
            for name, entries in suggestions.items()
        }
    if reply.get("timed_out") or (reply.get("_shards") or {}).get("failed"):
        found["partial"] = True
    return {SEARCH: found}


def _hits(hits: Mapping[str, Any], search: _Search) -> dict[str, Any]:
    total, found = hits.get("total"), hits.get("hits") or []
    if isinstance(total, dict):
        total = total["value"] if total.get("relation") == "eq" else f">={total['value']}"
    answer: dict[str, Any] = {TOTAL: total}
    if not found:
        return answer
    ids, ranks = _ids(found), _ranks(found, search)
    is_all = len(found) == total
    is_anonymous = search.is_collapsed or _MADE_BY_THE_SERVER.fullmatch(" ".join(ids)) is not None
    is_ranked = any(map(_says_something, ranks))
    is_last, is_first = ([_is_tie(rank, ranks[place]) for rank in ranks] for place in (-1, 0))
    open_ends = [] if is_all else [(LAST, is_last), *([(FIRST, is_first)] if search.is_paged else [])]
    is_open = [any(group[place] for _, group in open_ends) for place in range(len(ids))]
    of_some = {key for hit, is_end in zip(found, is_open, strict=True) if not is_end for key in hit} & _OF_SOME_HITS
    if parts := sorted(of_some | ({_SOURCE} & found[0].keys())):
        answer["parts"] = parts
    if is_anonymous:
        return {**answer, **({RANKS: ranks} if is_ranked else {COUNT: len(ids)})}
    if not is_ranked:
        return {**answer, **({HITS: dict.fromkeys(sorted(ids))} if is_all else {COUNT: len(ids)})}
    for name, group in open_ends:
        answer[name] = [ranks[group.index(True)], group.count(True)]
    answer[HITS] = {each: rank for each, rank, is_end in zip(ids, ranks, is_open, strict=True) if not is_end}
    return answer


def _ids(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids of hits; of a second one with the same id, from another index, with its number."""
    seen: dict[str, int] = {}
    ids = []
    for hit in found:
        each = str(hit.get("_id"))
        seen[each] = seen.get(each, 0) + 1
        ids.append(each if seen[each] == 1 else f"{each}#{seen[each]}")
    return ids


def _ranks(found: Sequence[Mapping[str, Any]], search: _Search) -> list[Any]:
    """Return what hits are sorted by, as far as two indices share it: sort values, or the score; scores are relative
    to the best one, but among sort values whose keys are not known."""
    if not found[0].get("sort"):
        best = max((hit.get("_score") or 0.0 for hit in found), default=0.0) or 1.0
        return [None if hit.get("_score") is None else _relative(hit["_score"], best) for hit in found]
    keys = search.keys or [""] * len(found[0]["sort"])
    ranks = [[value for key, value in zip(keys, hit["sort"], strict=False) if key not in _PLACES] for hit in found]
    for place, key in enumerate(key for key in keys if key not in _PLACES):
        if key == "_score":
            best = max((rank[place] or 0.0 for rank in ranks), default=0.0) or 1.0
            for rank in ranks:
                rank[place] = _relative(rank[place] or 0.0, best)
    return ranks


def _relative(score: float, best: float) -> float:
    return float(f"{score / best:.7g}")


def _says_something(rank: Any) -> bool:
    return rank is not None and rank != []


def _is_tie(rank: Any, other: Any) -> bool:
    if isinstance(rank, list) and isinstance(other, list):
        return len(rank) == len(other) and all(map(_is_tie, rank, other))
    if isinstance(rank, float) and isinstance(other, float):
        return abs(rank - other) <= SCORE_TOLERANCE * max(1.0, abs(other))
    return bool(rank == other)


def _aggregations(value: Any, sampled: Collection[str], name: str = "") -> Any:
    """Return aggregations with figures of 12 digits, sampled ones marked, and without what a reply adds to them."""
    if isinstance(value, dict):
        hits = value.get("hits")
        if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
            return {TOP_HITS: _hits(hits, _Search({}))}
        is_figure = bool({"buckets", "value", "values"} & value.keys())
        found = {}
        for key, inner in value.items():
            is_text = key.endswith("_as_string") and (key != "value_as_string" or name in sampled or _is_number(inner))
            if is_text or (is_figure and key == "meta") or (key == ERROR_BOUND and not inner):
                continue
            own_name = key.rpartition("#")[2]  # typed_keys puts the type before it
            inside = own_name if own_name in sampled else "" if key == "key" else name
            found[key] = _aggregations(inner, sampled, inside)
        return found
    if isinstance(value, list):
        return [_aggregations(inner, sampled, name) for inner in value]
    if name in sampled and value == "NaN":  # of no documents; null from 7.0 on
        return None
    if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and name in sampled):
        return {SAMPLED: float(f"{value:.6g}")} if name in sampled else float(f"{value:.12g}")
    return value


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def shortened(answer: Any, share: float = 1.0) -> Any:
    """Return an answer with a digest in place of each part that is too long; it needs the same ids, sort values and
    6 digits of figures, not the same scores, sampled figures, or counts with a stated error.

    `share`: how much of the usual length parts may have.
    """
    if isinstance(answer, list):
        return [shortened(each, share / len(answer)) for each in answer]
    if ROWS in answer:
        return {ROWS: _short_rows(answer[ROWS])}
    if SEARCH not in answer:
        return {name: _short_part(value, share) for name, value in answer.items()}
    search = dict(answer[SEARCH])
    if ROWS in search:
        search[ROWS] = _short_rows(search[ROWS])
    for name in (HITS, RANKS):
        if len(search.get(name, ())) > share * _MOST_HITS:
            search[name] = _digested(_without_scores(search[name]))
    if _figures(search.get("aggregations")) > share * _MOST_FIGURES:
        search["aggregations"] = _digested(_certain(_exact_node(search["aggregations"])))
    if len(_text(search.get("suggest"))) > share * _MOST_BYTES:
        search["suggest"] = _digested(search["suggest"])
    return {SEARCH: search}


def _short_part(value: Any, share: float) -> Any:
    """Return a document, a count or an error, with a digest in place of a long one; its rows stay beside it."""
    if isinstance(value, dict) and ROWS in value:
        rest = {name: part for name, part in value.items() if name != ROWS}
        return {**_short_part(rest, share), ROWS: _short_rows(value[ROWS])}
    return _digested(value) if len(_text(value)) > share * _MOST_BYTES else value


def _short_rows(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows, with a digest in place of many: by their number, which both kinds of servers share."""
    return _digested(_sorted_rows(rows)) if sum(map(len, rows)) > _MOST_VALUES else rows


def _digested(value: Any) -> dict[str, str]:
    return {"digest": digest(value), "begins": _text(value)[:100]}


def _without_scores(value: Any) -> Any:
    """Return hits, or their ranks, with nothing in place of scores and other sort values that are no whole numbers."""
    if isinstance(value, dict):
        return {key: _without_scores(rank) for key, rank in value.items()}
    if isinstance(value, list):
        return [_without_scores(rank) for rank in value]
    return None if isinstance(value, float) else value


def _figures(value: Any) -> int:
    """Return how many figures and texts aggregations have."""
    if isinstance(value, dict | list):
        return sum(map(_figures, value.values() if isinstance(value, dict) else value))
    return 1


def _certain(value: Any) -> Any:
    """Return aggregations without the buckets of terms whose counts have a stated error."""
    if isinstance(value, dict):
        left_out = {"buckets", "sum_other_doc_count", ERROR_BOUND} if ERROR_BOUND in value else set()
        return {key: _certain(inner) for key, inner in value.items() if key not in left_out}
    return [_certain(inner) for inner in value] if isinstance(value, list) else value


def exact(answer: Any) -> Any:
    """Return the part of an answer that does not change from one moment to the next: no sampled figures and scores."""
    if isinstance(answer, list):
        return [exact(each) for each in answer]
    if ROWS in answer:
        return {ROWS: _sorted_rows(answer[ROWS])}
    return {SEARCH: _exact_search(answer[SEARCH])} if SEARCH in answer else answer


def _exact_search(search: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in search.items() if name not in (LAST, FIRST)}
    if HITS in found:
        found[HITS] = sorted(found[HITS])
    if "aggregations" in found:
        found["aggregations"] = _exact_node(found["aggregations"])
    if ROWS in found:
        found[ROWS] = _sorted_rows(found[ROWS])
    return found


def _sorted_rows(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return rows in an order that both kinds of servers share, with figures of 6 digits."""
    return sorted(({name: _six_digits(value) for name, value in row.items()} for row in rows), key=_text)


def _six_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return SAMPLED
    is_figure = isinstance(value, int | float) and not isinstance(value, bool)
    return plain_value(float(f"{value:.6g}")) if is_figure else value


def _exact_node(value: Any) -> Any:
    """Return aggregations, or a part of them, with figures of 6 digits."""
    if isinstance(value, list):
        return [_exact_node(inner) for inner in value]
    if isinstance(value, dict):
        if value.keys() == {SAMPLED}:
            return SAMPLED
        if value.keys() == {TOP_HITS}:
            return {TOP_HITS: _exact_search(value[TOP_HITS])}
        return {key: _exact_node(inner) for key, inner in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


@dataclass(frozen=True)
class AnswerMapping:
    """The parts of a reply that are rows of a SQL server, too: the operation's `answer`.

    `rows`: the path of a list in the reply, "" if the reply is one row. `columns`: name of a column of the statement ->
    path in a row.
    """

    rows_path: str
    columns: Mapping[str, str]

    @classmethod
    def of(cls, params: Mapping[str, Any], where: str) -> AnswerMapping | None:
        """Return the mapping of an operation's parameters; None without one. Raises TrackError for a wrong one."""
        said = params.get("answer")
        if said is None:
            return None
        columns = said.get("columns") if isinstance(said, Mapping) else None
        if not isinstance(columns, Mapping) or not columns or not all(isinstance(p, str) for p in columns.values()):
            hint = '"answer": {"rows": "aggregations.cities.buckets", "columns": {"city": "key"}}'
            raise TrackError('"answer" has no "columns"', where=where, hint=hint)
        for key in said.keys() - {"rows", "columns"}:
            raise TrackError(f'unknown key "{key}" in "answer"', where=where, hint='it has "rows" and "columns"')
        return cls(str(said.get("rows", "")), columns)

    def rows(self, reply: Any) -> list[dict[str, Any]]:
        """Return the rows in a reply, none of a document that was not found; a part that is missing is null."""
        if reply.get("found") is False:
            return []
        found = _at(reply, self.rows_path) if self.rows_path else [reply]
        return [{name: plain_value(_at(row, path)) for name, path in self.columns.items()} for row in found or ()]


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits that identify a JSON value."""
    return hashlib.blake2b(_text(value).encode(), digest_size=8).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
