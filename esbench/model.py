"""A track as frozen dataclasses: what to index and what to ask. No I/O, no behaviour beyond lookups.

Durations are seconds, sizes bytes. Keys of raw `params` are spelled as in the track (`bulk-size`).
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from esbench.units import Rate


@dataclass(frozen=True)
class Variable:
    """A value drawn once per request: its `type` and that type's own keys (docs/reference/variables.md)."""

    name: str
    type: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Index:
    """An index that the track creates; `body` holds its settings and (typeless) mappings.

    `table`: the statements that create it as a table of a SQL server, if the track has any.
    """

    name: str
    body: Mapping[str, Any] = field(default_factory=dict)
    table: str | None = None


@dataclass(frozen=True)
class DataStream:
    """A data stream that the track creates; a composable template defines its indices."""

    name: str


@dataclass(frozen=True)
class Template:
    """A legacy, composable or component template.

    `index_pattern`: the indices to delete together with it if `delete_matching_indices`; None for none.
    """

    name: str
    body: Mapping[str, Any]
    index_pattern: str | None = None
    delete_matching_indices: bool = True


@dataclass(frozen=True)
class Templates:
    """The templates of a track by kind."""

    legacy: tuple[Template, ...] = ()
    composable: tuple[Template, ...] = ()
    component: tuple[Template, ...] = ()


