"""Scripts: operations that decide from replies what to do next, and the session through which they send requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from esbench.measure.verdict import Verdict
from esbench.requests.exchange import RequestBytes, RequestFailed


class Answer(dict[str, Any]):
    """The JSON object of a reply. [] is for keys that no server omits: a missing one raises RequestFailed."""

    def __missing__(self, key: str) -> Any:
        raise RequestFailed("bad response", f'no "{key}" in {json.dumps(self)[:1000]}')


@dataclass(frozen=True)
class Reply:
    """The reply to a request of a script."""

    status: int
    body: bytes

    def json(self) -> Answer:
        """Return the decoded body, an object; empty if the body is. Raises RequestFailed for anything else."""
        try:
            decoded = json.loads(self.body or b"{}")
        except (ValueError, RecursionError):
            decoded = None
        if not isinstance(decoded, dict):
            raise RequestFailed("bad response", f"not a JSON object: {self.body[:1000].decode('utf-8', 'replace')}")
        return Answer(decoded)


class Session(Protocol):
    """The session of a script: one connection, one request at a time. `answer` is the last reply.

    `notes` are shared by the scripts of one turn, and empty at its beginning; `lanes` are the sessions that can be used
    at the same time, this one first.
    """

    answer: Reply | None

    @property
    def notes(self) -> dict[str, str]: ...

    @property
    def lanes(self) -> Sequence[Session]: ...

    def part(self, name: str, timeout_s: float | None = None) -> AbstractContextManager[None]:
        """Count the requests inside as one row under `task/name`; it failed when a RequestFailed leaves it.

        Each request inside times out after `timeout_s`, unless it has its own timeout.
        """
        ...

    async def pause(self, duration_s: float) -> None:
        """Wait as a part of the turn: its service time begins with a pause as it does with a request."""
        ...

    async def send(self, request: RequestBytes, timeout_s: float | None = None) -> Reply:
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
        timeout_s: float | None = None,
    ) -> Reply: ...


@runtime_checkable
class Script(Protocol):
    """An operation that decides from replies what to do next; run once per iteration."""

    async def run(self, session: Session) -> Verdict: ...


@runtime_checkable
class Concurrent(Protocol):
    """A script that needs several connections at the same time: the lanes of its session."""

    connections: int
