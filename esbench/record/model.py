"""The race record: the facts and figures of a race, as frozen dataclasses and as race.json (schema 10).

Times of day are ISO 8601 UTC, durations end in `_s`, measured times are milliseconds. A figure that a race did not
measure is None, never zero. A percentile that falls among unsent and timed-out requests is `math.inf` ("inf" in
race.json), as `max` is if there are any; `p99_at_least` and `max_at_least` are their known lower bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, Literal, NotRequired, TypedDict

from esbench.measure.slices import NS, SlicedTime, WholeTime

SCHEMA = 11
LONGEST_S = 10_000_000  # of a race, 115 days: some of what shows it counts its seconds
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
# Of a check. "driver": its part in one task; "workers": the load workers; "host": their CPUs; tasks share these two.
Subject = Literal["rate", "driver", "workers", "host", "replies", "warmup", "race"]
DRIVER_SUBJECTS: tuple[Subject, ...] = ("driver", "workers", "host")


def time_text(moment: datetime) -> str:
    """Return a time of day (UTC) as text for records: ISO 8601, to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class ErrorKind:
    """A kind of failure: the number of times that it happened, and its first occurrence as an example.

    `request` is method and path as they were sent, `status` and `body` (its beginning) are the reply's: None and empty
    if no reply came. Secrets are hidden.
    """

    count: int
    example: str
    request: str = ""
    status: int | None = None
    body: str = ""


@dataclass(frozen=True)
class Check:
    """A statement about a task's figures. `level`: ok, warning, unusable (figures must not be used).

    `value` is the number that was judged: a ratio or a count.
    """

    name: str
    level: str
    message: str
    hint: str = ""
    value: float | None = None

    @property
    def subject(self) -> Subject | None:
        """The subject of the check's kind; None for a kind that this version of esbench does not know."""
        return next((kind.subject for kind in CheckKind if kind.label == self.name), None)


class CheckKind(Enum):
    """The kinds of checks by their names in records, each with its subject. Checks are made only through their kind."""

    SHORT = "short", "race"
    UNSENT = "unsent", "rate"
    BACKLOG = "backlog", "rate"
    TARGET_RATE = "target-rate", "rate"
    CLIENT_LIMITED = "client-limited", "rate"
    DRIVER_LAG = "driver-lag", "driver"
    DRIVER_SHARE = "driver-share", "driver"
    FEED_WAITS = "feed-waits", "driver"
    INCOMPLETE = "incomplete", "driver"  # a load worker died or hung
    DRIVER_BUSY = "driver-busy", "workers"
    RUN_DELAY = "run-delay", "host"
    STEAL = "steal", "host"
    LOOP_LAG = "loop-lag", "workers"
    DRIFT = "drift", "warmup"
    INSIDE_WARMUP = "inside-warmup", "warmup"
    ERRORS = "errors", "replies"
    CLAMPED = "clamped", "replies"
    LOST_HOSTS = "lost-hosts", "race"
    CLOCK_OFFSET = "clock-offset", "race"
    HOST_SKEW = "host-skew", "race"
    NEVER_BEGUN = "never-begun", "race"

    def __init__(self, label: str, subject: Subject) -> None:
        self.label = label
        self.subject = subject

    def warning(self, message: str, hint: str, value: float | None = None) -> Check:
        return Check(self.label, "warning", message, hint, value)

    def unusable(self, message: str, hint: str, value: float | None = None) -> Check:
        return Check(self.label, "unusable", message, hint, value)


@dataclass(frozen=True)
class Throughput:
    """Units per second over the measurement window; min, median, max of its whole seconds (three at least)."""

    unit: str  # what is counted: docs, ops, pages
    mean: float | None
    median: float | None = None
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True)
class Phase:
    """The counts of the warmup phase."""

    requests: int
    units: float
    errors: int
    duration_s: float
    error_kinds: Mapping[str, ErrorKind] = field(default_factory=dict)


@dataclass(frozen=True)
class Window:
    """The measurement window, in seconds since the task's start."""

    start_s: float
    end_s: float


@dataclass(frozen=True)
class RateStage:
    """One stage of an open loop whose rate changes: its length and rate."""

    duration_s: float
    rate_per_s: float
    unit: str


