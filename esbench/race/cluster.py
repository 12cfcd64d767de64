"""The cluster of a race: a node of esbench's own or one that is there, who watches it, what the record says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from esbench.cluster.addresses import addresses_by_name, resolve
from esbench.cluster.client import Cluster, ClusterInfo
from esbench.cluster.options import ClientOptions, Host, parse_hosts
from esbench.engine.base import Endpoint
from esbench.engine.embedded import EmbeddedEngine, EmbeddedOptions
from esbench.engine.external import ExternalEngine
from esbench.errors import ClusterError, EsbenchError, UsageError
from esbench.events.listeners import Listener
from esbench.events.progress import Progress
from esbench.model import Challenge, Track
from esbench.operations import OperationTypes
from esbench.race.options import RaceOptions
from esbench.race.recording import RecordKeeper
from esbench.record.model import ClusterFacts, NodeFacts
from esbench.record.series import TelemetryWriter
from esbench.record.store import RaceFolder
from esbench.telemetry import cluster_state
from esbench.telemetry.device import Reading, Scene
from esbench.telemetry.interference import disturbances, disturbed
from esbench.telemetry.watch import Telemetry
from esbench.track.features import features_needed, nodes_needed

TELEMETRY_TIMEOUT_S = 10.0  # of its requests
FACTS_TIMEOUT_S = 5.0  # a cluster that hangs must not hold up the end of a race


class RacedCluster:
    """A cluster for the length of a race. One that is there is reached at once, a node is started by `start`.

    A `node` that runs already is somebody else's to stop.
    """

    def __init__(
        self,
        options: RaceOptions,
        progress: Progress,
        folder: RaceFolder,
        stack: ExitStack,
        node: EmbeddedEngine | None = None,
    ) -> None:
        self._options = options
        self._progress = progress
        self._folder = folder
        self._stack = stack
        self._engine: EmbeddedEngine | ExternalEngine
        self._endpoint: Endpoint | None = None
        self._hosts: tuple[Host, ...] = ()
        self._nodes: tuple[NodeFacts, ...] = ()
        self._earlier: cluster_state.Use | None = None
        self._before = cluster_state.Surroundings()
        if options.hosts or node is not None:
            self._engine = node or ExternalEngine(options.hosts, options.client_options)
            self._endpoint = node.endpoint if node else self._engine.start()
            self.info = self._connect(self._endpoint)
            self._earlier = cluster_state.use_now(self.client)
        else:
            self._engine = embedded_engine(options, folder.logs, progress)
            self.info = ClusterInfo(*self._engine.identity())

    @property
    def _pids(self) -> dict[str, int]:
        """The processes of nodes of ours, by name."""
        pids = self._endpoint.settings.get("pids", ()) if self._endpoint else ()
        return {f"node-{number}": pid for number, pid in enumerate(pids)}

    def require(self, track: Track, challenge: Challenge, operations: OperationTypes) -> None:
        """An error when a node of ours would lack what the challenge needs, or be too few."""
        if not isinstance(self._engine, EmbeddedEngine):
            return
        self._engine.require(features_needed(track, challenge, operations))
        if (needed := nodes_needed(track, challenge, operations)) > self._options.node.nodes:
            raise UsageError(
                f"the challenge waits for a green cluster, and {needed - 1} replicas need {needed} nodes",
                hint=f"--nodes={needed}, or fewer replicas",
            )

    def start(self, keeper: RecordKeeper) -> tuple[tuple[Host, ...], ClientOptions]:
        """Start the node where it is ours; the hosts to send to, with their addresses, and how to talk to them."""
        if self._endpoint is None:
            self._stack.callback(self._engine.stop)
            with self._progress.job(f"starting {self.info.distribution}-{self.info.version}"):
                self._endpoint = self._engine.start()
            self.info = self._connect(self._endpoint)
        hosts, client_options = parse_hosts(self._endpoint.urls, self._options.client_options)
        self._hosts = resolve(hosts)
        self._before = cluster_state.look(self.client)
        found = tuple(disturbances(self._before, self._earlier))
        for warning in found:
            self._progress.warn(warning)
        keeper.warn(*self._before.notes, *found)
        return self._hosts, client_options

    @contextmanager
    def telemetry(
        self,
        keeper: RecordKeeper,
        track: Track,
        audience: Listener,
        clock: Callable[[], float],
        workers: tuple[int, ...],
    ) -> Iterator[Telemetry]:
        """What watches the steps while they run; the record gets what it says at the end, however that comes.

        `clock` is the race's, in seconds; `workers` are the processes that drive the load.
        """
        options = self._options.client_options
        limited = replace(options, timeout_s=min(options.timeout_s, TELEMETRY_TIMEOUT_S))
        series = TelemetryWriter(self._folder.append_telemetry)

        def keep(device: str, reading: Reading, time_s: float) -> None:
            series.add(reading.columns(device), time_s, reading.figures)
            audience.read(device, reading)

        with Cluster(self.client.urls, limited) as cluster:
            scene = Scene(cluster, self.info, track.targets, self._folder.logs, self._pids, workers)
            devices = [chosen.kind(scene, chosen.params) for chosen in self._options.telemetry]
            telemetry = Telemetry(cluster, track.targets, devices, clock, keep)
            try:
                with telemetry:
                    yield telemetry
                    with self._progress.job("waiting for the last of telemetry", announce=False):
                        telemetry.close()
            finally:
                telemetry.close(in_a_hurry=True)  # when it could not begin; else it is closed already
                keeper.tell(telemetry.news())
                facts = replace(self.facts(), statistics=telemetry.statistics())
                keeper.record = replace(keeper.record, telemetry=telemetry.report(), clusters={"default": facts})
                keeper.warn(*telemetry.notes)

    def finish(self, keeper: RecordKeeper, track: Track) -> None:
        """Put into the record what the cluster is like after the race."""
        names = track.targets
        facts = keeper.record.clusters["default"]
        try:
            facts = replace(facts, indices=self.client.indices_facts(names, timeout_s=FACTS_TIMEOUT_S))
        except ClusterError as error:
            keeper.warn(f"no facts about the indices: {error}")
        after = cluster_state.look_back(self.client, names)
        facts = cluster_state.completed(facts, after)
        keeper.record = replace(keeper.record, clusters={"default": facts})
        keeper.warn(*after.notes, *disturbed(self._before, after, {*names, *facts.indices}))

    def explain(self, error: EsbenchError) -> str:
        """An error, with the reason when it was that a node of ours has died."""
        died = self._engine.failure() if isinstance(self._engine, EmbeddedEngine) else None
        return f"{error}\n{died}" if died else str(error)

    def facts(self) -> ClusterFacts:
        """What the record says of the cluster, as far as it is known now."""
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
        return cluster_state.described(facts, self._before)

    def _connect(self, endpoint: Endpoint) -> ClusterInfo:
        self.client = self._stack.enter_context(Cluster(endpoint.urls, self._options.client_options))
        info = self.client.info()
        try:
            self._nodes = self.client.nodes()
        except ClusterError as error:  # a managed cluster may hide them
            self._progress.warn(f"no facts about the nodes: {error}")
        return info


def embedded_engine(options: RaceOptions, logs: Path, progress: Progress) -> EmbeddedEngine:
    """The node that these options ask for, not started; what is wrong with them is a UsageError."""
    return EmbeddedEngine(
        EmbeddedOptions(
            home=options.home,
            race_id=options.race_id,
            logs=logs,
            node=options.node,
            keep_node=options.keep_node,
            offline=options.origin.offline,
            java_options=java_options(options),
        ),
        progress,
    )


def java_options(options: RaceOptions) -> tuple[str, ...]:
    """What telemetry adds to the Java options of a node."""
    return tuple(option for chosen in options.telemetry for option in chosen.kind.java_options(chosen.params))
