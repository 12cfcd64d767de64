"""The steps of a race whose requests are tried first: each is sent once, and its reply shown, before load begins."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from esbench.errors import RaceError
from esbench.events.progress import Progress
from esbench.load.contexts import context_of
from esbench.load.failures import credentials
from esbench.load.messages import Target
from esbench.load.transport import ask, header_lines
from esbench.measure.verdict import Verdict
from esbench.model import Step, Task
from esbench.operations.base import kind_of
from esbench.operations.drawn import Exchanges
from esbench.race.hook import Hook, PreparedRace
from esbench.race.options import RaceOptions
from esbench.record.secrets import Redactor
from esbench.requests.exchange import (
    ClientProgram,
    HttpScript,
    Reply,
    RequestBytes,
    RequestFailed,
    Script,
    ScriptSession,
)
from esbench.requests.ledger import Ledger

_SHOWN = 200  # characters of a reply


@dataclass(frozen=True)
class Tried:
    """A request that was tried, and its reply: `status` is 0 if none came, and `said` then the reason.

    `fault`: why a reply whose status is good is a failure; "" without a fault.
    """

    request: str
    status: int
    said: str
    fault: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, [f"{self.request}: {self.status or 'no reply'}", self.fault, self.said]))


class TryOut(Hook):
    """The steps of a challenge, each of whose requests is tried before; and which end after a time, if there is one.

    `goes_on` is asked if a try-out failed. `valid`: statuses that are no failure, besides those below 400.
    Unless it `is_raced`, the race ends with the try-out. `duration_s`: of each step; None: as long as the track says.
    """

    def __init__(
        self,
        options: RaceOptions,
        progress: Progress,
        *,
        goes_on: Callable[[Sequence[Tried]], bool],
        valid: Collection[int] = (),
        is_tried: bool = True,
        is_raced: bool = True,
        duration_s: float | None = None,
    ) -> None:
        self._options, self._progress = options, progress
        self._goes_on, self._valid, self._is_tried, self._is_raced = goes_on, valid, is_tried, is_raced
        self._duration_s = duration_s
        self._ends_s = float("inf")

    def steps(self, steps: Iterator[Step], race: PreparedRace) -> Iterator[Step]:
        whole = list(steps)
        if self._is_tried:
            failed: list[Tried] = []
            for task in (task for step in whole for task in step.tasks):
                failed += filter(self._has_failed, self._try(task, race))
            if failed and not self._goes_on(failed):
                raise RaceError(f"the try-out failed: {failed[0]}", hint="--yes continues anyway")
        if self._is_raced:
            yield from whole

    def step_runs(self, number: int, units: dict[str, str], stretch: float = 1.0) -> None:
        if self._duration_s is not None:
            self._ends_s = time.monotonic() + self._duration_s

    def enough(self) -> bool:
        return time.monotonic() >= self._ends_s

    def _has_failed(self, tried: Tried) -> bool:
        return bool(tried.fault) or not (0 < tried.status < 400 or tried.status in self._valid)

    def _try(self, task: Task, prepared: PreparedRace) -> Sequence[Tried]:
        """Send the requests of a task once, as its first client would. What they draw of sequences counts as drawn."""
        coordinator, target, ledger = prepared.coordinator, prepared.target, Ledger()
        context = context_of(
            replace(task, name=f"{task.name} try-out"),  # whose uuids are others than the task's
            target,
            prepared.stock,
            seed=self._options.seed,
            race_id=self._options.race_id,
            before=coordinator.ledger,
            ledger=ledger,
        )
        program = kind_of(task.operation).compile(context)
        tried: list[Tried] = []
        try:
            made = program.client(0, header_lines(target.hosts[0], target.options))
            positions = made.hosts if isinstance(made, HttpScript) and made.hosts else (0,)
            first, *_ = lanes = [_Lane(target, position, tried, self._progress) for position in positions]
            first.lanes = lanes
            asyncio.run(self._play(made, first, tried))
        finally:
            program.close()
        coordinator.ledger.enter(ledger)
        return tried

    async def _play(self, made: ClientProgram | Script, session: ScriptSession, tried: list[Tried]) -> None:
        """Send the requests of one turn; one whose status is good, and which fails all the same, gets its fault."""
        script = made if isinstance(made, Script) else Exchanges(made)
        is_over = False
        while not is_over:
            if isinstance(script, HttpScript):
                script.advance()
            verdict = await _verdict(script, session)
            if verdict.error is not None and tried and 0 < tried[-1].status < 400 and not tried[-1].fault:
                fault = f"{verdict.error}: {verdict.example}"
                self._progress.say(f"try-out: {fault}")
                tried[-1] = replace(tried[-1], fault=fault)
            is_over = not isinstance(script, HttpScript) or script.turn_is_over


async def _verdict(script: Script, session: ScriptSession) -> Verdict:
    """Run a script once; return its verdict, also of one that failed."""
    try:
        return await script.run(session)
    except RequestFailed as failure:
        return Verdict(0, failure.kind, failure.detail)


class _Lane:
    """A session that sends each request on a new connection, and keeps and shows what was answered."""

    def __init__(self, target: Target, position: int, tried: list[Tried], progress: Progress) -> None:
        self._target = target
        self._host = target.hosts[position]
        self._tried = tried
        self._progress = progress
        self._sent: RequestBytes = ()
        self._failure: RequestFailed | None = None
        self.answer: Reply | None = None
        self.own_headers: Mapping[str, str] = {}
        self.notes: dict[str, str] = {}
        self.lanes: Sequence[ScriptSession] = (self,)

    @contextmanager
    def part(self, name: str, timeout_s: float | None = None) -> Iterator[None]:
        yield

    async def pause(self, duration_s: float) -> None:
        """Do nothing: a try-out shows replies, and no times."""

    async def send(self, request: RequestBytes) -> Reply:
        """Send a request, and keep and show its reply; a repetition of the last one is not sent again."""
        if request is self._sent and self.answer is not None:
            return self.answer
        if request is self._sent and self._failure is not None:
            raise self._failure
        self._sent, self.answer, self._failure = request, None, None
        head = b"".join(request).partition(b"\r\n\r\n")[0]
        redact = Redactor((*self._target.options.secrets(), *credentials(head)))
        method, path = head.decode("latin-1").split(" ")[:2]
        what = redact(f"{method} {self._host.url}{path}")[:_SHOWN]
        options = self._target.options
        try:
            self.answer = await ask(self._host, options.access(), request, options.timeout_s)
        except RequestFailed as failure:
            self._failure = failure
            self._keep(Tried(what, 0, redact(failure.detail)))
            raise
        said = " ".join(self.answer.body[: 4 * _SHOWN].decode("utf-8", "replace").split())
        self._keep(Tried(what, self.answer.status, redact(said)[:_SHOWN]))
        return self.answer

    def _keep(self, tried: Tried) -> None:
        self._tried.append(tried)
        self._progress.say(f"try-out: {tried}")

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Raises NotImplementedError: only what is rendered before is tried."""
        raise NotImplementedError