@dataclass(frozen=True)
class NamedRequest:
    """One request of a sequence (`task/name`), or a class of results (created, updated), with its own figures.

    `service_time_ms` is a distribution as in TaskResult, None without one; `histogram` holds its good replies, encoded
    as there, None without any.
    """

    name: str
    requests: int
    errors: int
    service_time_ms: Mapping[str, float] | None = None
    histogram: str | None = None


@dataclass(frozen=True)
class SlicePlan:
    """The slices of a task that was raced beside the same task of other sides (measure.slices.SlicedTime).

    Its seconds, window and length count in the slices of its side alone. `length_s` of a slice; `gap_s` after it;
    `settle_s` at its beginning, which is not measured. `side` is its number among `sides`, in an order drawn from
    `seed`; before it began, its side had `skipped` slices in the step. `overlapping`: requests that ended when another
    side had its slice. `cpu_s`, for each of its slices: the CPU seconds that its nodes used from its begin on until
    another side's, and from there until its next one; empty if that was not measured.
    """

    length_s: float
    gap_s: float
    settle_s: float
    sides: int
    side: int
    seed: int
    skipped: int = 0
    overlapping: int = 0
    cpu_s: tuple[tuple[float, float], ...] = ()

    @property
    def time(self) -> SlicedTime:
        """The task's time on a clock on which it begins at 0."""
        length_ns, gap_ns, settle_ns = (round(length_s * NS) for length_s in (self.length_s, self.gap_s, self.settle_s))
        time = SlicedTime(0, length_ns, gap_ns, settle_ns, self.sides, self.side, self.seed, self.skipped)
        return replace(time, start_ns=-time.begin_ns)

    @property
    def pace(self) -> float:
        """The seconds that one own second takes, all sides together."""
        return self.sides * (self.length_s + self.gap_s) / self.length_s


@dataclass(frozen=True)
class ObjectiveResult:
    """An objective of a task (`text`), and whether its figures held it; `holds` is None if that could not be judged.

    `value` is the figure in `unit`, None if it is not known: a percentile among late requests without a time. `reason`
    is a sentence on why it is not judged, or not held whatever the value is; else empty.
    """

    text: str
    value: float | None
    unit: str
    holds: bool | None
    reason: str = ""


@dataclass(frozen=True)
class WorkerHealth:
    """The health of a task's load workers in its measurement window: each figure is that of the worst worker or CPU.

    `busy_ratio`: running or runnable. `run_delay_ratio`: runnable, and not running. `steal_ratio`: a CPU that workers
    may run on was taken away by the hypervisor. `loop_lag_ratio`: the event loop was late, counted once a second with
    that second's worst; `loop_lag_ms` is the worst of all. Ratios are of the window; `..._above_ratio` is the share of
    its seconds in which the figure was above the limit of its check.
    """

    busy_ratio: float = 0.0
    run_delay_ratio: float = 0.0
    steal_ratio: float = 0.0
    loop_lag_ratio: float = 0.0
    loop_lag_ms: float = 0.0
    busy_above_ratio: float = 0.0
    run_delay_above_ratio: float = 0.0
    steal_above_ratio: float = 0.0
    loop_lag_above_ratio: float = 0.0


@dataclass(frozen=True)
class HostShare:
    """The share of a load host in the measurement of a task: its requests and their distribution (ms, by name).

    That is of the latency of an open loop, the service time of a closed one; None if nothing was measured.
    `clock_uncertainty_ms` bounds the error of its times on the clock of esbench's own host.
    """

    host: str
    requests: int
    errors: int
    clock_uncertainty_ms: float
    response_ms: Mapping[str, float] | None = None


