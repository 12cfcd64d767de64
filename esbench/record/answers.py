"""The lines of answers.jsonl: what a race's read tasks were answered when they were asked once more, unmeasured
(docs/reference/record.md).

An answer is the part of a reply that two clusters with the same documents share, as JSON with one key, its kind:
- {"search": {...}}, or a list of these: `total` (text ">=10000" for a lower bound); `hits`: id -> rank, which is the
  score relative to the best one, or the sort values; `last` and, of a page that is not the first, `first`: [rank,
  number of hits] of a group whose order is not defined, and whose hits are not among `hits`; `ranks` alone where ids
  are made by the server; `parts`, the keys of the hits; `aggregations`, in which {"~": x} is a sampled figure and
  {"~hits": ...} the hits of a bucket; `suggest`; `partial`.
- {"document": {"found": ..., "source": ...}}, {"count": n}, {"error": type}.
- {"rows": [{column: value}, ...]} of a SQL server, of ES|QL and of Elasticsearch's SQL, in any order. In the last two
  {"~rows": n, ...} stands for n rows of a table that was cut short, of which chance has chosen some, with the values
  that order them. `rows` is also a part of the first two where the operation says which parts of a reply they are
  (`answer`).
In place of a long part stands {"digest": ..., "begins": ...}.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from esbench.errors import RecordError
from esbench.record.reading import stored_lines

SEARCH, DOCUMENT, COUNT, ERROR, ROWS = "search", "document", "count", "error", "rows"
TOTAL, HITS, LAST, FIRST, RANKS = "total", "hits", "last", "first", "ranks"
APPROXIMATE = "approximate"  # the reason of NotAsked for searches whose recall is not known
SAMPLED, TOP_HITS = "~", "~hits"
OPEN_ROWS = "~rows"
SCORE_TOLERANCE = 2e-5  # of scores, relative to the best one: they are floats of 32 bits
ERROR_BOUND = "doc_count_error_upper_bound"  # of the counts of terms, where shards say which are the most frequent


class RequestAnswer(msgspec.Struct, frozen=True, tag="answer", tag_field="kind"):
    """The answer to one request of a task.

    `number`: of its draw, from 0; `values` identifies the values that were drawn, None without variables. `request` is
    for people. Both are without the prefix of the race's indices. Not `is_stable`: the same request had another answer
    a moment later.
    """

    task: str
    number: int
    values: str | None
    request: str
    answer: Any
    is_stable: bool = True


class NotAsked(msgspec.Struct, frozen=True, tag="not-asked", tag_field="kind"):
    """The reason why a read task was not asked, or not to its end."""

    task: str
    reason: str


class HeldDocuments(msgspec.Struct, frozen=True, tag="index", tag_field="kind"):
    """The documents of an index, by its name without prefix, when the tasks were asked; those of primaries.

    None where the cluster does not say.
    """

    index: str
    documents: int | None
    deleted: int | None


Line = RequestAnswer | NotAsked | HeldDocuments
_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def encoded(lines: Iterable[Line]) -> bytes:
    """Return lines as answers.jsonl has them."""
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def answers_of(file: Path) -> tuple[Line, ...]:
    """Return the lines of an answers.jsonl; none if it does not exist. Raises RecordError for a damaged one."""
    try:
        return tuple(_decoded(line, f"{file}:{number}") for number, line in stored_lines(file))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}", where=str(file)) from error


_Digested = dict[str, Any]  # `digest` and `begins`, in place of a long part
_Row = dict[str, Any]


class _Search(msgspec.Struct):
    hits: dict[str, Any] = {}
    ranks: list[Any] | _Digested = []
    aggregations: dict[str, Any] = {}
    rows: list[_Row] | _Digested = []


class _Document(msgspec.Struct):
    rows: list[_Row] | _Digested = []


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    """The answer to one search: the comparison relies on these types; what it compares as a whole has any."""

    search: _Search | msgspec.UnsetType = msgspec.UNSET
    document: _Document | msgspec.UnsetType = msgspec.UNSET
    count: float | msgspec.UnsetType = msgspec.UNSET
    error: str | _Digested | msgspec.UnsetType = msgspec.UNSET
    rows: list[_Row] | _Digested | msgspec.UnsetType = msgspec.UNSET


class _Bucket(msgspec.Struct):
    doc_count: float


class _Counted(msgspec.Struct):
    """Buckets whose counts have a stated error."""

    doc_count_error_upper_bound: float
    buckets: list[_Bucket] = []


class _Buckets(msgspec.Struct):
    buckets: list[dict[str, Any]] | dict[str, Any]


def _check_answer(answer: Any) -> None:
    """Raise a ValidationError for an answer that cannot be compared, or an OverflowError."""
    for part in answer if isinstance(answer, list) else [answer]:
        msgspec.convert(part, _Part)
        if len(part) != 1:
            raise msgspec.ValidationError("`answer` has no kind")
        _check_node(part)


def _check_node(value: Any) -> None:
    """Check any part of an answer: aggregations in it, and each number."""
    if isinstance(value, dict):
        if value.keys() == {SAMPLED}:
            msgspec.convert(value[SAMPLED], float | None)
        elif value.keys() == {TOP_HITS}:
            msgspec.convert(value[TOP_HITS], _Search)
        elif ERROR_BOUND in value:
            msgspec.convert(value, _Counted)
        elif isinstance(value.get("buckets"), dict | list):
            msgspec.convert(value, _Buckets)
        for inner in value.values():
            _check_node(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_node(inner)
    elif isinstance(value, int):
        float(value)  # as it is compared with others


def _decoded(line: bytes, where: str) -> Line:
    try:
        found = _LINE.decode(line)
        if isinstance(found, RequestAnswer):
            _check_answer(found.answer)
        return found
    except (ValueError, OverflowError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise RecordError(f"is damaged: {error}", where=where) from error
