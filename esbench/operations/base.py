"""What an operation type is: its parameters, and how it compiles to what a client sends and judges.

An operation compiles before the clock starts. While the clock runs, a client draws (values of variables, the next
slice of a corpus), renders bytes, and judges the reply by looking only at what it must.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from esbench.cluster.dialect import Dialect, Feature
from esbench.errors import TrackError, closest
from esbench.model import Corpus, DataStream, Index, Task, Templates, Variable
from esbench.operations.parameters import COMMON, Parameter
from esbench.operations.traits import Traits
from esbench.units import Rate

if TYPE_CHECKING:
    from esbench.corpus.prepared import PreparedDocuments
    from esbench.rally_python.loading import Plugins
    from esbench.rally_python.view import Track
    from esbench.registry import Registry

Body = bytes | bytearray | memoryview
RequestBytes = Sequence[Body]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A failed request, without secrets: method and path as sent; status and beginning of its reply, if it had one."""

    request: str
    status: int | None = None
    body: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """What a reply tells beyond its worth: what became of so many documents, by name; the server's own time for it.

    `returned` are numbers that a runner of the track's own returned under names of its own.
    """

    results: Mapping[str, int] = field(default_factory=dict)
    took_ms: int | None = None
    returned: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reply was worth: acknowledged `units`, and the `error` kind of a failure with the reply's own words.

    `label` counts good replies of different results apart (created, updated). `evidence` is the client's to add.
    `again_after_s`: this was only a try, and what is left of the request is sent after so many seconds.
    """

    units: float = 1
    error: str | None = None
    example: str = ""
    label: str | None = None
    evidence: Evidence | None = None
    details: Details | None = None
    again_after_s: float | None = None

    @property
    def error_is_of_connection(self) -> bool:
        """Whether there was no connection to get a reply on; a timeout is not such an error."""
        return self.error in CONNECTION_ERRORS


ASSERTION = "assertion"  # the kind of failure that ends a race whatever it tolerates
CONNECTION_ERRORS = ("connection refused", "connection lost")
GOOD = Verdict()


class Exhausted(Exception):  # noqa: N818 - an end, not an error
    """A client's corpus has no more documents."""


