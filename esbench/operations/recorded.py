"""Recorded requests: those of a file, one after the other, as they were sent once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from esbench.cluster.aws import DIGEST_HEADER, digest_of
from esbench.errors import TrackError
from esbench.measure.verdict import Verdict
from esbench.model import TrackFile
from esbench.operations.base import READ, OperationType, TaskContext
from esbench.operations.parameters import Parameter
from esbench.operations.queries import judge_searches
from esbench.operations.replies import judge_get, judge_in_detail, judge_plain
from esbench.requests.exchange import Exchange, RequestBytes
from esbench.requests.programs import Judge, Program, common_headers
from esbench.requests.recordings import LinesAhead, arrivals_before
from esbench.requests.templates import (
    GZIP_HEADER,
    Encoding,
    closes,
    compressed,
    encode,
    is_encoded,
    json_text,
    without_headers,
)

_SEARCHES = ("/_search", "/_msearch", "/_count", "/_mget", "/_search/template", "/_msearch/template")
Draw = tuple[RequestBytes, str, int, str | None]  # as sent; the end of its path; its searches; its name


class RecordedRequests(OperationType):
    name = "recorded-requests"
    traits = replace(READ, in_composite=False, any_server=True)
    draws = False
    files = ("file",)
    doc = (
        "The requests of a file, in its order, each once: GETs, and POSTs of `_search`, `_msearch`, `_count` and "
        "`_mget`. `took` and `hits` of searches have rows of their own. A GET of a document may find none. With "
        "`arrivals` of the task, arrival n sends line n."
    )
    parameters = {
        "file": Parameter(
            "the file, relative to the track's: a JSON object with `method`, `path`, `body` (optional, JSON or text) "
            "and `name` (optional, a row under the task's) on each line",
            required=True,
        ),
    }

    def ends(self, params: Mapping[str, Any]) -> bool:
        return True

    def compile(self, context: TaskContext) -> Program:
        file = context.params["file"]
        assert isinstance(file, TrackFile)
        return RecordedProgram(context, file)


class RecordedProgram:
    """The requests of a worker's client slots, given to its clients in the order in which they ask."""

    finite = True

    def __init__(self, context: TaskContext, file: TrackFile) -> None:
        self._context = context
        self._where = str(file.path)
        recorded = context.task.schedule.recorded
        first = 0 if recorded is None else arrivals_before(recorded)
        self._lines = LinesAhead(file.path, clients=context.task.clients, slots=context.slots, first=first)
        self._own = common_headers(context.params)
        self._compress = context.compress and not is_encoded(self._own)

    @property
    def feed_waits(self) -> int:
        return self._lines.waits

    def client(self, slot: int, headers: bytes) -> RecordedClientProgram:
        own = "".join(f"{name}: {value}\r\n" for name, value in self._own.items()).encode()
        return RecordedClientProgram(self, without_headers(headers, self._own) + own)

    def close(self) -> None:
        self._lines.close()

    def next(self, headers: bytes) -> Draw:
        """Return the next request as it is sent over a connection with these header lines.

        Raises as `LinesAhead.take`, and TrackError for a line that is no request, or one that may change something.
        """
        line = self._lines.take()
        try:
            fields = json.loads(line)
            method, path, body, name = fields["method"], fields["path"], fields.get("body"), fields.get("name")
            ending = _ending(method, path)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._bad("not a recorded request", line) from None
        if not ending:
            raise self._bad("a recorded request does not only read, and is not sent", line)
        text = _text(body)
        if ending.startswith("/_msearch") and not text.endswith(b"\n"):
            text += b"\n"
        if self._context.signs and text:
            method = "POST"  # AWS may drop the body of a GET, and then refuses its signature
        return (self._rendered(method, path, text, ending, headers), ending, text.count(b"\n") // 2, name)

    def _rendered(self, method: str, path: str, text: bytes, ending: str, headers: bytes) -> RequestBytes:
        head = b"%b %b HTTP/1.1\r\n%b" % (method.encode(), encode(path, Encoding.TARGET), headers)
        if not text:
            return (head + (b"Content-Length: 0\r\n\r\n" if method == "POST" else b"\r\n"),)
        kind = b"x-ndjson" if ending.startswith("/_msearch") else b"json"
        has_kind = "content-type" in map(str.lower, self._own)
        head += b"" if has_kind else b"Content-Type: application/%b\r\n" % kind
        if self._compress:
            text, head = compressed(text), head + GZIP_HEADER
        if self._context.signs:
            head += b"%b%b\r\n" % (DIGEST_HEADER, digest_of(text).encode())
        return (b"%bContent-Length: %d\r\n\r\n" % (head, len(text)), text)

    def _bad(self, what: str, line: bytes) -> TrackError:
        shown = line[:80].decode("utf-8", "replace").rstrip()
        return TrackError(f"{what}: {shown}", where=self._where, hint="docs/reference/replay-log.md has the format")


class RecordedClientProgram:
    """The program of one client: its requests are rendered when they are drawn, ahead of their arrival."""

    def __init__(self, program: RecordedProgram, headers: bytes) -> None:
        self._program = program
        self._headers = headers
        self.exchanges = (Exchange("", itemgetter(0), _judge, closes(headers)),)

    def draw(self) -> Draw:
        return self._program.next(self._headers)


def _ending(method: str, path: str) -> str:
    """Return the end of a read's path, from its API on; "" for a request that may change something."""
    if not path.startswith("/"):
        return ""
    whole = path.partition("?")[0].rstrip("/")
    ending = next((ending for ending in _SEARCHES if whole.endswith(ending)), "")
    if ending and method in ("GET", "POST"):
        return ending
    return "/" if method == "GET" else ""


def _text(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, list):
        return "".join(f"{json_text(line)}\n" for line in body).encode()
    return (body if isinstance(body, str) else json_text(body)).encode(errors="replace")


_JUDGES: Mapping[str, Judge] = {
    "/_search": judge_in_detail,
    "/_search/template": judge_in_detail,
    "/_count": judge_plain,
    "/_mget": judge_plain,
    "/": judge_get,
}


def _judge(status: int, body: bytes, drawn: Draw) -> Verdict:
    _, ending, searches, name = drawn
    judge = _JUDGES.get(ending) or judge_searches(searches)
    verdict = judge(status, body, drawn)
    return verdict if name is None or verdict.error is not None else replace(verdict, label=name)


TYPES = (RecordedRequests(),)
