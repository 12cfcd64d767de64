"""The cluster of a race, embedded or external: its connection, its telemetry, its facts in the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from esbench.cluster.addresses import addresses_by_name, hosts_to_reach
from esbench.cluster.client import SERVERLESS, Cluster, ClusterInfo, IndexIdentity
from esbench.cluster.options import Host, parse_hosts
from esbench.cluster.replies import mapping
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import ClusterError, EsbenchError, UsageError
from esbench.errors.reasons import WrongType
from esbench.events.listeners import Listener
from esbench.events.progress import Progress
from esbench.load.messages import Target
from esbench.model import DEFAULT_CLUSTER, Challenge, Track
from esbench.operations.base import TaskContext
from esbench.race.external import ExternalEngine
from esbench.race.node_options import EmbeddedOptions, Endpoint
from esbench.race.options import RaceOptions
from esbench.race.recording import RecordWriter
from esbench.race.reread import AskedRequest, http_questions
from esbench.record.model import ClusterFacts, NodeFacts
from esbench.record.store import RaceFolder
from esbench.telemetry import cluster_state
from esbench.telemetry.device import Pulse, Reading, Scene, TaskSpan
from esbench.telemetry.interference import disturbances, disturbed
from esbench.telemetry.snapshots import count_at
from esbench.telemetry.watch import Said, Telemetry
from esbench.track.features import finds_thai_words, lacked, needs_of, nodes_needed

if TYPE_CHECKING:
    from esbench.race.node_engine import Engine

TELEMETRY_TIMEOUT_S = 10.0  # of its requests
_SETTLED_WITHIN_S, _LOOK_S = 30.0, 0.5
_POOLS = ("search", "get", "write", "bulk", "index")  # the latter two before 6.3
FACTS_TIMEOUT_S = 5.0  # a cluster that hangs must not hold up the end of a race


class AskedServer(Protocol):
    """A cluster or SQL server outside of the measurement. Each method raises ClusterError."""

    def info(self, *, timeout_s: float | None = None) -> ClusterInfo: ...
    def identities(self, names: Iterable[str], /, *, timeout_s: float | None = None) -> dict[str, IndexIdentity]: ...
    def indices_facts(
        self, names: Iterable[str] = ..., /, *, timeout_s: float | None = None
    ) -> dict[str, dict[str, Any]]: ...
    def documents(self, names: Iterable[str], /) -> Mapping[str, tuple[int, int]]: ...
    def count(self, name: str, /) -> int | None: ...


class StepTelemetry(Protocol):
    """The telemetry of a race as its steps see it; see `Telemetry`."""

    @property
    def follows_seconds(self) -> bool: ...
    def begin_step(self, step: int, tasks: Sequence[str], /) -> None: ...
    def pulse(self, pulse: Pulse, /) -> None: ...
    def end_step(self, step: int, spans: Sequence[TaskSpan], /, *, cut_short: bool = False) -> None: ...
    def news(self) -> Said: ...


@dataclass(frozen=True)
class WatchedRace:
    """The parts of a race that telemetry needs. `clock`: in seconds; `workers`: the process ids of the load workers."""

    recording: RecordWriter
    track: Track
    audience: Listener
    clock: Callable[[], float]
    workers: tuple[int, ...]


class RaceTarget(Protocol):
    """The clusters or the server of a race, a subclass for each kind. `name`: of the one that is asked, for tasks."""

    info: ClusterInfo
    name: str = DEFAULT_CLUSTER

    @property
    def clusters(self) -> Mapping[str, RaceTarget]:
        """Each of the clusters by its name."""
        return {self.name: self}

    @property
    def client(self) -> AskedServer: ...

    @property
    def needs_download(self) -> bool:
        """True if the node that the race starts has to be downloaded first."""
        return False

    @property
    def health(self) -> str:
        """The health of an external cluster; "" of any other server, and of a node that the race starts."""
        return ""

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the nodes that the race starts, by node name."""
        return {}

    def require(self, track: Track, challenge: Challenge) -> None:
        """Raise an error if the challenge cannot be raced here, as far as that can be said before the start."""
        return

    def prepare(self, documents: Sequence[PreparedDocuments]) -> None:
        """Prepare what the server takes in place of the prepared documents. Raises CorpusError for unfit ones."""
        return

    def start(self, recording: RecordWriter) -> Target:
        """Start what the race starts; return what load workers need to send to it."""

    def telemetry(self, race: WatchedRace) -> AbstractContextManager[StepTelemetry]:
        """Run the telemetry devices while the steps run; put their results into the record, however that ends."""

    def questions(self, context: TaskContext) -> Sequence[AskedRequest]:
        """Return the requests of a task to ask once more. Raises NotComparable if its replies are not compared."""

    def settle(self) -> None:
        """Wait until no request waits in a queue of the server, as far as that is known."""
        return

    def finish(self, recording: RecordWriter, track: Track) -> None:
        """Put the state after the race into the record."""
        return

    def _named_by_tasks(self, track: Track) -> frozenset[str]:
        """Return the indices behind the names that tasks use, which a track need not declare: it may only read them."""
        tasks = [task for challenge in track.challenges for task in challenge.tasks]
        named = frozenset(name for task in tasks for name in _targets_in(task.operation.params))
        if named <= {*track.targets}:
            return frozenset()
        try:
            return frozenset(self.client.identities(named, timeout_s=FACTS_TIMEOUT_S))
        except ClusterError:
            return named

    def explain(self, error: EsbenchError) -> str:
        """Return an error's text, with the reason if a server that the race started has died."""
        return str(error)

    def facts(self) -> Mapping[str, ClusterFacts]:
        """Return the facts for the record, by the names of the clusters, as far as they are known now."""