class NotReady(Exception):  # noqa: N818 - a wait, not an error
    """A client's next request is not made yet; `call_back` has a function called once, when to draw again."""

    def __init__(self, call_back: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("not ready")
        self.call_back = call_back


class RequestFailed(Exception):  # noqa: N818 - it failed; the error is data
    """A request without a reply: the kind of failure, and its detail."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request of an operation: rendered from a draw at the moment of sending, judged by its reply.

    `name` is the row under `task/name` when the operation is a sequence of several; empty otherwise.
    """

    name: str
    render: Callable[[Any], RequestBytes]
    judge: Callable[[int, bytes, Any], Verdict]  # status, body, the draw


class ClientProgram(Protocol):
    """What one client executes again and again: draw once, then each exchange in turn on its connection."""

    @property
    def exchanges(self) -> Sequence[Exchange]: ...

    def draw(self) -> Any:
        """The values of the next request; raises Exhausted at the end of a corpus, NotReady where that is unpacked."""
        ...


class Answer(dict[str, Any]):
    """The JSON object of a reply. To ask with [] for what it has not is a RequestFailed: no server leaves it out."""

    def __missing__(self, key: str) -> Any:
        raise RequestFailed("bad response", f'no "{key}" in {json.dumps(self)[:1000]}')


@dataclass(frozen=True)
class Reply:
    """A reply as an administrative operation sees it."""

    status: int
    body: bytes

    def json(self) -> Answer:
        """The decoded body, an object, empty when the body is; RequestFailed when it is anything else."""
        try:
            decoded = json.loads(self.body or b"{}")
        except (ValueError, RecursionError):
            decoded = None
        if not isinstance(decoded, dict):
            raise RequestFailed("bad response", f"not a JSON object: {self.body[:1000].decode('utf-8', 'replace')}")
        return Answer(decoded)


class Session(Protocol):
    """What a script asks with: one connection, one request at a time. `answer` is the last reply to a question.

    `notes` is what the scripts of one turn tell one another, empty at its beginning; `lanes` are the sessions that
    can be used at the same time, this one first.
    """

    answer: Reply | None

    @property
    def notes(self) -> dict[str, str]: ...

    @property
    def lanes(self) -> Sequence[Session]: ...

    def part(self, name: str, timeout_s: float | None = None) -> AbstractContextManager[None]:
        """Count what is asked inside as one row under `task/name`; it failed when a RequestFailed leaves it.

        Each request inside times out after `timeout_s`, unless it says otherwise itself.
        """
        ...

    async def pause(self, duration_s: float) -> None:
        """Wait as a part of the turn: its service time begins with a pause as it does with a request."""
        ...

    async def send(self, request: RequestBytes, timeout_s: float | None = None) -> Reply:
        """Send a rendered request and wait for its reply, whatever its status; RequestFailed when there is none."""
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
    """A script that needs so many connections at the same time: the lanes of its session."""

    connections: int


class Program(Protocol):
    """An operation compiled for the client slots of one worker."""

    @property
    def finite(self) -> bool:
        """Whether its clients end by themselves (Exhausted)."""
        ...

    @property
    def feed_waits(self) -> int:
        """How often a request had to wait for its document to be made."""
        ...

    def client(self, slot: int, headers: bytes) -> ClientProgram | Script:
        """The program of one client slot; `headers` are the header lines of its connection."""
        ...

    def close(self) -> None:
        """Free what is held, and enter into the ledger what was written."""
        ...


@dataclass
class Ledger:
    """What a race's writes have done so far, kept by the coordinator and handed on from step to step.

    `acknowledged`: documents per index; `emptied`: indices deleted or created in this step;
    `next_values`: the first value of a sequence that nobody has drawn yet; `loaded`: which documents bulks have sent,
    spans (first, end) in order, by index ("" where action lines say it) and file.
    """

    acknowledged: dict[str, int] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    next_values: dict[str, int] = field(default_factory=dict)
    loaded: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)

    def acknowledge(self, index: str, documents: int) -> None:
        self.acknowledged[index] = self.acknowledged.get(index, 0) + documents

    def empty(self, index: str) -> None:
        self.emptied.add(index)
        self._forget(index)

    def _forget(self, index: str) -> None:
        self.acknowledged.pop(index, None)
        for key in [key for key in self.loaded if key[0] in (index, "")]:
            del self.loaded[key]

    def load(self, index: str, file: str, spans: Iterable[tuple[int, int]]) -> None:
        """Add documents of a file that were sent into an index; without spans, it is known that none were."""
        merged: list[tuple[int, int]] = []
        for first, end in sorted([*self.loaded.get((index, file), ()), *spans]):
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((first, end))
        self.loaded[index, file] = merged

    def loaded_counts(self) -> dict[str, int]:
        """The number of documents that bulks have sent of each file, from its first one on without a gap."""
        counts: dict[str, int] = {}
        for (_, file), spans in self.loaded.items():
            count = spans[0][1] if spans and spans[0][0] == 0 else 0
            counts[file] = max(counts.get(file, 0), count)
        return counts

    def advance(self, name: str, next_value: int) -> None:
        """Everything of a sequence below `next_value` was drawn; it never goes back."""
        self.next_values[name] = max(next_value, self.next_values.get(name, 0))

    def enter(self, news: Ledger) -> None:
        """Add what a worker has done since it last told."""
        for index in news.emptied:
            self._forget(index)
        for index, documents in news.acknowledged.items():
            self.acknowledge(index, documents)
        for name, next_value in news.next_values.items():
            self.advance(name, next_value)
        for (index, file), spans in news.loaded.items():
            self.load(index, file, spans)


@dataclass(frozen=True)
class TrackCode:
    """The Python part of a track, loaded in this process, the track as it sees it, and the operation types."""

    plugins: Plugins
    view: Track
    operations: Registry[OperationType]


@dataclass(frozen=True)
class TaskContext:
    """Everything that an operation may know when it compiles for one worker.

    `slots` are the worker's client slots out of 0..task.clients-1; `stripe` of `stripes` is the place of this share
    among all shares of the step. `before` is the ledger at the step's start; what this task adds goes into
    `ledger`.
    """

    task: Task
    dialect: Dialect
    indices: tuple[Index, ...]
    corpora: tuple[Corpus, ...]
    documents: tuple[PreparedDocuments, ...]
    variables: tuple[Variable, ...]
    seed: int
    race_id: str
    slots: tuple[int, ...]
    stripe: int
    stripes: int
    before: Ledger
    ledger: Ledger
    compress: bool = False  # request bodies, by gzip
    code: TrackCode | None = None  # of a track with a Python part
    data_streams: tuple[DataStream, ...] = ()
    templates: Templates = field(default_factory=Templates)

    @property
    def params(self) -> Mapping[str, Any]:
        return self.task.operation.params

    @property
    def where(self) -> str:
        return f'task "{self.task.name}"'

    def default_index(self) -> str:
        """The `index` parameter, or the track's only index or data stream."""
        return default_index(self.params, self.indices or self.data_streams, self.where)


