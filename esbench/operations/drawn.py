"""Scripts with variables: all their values are drawn at once, at the beginning of a turn.

The requests of a composite are drawn together, without a pause, so that a variable has the same value in all of them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.base import TaskContext
from esbench.operations.replies import judge_plain
from esbench.requests.exchange import ClientProgram, RequestBytes, RequestFailed, Script, ScriptSession
from esbench.requests.programs import Request, TemplateProgram
from esbench.requests.templates import RequestTemplate


class VariableScript(ABC):
    """A script in two steps: draw the values of a turn, then play the turn with them; `run` does both."""

    @abstractmethod
    def draw(self) -> Any:
        """Draw the values of the next turn."""

    @abstractmethod
    async def play(self, session: ScriptSession, drawn: Any) -> Verdict:
        """Run one turn with these values."""

    async def run(self, session: ScriptSession) -> Verdict:
        return await self.play(session, self.draw())


class Undrawn(VariableScript):
    """A script without variables."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def draw(self) -> None:
        """Do nothing: there are no variables."""

    async def play(self, session: ScriptSession, drawn: None) -> Verdict:
        return await self._script.run(session)


class Exchanges(VariableScript):
    """The requests of a client program as a script: one after the other, up to the first failure."""

    def __init__(self, program: ClientProgram) -> None:
        self._program = program

    def draw(self) -> Any:
        return self._program.draw()

    def first(self, drawn: Any) -> RenderedRequest:
        """Return the first request of a draw; a program of one request has no other."""
        return RenderedRequest.of(self._program.exchanges[0].render(drawn))

    async def play(self, session: ScriptSession, drawn: Any) -> Verdict:
        verdict = GOOD
        for exchange in self._program.exchanges:
            reply = await session.send(exchange.render(drawn))
            verdict = exchange.judge(reply.status, reply.body, drawn)
            if verdict.error is not None:
                return verdict
        return verdict


def as_drawn(compiled: ClientProgram | Script) -> VariableScript:
    """Return a client's program or script as a VariableScript, whose values can be drawn beforehand."""
    if isinstance(compiled, VariableScript):
        return compiled
    return Undrawn(compiled) if isinstance(compiled, Script) else Exchanges(compiled)


def insist(verdict: Verdict) -> Verdict:
    """Return a good verdict; raise RequestFailed for a bad one."""
    if verdict.error is not None:
        raise RequestFailed(verdict.error, verdict.example, verdict.details)
    return verdict


@dataclass(frozen=True)
class RenderedRequest:
    """A rendered request, taken apart: `target` is path and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, rendered: RequestBytes) -> RenderedRequest:
        """Take a rendered request apart; the length of its body is left out of its headers."""
        head, _, body = b"".join(bytes(piece) for piece in rendered).partition(b"\r\n\r\n")
        line, *lines = head.decode(errors="surrogateescape").split("\r\n")  # as a session encodes them again
        method, target, _ = line.split(" ")
        headers = dict(header.split(": ", 1) for header in lines)
        headers.pop("Content-Length", None)
        return cls(method, target, headers, body)


@dataclass(frozen=True)
class Question:
    """A request with its values filled in: `target` is path and query, `body` the decoded JSON."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: dict[str, Any]


class Questions(Exchanges):
    """Base of scripts whose rendered request is parsed into a Question, so that each page can change its JSON."""

    def question(self, drawn: Any) -> Question:
        """Return the request of a draw; raises RequestFailed if its body is not a JSON object."""
        request = self.first(drawn)
        try:
            content = json.loads(request.body or b"{}")
        except ValueError:
            from esbench.errors.json_faults import json_fault

            raise RequestFailed("bad request", f"the body is not JSON: {json_fault(request.body)}") from None
        if not isinstance(content, dict):
            raise RequestFailed("bad request", "the body is not a JSON object")
        return Question(request.method, request.target, request.headers, content)


class DrawnProgram(TemplateProgram):
    """A program with one script per client, which renders the template itself.

    `script` makes a client's script from a client program whose one exchange is the template's request. Request bodies
    are not compressed.
    """

    def __init__(
        self, context: TaskContext, template: RequestTemplate, script: Callable[[ClientProgram], VariableScript]
    ) -> None:
        super().__init__(replace(context, compress=False), [Request(template, judge_plain)])
        self._script = script

    def client(self, slot: int, headers: bytes) -> Script:
        return self._script(self.exchanging(b""))
