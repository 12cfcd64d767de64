"""The steps of a race whose requests are tried first: each is sent once, and its reply shown, before load begins."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from esbench.errors import RaceError
from esbench.events.progress import Progress
from esbench.load.messages import Target
from esbench.load.transport import ask, header_lines
from esbench.model import Challenge, Step, Task
from esbench.operations import OperationTypes
from esbench.operations.drawn import RenderedRequest, as_drawn
from esbench.race.answers import context_of_one
from esbench.race.options import RaceOptions
from esbench.race.steps import PreparedRace, Steps
from esbench.record.secrets import Redactor
from esbench.requests.exchange import HttpScript, Reply, RequestBytes, RequestFailed, ScriptSession
from esbench.requests.ledger import Ledger

_SHOWN = 200  # characters of a reply


@dataclass(frozen=True)
class Tried:
    """A request that was tried, and its reply: `status` is 0 if none came, and `said` then the reason."""

    request: str
    status: int
    said: str

    def __str__(self) -> str:
        return f"{self.request}: {self.status or 'no reply'}{f', {self.said}' if self.said else ''}"


class TryOut(Steps):
    """The steps of a challenge, each of whose requests is tried before; and which end after a time, if there is one.

    `goes_on` is asked if a try-out failed; without it the race ends. `valid`: statuses that are no failure; none: those
    below 400. `duration_s`: of each step; None: as long as the track says.
    """

    def __init__(
        self,
        options: RaceOptions,
        types: OperationTypes,
        progress: Progress,
        *,
        goes_on: Callable[[Sequence[Tried]], bool],
        valid: Collection[int] = (),
        is_tried: bool = True,
        duration_s: float | None = None,
    ) -> None:
        self._options, self._types, self._progress = options, types, progress
        self._goes_on, self._valid, self._is_tried = goes_on, valid, is_tried
        self._duration_s = duration_s
        self._ends_s = float("inf")

    def of(self, challenge: Challenge, prepared: PreparedRace) -> Iterator[Step]:
        if self._is_tried:
            failed: list[Tried] = []
            for task in challenge.tasks:
                for tried in self._try(task, prepared):
                    self._progress.say(f"try-out: {tried}")
                    failed += [tried] if self._has_failed(tried) else []
            if failed and not self._goes_on(failed):
                raise RaceError(f"the try-out failed: {failed[0]}", hint="--yes goes on all the same")
        yield from challenge.steps

    def step_runs(self, number: int, units: dict[str, str], stretch: float = 1.0) -> None:
        if self._duration_s is not None:
            self._ends_s = time.monotonic() + self._duration_s

    def enough(self) -> bool:
        return time.monotonic() >= self._ends_s

    def _has_failed(self, tried: Tried) -> bool:
        return tried.status not in self._valid if self._valid else not 0 < tried.status < 400

    def _try(self, task: Task, prepared: PreparedRace) -> Sequence[Tried]:
        """Send the requests of a task once, as its first client would. What they draw of sequences counts as drawn."""
        coordinator, ledger = prepared.coordinator, Ledger()
        tried_task = replace(task, name=f"{task.name} try-out")  # whose uuids are others than the task's
        context = context_of_one(tried_task, self._options, prepared.target, prepared.stock, coordinator.ledger, ledger)
        program = self._types.of(task.operation).compile(context)
        tried: list[Tried] = []
        try:
            made = program.client(0, header_lines(prepared.target.hosts[0], prepared.target.options))
            positions = made.hosts if isinstance(made, HttpScript) and made.hosts else (0,)
            first, *_ = lanes = [_Lane(prepared.target, position, tried) for position in positions]
            first.lanes = lanes
            script = as_drawn(made)
            with suppress(RequestFailed):  # it is among those that were tried
                asyncio.run(script.play(first, script.draw()))
        finally:
            program.close()
        coordinator.ledger.enter(ledger)
        return tried


class _Lane:
    """A session that sends each request on a new connection, and keeps what was answered."""

    def __init__(self, target: Target, position: int, tried: list[Tried]) -> None:
        self._target = target
        self._host = target.hosts[position]
        self._tried = tried
        self._redact = Redactor(target.options.secrets())
        self.answer: Reply | None = None
        self.own_headers: Mapping[str, str] = {}
        self.notes: dict[str, str] = {}
        self.lanes: Sequence[ScriptSession] = (self,)

    @contextmanager
    def part(self, name: str, timeout_s: float | None = None) -> Iterator[None]:
        yield

    async def pause(self, duration_s: float) -> None:
        await asyncio.sleep(duration_s)

    async def send(self, request: RequestBytes) -> Reply:
        rendered = RenderedRequest.of(request)
        what = self._redact(f"{rendered.method} {self._host.url}{rendered.target}")[:_SHOWN]
        options = self._target.options
        try:
            self.answer = await ask(self._host, options.ssl_context(), request, options.timeout_s)
        except RequestFailed as failure:
            self._tried.append(Tried(what, 0, self._redact(failure.detail)))
            raise
        said = " ".join(self.answer.body[: 4 * _SHOWN].decode("utf-8", "replace").split())
        self._tried.append(Tried(what, self.answer.status, self._redact(said)[:_SHOWN]))
        return self.answer

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
