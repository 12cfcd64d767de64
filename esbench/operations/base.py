"""The base of operation types: their traits, their parameters, and their compilation before the clock starts.

Traits are the properties of a type that a race depends on, besides its compilation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from esbench.cluster.dialect import Dialect, Feature
from esbench.cluster.options import Host
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import TrackError, UsageError, closest
from esbench.model import Corpus, DataStream, Index, Operation, Task, Templates, Track
from esbench.operations.assertions import check_assertions
from esbench.operations.parameters import COMMON, Parameter
from esbench.requests.context import RequestContext
from esbench.requests.programs import Program, common_headers
from esbench.requests.templates import check_header, unsent_headers, variables_in
from esbench.units import Rate

Target = Literal["index", "data-stream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties of an operation type, stated once where it is declared. None has a default.

    administrative: hidden from the summary unless it failed.
    load: its requests may be repeated for any time, as searches may; False if it does something once, as a reindex;
    None if that depends on the request: a task of it is load if it repeats it.
    reads: it changes no document; None if that depends on the request.
    in_composite: may be a request of a composite.
    sends_corpora: sends documents of the track's corpora: those that `corpora` or `corpus` names, else all; none if it
    has a `body`. They are prepared before the race.
    in_file_order: sends each of these files once, from its first document on, unless `conflicts` or `looped` is set;
    the file may be read as a stream (`--corpus-cache`).
    creates, deletes: the kind of target that it creates, or deletes with all of its documents.
    compares_counts: needs the number of documents that an index had before the race.
    any_server: its requests are the track's own, and may go to any HTTP server.
    waits_for_status: may wait for a cluster status: `wait_for_status` in `request-params`.
    node_features: the features that it needs of a node that esbench starts.
    not_on_serverless: the distributions whose serverless services refuse it (Elastic's, Amazon's).
    """

    administrative: bool
    load: bool | None
    reads: bool | None
    in_composite: bool
    sends_corpora: bool
    in_file_order: bool
    creates: Target | None
    deletes: Target | None
    compares_counts: bool
    any_server: bool
    waits_for_status: bool
    node_features: frozenset[str]
    not_on_serverless: frozenset[str]


MEASURED = Traits(
    administrative=False,
    load=True,
    reads=False,
    in_composite=False,
    sends_corpora=False,
    in_file_order=False,
    creates=None,
    deletes=None,
    compares_counts=False,
    any_server=False,
    waits_for_status=False,
    node_features=frozenset(),
    not_on_serverless=frozenset(),
)
REQUEST = replace(MEASURED, in_composite=True)
READ = replace(REQUEST, reads=True)
MEASURED_ONCE = replace(MEASURED, load=False)
ADMINISTRATIVE = replace(MEASURED_ONCE, administrative=True)
ON_NO_SERVERLESS = frozenset({"elasticsearch", "opensearch"})
OF_THE_CLUSTER = replace(ADMINISTRATIVE, not_on_serverless=ON_NO_SERVERLESS)


@dataclass(frozen=True, kw_only=True)
class TaskContext(RequestContext):
    """The data from which an operation is compiled for one worker.

    `indices`, `corpora`, `data_streams` and `templates` are all those of the track, `hosts` those of the race.
    """

    dialect: Dialect
    indices: tuple[Index, ...]
    corpora: tuple[Corpus, ...]
    hosts: tuple[Host, ...] = ()
    data_streams: tuple[DataStream, ...] = ()
    templates: Templates = field(default_factory=Templates)

    @property
    def params(self) -> Mapping[str, Any]:
        return self.task.operation.params

    def default_index(self) -> str:
        """Return the `index` parameter, or the track's only index or data stream; else raises TrackError."""
        return default_index(self.params, self.indices or self.data_streams, self.where)


def default_index(params: Mapping[str, Any], indices: Sequence[Index | DataStream], where: str) -> str:
    """Return the `index` parameter, else the name of the only one of `indices`.

    Raises TrackError, with the place `where`, if there is no such parameter and not exactly one index.
    """
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


def unsent(headers: Mapping[str, Any], what: str) -> TrackError | None:
    """Return the fault of headers that belong to the connection, and are not sent; None without any."""
    names = unsent_headers({str(name): str(value) for name, value in headers.items()})
    if not names:
        return None
    return TrackError(
        f"{what}: {', '.join(names)}: not sent, it belongs to the connection", hint="Connection: close is"
    )


def kind_of(operation: Operation) -> OperationType:
    """Return the type that is bound to an operation; raises UsageError for one of an unknown type."""
    if operation.kind is None:
        raise UsageError(f'unknown operation type "{operation.type}"')
    assert isinstance(operation.kind, OperationType)
    return operation.kind


def is_load(task: Task) -> bool:
    """True if a task's requests are load; False if it does something once, or as often as it says.

    Where the type does not know, the task must repeat its request: by a time, a number, or a rate without a known end.
    """
    kind = kind_of(task.operation)
    if kind.traits.load is not None:
        return kind.traits.load
    requests = (task.requests or task.iterations or 1) + (task.warmup_iterations or 0)
    has_rate = task.schedule.is_open and not kind.ends(task.operation.params)
    return task.is_time_based or requests > 1 or has_rate