@dataclass(frozen=True)
class ScoreFigures:
    """The scores, 0 to 1, of the timed replies that were drawn for it: `name` is recall@10, ndcg@10, mrr@10.

    `scored` replies, `share_ratio` of the good ones, were to `queries` different queries. `p10`: nine tenths of the
    replies score as much or more. `low` and `high`: the 95 % interval of the mean, with queries as its clusters; None
    for a single query.
    """

    name: str
    scored: int
    queries: int
    share_ratio: float
    mean: float
    p10: float
    min: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class TaskResult:
    """The results of one task. Distributions map mean, min, max, p50 ... p99.99 to milliseconds.

    A percentile for which there are too few samples is absent. `histograms` are base64 HdrHistogram V2, in ns: latency,
    service_time, driver_lag, client_wait, schedule_lag, failed. In a closed loop the figures of arrivals are None:
    `due`, `unsent`, `waited_ratio`, all distributions but the service time; in an open loop `driver_share_ratio` is.
    `within_ms` maps thresholds (ms, as text) to the percentage of all requests that were answered well within them.
    `error_kinds` are by kind of failure, `telemetry` by device. `bytes_sent` and `bytes_received` are of HTTP with its
    heads, before TLS; None if they are not known. `status_codes` maps the HTTP status of each reply to their number.
    """

    name: str
    step: int
    operation: str
    operation_type: str
    loop: str  # open, closed
    clients: int
    workers: int
    schedule: str
    target_rate_per_s: float | None
    target_unit: str | None
    params_digest: str
    include_in_reporting: bool
    warmup: Phase
    window: Window
    duration_s: float
    requests: int
    units: float
    unit: str
    errors: int
    error_kinds: Mapping[str, ErrorKind]
    error_rate_ratio: float | None
    due: int | None
    sent: int
    unsent: int | None
    waited_ratio: float | None
    throughput: Throughput
    latency_ms: Mapping[str, float] | None = None
    service_time_ms: Mapping[str, float] | None = None
    client_wait_ms: Mapping[str, float] | None = None
    driver_lag_ms: Mapping[str, float] | None = None
    schedule_lag_ms: Mapping[str, float] | None = None
    driver_share_ratio: float | None = None
    within_ms: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, str] = field(default_factory=dict)
    requests_by_name: tuple[NamedRequest, ...] = ()
    checks: tuple[Check, ...] = ()
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    start_s: float = 0.0  # since the step's start
    begun_s: float | None = None  # on the race's clock, which telemetry.jsonl has, too; None when it never began
    stages: tuple[RateStage, ...] = ()
    ramp_up_s: float = 0.0
    ramp_down_s: float = 0.0
    think_time_s: float = 0.0
    think_spread: str = ""
    cluster: str = "default"
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    path: str = "compiled"  # or "python": the track's own code ran, drew or paced its requests
    returned: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # numbers of its runner: mean, min, max
    worker_health: WorkerHealth | None = None  # None of a window under a second
    bytes_sent: int | None = None
    bytes_received: int | None = None
    status_codes: Mapping[str, int] | None = None
    slices: SlicePlan | None = None  # None of a task that had all the time
    objectives: tuple[ObjectiveResult, ...] = ()
    host_shares: tuple[HostShare, ...] = ()  # of a task that several load hosts shared
    scores: ScoreFigures | None = None  # None where no reply was scored

    @property
    def time(self) -> WholeTime:
        """The task's time on a clock on which it begins at 0."""
        return WholeTime(0) if self.slices is None else self.slices.time

    def clock_s(self, own_s: float) -> float:
        """Return the time on the race's clock at which an own time (s) begins; a begin not known counts as 0."""
        begun_s = self.begun_s or 0.0
        return begun_s + (own_s if self.slices is None else self.slices.time.at_ns(round(own_s * NS)) / NS)

    def clock_until_s(self, own_s: float) -> float:
        """Return the time on the race's clock at which an own time (s) is over: the end of a slice, not the next one's
        begin."""
        begun_s = self.begun_s or 0.0
        return begun_s + (own_s if self.slices is None else self.slices.time.until_ns(round(own_s * NS)) / NS)


@dataclass(frozen=True)
class CorpusFacts:
    name: str
    digest: str
    documents: int
    synthetic: bool = False
    streamed: bool = False  # unpacked while it was sent


@dataclass(frozen=True)
class TrackFacts:
    """A track; `revision` is the commit that it was fetched at, empty if it was not."""

    name: str
    path: str
    digest: str
    revision: str = ""


@dataclass(frozen=True)
class DiskFacts:
    """A file system that holds a node's data; `spins` is None if the server does not report it (from 7.0 on)."""

    type: str = ""  # ext4, xfs
    mount: str = ""
    total_bytes: int | None = None
    available_bytes: int | None = None
    spins: bool | None = None


@dataclass(frozen=True)
class NodeFacts:
    """One node as the cluster reports it. `jvm_flags` are the flags that tune its Java: -X, -XX, no paths."""

    name: str
    version: str
    roles: tuple[str, ...] = ()
    host: str = ""
    heap_max_bytes: int | None = None
    processors: int | None = None
    jvm: str = ""
    plugins: tuple[str, ...] = ()
    id: str = ""
    os: str = ""
    arch: str = ""
    memory_bytes: int | None = None
    jvm_flags: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    disks: tuple[DiskFacts, ...] = ()


