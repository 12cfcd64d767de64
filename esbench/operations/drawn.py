"""Scripts with variables: what they need is drawn at once, at the beginning of a turn.

The parts of a composite are drawn one after the other without a pause, so that a variable has one value in all of them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from esbench.errors.json_faults import json_fault
from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.base import TaskContext
from esbench.operations.replies import judge_plain
from esbench.requests.exchange import ClientProgram, RequestFailed
from esbench.requests.programs import Judge, Request, TemplateProgram
from esbench.requests.script import Script, Session
from esbench.requests.templates import RequestTemplate


class VariableScript(ABC):
    """A script in two halves: what is drawn, and what is done with it."""

    @abstractmethod
    def draw(self) -> Any:
        """The values of the next turn."""

    @abstractmethod
    async def play(self, session: Session, drawn: Any) -> Verdict:
        """One turn with these values."""

    async def run(self, session: Session) -> Verdict:
        return await self.play(session, self.draw())


class Undrawn(VariableScript):
    """A script without variables."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def draw(self) -> None:
        """Nothing."""

    async def play(self, session: Session, drawn: None) -> Verdict:
        return await self._script.run(session)


class Exchanges(VariableScript):
    """The requests of a client program, one after the other."""

    def __init__(self, program: ClientProgram) -> None:
        self._program = program

    def draw(self) -> Any:
        return self._program.draw()

    async def play(self, session: Session, drawn: Any) -> Verdict:
        verdict = GOOD
        for exchange in self._program.exchanges:
            reply = await session.send(exchange.render(drawn))
            verdict = exchange.judge(reply.status, reply.body, drawn)
            if verdict.error is not None:
                return verdict
        return verdict


def as_drawn(compiled: ClientProgram | Script) -> VariableScript:
    """What a client runs, as a script that can be drawn before."""
    if isinstance(compiled, VariableScript):
        return compiled
    return Undrawn(compiled) if isinstance(compiled, Script) else Exchanges(compiled)


def insist(verdict: Verdict) -> Verdict:
    """A good verdict; RequestFailed for a bad one."""
    if verdict.error is not None:
        raise RequestFailed(verdict.error, verdict.example)
    return verdict


@dataclass(frozen=True)
class Question:
    """A request with its values: `target` is path and query, `body` its JSON."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: dict[str, Any]


class QuestionTemplate:
    """A template that is rendered and taken apart again: from page to page its JSON changes, not its bytes."""

    def __init__(self, program: ClientProgram) -> None:
        self.draw = program.draw
        self._render = program.exchanges[0].render

    def question(self, drawn: Any) -> Question:
        """The request of a draw; RequestFailed when its body is no JSON object."""
        head, _, body = b"".join(bytes(piece) for piece in self._render(drawn)).partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")  # as a session encodes them again
        method, target, _ = line.split(" ")
        headers = dict(header.split(": ", 1) for header in lines)
        headers.pop("Content-Length", None)
        try:
            content = json.loads(body or b"{}")
        except ValueError:
            raise RequestFailed("bad request", f"the body is not JSON: {json_fault(body)}") from None
        if not isinstance(content, dict):
            raise RequestFailed("bad request", "the body is not a JSON object")
        return Question(method, target, headers, content)


class ProgramOfScripts:
    """A program whose clients run scripts around a template; it draws, holds and enters what the template does."""

    finite = False

    def __init__(self, context: TaskContext, template: RequestTemplate, judge: Judge = judge_plain) -> None:
        self.templates = TemplateProgram(context, [Request(template, judge)])

    @property
    def feed_waits(self) -> int:
        return self.templates.feed_waits

    def close(self) -> None:
        self.templates.close()


class DrawnProgram(ProgramOfScripts):
    """A script for each client, which renders the template itself."""

    def __init__(
        self, context: TaskContext, template: RequestTemplate, script: Callable[[QuestionTemplate], VariableScript]
    ) -> None:
        super().__init__(replace(context, compress=False), template)
        self._script = script

    def client(self, slot: int, headers: bytes) -> Script:
        return self._script(QuestionTemplate(self.templates.client(slot, b"")))
