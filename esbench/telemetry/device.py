"""The protocol of telemetry devices, which observe a race from outside, the data that they get, and those of indices.

A device knows a cluster and this host, never a track, an engine or the load driver. It runs in the parent process,
in its own thread; if it cannot observe something, its figures are missing and the record says why; the race goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from esbench.cluster.client import LENIENT, Cluster, ClusterInfo, index_path
from esbench.cluster.replies import mapping, text
from esbench.errors import EsbenchError
from esbench.model import DEFAULT_CLUSTER
from esbench.record.private import open_private, private_folder
from esbench.record.secrets import Redactor
from esbench.record.series import Columns
from esbench.telemetry.series import SeriesOf

_LONGEST_NOTE = 500  # characters: servers may answer with pages


class Unseen(EsbenchError):  # noqa: N818 - it is no fault of anybody
    """Something that a device should observe is not accessible: permissions, an API or a process are missing."""


@dataclass(frozen=True)
class Scene:
    """The environment of a race: its cluster, over a connection of telemetry's own, and processes of this host.

    `asked` is None of a server that is no cluster.

    `targets` are the track's indices and data streams; they may not exist (yet). `pids` maps the names of embedded
    nodes to their Java processes; `shares_nodes`: these are of other races of the session, too. `workers` are the
    process ids of the load workers. `folder` is the race's folder of logs, for raw texts.
    """

    asked: Cluster | None
    info: ClusterInfo
    targets: tuple[str, ...]
    folder: Path
    pids: Mapping[str, int] = field(default_factory=dict)
    workers: tuple[int, ...] = ()
    shares_nodes: bool = False

    @property
    def cluster(self) -> Cluster:
        """The cluster. Raises Unseen if the race is on another server."""
        if self.asked is None:
            raise Unseen(f"{self.info.server} is not an Elasticsearch or OpenSearch cluster")
        return self.asked

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that a server's replies may hold."""
        return () if self.asked is None else self.asked.options.secrets()


@dataclass(frozen=True)
class Param:
    """An option of a device (`--telemetry-params name:value`).

    `kind`: duration (seconds, or text with a unit), count, flag, text (one of `choices` if there are any), names (a
    list, or text with commas), mapping.
    """

    name: str
    kind: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()

    @property
    def default_text(self) -> str:
        """The default as the user would type it."""
        if self.default in (None, "", ()):
            return "none"
        if isinstance(self.default, bool):
            return str(self.default).lower()
        if self.kind == "duration":
            return f"{self.default:g}s"
        return ",".join(self.default) if isinstance(self.default, tuple) else str(self.default)


@dataclass(frozen=True)
class Reading:
    """One sample of a device: one subject (`of`: a node, a process, an index) and one group of figures.

    Gauges are values of that moment; counters only grow, from any value, and restart when their process does. None is a
    figure that is missing this time. `age_s`: the age of the values when they were read (servers keep some figures for
    a second).
    """

    of: str
    group: str
    gauges: Mapping[str, float | None] = field(default_factory=dict)
    counters: Mapping[str, float | None] = field(default_factory=dict)
    age_s: float = 0.0

    def columns(self, device: str) -> Columns:
        """Return the names of its figures in telemetry.jsonl: gauges, then counters, in the order of `figures`."""
        return Columns(device, self.of, self.group, tuple(self.gauges), tuple(self.counters))

    @property
    def figures(self) -> tuple[float | None, ...]:
        """The values of its columns: gauges, then counters."""
        return (*self.gauges.values(), *self.counters.values())


@dataclass(frozen=True)
class Pulse:
    """One second of a task, just merged over all workers: the requests that ended in it, and how many of these failed.

    `second` counts from the task's start, from 0.
    """

    task: str
    second: int
    requests: int
    errors: int
    p99_ms: float | None  # of latency, or of service time in a closed loop, timeouts included; None without either
    warmup: bool = False


@dataclass(frozen=True)
class TaskSpan:
    """The time span of a task, in seconds of the race's clock: all of it, and its measurement window."""

    task: str
    begun_s: float
    ended_s: float
    window_start_s: float
    window_end_s: float
    cluster: str = DEFAULT_CLUSTER

    @property
    def window(self) -> tuple[float, float]:
        """The start and the end of the measurement window."""
        return self.window_start_s, self.window_end_s