@dataclass(frozen=True)
class Documents:
    """One document file of a corpus: a `source_file`, or `generate` (the generator's keys) instead of it.

    `document_count` is None if the track does not state it: then the file's documents are counted.
    `includes_action_and_meta_data`: a bulk action line stands before each document. `sample`: the most documents to use
    in test mode, None for all. `synthetic`: generated in place of a file. `stand_in`: the keys of a generator to use if
    the file cannot be obtained.
    """

    document_count: int | None
    source_file: str | None = None
    generate: Mapping[str, Any] | None = None
    base_url: str | None = None
    source_url: str | None = None
    sha256: str | None = None
    compressed_bytes: int | None = None
    uncompressed_bytes: int | None = None
    includes_action_and_meta_data: bool = False
    target_index: str | None = None
    target_data_stream: str | None = None
    target_type: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    sample: int | None = None
    synthetic: bool = False
    stand_in: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Corpus:
    """A named set of document files."""

    name: str
    documents: tuple[Documents, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def document_count(self) -> int:
        """The number of documents, of those files for which the track states it."""
        return sum(part.document_count or 0 for part in self.documents)


@dataclass(frozen=True)
class Operation:
    """The work of a task: a registered `type` with its `params` as the track spells them.

    `kind`: what that type is, once it is bound to the operation (esbench.operations.base.kind_of returns it). It is not
    sent to other processes, which bind their own by the name of the type.
    """

    name: str
    type: str
    params: Mapping[str, Any] = field(default_factory=dict)
    variables: tuple[Variable, ...] = ()
    include_in_reporting: bool | None = None  # None: as its type says
    meta: Mapping[str, Any] = field(default_factory=dict)
    python: str = ""  # "runner" or "source": what the track's own Python part runs or draws of it
    kind: object = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kind": None}


@dataclass(frozen=True)
class Stage:
    """A stage of an open loop's rate over time: `rate` for `duration_s`."""

    duration_s: float
    rate: Rate


@dataclass(frozen=True)
class ThinkSpread:
    """The rule by which think times differ around their mean.

    `kind`: "uniform", by at most `width_s`; "normal", with the standard deviation `width_s`, but never below 0; or
    "exponential", whose deviation is the mean.
    """

    kind: str
    width_s: float


@dataclass(frozen=True)
class TrackFile:
    """A file of a track that load workers read. As text it is the digest of its content: what a task asks by it."""

    path: Path
    digest: str

    def __str__(self) -> str:
        return self.digest


@dataclass(frozen=True)
class Recording:
    """Recorded arrivals: a file with a time on each line, in s since the start of the task, in ascending order.

    It holds `count` of them, from `first_s` to `last_s`; `most_per_s` are those of its fullest second. The task begins
    at `from_s` of it.
    """

    file: TrackFile
    count: int
    first_s: float
    last_s: float
    most_per_s: int
    from_s: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """The rule by which requests are due. Without a rate, stages, a recording or a custom scheduler the loop is closed.

    `kind`: the arrival process, deterministic or poisson, recorded, or the name of a `custom` scheduler. `ramp_up_s`:
    the time in which the rate rises from zero to `rate`; stages have no ramp-up. `ramp_down_s`: the time after the
    measurement in which the clients of a closed loop leave.
    """

    kind: str = "deterministic"
    rate: Rate | None = None
    ramp_up_s: float = 0.0
    stages: tuple[Stage, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    custom: bool = False  # `kind` is a scheduler of the track's own
    ramp_down_s: float = 0.0
    recorded: Recording | None = None

    @property
    def is_open(self) -> bool:
        """True if requests are due by this schedule: it has a rate, stages, a recording or a custom scheduler."""
        return self.rate is not None or bool(self.stages) or self.recorded is not None or self.custom


OBJECTIVES = "objectives"  # a key of a task, and the condition of --fail-on that they are not held


@dataclass(frozen=True)
class Objective:
    """A figure that a task must have: its `figure` stands in relation `sign` (<, <=, >, >=) to the `bound`.

    `bound` is in ms for a percentile and the mean, in percent for the share within a time and for errors, in units of
    the task per second for throughput. `of`: the rank of a percentile (0 to 100); the time of a share within it, in ms.
    esbench.measure.objectives parses it and judges figures by it.
    """

    kind: Literal["percentile", "within", "mean", "errors", "throughput"]
    sign: str
    bound: float
    of: float = 0.0

    @property
    def figure(self) -> str:
        """The figure's name: p99, within 50 ms, mean, errors, throughput."""
        if self.kind == "percentile":
            return f"p{self.of:.12g}"
        return f"within {self.of:.12g} ms" if self.kind == "within" else self.kind

    @property
    def unit(self) -> str:
        """The unit of the bound: ms or %; empty for throughput, whose unit is the task's."""
        return {"percentile": "ms", "mean": "ms", "throughput": ""}.get(self.kind, "%")

    @property
    def text(self) -> str:
        """The one spelling of the objective, which is parsed to an equal one: p99 < 50 ms, within 50 ms >= 99 %."""
        return f"{self.figure} {self.sign} {self.bound:.12g} {self.unit}".rstrip()

    @property
    def limit_ms(self) -> float | None:
        """The time above which a request is late, of a percentile or a share within a time; None of other kinds."""
        return {"percentile": self.bound, "within": self.of}.get(self.kind)

    @property
    def most_ratio(self) -> float | None:
        """The largest share of all requests that may be late or, of errors, may fail: 0.01 of p99; None without one.

        A percentile and a share within a time ask for the same: p99 < 50 ms is within 50 ms >= 99 %.
        """
        percents = {"percentile": 100 - self.of, "within": 100 - self.bound, "errors": self.bound}
        return round(percents[self.kind] / 100, 12) if self.kind in percents else None

    @property
    def is_share(self) -> bool:
        """True if requests are counted for it: a percentile, a share within a time, errors."""
        return self.most_ratio is not None


DEFAULT_CLUSTER = "default"
SQL = "sql"  # the parameter of an operation that has the statement for SQL servers


@dataclass(frozen=True)
class Task:
    """An operation with clients, a length and a schedule.

    Length: `time_period_s` after `warmup_time_s`; or the schedule's stages; or `requests` in total or `iterations` per
    client, after `warmup_iterations` per client; or, without any of these, once, or until the operation's corpus is
    exhausted. `think_time_s`: a client's pause after a reply, the mean one with a `think_spread`. `within_ms`:
    thresholds, for the share of requests within each. `objectives`: what its figures must be. `cluster`: the one of
    several that its requests go to.
    `ignore_response_error_level`: "non-fatal" if failed replies do not end the race.
    """

    name: str
    operation: Operation
    clients: int = 1
    schedule: Schedule = field(default_factory=Schedule)
    warmup_iterations: int | None = None
    iterations: int | None = None
    requests: int | None = None
    warmup_time_s: float | None = None
    time_period_s: float | None = None
    think_time_s: float = 0.0
    think_spread: ThinkSpread | None = None
    within_ms: tuple[float, ...] = ()
    objectives: tuple[Objective, ...] = ()
    tags: tuple[str, ...] = ()
    ignore_response_error_level: str | None = None
    cluster: str = DEFAULT_CLUSTER
    meta: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)  # further keys of the task

    @property
    def is_time_based(self) -> bool:
        """True if the task has a warmup time or a time period."""
        return self.warmup_time_s is not None or self.time_period_s is not None

    @property
    def limits_ms(self) -> tuple[float, ...]:
        """The thresholds, in order, at which requests are counted: those asked for, and those of its objectives."""
        limits = (objective.limit_ms for objective in self.objectives)
        return tuple(sorted({*self.within_ms, *(limit for limit in limits if limit is not None)}))


ANY_TASK = "any"


@dataclass(frozen=True)
class Step:
    """One element of a schedule: a task, or several in parallel.

    `clients`: fewer than the tasks' sum, which then share them; None: the sum. `completed_by`: the tasks whose ends,
    all of them, end the other tasks; or ANY_TASK alone; empty: each task ends by itself.
    """

    tasks: tuple[Task, ...]
    clients: int | None = None  # fewer than the tasks' sum: the tasks share them
    completed_by: tuple[str, ...] = ()  # tasks whose ends, all of them, end the others; or ANY_TASK alone

    @property
    def width(self) -> int:
        """The number of clients of the step."""
        return self.clients or sum(task.clients for task in self.tasks)


@dataclass(frozen=True)
class Challenge:
    """One schedule of a track: its steps in order. `left_out`: the names of tasks that a serverless service refuses."""

    name: str
    steps: tuple[Step, ...]
    description: str = ""
    default: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)  # its `parameters`, for the track's own code
    left_out: tuple[str, ...] = ()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of all steps, in order."""
        return tuple(task for step in self.steps for task in step.tasks)


@dataclass(frozen=True)
class Need:
    """A feature that a node must have, `what` of the track needs it, and where that stands: file:line, or a file."""

    feature: str
    what: str
    where: str


@dataclass(frozen=True)
class Track:
    """A rendered, validated track. `digest` is the sha256 of its source files, unrendered."""

    name: str
    path: Path
    description: str
    digest: str
    challenges: tuple[Challenge, ...]
    indices: tuple[Index, ...] = ()
    corpora: tuple[Corpus, ...] = ()
    variables: tuple[Variable, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)  # as given by the user
    needs: tuple[Need, ...] = ()  # of its indices and templates; those of operations are not among them
    data_streams: tuple[DataStream, ...] = ()
    templates: Templates = field(default_factory=Templates)
    dependencies: tuple[str, ...] = ()  # Python packages that its track.py needs, as pip names them
    meta: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # faults that are tolerated, as Rally tolerates them

    @property
    def requires(self) -> tuple[str, ...]:
        """The features that its indices and templates need of a node, sorted: percolator, painless ..."""
        return tuple(sorted({need.feature for need in self.needs}))

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the track's indices and data streams."""
        return (*(index.name for index in self.indices), *(stream.name for stream in self.data_streams))


def leaves_folder(name: str) -> bool:
    """True for the name of a file that is absolute, or that leads by ".." out of the folder it stands in."""
    return name.startswith(("/", "\\")) or PurePosixPath(os.path.normpath(name)).parts[:1] == ("..",)
