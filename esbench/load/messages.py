"""The five messages between the coordinator and its workers. Frozen and picklable; nothing else is exchanged.

Times are ns of the coordinator's monotonic clock, which all processes of a host share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from esbench.cluster.dialect import Dialect
from esbench.cluster.options import ClientOptions, Host
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import EsbenchError
from esbench.measure.cpu_time import Usage
from esbench.measure.slices import WholeTime
from esbench.measure.tally import Second
from esbench.model import DEFAULT_CLUSTER, Corpus, DataStream, Index, Task, Templates, Variable
from esbench.requests.ledger import Ledger

ABORT_DRAIN_S = 0.5  # for requests in flight after a failure: the race is over within a second of it


@dataclass(frozen=True)
class Loss:
    """The outage of a host: the time since when it cannot be reached, and the error of the connection to it."""

    since_ns: int
    reason: str


@dataclass(frozen=True)
class Hello:
    """Worker -> coordinator: ready; with `step`, ready to run that step. `error` says why it is not.

    `usage`: of the process, so far. `lost`: the hosts that it cannot reach now, by name. `loop` is its kind of event
    loop; `compiled`: its hot path is compiled.
    """

    worker: int
    pid: int
    loop: str
    step: int | None = None
    error: EsbenchError | None = None
    usage: Usage = field(default_factory=Usage)
    lost: Mapping[str, Loss] = field(default_factory=dict)
    compiled: bool = False


HTTP = "http"  # the kind of target that the core itself sends to


@dataclass(frozen=True)
class Target:
    """The cluster under test, as workers reach it. `any_server`: it is asked nothing but the operations' requests.

    `kind`: how requests are sent to it, a name in the table of senders or HTTP. `others`: further clusters of the race,
    by name.
    """

    hosts: tuple[Host, ...]
    options: ClientOptions
    dialect: Dialect
    any_server: bool = False
    kind: str = HTTP
    others: Mapping[str, Target] = field(default_factory=dict)

    @property
    def host_count(self) -> int:
        """The number of the hosts of all clusters."""
        return sum(len(target.hosts) for target in self.clusters.values())

    @property
    def clusters(self) -> Mapping[str, Target]:
        """All clusters of the race, by name."""
        return {DEFAULT_CLUSTER: self, **self.others}


@dataclass(frozen=True)
class PackedView:
    """A track as its own Python code sees it, pickled for another process; `root` is the track's folder.

    `content` may hold objects of the track's own classes: it is unpickled when these are imported there. `libraries` is
    where the packages that it needs were installed.
    """

    root: Path
    libraries: Path | None
    content: bytes
    moved: Callable[[Path], Path] | None = None  # of a load host: from paths in `content` to those on it


@dataclass(frozen=True, kw_only=True)
class Stock:
    """The material of a race: what its track declares, and its documents, prepared."""

    indices: tuple[Index, ...] = ()
    corpora: tuple[Corpus, ...] = ()
    documents: tuple[PreparedDocuments, ...] = ()
    variables: tuple[Variable, ...] = ()
    data_streams: tuple[DataStream, ...] = ()
    templates: Templates = field(default_factory=Templates)
    view: PackedView | None = None  # of a track with a Python part, which workers load from its folder


@dataclass(frozen=True)
class Assignment:
    """A task's share for one worker: some of its client slots; `stripe` of `stripes` among all shares of the step.

    Stripes divide sequences and new documents, so that no two tasks of a step use the same ones. `per_request`: the
    amount of each unit of a rate that one request stands for. `may_be_endless`: the end of another task ends it.
    """

    task: Task
    slots: tuple[int, ...]
    stripe: int
    stripes: int
    per_request: Mapping[str, float]
    may_be_endless: bool = False


@dataclass(frozen=True)
class Prepare:
    """Coordinator -> worker: connect and compile. `ledger` is what the race's writes have done so far."""

    step: int
    assignments: tuple[Assignment, ...]
    target: Target
    stock: Stock
    seed: int
    race_id: str
    abort_on_error: bool
    ledger: Ledger


@dataclass(frozen=True)
class RunStep:
    """Coordinator -> worker: begin `tasks` of the step in their `time`, the first of them with the step's clock.

    The first one goes to every worker of the step; further ones follow for tasks that wait for clients of others.
    """

    step: int
    time: WholeTime
    tasks: frozenset[str]


@dataclass(frozen=True)
class TaskSeconds:
    """Closed seconds of a task, in its own time.

    The worker has now sent all of the task's seconds before number `closed_until`, counted from 0 at its begin.
    """

    task: str
    seconds: tuple[Second, ...]
    closed_until: int


@dataclass(frozen=True)
class TaskEnd:
    """A worker's final report on a task. `start_ns` is None when it never began.

    `first_measured_ns` is the first arrival (closed loop: send) of the measurement, `last_measured_received_ns` the end
    of its last request, good or failed: both None when nothing was measured. `feed_waits`: how often a request waited
    for its documents.
    """

    task: str
    start_ns: int | None
    end_ns: int
    unsent: int
    first_measured_ns: int | None
    last_measured_received_ns: int | None
    feed_waits: int = 0
    notes: tuple[str, ...] = ()  # sentences about what makes its figures differ from what they seem to be
    unit: str | None = None  # what a runner of the track's own has counted


@dataclass(frozen=True)
class Tick:
    """Worker -> coordinator, once a second while a step runs, at the end of a task, and when a host is lost or back.

    A worker whose tasks have ended continues to tick, without them, until a Stop says that the step is over. `usage` is
    of the process until `at_ns`; `loop_lag_ns` is the worst lateness of the event loop since the last tick. `ledger`:
    the writes since it was last sent, empty unless a task ended. `failure`: the error for which the step must end.
    `lost`: the hosts that it cannot reach now, by name.
    """

    worker: int
    step: int
    tasks: tuple[TaskSeconds, ...]
    ended: tuple[TaskEnd, ...]
    at_ns: int
    usage: Usage
    loop_lag_ns: int
    ledger: Ledger = field(default_factory=Ledger)
    failure: EsbenchError | None = None
    lost: Mapping[str, Loss] = field(default_factory=dict)


@dataclass(frozen=True)
class Stop:
    """Coordinator -> worker: take no further arrival of `tasks` (all of them when empty).

    In-flight requests are awaited for `drain_s`, at most their timeout; None: until their timeout. `step_over`: the
    tasks of all workers have ended, and no tick is expected any more. With `leave`, the worker ends afterwards.
    """

    tasks: tuple[str, ...] = ()
    drain_s: float | None = None
    step_over: bool = False
    leave: bool = False


Message = Hello | Prepare | RunStep | Tick | Stop
