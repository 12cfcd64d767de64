"""The program of a client: exchanges, or a script that decides from replies what to do next.

Of an exchange the request is rendered from a draw, and its reply is judged. While the clock runs, a client draws
(values of variables, the next slice of a corpus), renders bytes, and judges the reply by reading only what it must.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from esbench.cluster.replies import parse_json
from esbench.measure.verdict import Details, Verdict

Body = bytes | bytearray | memoryview
RequestBytes = Sequence[Body]


class Exhausted(Exception):  # noqa: N818 - an end, not an error
    """Raised when a client's corpus has no more documents."""


class NotReady(Exception):  # noqa: N818 - a wait, not an error
    """Raised when a client's next request is not made yet; `call_back` takes a function, called once to draw again."""

    def __init__(self, call_back: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("not ready")
        self.call_back = call_back


class RequestFailed(Exception):  # noqa: N818 - it failed; the error is data
    """Raised for a request without a usable reply: the kind of failure, its detail, and further figures of a reply."""

    def __init__(self, kind: str, detail: str, details: Details | None = None) -> None:
        super().__init__(f"{kind}: {detail}")
        self.details = details
        self.kind = kind
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request of an operation: rendered from a draw at the moment of sending, judged by its reply.

    `judge` is given the status, the body and the draw. `name` is the row under `task/name` when the operation is a
    sequence of several; empty otherwise. `closes`: it says `Connection: close`, and its reply ends its connection.
    `is_head`: its method is HEAD.
    """

    name: str
    render: Callable[[Any], RequestBytes]
    judge: Callable[[int, bytes, Any], Verdict]  # status, body, the draw
    closes: bool = False
    is_head: bool = False


class ClientProgram(Protocol):
    """The program of one client, run repeatedly: draw once, then each exchange in turn on its connection."""

    @property
    def exchanges(self) -> Sequence[Exchange]: ...

    def draw(self) -> Any:
        """Return the draw for the next run of all exchanges, as their `render` and `judge` take it.

        Raises Exhausted at the end of a corpus, NotReady while its documents are made or unpacked.
        """
        ...


class Answer(dict[str, Any]):
    """The JSON object of a reply. [] is for keys that no server omits: a missing one raises RequestFailed."""

    def __missing__(self, key: str) -> Any:
        raise RequestFailed("bad response", f'no "{key}" in {json.dumps(self)[:1000]}')


@dataclass(frozen=True)
class Reply:
    """The reply to a request of a script; `headers` are known only if the script reads them."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Answer:
        """Return the decoded body, an object; empty if the body is. Raises RequestFailed for anything else."""
        try:
            decoded = parse_json(self.body or b"{}")
        except ValueError:
            decoded = None
        if not isinstance(decoded, dict):
            raise RequestFailed("bad response", f"not a JSON object: {self.body[:1000].decode('utf-8', 'replace')}")
        return Answer(decoded)


class ScriptSession(Protocol):
    """The session of a script: one connection, one request at a time. `answer` is the last reply.

    `own_headers` are those of the operation that runs, sent with each `request`.
    `notes`: values that the scripts of one iteration share, cleared before each. `lanes`: sessions of the same client
    that may run concurrently; `lanes[0]` is this one.
    """

    answer: Reply | None
    own_headers: Mapping[str, str]

    @property
    def notes(self) -> dict[str, str]: ...

    @property
    def lanes(self) -> Sequence[ScriptSession]: ...

    def part(self, name: str, timeout_s: float | None = None) -> AbstractContextManager[None]:
        """Count the requests inside as one row under `task/name`; it failed when a RequestFailed leaves it.

        A part within a part has the row `task/outer/name`. Each request inside times out after `timeout_s`; None: after
        the timeout of the part around it, else of the task.
        """
        ...

    async def pause(self, duration_s: float) -> None:
        """Wait as a part of the turn: its service time begins with a pause as it does with a request."""
        ...

    async def send(self, request: RequestBytes) -> Reply:
        """Send a rendered request and wait for its reply, whatever its status. Raises RequestFailed if none arrives."""
        ...

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request with the operation's own headers and `headers`, and wait for its reply, whatever its status.

        Raises RequestFailed if none arrives.
        """
        ...


Run = Callable[[ScriptSession], Coroutine[Any, Any, Verdict]]  # one iteration


@runtime_checkable
class Script(Protocol):
    """An operation that decides from replies what to do next; run once per iteration."""

    async def run(self, session: ScriptSession) -> Verdict: ...


@runtime_checkable
class Concurrent(Protocol):
    """A script that needs several connections at the same time: the lanes of its session."""

    connections: int


@runtime_checkable
class HttpScript(Script, Protocol):
    """A concurrent script for any HTTP server, of which each run is one request of a turn.

    `hosts`: the position in the race of the host that each of its lanes goes to; empty: all go to the client's.
    `reads_headers`: it reads the headers of replies. `rest_s`: the pause after the request that was run last.
    `turn_is_over`: that was the last request of its turn.
    """

    hosts: Sequence[int]
    reads_headers: bool

    @property
    def rest_s(self) -> float: ...

    @property
    def turn_is_over(self) -> bool: ...

    def advance(self) -> None:
        """Make ready for the next request. Raises Exhausted after the last turn."""
