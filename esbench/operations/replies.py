"""Judging of replies: only the necessary bytes of a good reply are read; a failure is parsed in full.

Any reply of a server, or of a proxy before it, becomes a verdict, never an exception.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import cycle
from typing import Any

from esbench.cluster.bounded import MOST_BYTES
from esbench.cluster.dialect import Dialect, Feature
from esbench.cluster.replies import decode_json
from esbench.measure.verdict import GOOD, REFUSED, Details, Verdict
from esbench.operations.base import TaskContext
from esbench.requests.programs import Judge

_EXAMPLE_LENGTH = 2_000  # characters; the client shortens it further, once its secrets are hidden
_KIND = re.compile(r"[A-Za-z_][\w.$-]{0,79}")
CREATED = Verdict(label="created")
UPDATED = Verdict(label="updated")


def http_failure(status: int, body: bytes) -> Verdict:
    """Return the verdict on a failed reply: no units, kind `HTTP 429 es_rejected_execution_exception`.

    Its example is the error's reason, else the body, at most 2,000 characters. A body without an error type gives the
    kind `HTTP 502`.
    """
    decoded = _decoded(body)
    error = decoded.get("error") if isinstance(decoded, dict) else None
    kind = f"HTTP {status} {_type_of(error) if isinstance(error, dict) else ''}".rstrip()
    return Verdict(0, kind, ((reason_of(error) if error else "") or _text(body))[:_EXAMPLE_LENGTH])


def _type_of(error: object) -> str:
    """Return the type of an `error`: its first word, since sentences that hold ids would make endless kinds."""
    match = _KIND.match(str(error.get("type") if isinstance(error, dict) else error))
    return match[0] if match else ""


def reason_of(error: object) -> str:
    """Return the reason of an `error` in a reply, followed by those of its root cause and last cause if they differ.

    "" if an error object gives no reason; an error that is text is returned as it is.
    """
    if not isinstance(error, dict):
        return str(error)
    said = ""
    for reason in (part.get("reason") for part in (error, *_causes(error))):
        if isinstance(reason, str) and reason not in said:
            said = f"{said}: {reason}" if said else reason
    return said


def _causes(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield an error's root cause, and the last of its chain of causes, or of that of its first failed shard."""
    cause: Any = _first(error.get("root_cause"))
    if isinstance(cause, dict):
        yield cause
    shard = _first(error.get("failed_shards"))
    cause = shard.get("reason") if isinstance(shard, dict) else error
    while isinstance(cause, dict) and "caused_by" in cause:
        cause = cause["caused_by"]
    if isinstance(cause, dict):
        yield cause


def _first(elements: object) -> object:
    return elements[0] if isinstance(elements, list) and elements else None