class OperationType:
    """An operation type, by its name in tracks; subclasses define how it compiles.

    `doc` describes it in the reference; `unit` is the unit that it counts by default; `parameters` are its own by name,
    without those that every type takes. The `params` of its methods are the parameters of one operation.
    """

    name: str
    traits: Traits
    doc: str
    unit = "ops"
    feature: Feature | None = None  # what a server must be able to do for it
    asks_index: bool = False  # its requests go to `index`, or to the track's only one
    draws: bool = True  # its parameters may hold variables, drawn for each request
    parameters: Mapping[str, Parameter] = {}
    files: tuple[str, ...] = ()  # parameters that name files of the track; compiled, each is a TrackFile

    def check_index(self, params: Mapping[str, Any], indices: Sequence[Index | DataStream], where: str) -> None:
        """Raise TrackError if the operation needs an index and neither its parameters nor the track determine one."""
        if self.asks_index and not params.get("data-stream"):
            default_index(params, indices, where)

    def names(self, params: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the names that the operation gives to values itself, each with its variable.

        "" for a value that is of no variable but of a reply.
        """
        return {}

    def deleted_by(self, params: Mapping[str, Any], track: Track) -> tuple[str, ...]:
        """Return the names and patterns of the indices and data streams that it deletes with all of their documents.

        Raises TrackError if the parameters name none.
        """
        return ()

    def warnings(self, params: Mapping[str, Any], track: Track, home: Path) -> Iterator[str]:
        """Yield what is odd about the data that the operation needs; `home` keeps what was seen of it."""
        yield from ()

    def idleness(self, params: Mapping[str, Any], templates: Templates) -> str:
        """Return the reason why the operation would do nothing on any server; "" if it does something."""
        return ""

    def check(self, params: Mapping[str, Any], where: str) -> None:
        """Raise TrackError for parameters with which the operation cannot run.

        They are missing or null and required, have an invalid value, an invalid assertion, a header that HTTP cannot
        carry, or a variable where the type draws none. Unknown parameters are accepted, as in Rally.
        """
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
            check_assertions(assertions, where)
        for header, text in common_headers(params).items():
            check_header(header, text, where)
        if not self.draws:
            self._refuse_variables(params, where)

    def _refuse_variables(self, params: Mapping[str, Any], where: str) -> None:
        for name, value in params.items():
            for variable in variables_in(value):
                what = f'"{name}" of "{self.name}" cannot hold a variable: $[[{variable}]]'
                raise TrackError(what, where=where, hint="a raw-request can have it")

    def tolerated(self, params: Mapping[str, Any]) -> Iterator[TrackError]:
        """Yield the faults of parameters with which the operation still runs, as in Rally; the errors have no place."""
        for name, parameter in {**COMMON, **self.parameters}.items():
            if (fault := parameter.tolerated(name, params.get(name))) is not None:
                yield fault
        if isinstance(params.get("headers"), Mapping) and (fault := unsent(params["headers"], '"headers"')):
            yield fault

    def check_part(self, params: Mapping[str, Any], where: str) -> None:
        """Raise TrackError, as `check` does, for parameters of a request in a composite."""
        self.check(params, where)

    def features(self, params: Mapping[str, Any]) -> Iterator[Feature]:
        """Yield what a server must be able to do for an operation with these parameters, as far as its type says it."""
        if self.feature is not None:
            yield self.feature

    def reads(self, params: Mapping[str, Any]) -> bool:
        """True if an operation with these parameters is known to change no document."""
        return bool(self.traits.reads)

    def units_per_request(self, params: Mapping[str, Any]) -> float | None:
        """Return the number of units per request, for target rates in the operation's unit; None if it is not known.

        Raises KeyError if a required parameter that it depends on is missing.
        """
        return 1.0

    def unit_of(self, params: Mapping[str, Any]) -> str:
        """Return the unit that the operation counts with these parameters, such as "docs"."""
        return self.unit

    def check_rate(self, rate: Rate, params: Mapping[str, Any], where: str) -> None:
        """Raise TrackError for a target rate in a unit that the operation does not count.

        Requests (ops/s) always fit, the operation's own unit if `units_per_request` is known, bytes (MB/s) if
        `has_known_bytes`.
        """
        unit = self.unit_of(params)
        if rate.unit == "ops" or (rate.unit == "MB" and self.has_known_bytes(params)):
            return
        is_known = unit != "ops" and self.units_per_request(params) is not None
        if rate.unit == "MB":
            what = f'the target rate is in bytes, and how large the requests of "{self.name}" are is not known before'
        elif rate.unit != unit:
            what = f"the target rate is in {rate.unit}/s, the operation counts {unit}"
        elif not is_known:
            what = f"the target rate is in {unit}/s, and how many {unit} a request stands for is not known before"
        else:
            return
        raise TrackError(what, where=where, hint=f"say {unit}/s, or ops/s for requests" if is_known else "say ops/s")

    def has_known_bytes(self, params: Mapping[str, Any]) -> bool:
        """True if `request_bytes` can be computed, for target rates in bytes."""
        return False

    def request_bytes(
        self, params: Mapping[str, Any], documents: Sequence[PreparedDocuments], indices: Sequence[Index], where: str
    ) -> float:
        """Return the mean size of a request's body in bytes, from the prepared documents of the corpora that it sends.

        Call it only if `has_known_bytes`. Raises TrackError if the parameters name no documents to send.
        """
        raise NotImplementedError

    def ends(self, params: Mapping[str, Any]) -> bool:
        """True if the operation's clients end by themselves (Exhausted), or may do so."""
        return False

    def units_in_all(
        self,
        params: Mapping[str, Any],
        documents: Sequence[PreparedDocuments],
        indices: Sequence[Index | DataStream],
        where: str,
    ) -> float | None:
        """Return the number of units until the operation ends by itself; None if unknown, or if it never ends."""
        return None

    def connections(self, params: Mapping[str, Any]) -> int:
        """Return the number of connections that each client has at the same time."""
        return 1

    def compile(self, context: TaskContext) -> Program:
        """Return the program for the worker's client slots, which the caller closes.

        Raises TrackError for faults that show only here, such as a feature that the server's version lacks.
        """
        raise NotImplementedError
