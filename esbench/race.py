"""The story of a race: reach a cluster, prepare the track, run its steps, keep the record.

The only module that knows track, load, engine, telemetry and record together. It reads no flag, no environment
variable and no configuration file.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from esbench import environment
from esbench.addresses import addresses_by_name, resolve
from esbench.calibration import Calibration, CalibrationFile
from esbench.client_options import ClientOptions, Host, parse_hosts
from esbench.cluster import Cluster, ClusterInfo
from esbench.dialect import Dialect
from esbench.documents import DocumentFiles, OwnCode
from esbench.engine.base import Endpoint
from esbench.engine.embedded import EmbeddedEngine, EmbeddedOptions
from esbench.engine.external import ExternalEngine
from esbench.errors import ClusterError, EsbenchError, RecordError, UsageError
from esbench.interrupts import Interrupts
from esbench.keeper import RecordKeeper, now
from esbench.listeners import Listener, Listeners
from esbench.load.coordinator import Cancelled, Coordinator, CutShort, StepFailed
from esbench.load.dealing import highest_rate_per_s, per_request
from esbench.load.messages import Stock, Target
from esbench.load.transport import clock_ns
from esbench.locks import RaceLock, end_other_races, other_races
from esbench.model import Challenge, Step, Track
from esbench.operations.assertions import without_assertions
from esbench.operations.base import OperationType
from esbench.operations.python import operation_type
from esbench.progress.base import Progress
from esbench.pulses import Pulses, spans
from esbench.record import (
    ClusterFacts,
    CorpusFacts,
    NodeFacts,
    RaceRecord,
    TaskResult,
    TrackFacts,
    redact,
    secret_values,
)
from esbench.registry import Registry
from esbench.store import RaceFolder, RaceStore
from esbench.telemetry import Chosen, surroundings
from esbench.telemetry.device import Reading, Scene
from esbench.telemetry.disturbances import disturbances, disturbed
from esbench.telemetry.watch import SeriesFile, Telemetry
from esbench.track import plugins_view, processing
from esbench.track.corpus import CorpusCache
from esbench.track.dependencies import Libraries, libraries_folder
from esbench.track.features import features_needed, nodes_needed
from esbench.track.loader import load_track, plugins_of, track_file
from esbench.track.plugins import Plugins
from esbench.track.prepared import PreparedDocuments
from esbench.track.rendering import RenderContext
from esbench.track.selection import (
    check_indices,
    choose_challenge,
    idle_tasks,
    select_tasks,
)
from esbench.track.supply import Origin

TELEMETRY_TIMEOUT_S = 10.0  # of its requests


@dataclass(frozen=True)
class RaceOptions:
    """What to race, on what, and how; every option of `esbench race` that is not about printing."""

    home: Path
    race_id: str
    track_path: Path
    track_params: Mapping[str, Any] = field(default_factory=dict)
    challenge: str | None = None
    include_tasks: tuple[str, ...] = ()
    exclude_tasks: tuple[str, ...] = ()
    user_tags: Mapping[str, str] = field(default_factory=dict)
    test_mode: bool = False
    install_dependencies: bool = False
    abort_on_error: bool = True
    max_error_ratio: float | None = None  # of each task's requests; instead of abort_on_error
    enable_assertions: bool = False
    workers: int = 1
    seed: int = 1
    hosts: tuple[Host, ...] = ()  # none: an embedded node
    client_options: ClientOptions = field(default_factory=ClientOptions)
    distribution: str = ""
    nodes: int = 1
    heap_bytes: int = 512 << 20
    java_home: Path | None = None
    keep_node: bool = False
    node_user: int | None = None
    kill_running_processes: bool = False
    origin: Origin = field(default_factory=Origin)  # of document files
    synthetic_documents: int | None = None  # of each corpus, generated in place of its files
    corpus_cache: CorpusCache = "auto"
    telemetry: tuple[Chosen, ...] = ()  # the devices that watch the race


def run(
    options: RaceOptions,
    operations: Registry[OperationType],
    progress: Progress,
    listeners: Sequence[Listener] = (),
) -> RaceRecord:
    """Run a race and return its record; its `status` says whether it is complete. `listeners` follow it.

    Raises an EsbenchError when it could not begin. What was measured before a failure or Ctrl-C is in the record.
    """
    secrets = tuple(secret_values(options.track_params))
    options = replace(options, client_options=replace(options.client_options, other_secrets=secrets))
    epoch_ns = clock_ns()
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        folder = stack.enter_context(_race_folder(options))
        stack.enter_context(RaceLock(options.home, options.race_id))
        _see_to_other_races(options, progress)
        coordinator = stack.enter_context(
            Coordinator(
                options.workers,
                operations,
                log=folder.logs / "worker.log",
                libraries=libraries_folder(options.home),
                abort_on_error=options.abort_on_error,
                max_error_ratio=options.max_error_ratio,
                seed=options.seed,
                race_id=options.race_id,
                epoch_ns=epoch_ns,
            )
        )
        setup = _SetUp(options, operations, progress, folder, stack)
        track, challenge = setup.load_track()
        record = setup.first_record(track, challenge)
        keeper = stack.enter_context(RecordKeeper(folder, record))
        audience = Listeners((keeper, *listeners))
        audience.race_begins(record, challenge.steps)
        try:
            documents = setup.prepare_corpora(track, challenge)
            target = setup.start_cluster(keeper, documents)
            _refuse_missing_features(target.dialect, challenge, operations)
            _count_what_is_there(setup.cluster, track, challenge, coordinator)
            stock = Stock(
                track.indices,
                track.corpora,
                documents,
                track.variables,
                track.data_streams,
                track.templates,
                setup.view(documents, challenge),
            )
            setup.look_up_calibration(keeper, challenge, stock)
            with setup.telemetry(keeper, track, audience, epoch_ns, coordinator.pids) as telemetry:
                load = _Load(coordinator, target, stock, keeper, audience, telemetry)
                for number, step in enumerate(challenge.steps):
                    interrupts.call_instead(coordinator.cancel)
                    load.run(number, step)
                    interrupts.raise_again()
            setup.finish_cluster(keeper, track, telemetry)
            keeper.finish("complete")
        except (Cancelled, KeyboardInterrupt):
            keeper.finish("cancelled")
        except StepFailed as failed:
            keeper.finish("failed", setup.explain(failed.error))
        except EsbenchError as error:
            keeper.finish("failed", setup.explain(error))
            if not keeper.record.tasks:
                raise
        finally:
            audience.race_ended(keeper.record)
        return keeper.record


@dataclass(frozen=True)
class _Load:
    """Runs steps, and tells those who watch and keep them."""

    coordinator: Coordinator
    target: Target
    stock: Stock
    keeper: RecordKeeper
    audience: Listener
    telemetry: Telemetry

    def run(self, number: int, step: Step) -> None:
        """Run a step; of one that is cut short, what it measured is kept before the error is raised again."""
        self.audience.step_begins(number, step)
        self.telemetry.begin_step(number, [task.name for task in step.tasks])
        following = Listeners((self.audience, Pulses(self.telemetry.pulse, step.tasks)))
        try:
            results = self.coordinator.run(number, step, self.target, self.stock, following)
        except CutShort as ended:
            self._keep(number, ended.results, cut_short=True)
            raise
        self._keep(number, results)

    def _keep(self, number: int, results: tuple[TaskResult, ...], *, cut_short: bool = False) -> None:
        self.keeper.add(results, self.coordinator.drivers)
        for result in results:
            self.audience.task_ended(result)
        self.telemetry.end_step(number, spans(results), cut_short=cut_short)
        self.keeper.tell(self.telemetry.news())


class _SetUp:
    """Everything before the first step: a cluster to race, the track for its version, the corpora."""

    def __init__(
        self,
        options: RaceOptions,
        operations: Registry[OperationType],
        progress: Progress,
        folder: RaceFolder,
        stack: ExitStack,
    ) -> None:
        self._options = options
        self._operations = operations
        self._progress = progress
        self._folder = folder
        self._stack = stack
        self._engine: EmbeddedEngine | ExternalEngine
        self._endpoint: Endpoint | None = None
        self._hosts: tuple[Host, ...] = ()
        self._nodes: tuple[NodeFacts, ...] = ()
        self._earlier: surroundings.Use | None = None
        self._before = surroundings.Surroundings()
        self._plugins: Plugins | None = None
        self._view: plugins_view.Track | None = None
        if options.hosts:
            self._engine = ExternalEngine(options.hosts, options.client_options)
            self._endpoint = self._engine.start()
            self._info = self._connect(self._endpoint)
            self._earlier = surroundings.use_now(self._cluster)
        else:
            self._engine = self._embedded(folder)
            product, version = self._engine.identity()
            self._info = ClusterInfo(product, version)

    @property
    def cluster(self) -> Cluster:
        return self._cluster

    @property
    def _pids(self) -> dict[str, int]:
        """The processes of nodes of ours, by name."""
        pids = self._endpoint.settings.get("pids", ()) if self._endpoint else ()
        return {f"node-{number}": pid for number, pid in enumerate(pids)}

    def load_track(self) -> tuple[Track, Challenge]:
        """The track, rendered for the cluster's version, and what is left of its challenge after the filters."""
        options = self._options
        context = RenderContext(
            params=options.track_params,
            distribution=self._info.distribution,
            version=self._info.version,
            build_flavor=self._info.build_flavor or "default",
            now=time.time(),
        )
        libraries = Libraries(libraries_folder(options.home), options.install_dependencies, self._progress.say)
        self._plugins = plugins = plugins_of(track_file(options.track_path, "the track"), context, libraries)
        track = load_track(options.track_path, context, self._operations, test_mode=options.test_mode, plugins=plugins)
        challenge = choose_challenge(track, options.challenge)
        if plugins is not None:
            track, self._view = processing.after_load(track, plugins, challenge.name, self._operations)
            processing.validate(self._view, plugins, challenge.name)
            challenge = choose_challenge(track, options.challenge)
        challenge = select_tasks(challenge, options.include_tasks, options.exclude_tasks)
        check_indices(track, challenge, self._operations)
        if not options.enable_assertions:
            challenge = without_assertions(challenge)
        if isinstance(self._engine, EmbeddedEngine):
            self._engine.require(features_needed(track, challenge))
            if (needed := nodes_needed(track, challenge)) > options.nodes:
                raise UsageError(
                    f"the challenge waits for a green cluster, and {needed - 1} replicas need {needed} nodes",
                    hint=f"--nodes={needed}, or fewer replicas",
                )
        return track, challenge

    def first_record(self, track: Track, challenge: Challenge) -> RaceRecord:
        options = self._options
        host = environment.host_facts(options.home)
        return RaceRecord(
            race_id=options.race_id,
            status="running",
            started_at=now(),
            track=TrackFacts(track.name, str(track.path), track.digest),
            challenge=challenge.name,
            esbench=environment.esbench_facts(),
            track_params=redact(options.track_params),
            user_tags=dict(options.user_tags),
            seed=options.seed,
            test_mode=options.test_mode,
            host_class=environment.host_class(host),
            environment=host,
            clusters={"default": self._cluster_facts()},
            warnings=(*options.client_options.warnings, *idle_tasks(track, challenge, self._operations)),
        )

    def prepare_corpora(self, track: Track, challenge: Challenge) -> tuple[PreparedDocuments, ...]:
        """Every document file that the challenge needs, before any clock starts."""
        options = self._options
        code = None if self._plugins is None or self._view is None else OwnCode(self._plugins, self._view)
        files = DocumentFiles(
            home=options.home,
            origin=options.origin,
            corpus_cache=options.corpus_cache,
            synthetic_documents=options.synthetic_documents,
            test_mode=options.test_mode,
            operations=self._operations,
            progress=self._progress,
        )
        return files.prepare(track, challenge, code)

    def view(self, documents: tuple[PreparedDocuments, ...], challenge: Challenge) -> plugins_view.PackedView | None:
        """The track for its own code in the workers; None where it has none."""
        if self._view is None:
            return None
        return plugins_view.packed(plugins_view.with_documents(self._view, documents, challenge.name))

    def start_cluster(self, keeper: RecordKeeper, documents: tuple[PreparedDocuments, ...]) -> Target:
        """Start the node where it is ours; the target of the load."""
        if self._endpoint is None:
            self._stack.callback(self._engine.stop)
            with self._progress.job(f"starting {self._info.distribution}-{self._info.version}"):
                self._endpoint = self._engine.start()
            self._info = self._connect(self._endpoint)
        hosts, client_options = parse_hosts(self._endpoint.urls, self._options.client_options)
        self._hosts = resolve(hosts)
        self._before = surroundings.look(self._cluster)
        found = tuple(disturbances(self._before, self._earlier))
        for warning in found:
            self._progress.say(f"warning: {warning}")
        keeper.warn(*self._before.notes, *found)
        keeper.record = replace(
            keeper.record,
            clusters={"default": self._cluster_facts()},
            corpora=tuple(
                CorpusFacts(
                    part.corpus, part.digest, part.document_count, part.synthetic, streamed=part.streamed is not None
                )
                for part in documents
            ),
        )
        keeper.save()
        major, minor = (*self._info.version_tuple, 0, 0)[:2]
        return Target(self._hosts, client_options, Dialect(self._info.distribution, (major, minor)))

    @contextmanager
    def telemetry(
        self, keeper: RecordKeeper, track: Track, audience: Listener, epoch_ns: int, workers: tuple[int, ...]
    ) -> Iterator[Telemetry]:
        """What watches the steps, while they run; the record gets what it says at the end, however that comes."""
        options = self._options.client_options
        limited = replace(options, timeout_s=min(options.timeout_s, TELEMETRY_TIMEOUT_S))
        file = SeriesFile(self._folder.append_telemetry)

        def keep(device: str, reading: Reading, time_s: float) -> None:
            file.add(device, reading, time_s)
            audience.read(device, reading)

        with Cluster(self._cluster.urls, limited) as cluster:
            scene = Scene(cluster, self._info, track.targets, self._folder.logs, self._pids, workers)
            devices = [chosen.kind(scene, chosen.params) for chosen in self._options.telemetry]
            telemetry = Telemetry(cluster, track.targets, devices, lambda: (clock_ns() - epoch_ns) / 1e9, keep)
            in_a_hurry = True
            try:
                with telemetry:
                    yield telemetry
                    in_a_hurry = False
                    telemetry.close()
            finally:
                telemetry.close(in_a_hurry=in_a_hurry)
                keeper.tell(telemetry.news())
                keeper.record = replace(keeper.record, telemetry=telemetry.report())
                keeper.warn(*telemetry.notes)

    def look_up_calibration(self, keeper: RecordKeeper, challenge: Challenge, stock: Stock) -> None:
        """Warn of target rates that this host's driver is not known to carry, if it was calibrated."""
        options = self._options
        try:
            calibration = CalibrationFile(options.home).find(keeper.record.host_class, options.workers)
        except RecordError as error:
            warnings = [f"the calibration of this host is not used: {error}"]
        else:
            warnings = list(_objections(calibration, challenge, self._operations, stock)) if calibration else []
        for warning in warnings:
            self._progress.warn(warning)
        keeper.warn(*warnings)

    def finish_cluster(self, keeper: RecordKeeper, track: Track, telemetry: Telemetry) -> None:
        """Put what the race did to the cluster into the record."""
        names = track.targets
        facts = self._cluster_facts()
        try:
            facts = replace(facts, indices=self._cluster.indices_facts(names))
        except ClusterError as error:
            keeper.warn(f"no facts about the indices: {error}")
        after = surroundings.look_back(self._cluster, names)
        facts = surroundings.completed(replace(facts, statistics=telemetry.statistics()), after)
        keeper.record = replace(keeper.record, clusters={"default": facts})
        keeper.warn(*after.notes, *disturbed(self._before, after, {*names, *facts.indices}))

    def explain(self, error: EsbenchError) -> str:
        """An error, with the reason when it was that a node of ours has died."""
        died = self._engine.failure() if isinstance(self._engine, EmbeddedEngine) else None
        return f"{error}\n{died}" if died else str(error)

    def _embedded(self, folder: RaceFolder) -> EmbeddedEngine:
        options = self._options
        return EmbeddedEngine(
            EmbeddedOptions(
                home=options.home,
                race_id=options.race_id,
                logs=folder.logs,
                distribution=options.distribution,
                nodes=options.nodes,
                heap_bytes=options.heap_bytes,
                java_home=options.java_home,
                keep_node=options.keep_node,
                node_user=options.node_user,
                offline=options.origin.offline,
                java_options=tuple(
                    option for chosen in options.telemetry for option in chosen.kind.java_options(chosen.params)
                ),
            ),
            self._progress,
        )

    def _connect(self, endpoint: Endpoint) -> ClusterInfo:
        self._cluster = self._stack.enter_context(Cluster(endpoint.urls, self._options.client_options))
        info = self._cluster.info()
        try:
            self._nodes = self._cluster.nodes()
        except ClusterError as error:  # a managed cluster may hide them
            self._progress.warn(f"no facts about the nodes: {error}")
        return info

    def _cluster_facts(self) -> ClusterFacts:
        endpoint = self._endpoint
        facts = ClusterFacts(
            pipeline=self._engine.pipeline,
            hosts=endpoint.urls if endpoint else (),
            distribution=self._info.distribution,
            version=self._info.version,
            build_hash=self._info.build_hash,
            name=self._info.name,
            nodes=self._nodes,
            settings=endpoint.settings if endpoint else {},
            addresses=addresses_by_name(self._hosts),
        )
        return surroundings.described(facts, self._before)