class RacedCluster(RaceTarget):
    """A cluster for the length of a race. An external one is connected at once, a node is started by `start`.

    `name`: by which tasks name it. A `node` that runs already is used as it is, and its owner stops it. At the end of
    `stack` connections are closed and nodes that were started are stopped. Raises a ClusterError for an external
    cluster that cannot be raced, a UsageError or EngineError for wrong options of a node.
    """

    def __init__(
        self,
        options: RaceOptions,
        progress: Progress,
        folder: RaceFolder,
        stack: ExitStack,
        node: Engine | None = None,
        name: str = DEFAULT_CLUSTER,
    ) -> None:
        self._options = options
        self.name = name
        self._progress = progress
        self._folder = folder
        self._stack = stack
        self._engine: Engine | ExternalEngine
        self._endpoint: Endpoint | None = None
        self._hosts: tuple[Host, ...] = ()
        self._nodes: tuple[NodeFacts, ...] = ()
        self._earlier: cluster_state.Use | None = None
        self._before = cluster_state.Surroundings()
        self._shares_nodes = node is not None
        if options.hosts or node is not None:
            self._engine = node or ExternalEngine(options.hosts, options.client_options, progress.say)
            self._endpoint = node.endpoint if node else self._engine.start()
            self.info = self._connect(self._endpoint)
            self._earlier = cluster_state.use_now(self.client)
        else:
            self._engine = embedded_engine(options, folder.logs, progress)
            self.info = ClusterInfo(*self._engine.identity())

    @property
    def client(self) -> Cluster:
        return self._client

    @property
    def needs_download(self) -> bool:
        return not isinstance(self._engine, ExternalEngine) and self._engine.needs_download

    @property
    def health(self) -> str:
        is_known = self._options.hosts and self.info.build_flavor != SERVERLESS
        return str(self.client.health()["status"]) if is_known else ""

    @property
    def pids(self) -> dict[str, int]:
        pids = self._endpoint.settings.get("pids", ()) if self._endpoint else ()
        return {f"node-{number}": pid for number, pid in enumerate(pids)}

    def require(self, track: Track, challenge: Challenge) -> None:
        """Raise an error if an embedded node cannot be raced with the challenge; other clusters are not checked.

        EngineError if it cannot start here, LackedFeatureError if it lacks a feature, UsageError if there are too few
        nodes or a feature is unknown.
        """
        if isinstance(self._engine, ExternalEngine):
            return
        self._engine.require(())
        needs = needs_of(track, challenge)
        if missing := self._engine.missing_features(tuple(needs)):
            node = f"{self.info.distribution}-{self.info.version}"
            raise lacked([needs[feature] for feature in missing], node, self._engine.able(tuple(needs)))
        if (needed := nodes_needed(track, challenge)) > self._options.node.nodes:
            raise UsageError(
                f"the challenge waits for a green cluster, and {needed - 1} replicas need {needed} nodes",
                hint=f"--nodes={needed}, or fewer replicas",
            )

    def start(self, recording: RecordWriter) -> Target:
        """Start the embedded node, if any; return what load workers need to send to the cluster.

        Warnings about other activity in the cluster go into the record. Raises EngineError or ClusterError.
        """
        if self._endpoint is None:
            self._stack.callback(self._engine.stop)
            self._endpoint = self._engine.start()
            self.info = self._connect(self._endpoint)
        hosts, client_options = parse_hosts(self._endpoint.urls, self._options.client_options)
        self._hosts = hosts_to_reach(hosts, client_options.proxy)
        self._before = cluster_state.before(self.client)
        found = tuple(disturbances(self._before, self._earlier, self._options.other_prefixes))
        for warning in found:
            self._progress.warn(warning)
        recording.warn(*self._before.notes, *found)
        return Target(self._hosts, client_options, self.info.dialect)

    def questions(self, context: TaskContext) -> Sequence[AskedRequest]:
        return http_questions(context, self.client)

    def settle(self) -> None:
        """Wait until no request waits in a queue of the cluster, at most 30 s.

        ClusterError if the cluster cannot be reached.
        """
        deadline = time.monotonic() + _SETTLED_WITHIN_S
        while self._queued() and time.monotonic() < deadline:
            time.sleep(_LOOK_S)

    def _queued(self) -> int:
        """Return how many requests stand in queues of the nodes; 0 if the cluster does not say."""
        reply = self.client.request("GET", "/_nodes/stats/thread_pool", ignore=range(400, 500))
        try:
            nodes = mapping(mapping(reply).get("nodes")).values()
            return sum(count_at(node, f"thread_pool.{name}.queue") for node in nodes for name in _POOLS)
        except WrongType:
            return 0

    @contextmanager
    def telemetry(self, race: WatchedRace) -> Iterator[Telemetry]:
        options = self._options.client_options
        limited = replace(options, timeout_s=min(options.timeout_s, TELEMETRY_TIMEOUT_S))
        with Cluster(self.client.urls, limited) as cluster:
            scene = Scene(
                cluster,
                self.info,
                race.track.targets,
                self._folder.logs,
                pids=self.pids,
                workers=race.workers,
                shares_nodes=self._shares_nodes,
            )
            with watching(self._options, scene, self._progress, race, self.facts, self.name) as telemetry:
                yield telemetry

    def finish(self, recording: RecordWriter, track: Track) -> None:
        """Put the state of the cluster after the race into the record, with warnings about interference."""
        names = track.targets
        facts = recording.record.clusters[self.name]
        try:
            facts = replace(facts, indices=self.client.indices_facts(names, timeout_s=FACTS_TIMEOUT_S))
        except ClusterError as error:
            recording.warn(f"no facts about the indices: {error}")
        after = cluster_state.after(self.client, names)
        facts = cluster_state.completed(facts, after)
        recording.keep_cluster(self.name, facts)
        own, others = {*names, *facts.indices, *self._named_by_tasks(track)}, self._options.other_prefixes
        recording.warn(*after.notes, *disturbed(self._before, after, own, others))
        if (icu := facts.settings.get("thai_words")) and finds_thai_words(track):
            recording.warn(f"Thai words are those of {icu}: a full Java splits some differently (--java-home=FOLDER)")

    def explain(self, error: EsbenchError) -> str:
        died = None if isinstance(self._engine, ExternalEngine) else self._engine.failure()
        return f"{error}\n{died}" if died else str(error)

    def facts(self) -> Mapping[str, ClusterFacts]:
        endpoint = self._endpoint
        facts = ClusterFacts(
            pipeline=self._engine.pipeline,
            hosts=endpoint.urls if endpoint else (),
            distribution=self.info.distribution,
            version=self.info.version,
            build_hash=self.info.build_hash,
            name=self.info.name,
            nodes=self._nodes,
            settings=endpoint.settings if endpoint else {},
            addresses=addresses_by_name(self._hosts),
        )
        return {self.name: cluster_state.described(facts, self._before)}

    def _connect(self, endpoint: Endpoint) -> ClusterInfo:
        self._client = self._stack.enter_context(Cluster(endpoint.urls, self._options.client_options))
        info = self.client.info()
        try:
            self._nodes = self.client.nodes()
        except ClusterError as error:  # a managed cluster may hide them
            self._progress.warn(f"no facts about the nodes: {error}")
        return info


