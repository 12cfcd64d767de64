"""Running of administrative requests: bad statuses become failures, which are retried if the track asks for it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from esbench.measure.verdict import CONNECTION_ERRORS, Verdict
from esbench.operations.parameters import flag, whole
from esbench.operations.replies import http_failure
from esbench.requests.exchange import RequestFailed
from esbench.requests.script import Reply, Script, Session
from esbench.units import parse_duration


async def ask(
    session: Session,
    method: str,
    path: str,
    *,
    params: Mapping[str, Any] | None = None,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    accept: tuple[int, ...] = (),
) -> Reply:
    """Send a request and return its reply; raises RequestFailed if its status is neither 2xx nor in `accept`."""
    reply = await session.request(method, path, params=params, body=body, headers=headers)
    if not 200 <= reply.status < 300 and reply.status not in accept:
        failure = http_failure(reply.status, reply.body)
        raise RequestFailed(failure.error or f"HTTP {reply.status}", failure.example)
    return reply


class Retrying:
    """A script that is retried after failures; the parameters and their meaning are Rally's.

    `retry-until-success`: any number of tries; `retries`: the number of further tries. A verdict with an error is
    retried with `retry-on-error` or `retry-until-success`. A failed request that may succeed next time (a timeout, no
    connection, an overloaded server) is retried with `retry-on-timeout`; one that the server refused only with
    `retry-on-error`.
    """

    def __init__(self, script: Script, params: Mapping[str, Any]) -> None:
        until_success = flag(params.get("retry-until-success"))
        self._script = script
        self._tries = math.inf if until_success else 1 + (whole(params.get("retries")) or 0)
        self._on_timeout = flag(params.get("retry-on-timeout"), True)
        self._on_refusal = flag(params.get("retry-on-error"))
        self._on_error = until_success or self._on_refusal
        wait = params.get("retry-wait-period")
        self._wait_s = 0.5 if wait is None else parse_duration(wait)

    async def run(self, session: Session) -> Verdict:
        tried = 0
        while True:
            tried += 1
            last = tried >= self._tries
            try:
                verdict = await self._script.run(session)
            except RequestFailed as failure:
                if last or not self._tries_again_after(failure):
                    raise
            else:
                if last or verdict.error is None or not self._on_error:
                    return verdict
            await asyncio.sleep(self._wait_s)

    def _tries_again_after(self, failure: RequestFailed) -> bool:
        if failure.kind in _NO_REPLY or failure.kind.startswith(_OVERLOADED):
            return self._on_timeout
        return self._on_refusal and failure.kind.startswith("HTTP ")


_NO_REPLY = ("timeout", *CONNECTION_ERRORS)
_OVERLOADED = tuple(f"HTTP {status}" for status in (408, 429, 502, 503, 504))