@contextmanager
def _race_folder(options: RaceOptions) -> Iterator[RaceFolder]:
    """The race's folder; it is removed again when the race did not begin."""
    folder = RaceStore(options.home).create(options.race_id)
    try:
        yield folder
    finally:
        if not folder.record_file.exists():
            shutil.rmtree(folder.path, ignore_errors=True)


def _see_to_other_races(options: RaceOptions, progress: Progress) -> None:
    if options.kill_running_processes:
        for race in end_other_races(options.home, options.race_id):
            progress.say(f"ended race {race.race_id} (pid {race.pid})")
        return
    for race in other_races(options.home, options.race_id):
        progress.warn(
            f"race {race.race_id} (pid {race.pid}) runs on this host: both will disturb each other "
            "(--kill-running-processes ends it)"
        )


def _objections(
    calibration: Calibration, challenge: Challenge, operations: Registry[OperationType], stock: Stock
) -> Iterator[str]:
    for task in challenge.tasks:
        if task.schedule.is_open:
            amounts = per_request(task, operation_type(task.operation, operations), stock)
            if objection := calibration.objection(highest_rate_per_s(task, amounts)):
                yield f"{task.name}: {objection}"


def _refuse_missing_features(dialect: Dialect, challenge: Challenge, operations: Registry[OperationType]) -> None:
    """Say before anything runs what this cluster cannot do."""
    for task in challenge.tasks:
        if feature := operation_type(task.operation, operations).feature:
            dialect.require(feature, f'task "{task.name}"')


def _count_what_is_there(cluster: Cluster, track: Track, challenge: Challenge, coordinator: Coordinator) -> None:
    """What the race does not make anew starts with what it holds; assert-count needs to know."""
    types = {task.operation.type for task in challenge.tasks}
    if "assert-count" not in types or types & _MAKING_ANEW:
        return
    for name in track.targets:
        reply = cluster.request("GET", f"/{name}/_count", ignore=(404,))
        if "count" in reply:
            coordinator.count_as_acknowledged(name, int(reply["count"]))


_MAKING_ANEW = {"create-index", "delete-index", "create-data-stream", "delete-data-stream"}