def default_index(params: Mapping[str, Any], indices: Sequence[Index | DataStream], where: str) -> str:
    """The `index` parameter, or the only one of the indices."""
    if index := params.get("index"):
        return str(index)
    if len(indices) == 1:
        return indices[0].name
    names = [index.name for index in indices]
    raise TrackError(
        'the operation needs "index"',
        where=where,
        hint=f"the track has {len(names)} indices: {', '.join(names)}" if names else "the track has no index",
    )


class OperationType:
    """A kind of operation by its name in tracks; subclasses say how it compiles."""

    name: str
    traits: Traits
    doc: str
    unit = "ops"
    feature: Feature | None = None  # what a server must be able to do for it
    asks_index: bool = False  # its requests go to `index`, or to the track's only one
    parameters: Mapping[str, Parameter] = {}

    def check_index(self, params: Mapping[str, Any], indices: Sequence[Index | DataStream], where: str) -> None:
        """Refuse parameters that name no index where the track has not just one (TrackError)."""
        if self.asks_index and not params.get("data-stream"):
            default_index(params, indices, where)

    def idleness(self, params: Mapping[str, Any], templates: Templates) -> str:
        """Why it does nothing, whatever the server; "" when it does something."""
        return ""

    def check(self, params: Mapping[str, Any], where: str) -> None:
        """Refuse a missing or mistyped parameter (TrackError); unknown ones are tolerated, as Rally does."""
        for name, parameter in {**COMMON, **self.parameters}.items():
            if params.get(name) is not None:
                parameter.check(name, params[name], where)
            elif parameter.required:
                unknown = (key for key in params if key not in self.parameters and key not in COMMON)
                typo = closest(name, unknown)
                raise TrackError(
                    f'operation type "{self.name}" needs "{name}": {parameter.doc}',
                    where=where,
                    hint=f'it is spelt "{name}", not "{typo}"' if typo else "",
                )
        if assertions := params.get("assertions"):
            from esbench.operations.assertions import check_assertions

            check_assertions(assertions, where)

    def tolerated(self, params: Mapping[str, Any]) -> Iterator[TrackError]:
        """The faults of parameters that do not keep the operation from running, as in Rally."""
        for name, parameter in {**COMMON, **self.parameters}.items():
            if (fault := parameter.tolerated(name, params.get(name))) is not None:
                yield fault

    def check_part(self, params: Mapping[str, Any], where: str) -> None:
        """The same of a request of a composite."""
        self.check(params, where)

    def units_per_request(self, params: Mapping[str, Any]) -> float:
        """How many units one request stands for, for target rates in the operation's own unit."""
        return 1.0

    def unit_of(self, params: Mapping[str, Any]) -> str:
        """What the operation counts with these parameters."""
        return self.unit

    def check_rate(self, rate: Rate, params: Mapping[str, Any], where: str) -> None:
        """Refuse a target rate in a unit that the operation does not count (TrackError)."""
        if rate.unit == "MB":
            if not self.has_known_bytes(params):
                raise TrackError(
                    f'the target rate is in bytes, and how large the requests of "{self.name}" are is not known before',
                    where=where,
                    hint=f"say {self.unit_of(params)}/s",
                )
        elif rate.unit not in ("ops", unit := self.unit_of(params)):
            units = "ops/s" if unit == "ops" else f"{unit}/s, or ops/s for requests"
            what = f"the target rate is in {rate.unit}/s, the operation counts {unit}"
            raise TrackError(what, where=where, hint=f"say {units}")

    def has_known_bytes(self, params: Mapping[str, Any]) -> bool:
        """Whether `request_bytes` can be told, for target rates in bytes."""
        return False

    def request_bytes(
        self, params: Mapping[str, Any], documents: Sequence[PreparedDocuments], indices: Sequence[Index], where: str
    ) -> float:
        """The mean size of a request's body in bytes, by the corpora that it is made of."""
        raise NotImplementedError

    def ends(self, params: Mapping[str, Any]) -> bool:
        """True where its clients end by themselves (Exhausted), or may do so."""
        return False

    def units_in_all(
        self,
        params: Mapping[str, Any],
        documents: Sequence[PreparedDocuments],
        indices: Sequence[Index | DataStream],
        where: str,
    ) -> float | None:
        """How many units it does until it ends by itself; None where that cannot be told, or it never does."""
        return None

    def compile(self, context: TaskContext) -> Program:
        raise NotImplementedError