class Device:
    """A telemetry device: it observes one thing during a race.

    One that samples at intervals declares the parameter `NAME-sample-interval`, a duration: without it `sample` is not
    called. What `sample` yields is kept in telemetry.jsonl; what a task has of it is said by `of_task`.

    Its methods are called by its own thread, all except `java_options` after the cluster has started. An error that
    they raise is noted once, and the race goes on; Unseen ends the sampling.
    """

    name: ClassVar[str]
    help: ClassVar[str]  # one line of `esbench list telemetry`
    aliases: ClassVar[tuple[str, ...]] = ()  # other names, say Rally's
    key: ClassVar[str] = ""  # of what it says in a task's `telemetry`; the name, unless two devices say the same
    params: ClassVar[tuple[Param, ...]] = ()
    always: ClassVar[bool] = False  # on without being asked for
    replaces: ClassVar[str] = ""  # the device that this one makes superfluous
    embedded_only: ClassVar[bool] = False  # needs the process of a node of esbench's own
    asks_cluster: ClassVar[bool] = True  # of Elasticsearch or OpenSearch, or looks at their Java
    figures: ClassVar[frozenset[str] | None] = None  # the gauges and counters that `of_task` asks for; None: all
    from_zero: ClassVar[frozenset[str]] = frozenset()  # groups whose counters have a column once they are not 0
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
        """Return the options with which the Java of embedded nodes must start.

        `{logs}` stands for a node's folder of logs, whose files are kept with the race.
        """
        return ()

    @property
    def interval_s(self) -> float | None:
        """The seconds between samples, from the parameter `NAME-sample-interval`; None for a device that takes none."""
        interval_s: float | None = self.given.get(f"{self.name}-sample-interval")
        return interval_s

    def note(self, text: str) -> None:
        """Record a sentence about something that could not be observed, each sentence once; secrets are hidden.

        Only the first 500 characters are kept.
        """
        text = Redactor(self.scene.secrets)(text)[:_LONGEST_NOTE]
        if text not in self.notes:
            self.notes.append(text)

    def keep(self, name: str, text: str) -> None:
        """Write a file of the race's logs, which only their owner can read."""
        with open_private(private_folder(self.scene.folder) / name, "wb") as file:
            file.write(text.encode())

    def begin(self) -> None:
        """Prepare, before the first step. An error ends the sampling; the other methods are still called."""

    def sample(self) -> Iterable[Reading]:
        """Take a sample, every `interval_s` and, with `samples_at_steps`, when a step has ended.

        Returns a reading for each subject and group, maybe none. Not called if `interval_s` is None, unless `pulse`
        asks for it.
        """
        return ()

    def begin_step(self, step: int, tasks: tuple[str, ...]) -> None:
        """Handle the start of a step, just before it begins."""

    def pulse(self, pulse: Pulse) -> bool:
        """Handle a second of a task; called only with `follows_seconds`. Returns True to take a sample at once."""
        return False

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        """Return name -> figure of the step that has ended, recorded with each of its tasks; empty for no figures."""
        return {}

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        """Return the figures of one task: aggregates over its window; empty to record nothing.

        `series`: (of, group) -> its readings since the end of the previous step and the last one before that, reduced
        to the class's `figures`. Not called for a device with an interval that has no readings.
        """
        return {}

    def end(self) -> Mapping[str, Any]:
        """Return the figures of the whole race, after the last step; empty for no figures.

        Called also for a race that failed, and after a failed `begin`. A device that has changed something in the
        cluster restores it here.
        """
        return {}


class IndexDevice(Device):
    """A device that observes the track's indices, or those that its parameter `of` names.

    The cluster leaves out indices that are closed, deleted or renamed meanwhile; no index never means all indices.
    """

    of: ClassVar[Param | None] = None

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        named = params[self.of.name] if self.of else ()
        self.names: tuple[str, ...] = tuple(named or scene.targets)
        self.nodes = NodeNames(scene.cluster)
        self.seeing = False  # whether there is something to ask for

    def begin(self) -> None:
        """Raise Unseen if there is no index to observe."""
        if not self.names:
            raise Unseen("the track names no indices: there is nothing to look at")
        self.seeing = True

    def ask(self, api: str, keep: Iterable[str] = (), **params: Any) -> Mapping[str, Any]:
        """Return the reply of `GET /INDICES/API` for those of the indices that exist, reduced to `keep` (filter_path).

        The whole reply if `keep` is empty; an empty mapping before `begin`. `params` are further query parameters.
        Raises ClusterError, WrongType for a reply that is no object.
        """
        if not self.seeing:
            return {}
        wanted = {**LENIENT, **params, "filter_path": list(keep) or None}
        return mapping(self.scene.cluster.request("GET", f"{index_path(self.names)}/{api}", params=wanted))


class NodeNames:
    """The names of nodes by their ids; asks the cluster for a new id."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, str] = {}

    def of(self, ids: Iterable[str]) -> Mapping[str, str]:
        """Return id -> name; the id itself if the cluster does not know the node (any more). Raises ClusterError."""
        wanted = set(ids)
        if wanted - self._known.keys():
            reply = self._cluster.request("GET", "/_nodes/http", params={"filter_path": "nodes.*.name"}) or {}
            self._known |= {node: text(entry["name"]) for node, entry in mapping(reply.get("nodes")).items()}
            self._known |= {node: node for node in wanted - self._known.keys()}
        return {node: self._known[node] for node in wanted}
