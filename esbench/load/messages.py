"""The five messages between the coordinator and its workers. Frozen and picklable; nothing else crosses.

Times are ns of the coordinator's monotonic clock, which on one host is every process's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from esbench.client_options import ClientOptions, Host
from esbench.dialect import Dialect
from esbench.errors import EsbenchError
from esbench.load.recorder import Second
from esbench.model import Corpus, Index, Task, Variable
from esbench.operations.base import Ledger
from esbench.track.prepared import PreparedDocuments


@dataclass(frozen=True)
class Hello:
    """Worker -> coordinator: ready; with `step`, ready to run that step. `error` says why it is not.

    `run_delay_ns`: as in a tick.
    """

    worker: int
    pid: int
    loop: str
    step: int | None = None
    error: EsbenchError | None = None
    run_delay_ns: int = 0


@dataclass(frozen=True)
class Target:
    """The cluster under test, as workers reach it."""

    hosts: tuple[Host, ...]
    options: ClientOptions
    dialect: Dialect


@dataclass(frozen=True)
class Stock:
    """What the race has to work with: indices, corpora, prepared documents, variables."""

    indices: tuple[Index, ...]
    corpora: tuple[Corpus, ...]
    documents: tuple[PreparedDocuments, ...]
    variables: tuple[Variable, ...]


@dataclass(frozen=True)
class Assignment:
    """A task's share for one worker: some of its client slots; `stripe` of `stripes` among all shares of the step.

    Stripes part sequences and new documents, so that no two tasks of a step use the same ones.
    """

    task: Task
    slots: tuple[int, ...]
    stripe: int
    stripes: int


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
    """Coordinator -> worker: the clock of the step starts at `start_ns`."""

    step: int
    start_ns: int


@dataclass(frozen=True)
class TaskSeconds:
    """Closed seconds of a task. After `closed_until` no earlier second of it will come from this worker."""

    task: str
    seconds: tuple[Second, ...]
    closed_until: int


@dataclass(frozen=True)
class TaskEnd:
    """A worker's last word on a task."""

    task: str
    start_ns: int
    end_ns: int
    unsent: int
    first_measured_sent_ns: int | None
    last_measured_received_ns: int | None
    feed_waits: int = 0


@dataclass(frozen=True)
class Tick:
    """Worker -> coordinator, once a second and at the end of a task.

    `cpu_ns` and `run_delay_ns` (time spent runnable but not running) are totals of the process; `loop_lag_ns` is the
    worst lateness of the event loop since the last tick.
    """

    worker: int
    step: int
    tasks: tuple[TaskSeconds, ...]
    ended: tuple[TaskEnd, ...]
    cpu_ns: int
    run_delay_ns: int
    loop_lag_ns: int
    ledger: Ledger = field(default_factory=Ledger)
    failure: EsbenchError | None = None


@dataclass(frozen=True)
class Stop:
    """Coordinator -> worker: take no further arrival of `tasks` (all of them when empty).

    In-flight requests are awaited for `drain_s`, at most their timeout. With `leave`, the worker ends afterwards.
    """

    tasks: tuple[str, ...] = ()
    drain_s: float | None = None
    leave: bool = False


Message = Hello | Prepare | RunStep | Tick | Stop
