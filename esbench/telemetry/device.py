"""What watches a race from beside it, and what it may see: the protocol of all telemetry devices.

A device knows a cluster and this host, never a track, an engine or the load driver. It runs in the parent process,
in a thread of its own, and whatever it cannot see costs its figures and a sentence in the record, never a race.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from esbench.cluster.client import Cluster, ClusterInfo
from esbench.errors import EsbenchError
from esbench.record.secrets import Redactor
from esbench.record.series import Columns
from esbench.telemetry.series import SeriesOf

_LONGEST_NOTE = 500  # characters: servers may answer with pages


class Unseen(EsbenchError):  # noqa: N818 - it is no fault of anybody
    """Something that a device was to watch cannot be seen: rights, an API or a process are missing."""


@dataclass(frozen=True)
class Scene:
    """What a race has to be watched: its cluster, over a connection of telemetry's own, and processes of this host.

    `targets` are the track's indices and data streams; `pids` maps the names of embedded nodes to their Java
    processes; `workers` are the load workers'. `folder` is the race's folder of logs, for raw texts; `targets` may
    name what does not exist (yet).
    """

    cluster: Cluster
    info: ClusterInfo
    targets: tuple[str, ...]
    folder: Path
    pids: Mapping[str, int] = field(default_factory=dict)
    workers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Param:
    """An option of a device (`--telemetry-params name:value`). `kind`: duration (seconds, or text with a unit), count,
    flag, text (one of `choices` where there are any), names (a list, or text with commas), mapping."""

    name: str
    kind: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()

    @property
    def default_text(self) -> str:
        """The default as it would be typed."""
        if self.default in (None, "", ()):
            return "none"
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if self.kind == "duration":
            return f"{self.default:g}s"
        return ",".join(self.default) if isinstance(self.default, tuple) else str(self.default)


@dataclass(frozen=True)
class Reading:
    """What a device read at one moment of one thing (`of`: a node, a process, an index) and one group of figures.

    Gauges are values of that moment; counters only grow, from whatever they stood at, and begin anew when their
    process does. None is a figure that is missing this time. `age_s`: how long before now it was true (servers keep
    some figures for a second).
    """

    of: str
    group: str
    gauges: Mapping[str, float | None] = field(default_factory=dict)
    counters: Mapping[str, float | None] = field(default_factory=dict)
    age_s: float = 0.0

    def columns(self, device: str) -> Columns:
        """The names of its figures in telemetry.jsonl."""
        return Columns(device, self.of, self.group, tuple(self.gauges), tuple(self.counters))

    @property
    def figures(self) -> tuple[float | None, ...]:
        """The values of its columns."""
        return (*self.gauges.values(), *self.counters.values())


@dataclass(frozen=True)
class Pulse:
    """One second of a task, as it has just been merged over all workers."""

    task: str
    second: int
    requests: int
    errors: int
    p99_ms: float | None  # of latency, or of service time in a closed loop, timeouts included; None without either
    warmup: bool = False


@dataclass(frozen=True)
class TaskSpan:
    """When a task ran, in seconds of the race's clock: all of it, and its measurement window."""

    task: str
    begun_s: float
    ended_s: float
    window_start_s: float
    window_end_s: float


class Device:
    """Watches one thing for the length of a race. Its methods are called by a thread of its own, all of them but
    `java_options` after the cluster has started. What they raise is told once, and the race goes on; Unseen ends the
    samples."""

    name: ClassVar[str]
    help: ClassVar[str]  # one line of `esbench list telemetry`
    aliases: ClassVar[tuple[str, ...]] = ()  # other names, say Rally's
    key: ClassVar[str] = ""  # of what it says in a task's `telemetry`; the name, unless two devices say the same
    params: ClassVar[tuple[Param, ...]] = ()
    always: ClassVar[bool] = False  # on without being asked for
    replaces: ClassVar[str] = ""  # the device that this one makes superfluous
    embedded_only: ClassVar[bool] = False  # needs the process of a node of esbench's own
    figures: ClassVar[frozenset[str] | None] = None  # the gauges and counters that `of_task` asks for; None: all
    settle_s: ClassVar[float] = 0.0  # `of_task` is asked so long after a step, or at the race's end
    follows_seconds: ClassVar[bool] = False  # `pulse` is called
    samples_at_steps: ClassVar[bool] = True  # also when a step has ended
    patience_s: ClassVar[float] = 1.0  # how long a race may wait for `end`
    restores: ClassVar[bool] = False  # `end` puts something back: a race that is cut short waits for it as well

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        """`params` has a value for each of the class's `params`."""
        self.scene = scene
        self.given = params
        self.notes: list[str] = []

    @classmethod
    def java_options(cls, params: Mapping[str, Any]) -> tuple[str, ...]:
        """What the Java of embedded nodes must be started with; `{logs}` stands for a node's folder of logs, whose
        files are kept with the race."""
        return ()

    @property
    def interval_s(self) -> float | None:
        """Seconds between samples; None for a device that takes none."""
        return None

    def note(self, text: str) -> None:
        """Say something in the record about what could not be seen; the same sentence once, secrets hidden."""
        text = Redactor(self.scene.cluster.options.secrets())(text)[:_LONGEST_NOTE]
        if text not in self.notes:
            self.notes.append(text)

    def begin(self) -> None:
        """Before the first step. An error switches the device off."""

    def sample(self) -> Iterable[Reading]:
        """What is to be seen now: every `interval_s`, and when a step has ended."""
        return ()

    def begin_step(self, step: int, tasks: tuple[str, ...]) -> None:
        """A step is about to begin."""

    def pulse(self, pulse: Pulse) -> bool:
        """A second of a task has passed; whether to sample at once."""
        return False

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        """What was seen during the step, for each of its tasks alike."""
        return {}

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        """What a task's own figures are: aggregates over its window. `series`: (of, group) -> what was sampled since
        the step before."""
        return {}

    def end(self) -> Mapping[str, Any]:
        """After the last step, also of a race that failed: what is to be kept of the race as a whole. What the device
        has changed in the cluster is put back here."""
        return {}
