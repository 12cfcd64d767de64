"""Replies as bytes: heads, bodies, and the faults that a script puts into them."""

from __future__ import annotations

import gzip
import http
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from esbench.null_server.indices import Answer, error_body
from esbench.null_server.rules import Plan
from esbench.null_server.script import ScriptedReply
from esbench.null_server.versions import Version

Ending = Literal["keep", "close", "reset", "silence"]

_CHUNK_BYTES = 16_384
_OFF_BY_BYTES = 16
_GARBAGE = b"\x16\x03\x01\x02\x00 this is not HTTP \xff\xfe\r\n\r\n"
_ERRORS = {
    401: ("security_exception", "missing authentication credentials for REST request"),
    403: ("security_exception", "action is unauthorized for this user"),
    404: ("index_not_found_exception", "no such index"),
    413: ("content_too_large_exception", "entity content is too large"),
    429: ("es_rejected_execution_exception", "rejected execution of coordinating operation"),
    503: ("cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];"),
}


@dataclass(frozen=True, slots=True)
class Head:
    """The header fields of a request that affect its reply."""

    keep_alive: bool = True
    opaque_id: bytes = b""
    accepts_gzip: bool = False
    gzip_body: bool = False
    is_plain: bool = False  # the reply needs nothing beyond its length
    authorization: bytes = b""


def head_of(headers: dict[bytes, bytes], *, keep_alive: bool) -> Head:
    """Return the head of a request from its header fields, whose names are in lower case."""
    opaque_id = headers.get(b"x-opaque-id", b"")
    accepts_gzip = b"gzip" in headers.get(b"accept-encoding", b"")
    return Head(
        keep_alive=keep_alive,
        opaque_id=opaque_id,
        accepts_gzip=accepts_gzip,
        gzip_body=b"gzip" in headers.get(b"content-encoding", b""),
        is_plain=keep_alive and not opaque_id and not accepts_gzip,
        authorization=headers.get(b"authorization", b""),
    )


@dataclass(slots=True)
class Outgoing:
    """The pieces of a reply, `pause_ns` apart, and the end of the connection after them.

    `ending`: keep, close, reset (an RST) or silence (nothing more is ever written). `is_answer` is false if the reply
    is missing or cut.
    """

    pieces: deque[bytes]
    ending: Ending
    pause_ns: int = 0
    is_answer: bool = True


class Wire:
    """Encodes the replies of one server version."""

    def __init__(self, version: Version) -> None:
        product = "X-elastic-product: Elasticsearch\r\n" if version.product_header else ""
        content_type = "application/json" if version.major >= 8 else "application/json; charset=UTF-8"
        self._lines = f"{product}content-type: {content_type}\r\n"
        self._starts: dict[int, bytes] = {}

    def plain(self, status: int, body: bytes) -> bytes:
        """Return a whole reply, to a request without special headers."""
        return b"%scontent-length: %d\r\n\r\n%s" % (self._starts.get(status) or self._start(status), len(body), body)

    def outgoing(self, answer: Answer, method: str, head: Head, plan: Plan | None) -> Outgoing:
        """Return a reply as the request asks for it (HEAD, gzip, X-Opaque-Id, close), with the plan's changes."""
        status, body = answer
        plan = plan or Plan(0)
        headers: dict[str, str] = dict(plan.reply.headers) if plan.reply else {}
        for change in plan.merges:
            body = _merged(body, change)
        body = body.ljust(plan.pad_to_bytes)
        if head.accepts_gzip and body and method != "HEAD":
            body = gzip.compress(body, 3)
            headers["content-encoding"] = "gzip"
        if plan.connection_close or not head.keep_alive:
            headers["Connection"] = "close"
        start = self._starts.get(status) or self._start(status)
        lines = [f"{name}: {value}\r\n".encode() for name, value in headers.items()]
        if head.opaque_id:
            lines.append(b"X-Opaque-Id: " + head.opaque_id + b"\r\n")
        if plan.chunked:
            lines.append(b"transfer-encoding: chunked\r\n")
        else:
            lines.append(b"content-length: %d\r\n" % max(0, len(body) + _length_error(plan)))
        reply_head = start + b"".join(lines) + b"\r\n"
        return _spoiled(reply_head, b"" if method == "HEAD" else body, plan, "Connection" in headers)

    def _start(self, status: int) -> bytes:
        try:
            phrase = http.HTTPStatus(status).phrase
        except ValueError:
            phrase = "Unknown"
        start = self._starts[status] = f"HTTP/1.1 {status} {phrase}\r\n{self._lines}".encode()
        return start


def scripted(reply: ScriptedReply) -> Answer:
    """Return status and body of a scripted reply; without a body: {}, or Elasticsearch's error for that status."""
    if isinstance(reply.body, str):
        return reply.status, reply.body.encode()
    if reply.body is not None:
        return reply.status, msgspec.json.encode(reply.body)
    if reply.status < 400:
        return reply.status, b"{}"
    kind, reason = _ERRORS.get(reply.status, ("exception", "scripted failure"))
    return reply.status, error_body(reply.status, kind, reason)


def _spoiled(  # noqa: PLR0911 - one for each fault
    head: bytes, body: bytes, plan: Plan, closes: bool
) -> Outgoing:
    ending: Ending = "close" if closes or plan.fault == "close-after" else "keep"
    match plan.fault:
        case "hang":
            return Outgoing(deque(), "silence", is_answer=False)
        case "cut-before":
            return Outgoing(deque(), "close", is_answer=False)
        case "reset-before":
            return Outgoing(deque(), "reset", is_answer=False)
        case "garbage":
            return Outgoing(deque([_GARBAGE]), ending)
        case "cut-inside" | "reset-inside" | "silence-inside":
            half = head + body[: len(body) // 2] if body else head[: len(head) // 2]
            endings: dict[str, Ending] = {"cut-inside": "close", "reset-inside": "reset"}
            return Outgoing(deque([half]), endings.get(plan.fault, "silence"), is_answer=False)
    if not plan.chunked and not plan.drip:
        return Outgoing(deque([head + body]), ending)
    size = plan.drip.bytes if plan.drip else _CHUNK_BYTES
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    if plan.chunked:
        pieces = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces] + [b"0\r\n\r\n"]
    if plan.drip:
        return Outgoing(deque([head, *pieces]), ending, round(plan.drip.every_ms * 1_000_000))
    return Outgoing(deque([head + b"".join(pieces)]), ending)


def _length_error(plan: Plan) -> int:
    return {"length-too-long": _OFF_BY_BYTES, "length-too-short": -_OFF_BY_BYTES}.get(plan.fault or "", 0)


def _merged(body: bytes, change: Mapping[str, Any]) -> bytes:
    data = msgspec.json.decode(body) if body else {}
    return msgspec.json.encode(_merge(data, change) if isinstance(data, dict) else data)


def _merge(data: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(data)
    for key, value in change.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, Mapping)
        merged[key] = _merge(old, value) if both and isinstance(old, dict) else value
    return merged
