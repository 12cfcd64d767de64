"""Running administrative requests: statuses become failures, and a failure is tried again where the track says so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from esbench.operations.base import Reply, RequestFailed, Script, Session, Verdict, flag
from esbench.operations.replies import http_failure
from esbench.units import parse_duration


async def ask(
    session: Session,
    method: str,
    path: str,
    *,
    params: Mapping[str, Any] | None = None,
    body: Any = None,
    accept: tuple[int, ...] = (),
) -> Reply:
    """Send a request; RequestFailed when its status is neither 2xx nor one to accept."""
    reply = await session.request(method, path, params=params, body=body)
    if not 200 <= reply.status < 300 and reply.status not in accept:
        failure = http_failure(reply.status, reply.body)
        raise RequestFailed(failure.error or f"HTTP {reply.status}", failure.example)
    return reply


@dataclass(frozen=True)
class Retrying:
    """A script that is tried again, with Rally's parameters and their meaning.

    `retry-until-success` tries for ever and implies `retry-on-error`; `retries` further tries at most otherwise.
    """

    script: Script
    params: Mapping[str, Any]

    async def run(self, session: Session) -> Verdict:
        until_success = flag(self.params.get("retry-until-success"))
        retries = int(self.params.get("retries", 0))
        on_timeout = flag(self.params.get("retry-on-timeout"), True)
        on_error = until_success or flag(self.params.get("retry-on-error"))
        wait_s = parse_duration(self.params.get("retry-wait-period", 0.5))
        tried = 0
        while True:
            tried += 1
            try:
                verdict = await self.script.run(session)
            except RequestFailed as failure:
                again = on_timeout if failure.kind == "timeout" else on_error
                if not again or (not until_success and tried > retries):
                    raise
            else:
                if verdict.error is None or not on_error or (not until_success and tried > retries):
                    return verdict
            await asyncio.sleep(wait_s)