@contextmanager
def watching(
    options: RaceOptions,
    scene: Scene,
    progress: Progress,
    race: WatchedRace,
    facts: Callable[[], Mapping[str, ClusterFacts]],
    cluster: str = DEFAULT_CLUSTER,
) -> Iterator[Telemetry]:
    """Run the chosen telemetry devices in a scene; put their results into the record, however that ends.

    `facts` returns those about the cluster or server of this name as they are known at the end.
    """
    recording = race.recording

    def named(device: str) -> str:
        return device if cluster == DEFAULT_CLUSTER else f"{device} [{cluster}]"

    def keep(device: str, reading: Reading, time_s: float) -> None:
        device = named(device)
        recording.readings.add(reading.columns(device), time_s, reading.figures)
        race.audience.read(device, reading)

    devices = [chosen.kind(scene, chosen.params) for chosen in options.telemetry]
    telemetry = Telemetry(scene.asked, scene.targets, devices, race.clock, keep, cluster)
    try:
        with telemetry:
            yield telemetry
            with progress.job("waiting for the last of telemetry", announce=False):
                telemetry.close()
    finally:
        telemetry.close(in_a_hurry=True)  # when it could not begin; else it is closed already
        recording.tell(telemetry.news())
        recording.keep_cluster(cluster, replace(facts()[cluster], statistics=telemetry.statistics()))
        reports = {named(device): report for device, report in telemetry.report().items()}
        recording.record = replace(recording.record, telemetry={**recording.record.telemetry, **reports})
        recording.warn(*telemetry.notes)