def judge_plain(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a reply by its status: good if it is 2xx."""
    return GOOD if 200 <= status < 300 else http_failure(status, body)


def judge_found(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a GET that must find its document; a missing one is a failure of the kind "not found"."""
    if status == 200 and body.find(b'"found":true') >= 0:  # half the cost of `in`
        return GOOD
    if status not in (200, 404):
        return http_failure(status, body)
    decoded = _decoded(body)
    found = decoded.get("found") if isinstance(decoded, dict) else None
    if found is True:
        return GOOD
    if found is False:
        return Verdict(0, "not found", _text(body))
    return http_failure(status, body) if status == 404 else _bad("not a document", body)


def judge_get(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a GET whose document may be missing; a missing index is a failure."""
    if status == 404 and b'"found":false' in body:
        return GOOD
    return judge_found(status, body, drawn)


# the id of a scroll or a point in time, which stands first and grows with the shards
_IDENTIFIER = re.compile(rb'\{"(?:_scroll_id|pit_id)":"[^"\\]*"')


def judge_search(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a search: good if its status is 200, it did not time out and no shard failed."""
    if status != 200:
        return http_failure(status, body)
    # the first count of failures is that of its shards; those of remote clusters come later
    begin, failed = 0, body.find(b'"failed":', 0, 400)
    if failed < 0 and (identifier := _IDENTIFIER.match(body)) is not None:
        begin = identifier.end()
        failed = body.find(b'"failed":', begin, begin + 400)
    has_all_shards = failed >= 0 and body[failed + 9 : failed + 10] == b"0"
    if has_all_shards and body.find(b'"timed_out":false', begin, begin + 400) >= 0:
        return GOOD
    decoded = _decoded(body)
    if not isinstance(decoded, dict):
        return _bad("not a JSON object", body)
    if decoded.get("timed_out"):
        return Verdict(0, "search timed out", "the server gave up before all shards had answered")
    return judge_shards(decoded)


_SAMPLED_OF = 16
_TOOK = re.compile(rb'"took":(\d{1,15})')
_TOTAL = re.compile(rb'"hits":\{"total":(?:\{"value":)?(\d{1,18})')


def judge_in_detail(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a search as `judge_search` does, and add the details (hits, `took`) from the reply's beginning."""
    verdict = judge_search(status, body, drawn)
    return verdict if verdict.error is not None else replace(verdict, details=search_details(body))


def sampling_took(judge: Judge) -> Judge:
    """Return the judge of a search that adds the server's `took` to the first of every `_SAMPLED_OF` good replies.

    Each one would cost more than all else that a judge does.
    """
    is_sampled = cycle([True, *[False] * (_SAMPLED_OF - 1)]).__next__

    def sampling(status: int, body: bytes, drawn: object) -> Verdict:
        verdict = judge(status, body, drawn)
        if is_sampled() and verdict is GOOD:
            return Verdict(details=Details(took_ms=_took_ms(body), sampled=True))
        return verdict

    return sampling


def search_details(body: bytes) -> Details:
    """Return the details of a search from the reply's beginning: `results["hits"]` and the server's `took` in ms.

    "hits" is the number of matching documents, maybe a lower bound; it is absent if the reply does not count them.
    """
    begin = body.find(b'"hits":{')  # the first ones: those of documents come later
    total = _TOTAL.match(body, begin) if begin >= 0 else None
    return Details({"hits": int(total[1])} if total else {}, _took_ms(body))


def _took_ms(body: bytes) -> int | None:
    took = _TOOK.search(body, 0, 200)
    return int(took[1]) if took else None


def judge_shards(decoded: Any) -> Verdict:
    """Judge a decoded reply by its `_shards`: good if no shard failed, or if it has no `_shards`."""
    shards = decoded.get("_shards") if isinstance(decoded, dict) else None
    if not isinstance(shards, dict) or not shards.get("failed"):
        return GOOD
    failures = shards.get("failures")
    first = _first(failures)
    reason = reason_of(first.get("reason", "")) if isinstance(first, dict) else ""
    example = f"{shards['failed']} of {shards.get('total')} shards failed{': ' if reason else ''}{reason}"
    return Verdict(0, "shard failures", example[:_EXAMPLE_LENGTH])


def judge_bulk(status: int, body: bytes, documents: int) -> Verdict:
    """Judge a bulk of `documents` documents: acknowledged ones are units, a rejected one makes it a failure.

    The failure's kind is the most frequent one of the rejected documents: `bulk item 429
    es_rejected_execution_exception`.
    """
    if status != 200:
        return replace(http_failure(status, body), details=Details({REFUSED: documents}))
    if body.find(b'"errors":false', 0, 200) >= 0:
        return Verdict(documents)
    decoded = _decoded(body)
    if not isinstance(decoded, dict):
        return _bad("not a JSON object", body)
    return Verdict(documents) if decoded.get("errors") is False else _judge_items(decoded.get("items"), body, documents)


def judge_raw_bulk(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a bulk that is sent as a raw request and counts as one operation: a refused document makes it a failure."""
    verdict = judge_plain(status, body, drawn)
    if verdict.error is not None or body.find(b'"errors":false', 0, 200) >= 0:
        return verdict
    decoded = _decoded(body)
    if not isinstance(decoded, dict) or decoded.get("errors") is not True:
        return verdict
    items = decoded.get("items")
    if not isinstance(items, list) or not items:
        return _bad("errors, and no items that say which", body)
    judged = _judge_items(items, body, len(items))
    return verdict if judged.error is None else replace(judged, units=0)


def _judge_items(items: object, body: bytes, documents: int) -> Verdict:
    """Judge the items of a bulk with errors, one for each document."""
    results = [_item_result(item) for item in items] if isinstance(items, list) else []
    acknowledged = min(documents, sum(1 for result in results if result is not None and not result.get("error")))
    failed: dict[str, int] = {}
    example = ""
    for result in results:
        if result is not None and (error := result.get("error")):
            kind = f"bulk item {result.get('status')} {_type_of(error)}".rstrip()[:100]
            failed[kind] = failed.get(kind, 0) + 1
            example = example or reason_of(error)
    if len(results) != documents or acknowledged + sum(failed.values()) != documents:
        return _bad(f"not {documents} items, one for each document", body, acknowledged)
    if not failed:
        return Verdict(documents)
    worst = max(failed, key=lambda kind: failed[kind])
    refused = documents - acknowledged
    example = f"{refused} of {documents} documents: {example}"[:_EXAMPLE_LENGTH]
    return Verdict(acknowledged, worst, example, details=Details({REFUSED: refused}))


def judge_unrefused(status: int, body: bytes, documents: int) -> tuple[list[int], Verdict]:
    """Return (positions of a failed bulk's documents that were refused temporarily, with 429; verdict on the others).

    Positions count from 0. There are no such positions in a reply that does not have one item per document; the verdict
    is then that on the whole bulk. A reply with status 429 refuses all.
    """
    if status == 429:
        return list(range(documents)), Verdict(0)
    decoded = _decoded(body) if status == 200 else None
    items = decoded.get("items") if isinstance(decoded, dict) else None
    if not isinstance(items, list) or len(items) != documents:
        return [], judge_bulk(status, body, documents)
    results = [_item_result(item) or {} for item in items]
    refused = [number for number, result in enumerate(results) if result.get("status") == 429]
    others = [item for item, result in zip(items, results, strict=True) if result.get("status") != 429]
    return refused, _judge_items(others, body, len(others))


_RESULT = re.compile(rb'"result":"(\w{1,40})"')
_SHARD_FAILED = re.compile(rb'"failed":[1-9]')


def bulk_details(status: int, body: bytes) -> Details:
    """Return the details of a bulk's reply: document counts by result, and the server's `took` in ms.

    Results are "created", "updated", "noop" ..., and "with failed shards" for documents that not all copies have; both
    are empty unless the status is 200.
    """
    if status != 200:
        return Details()
    results = {name.decode(): count for name, count in Counter(_RESULT.findall(body)).items()}
    if failed := len(_SHARD_FAILED.findall(body)):
        results["with failed shards"] = failed
    return Details(results, _took_ms(body))


# an item up to its result; ids may hold any text, escaped as JSON
_CREATED = re.compile(
    rb'"_index":"([^"]+)",(?:"_type":"[^"]*",)?"_id":"(?:[^"\\]|\\.)*","_version":\d+,"result":"created"'
)
_BACKING_INDEX = re.compile(r"\.ds-(.+)-\d{4}\.\d\d\.\d\d-\d{6}")


def created_by_index(body: bytes) -> Mapping[str, int]:
    """Return the number of documents that a bulk has created, by index or data stream."""
    created: Counter[str] = Counter()
    for name, count in Counter(_CREATED.findall(body)).items():
        index = name.decode("utf-8", "replace")
        backing = _BACKING_INDEX.fullmatch(index)
        created[backing[1] if backing else index] += count
    return created


def _item_result(item: object) -> dict[str, Any] | None:
    """Return the result of one document: the only value of an item, `{"index": {...}}`; None if malformed."""
    result = next(iter(item.values()), None) if isinstance(item, dict) else None
    return result if isinstance(result, dict) else None


def judge_indexed(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a write of a single document: good, with the label "created" or "updated"."""
    if status == 201:
        return CREATED
    if status == 200:
        return UPDATED
    return http_failure(status, body)


def judge_deleted(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a delete that must find its document; a missing one is a failure of the kind "not found"."""
    if status == 200:
        return GOOD
    if status == 404 and (b'"result":"not_found"' in body or b'"found":false' in body):
        return Verdict(0, "not found", _text(body))
    return http_failure(status, body)


# how versions refuse a path that they do not know, which may look like an index or a document to them
_UNKNOWN_PATH = ("HTTP 405", "HTTP 400 invalid_index_name_exception", "HTTP 400 invalid_type_name_exception")
_SAID = re.compile(
    r"no handler found|request body is required"
    r"|unrecognized parameters?: \[(force|keep_on_completion|wait_for_completion_timeout)\]"
)


def not_supported(feature: Feature, dialect: Dialect, kind: str, detail: str) -> Verdict | None:
    """Return a failure that names the missing feature if a reply shows that the server does not know it; else None.

    `kind` and `detail` are those of the failed request, `HTTP 405 ...` and its reason.
    """
    if not kind.startswith(_UNKNOWN_PATH) and not _SAID.search(detail):
        return None
    missing = f"this {dialect.server} has no {feature.name}: its distribution or license leaves them out"
    return Verdict(0, "not supported", f"{missing} ({kind}: {detail})")


def needing(feature: Feature, context: TaskContext, judge: Judge) -> Judge:
    """Return a judge like `judge` whose failures name the feature if the server turns out not to have it.

    Raises TrackError at once if the server's version lacks it.
    """
    dialect = context.dialect
    dialect.require(feature, context.where)

    def judged(status: int, body: bytes, drawn: object) -> Verdict:
        verdict = judge(status, body, drawn)
        if verdict.error is None:
            return verdict
        return not_supported(feature, dialect, verdict.error, verdict.example) or verdict

    return judged


def _bad(what: str, body: bytes, units: float = 0) -> Verdict:
    """Return the verdict on a reply that does not fit its request."""
    return Verdict(units, "bad response", f"{what}: {_text(body)}")


def _text(body: bytes) -> str:
    return body[:_EXAMPLE_LENGTH].decode("utf-8", "replace")


def _decoded(body: bytes) -> Any:
    return decode_json(body) if len(body) <= MOST_BYTES else None  # it takes some 20 times the memory of its text
