"""What a reply was worth, found by looking only at what must be known; a failure is parsed in full."""

from __future__ import annotations

import json
from typing import Any

from esbench.operations.base import GOOD, Verdict

_EXAMPLE_LENGTH = 300
CREATED = Verdict(label="created")
UPDATED = Verdict(label="updated")


def http_failure(status: int, body: bytes) -> Verdict:
    """A reply that is not 2xx: kind `HTTP 429 es_rejected_execution_exception`, example its reason."""
    kind, reason = f"HTTP {status}", body[:_EXAMPLE_LENGTH].decode("utf-8", "replace")
    decoded = _decoded(body)
    if isinstance(decoded, dict):
        error = decoded.get("error")
        if isinstance(error, dict):
            kind = f"HTTP {status} {error.get('type', '')}".rstrip()
        if error:
            reason = reason_of(error) or reason
    return Verdict(0, kind, reason[:_EXAMPLE_LENGTH])


def reason_of(error: object) -> str:
    """What an `error` of a reply says, with its root cause where that says something else."""
    if not isinstance(error, dict):
        return str(error)
    reason = str(error.get("reason") or "")
    causes = error.get("root_cause") or [error.get("caused_by")]
    cause = causes[0].get("reason") if isinstance(causes[0], dict) else None
    return f"{reason}: {cause}" if cause and str(cause) not in reason else reason


def judge_plain(status: int, body: bytes, drawn: object) -> Verdict:
    """Good when the status is 2xx."""
    return GOOD if 200 <= status < 300 else http_failure(status, body)


def judge_found(status: int, body: bytes, drawn: object) -> Verdict:
    """A GET that must find its document."""
    if status == 200 and b'"found":true' in body:
        return GOOD
    if status not in (200, 404):
        return http_failure(status, body)
    decoded = _decoded(body)
    found = decoded.get("found") if isinstance(decoded, dict) else None
    if found is True:
        return GOOD
    if found is False:
        return Verdict(0, "not found", body[:_EXAMPLE_LENGTH].decode("utf-8", "replace"))
    return http_failure(status, body) if status == 404 else Verdict(0, "bad response", f"no GET's: {body[:80]!r}")


def judge_get(status: int, body: bytes, drawn: object) -> Verdict:
    """A GET that may miss; a missing index is still a failure."""
    if status == 404 and b'"found":false' in body:
        return GOOD
    return judge_found(status, body, drawn)


def judge_search(status: int, body: bytes, drawn: object) -> Verdict:
    """A search over all of its shards, in time."""
    if status != 200:
        return http_failure(status, body)
    head = body[:400]
    if b'"timed_out":false' in head and b'"failed":0' in head:
        return GOOD
    decoded = _decoded(body)
    if not isinstance(decoded, dict):
        return Verdict(0, "bad response", f"not JSON: {body[:80]!r}")
    if decoded.get("timed_out"):
        return Verdict(0, "search timed out", "the server gave up before all shards had answered")
    return judge_shards(decoded)


def judge_shards(decoded: Any) -> Verdict:
    """A decoded reply that counts shards: good when none of them failed."""
    shards = decoded.get("_shards", {}) if isinstance(decoded, dict) else {}
    if not shards.get("failed"):
        return GOOD
    failures = shards.get("failures") or [{}]
    reason = reason_of(failures[0].get("reason", ""))
    example = f"{shards['failed']} of {shards.get('total')} shards failed{': ' if reason else ''}{reason}"
    return Verdict(0, "shard failures", example[:_EXAMPLE_LENGTH])


def judge_bulk(status: int, body: bytes, documents: int) -> Verdict:
    """A bulk of so many documents: units are the acknowledged ones, a rejected item makes the request a failure."""
    if status != 200:
        return http_failure(status, body)
    if b'"errors":false' in body[:200]:
        return Verdict(documents)
    decoded = _decoded(body)
    if not isinstance(decoded, dict):
        return Verdict(0, "bad response", f"not JSON: {body[:80]!r}")
    failed: dict[str, int] = {}
    example = ""
    for item in decoded.get("items", []):
        result = next(iter(item.values()))
        if "error" in result:
            error = result["error"]
            name = error.get("type", "") if isinstance(error, dict) else str(error)
            kind = f"bulk item {result.get('status')} {name}".rstrip()
            failed[kind] = failed.get(kind, 0) + 1
            example = example or reason_of(error)
    if not failed:
        return Verdict(documents)
    worst = max(failed, key=lambda kind: failed[kind])
    total = sum(failed.values())
    return Verdict(documents - total, worst, f"{total} of {documents} documents: {example}"[:_EXAMPLE_LENGTH])


def judge_indexed(status: int, body: bytes, drawn: object) -> Verdict:
    """A single-document write: created and updated are told apart."""
    if status == 201:
        return CREATED
    if status == 200:
        return UPDATED
    return http_failure(status, body)


def judge_deleted(status: int, body: bytes, drawn: object) -> Verdict:
    """A delete that must find its document."""
    if status == 200:
        return GOOD
    if status == 404 and (b'"result":"not_found"' in body or b'"found":false' in body):
        return Verdict(0, "not found", body[:_EXAMPLE_LENGTH].decode("utf-8", "replace"))
    return http_failure(status, body)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