def embedded_engine(options: RaceOptions, logs: Path, progress: Progress) -> Engine:
    """Return the engine that these options define, not started. UsageError for wrong options."""
    from esbench.race.node_engine import new_engine

    return new_engine(embedded_options(options, logs), progress)


def embedded_options(options: RaceOptions, logs: Path) -> EmbeddedOptions:
    """Return what these options say of a server that a race starts; `logs`: the race's folder of logs."""
    return EmbeddedOptions(
        home=options.home,
        race_id=options.race_id,
        logs=logs,
        node=options.node,
        keep_node=options.keep_node,
        offline=options.origin.offline,
        java_options=java_options(options),
    )


def java_options(options: RaceOptions) -> tuple[str, ...]:
    """Return the Java options that the chosen telemetry devices add to a node."""
    return tuple(option for chosen in options.telemetry for option in chosen.kind.java_options(chosen.params))


def _targets_in(params: Any) -> Iterator[str]:
    """Yield the names and patterns of indices in the parameters of an operation, also of a composite's requests."""
    if isinstance(params, list | tuple):
        for each in params:
            yield from _targets_in(each)
    elif isinstance(params, Mapping):
        for key, value in params.items():
            if key in ("index", "data-stream") and isinstance(value, str | list):
                for names in [value] if isinstance(value, str) else value:
                    yield from (name for name in str(names).split(",") if name and not name.startswith("-"))
            elif key == "path" and isinstance(value, str):
                first = value.lstrip("/").partition("/")[0]
                yield from (name for name in first.split(",") if name and not name.startswith(("_", "-")))
            elif key in ("requests", "stream"):
                yield from _targets_in(value)