@dataclass(frozen=True)
class ShardFacts:
    """A copy of a shard at the end of a race; `node` is its node's name."""

    index: str
    shard: int
    primary: bool
    node: str
    docs: int
    store_bytes: int


class Statistic(TypedDict):
    """An amount that a race added to a cluster. `row`: False if the summary has no row for it."""

    label: str
    value: int | float
    unit: str
    row: NotRequired[bool]


HTTP_REQUESTS = "http-requests"  # the operation type each of whose requests has its own line in tables
HTTP = "http"  # the pipeline of any HTTP server, and its distribution in the record


@dataclass(frozen=True)
class ClusterFacts:
    """A raced cluster.

    `statistics` maps names of the summary (`indexing_time_ms`) to the amounts that the race added; `indices` maps an
    index to its settings, mappings, documents and store size at the end of the race. `shards` is empty if there are too
    many; `shards_by_node` has their sums. `health`: before and after the race; `cluster_settings`: persistent and
    transient ones, before it.
    """

    pipeline: str
    hosts: tuple[str, ...]
    distribution: str
    version: str
    build_hash: str = ""
    name: str = ""
    nodes: tuple[NodeFacts, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # the engine's: heap, java, plugins
    indices: Mapping[str, Any] = field(default_factory=dict)
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of hosts that are names
    health: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cluster_settings: Mapping[str, Any] = field(default_factory=dict)
    shards: tuple[ShardFacts, ...] = ()
    shards_by_node: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def server(self) -> str:
        """The distribution with its version: elasticsearch 7.10.2; of any HTTP server, http."""
        return f"{self.distribution} {self.version}".rstrip()


@dataclass(frozen=True)
class DriverFacts:
    """A load worker: its host, and the CPU seconds that it used. `compiled`: it ran esbench's compiled hot path."""

    host: str
    worker: int
    cpu_s: float
    clock_uncertainty_ms: float = 0.0
    loop: str = ""  # uvloop, asyncio
    compiled: bool = False


@dataclass(frozen=True)
class Session:
    """The place of a race in its session. `round`, `pair` (the same number) and `position` count from 1.

    They are 0 for a race that is discarded.
    """

    id: str
    kind: str  # rounds, duel
    side: str = ""
    round: int = 0
    pair: int = 0
    position: int = 0

    @property
    def is_discarded(self) -> bool:
        """True if the race only warmed up its session: it is in none of the rounds."""
        return self.round == 0


@dataclass(frozen=True)
class HostEvent:
    """The loss of a host (`what` is "lost", with the reason), or its return ("back")."""

    at: str
    step: int
    tasks: tuple[str, ...]
    host: str
    what: str
    reason: str = ""


@dataclass(frozen=True)
class RaceRecord:
    """The record of a race: race.json. `status`: running, complete, cancelled, failed.

    `failure` is the reason of a failed one. `clusters` are by name, "default" if there is one only; `tasks` are those
    of the steps that have ended, in their order.
    """

    race_id: str
    status: str
    started_at: str
    track: TrackFacts
    challenge: str
    schema: int = SCHEMA
    finished_at: str | None = None
    esbench: Mapping[str, str] = field(default_factory=dict)  # version, revision
    track_params: Mapping[str, Any] = field(default_factory=dict)
    corpora: tuple[CorpusFacts, ...] = ()
    user_tags: Mapping[str, str] = field(default_factory=dict)
    seed: int = 1
    test_mode: bool = False
    session: Session | None = None
    host_class: str = ""
    drivers: tuple[DriverFacts, ...] = ()
    clusters: Mapping[str, ClusterFacts] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    tasks: tuple[TaskResult, ...] = ()
    warnings: tuple[str, ...] = ()
    events: tuple[HostEvent, ...] = ()
    telemetry: Mapping[str, Any] = field(default_factory=dict)  # device -> what is kept of it
    failure: str | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)  # of features, keys of their own (record.parts)
    load_hosts: tuple[Mapping[str, Any], ...] = ()  # facts about each, as `environment`; none: esbench's own host
    damage: str = ""  # what of a stored race was changed since, as a sentence; never in race.json
