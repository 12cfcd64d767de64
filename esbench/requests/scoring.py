"""Scoring of replies: a drawn share of those that are timed is scored, after the next request was sent.

Which replies are scored is drawn for each client by the number of its requests: never by how long a reply took.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

from esbench.measure.verdict import Details, Verdict
from esbench.requests.context import RequestContext
from esbench.requests.exchange import ClientProgram, Exchange, Script
from esbench.requests.programs import Request, TemplateProgram
from esbench.requests.variables import ValueSource

FIRST_SHARE = 0.25
LEAST_SHARE = 0.0005
MOST_CPU = 0.03  # of the process's other CPU time: with what drawing and counting apart cost, below 1.1 of it
_KEPT_NS = 15_000  # of CPU: what a scored reply costs besides its score, counted in full instead of by the hot path
_ADJUSTED_EVERY_NS = 500_000_000


class Scorer(Protocol):
    """The scorer of an operation's replies."""

    @property
    def name(self) -> str:
        """The name of the score, and how deep it looks: recall@10."""

    def score(self, query: int, body: bytes) -> float:
        """Return the score, 0 to 1, of a good reply to a query, by its number."""


class Queries(ValueSource, Protocol):
    """A source of queries; `number` is that of the one that it has drawn last."""

    number: int


@dataclass(frozen=True)
class Scored:
    """The parts of a scored operation: `queries` is the source of its `variable`, `given` are those of others. Without
    a scorer its queries are only drawn."""

    scorer: Scorer | None
    variable: str
    queries: Queries
    given: Mapping[str, ValueSource] = field(default_factory=dict)


class Share:
    """The share of replies that are scored, so large that scoring takes at most `MOST_CPU` of the other CPU time of
    the process, and 1 at most."""

    def __init__(self) -> None:
        self.ratio = FIRST_SHARE
        self._spent_ns = 0
        self._since_ns = time.monotonic_ns()
        self._cpu_ns = time.process_time_ns()

    def gap(self, random: Random) -> int:
        """Draw the number of requests until the next one that is scored, 1 for the next one."""
        if self.ratio >= 1:
            return 1
        return 1 + int(math.log(1.0 - random.random()) / math.log(1.0 - self.ratio))

    def spend(self, ns: int) -> None:
        """Count the CPU time of a score; twice a second, adjust the share by what scores have taken."""
        self._spent_ns += ns + _KEPT_NS
        now_ns = time.monotonic_ns()
        if now_ns - self._since_ns >= _ADJUSTED_EVERY_NS:
            cpu_ns = time.process_time_ns()
            self.adjust(self._spent_ns, cpu_ns - self._cpu_ns)
            self._spent_ns, self._since_ns, self._cpu_ns = 0, now_ns, cpu_ns

    def adjust(self, spent_ns: int, cpu_ns: int) -> None:
        """Adjust the share, after scores took `spent_ns` of the `cpu_ns` of the process; it grows fourfold at most."""
        allowed_ns = MOST_CPU * max(0, cpu_ns - spent_ns)
        self.ratio = min(1.0, max(LEAST_SHARE, self.ratio * min(4.0, allowed_ns / max(1, spent_ns))))


class ScoredProgram(TemplateProgram):
    """A program of one request that draws queries, and of whose replies a share is scored."""

    def __init__(self, context: RequestContext, request: Request, scored: Scored) -> None:
        super().__init__(context, [request], {scored.variable: scored.queries, **scored.given})
        self._scored = scored
        self._share = Share()

    def client(self, slot: int, headers: bytes) -> ClientProgram | Script:
        program, scorer = self.exchanging(headers), self._scored.scorer
        if scorer is None:
            return program
        random = self._context.random(f"score {slot}")
        return ScoredClientProgram(program, self._scored.queries, scorer, self._share, random)


class ScoredClientProgram:
    """The program of one client: it draws beforehand whether the reply to a request is scored."""

    def __init__(self, program: ClientProgram, queries: Queries, scorer: Scorer, share: Share, random: Random) -> None:
        (exchange,) = program.exchanges
        self._program, self._queries, self._scorer = program, queries, scorer
        self._share, self._random = share, random
        self._judge = exchange.judge
        self._left = share.gap(random)
        self._number = 0
        self.exchanges: Sequence[Exchange] = (replace(exchange, judge=self._judged),)

    def draw(self) -> Any:
        drawn = self._program.draw()
        self._number = self._queries.number
        if self._left <= 0:
            self._left = self._share.gap(self._random)
        self._left -= 1
        return drawn

    def _judged(self, status: int, body: bytes, drawn: Any) -> Verdict:
        verdict = self._judge(status, body, drawn)
        if self._left or verdict.error is not None:
            return verdict
        number = self._number

        def score() -> tuple[str, int, float]:
            begin_ns = time.thread_time_ns()
            value = self._scorer.score(number, body)
            self._share.spend(time.thread_time_ns() - begin_ns)
            return self._scorer.name, number, value

        return replace(verdict, details=replace(verdict.details or Details(), score=score))
