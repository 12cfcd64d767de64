"""Operations as a worker compiles them, and a session that answers from a script."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from esbench.cluster.dialect import Dialect
from esbench.corpus.prepared import PreparedDocuments
from esbench.measure.verdict import Verdict
from esbench.model import Index, Operation, Schedule, Task, Variable
from esbench.operations import builtin_operations
from esbench.operations.base import TaskContext
from esbench.requests.exchange import ClientProgram, Reply, RequestBytes, RequestFailed, Script, ScriptSession
from esbench.requests.ledger import Ledger
from esbench.requests.programs import Program

HEADERS = b"Host: node:9200\r\n"
ES5 = Dialect("elasticsearch", (5, 6))
ES60 = Dialect("elasticsearch", (6, 1))
ES6 = Dialect("elasticsearch", (6, 8))
ES7 = Dialect("elasticsearch", (7, 17))
ES8 = Dialect("elasticsearch", (8, 15))
OPENSEARCH = Dialect("opensearch", (1, 3))

ORDERS = Index("orders", {"settings": {"index.number_of_shards": 1}, "mappings": {"properties": {}}})


def context(
    kind: str,
    params: Mapping[str, Any] | None = None,
    *,
    dialect: Dialect = ES8,
    indices: Sequence[Index] = (ORDERS,),
    documents: Sequence[PreparedDocuments] = (),
    variables: Sequence[Variable] = (),
    clients: int = 1,
    stripe: int = 0,
    stripes: int = 1,
    before: Ledger | None = None,
    ledger: Ledger | None = None,
) -> TaskContext:
    """A worker's context of the task "t"."""
    task = Task("t", Operation("t", kind, params or {}), clients=clients, schedule=Schedule())
    return TaskContext(
        task=task,
        dialect=dialect,
        indices=tuple(indices),
        corpora=(),
        documents=tuple(documents),
        variables=tuple(variables),
        seed=1,
        race_id="race-1",
        slots=tuple(range(stripe, clients, stripes)),
        stripe=stripe,
        stripes=stripes,
        before=before or Ledger(),
        ledger=ledger if ledger is not None else Ledger(),
    )


def compiled(of: TaskContext) -> Program:
    """The program of a context, whose parameters are checked as the loader checks them."""
    kind = builtin_operations().get(of.task.operation.type)
    kind.check(of.params, of.where)
    return kind.compile(of)


def client(kind: str, params: Mapping[str, Any] | None = None, **keys: Any) -> ClientProgram:
    """The program of client slot 0."""
    program = compiled(context(kind, params, **keys)).client(0, HEADERS)
    assert not isinstance(program, Script)
    return program


def requests(program: ClientProgram) -> list[bytes]:
    """The requests of one draw, in turn."""
    drawn = program.draw()
    return [b"".join(bytes(part) for part in exchange.render(drawn)) for exchange in program.exchanges]


def request(kind: str, params: Mapping[str, Any] | None = None, **keys: Any) -> tuple[str, bytes]:
    """First line and body of the only request of an operation."""
    (sent,) = requests(client(kind, params, **keys))
    head, _, body = sent.partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0].decode().removesuffix(" HTTP/1.1"), body


def judged(program: ClientProgram, status: int, body: bytes | str, exchange: int = 0) -> Verdict:
    """What a reply to an exchange of a draw is worth."""
    content = body if isinstance(body, bytes) else body.encode()
    return program.exchanges[exchange].judge(status, content, program.draw())


Answer = Reply | RequestFailed


@dataclass
class FakeSession:
    """A session that gives its answers in turn, the last one for ever, and remembers what was asked."""

    answers: Sequence[Answer]
    asked: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    queries: list[Mapping[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    answer: Reply | None = None
    own_headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def lanes(self) -> Sequence[ScriptSession]:
        return (self,)

    @contextmanager
    def part(self, name: str, timeout_s: float | None = None) -> Iterator[None]:
        self.parts.append(name)
        yield

    async def pause(self, duration_s: float) -> None:
        self.asked.append(f"pause {duration_s:g}")

    async def send(self, request: RequestBytes) -> Reply:
        head, _, body = b"".join(bytes(piece) for piece in request).partition(b"\r\n\r\n")
        method, _, target = head.partition(b" HTTP/1.1")[0].decode().partition(" ")
        return await self.request(method, target, body=json.loads(body) if body[:1] in (b"{", b"[") else None)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        self.asked.append(f"{method} {path}")
        self.bodies.append(body)
        self.queries.append(params or {})
        self.headers.append({**self.own_headers, **(headers or {})})
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, RequestFailed):
            raise answer
        self.answer = answer
        return answer


def session(*answers: Answer | tuple[int, str] | str) -> FakeSession:
    """Answers: a body (status 200), a status with a body, or a failure."""
    replies: list[Answer] = []
    for answer in answers:
        if isinstance(answer, str):
            replies.append(Reply(200, answer.encode()))
        elif isinstance(answer, tuple):
            replies.append(Reply(answer[0], answer[1].encode()))
        else:
            replies.append(answer)
    return FakeSession(replies)


def script(kind: str, params: Mapping[str, Any] | None = None, **keys: Any) -> Script:
    """The script of an administrative operation."""
    made = compiled(context(kind, params, **keys)).client(0, HEADERS)
    assert isinstance(made, Script)
    return made
