"""The story of a race: reach a cluster, prepare the track, run its steps, keep the record.

The only module that knows track, load, engine, telemetry and record together. It reads no flag, no environment
variable and no configuration file.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isinf
from pathlib import Path
from typing import Any

from esbench import environment
from esbench.client_options import ClientOptions, Host, parse_hosts
from esbench.cluster import Cluster, ClusterInfo
from esbench.dialect import Dialect
from esbench.engine.base import Endpoint
from esbench.engine.embedded import EmbeddedEngine, EmbeddedOptions
from esbench.engine.external import ExternalEngine
from esbench.engine.progress import Progress
from esbench.errors import ClusterError, EsbenchError, RaceError
from esbench.load.coordinator import Cancelled, Coordinator, StepFailed
from esbench.load.measurements import seconds_line
from esbench.load.messages import Stock, Target
from esbench.load.recorder import Second
from esbench.locks import RaceLock, end_other_races, other_races
from esbench.model import Challenge, Step, Track
from esbench.operations.base import OperationType
from esbench.record import ClusterFacts, CorpusFacts, NodeFacts, RaceRecord, TaskResult, TrackFacts
from esbench.registry import Registry
from esbench.store import RaceFolder, RaceStore
from esbench.telemetry import statistics
from esbench.track.corpus import prepare
from esbench.track.features import features_needed
from esbench.track.loader import load_track
from esbench.track.prepared import PreparedDocuments
from esbench.track.rendering import RenderContext
from esbench.track.selection import choose_challenge, corpora_needed, select_tasks
from esbench.units import format_duration, format_number


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
    abort_on_error: bool = True
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


def run(options: RaceOptions, operations: Registry[OperationType], progress: Progress) -> RaceRecord:
    """Run a race and return its record; its `status` says whether it is complete.

    Raises an EsbenchError when it could not begin. What was measured before a failure or Ctrl-C is in the record.
    """
    with ExitStack() as stack:
        interrupts = stack.enter_context(_Interrupts())
        folder = stack.enter_context(_race_folder(options))
        stack.enter_context(RaceLock(options.home, options.race_id))
        _see_to_other_races(options, progress)
        coordinator = stack.enter_context(
            Coordinator(
                options.workers,
                operations,
                log=folder.logs / "worker.log",
                abort_on_error=options.abort_on_error,
                seed=options.seed,
                race_id=options.race_id,
            )
        )
        setup = _SetUp(options, operations, progress, folder, stack)
        track, challenge = setup.load_track()
        record = setup.first_record(track, challenge)
        keeper = stack.enter_context(_RecordKeeper(folder, record))
        try:
            documents = setup.prepare_corpora(track, challenge)
            target, before = setup.start_cluster(keeper, track, documents)
            _count_what_is_there(setup.cluster, track, challenge, coordinator)
            stock = Stock(track.indices, track.corpora, documents, track.variables)
            interrupts.call_instead(coordinator.cancel)
            for number, step in enumerate(challenge.steps):
                progress.say(_announcement(number, challenge, step))
                results = coordinator.run(number, step, target, stock, keeper.observe)
                keeper.add(results, coordinator)
                for result in results:
                    progress.say(_news(result))
            interrupts.raise_again()
            setup.finish_cluster(keeper, track, before)
            keeper.finish("complete")
        except Cancelled as cancelled:
            keeper.add(cancelled.results, coordinator)
            keeper.finish("cancelled")
        except KeyboardInterrupt:
            keeper.finish("cancelled")
        except StepFailed as failed:
            keeper.add(failed.results, coordinator)
            keeper.finish("failed", setup.explain(failed.error))
        except EsbenchError as error:
            keeper.finish("failed", setup.explain(error))
            if not keeper.record.tasks:
                raise
        return keeper.record


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
        self._stack = stack
        self._engine: EmbeddedEngine | ExternalEngine
        self._endpoint: Endpoint | None = None
        self._nodes: tuple[NodeFacts, ...] = ()
        if options.hosts:
            self._engine = ExternalEngine(options.hosts, options.client_options)
            self._endpoint = self._engine.start()
            self._info = self._connect(self._endpoint)
        else:
            self._engine = self._embedded(folder)
            product, version = self._engine.identity()
            self._info = ClusterInfo(product, version)

    @property
    def cluster(self) -> Cluster:
        return self._cluster

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
        track = load_track(options.track_path, context, self._operations, test_mode=options.test_mode)
        challenge = choose_challenge(track, options.challenge)
        challenge = select_tasks(challenge, options.include_tasks, options.exclude_tasks)
        if isinstance(self._engine, EmbeddedEngine):
            self._engine.require(features_needed(track, challenge))
        return track, challenge

    def first_record(self, track: Track, challenge: Challenge) -> RaceRecord:
        options = self._options
        host = environment.host_facts(options.home)
        return RaceRecord(
            race_id=options.race_id,
            status="running",
            started_at=_now(),
            track=TrackFacts(track.name, str(track.path), track.digest),
            challenge=challenge.name,
            esbench=environment.esbench_facts(),
            track_params=dict(options.track_params),
            user_tags=dict(options.user_tags),
            seed=options.seed,
            test_mode=options.test_mode,
            host_class=environment.host_class(host),
            environment=host,
            clusters={"default": self._cluster_facts()},
            warnings=options.client_options.warnings,
        )

    def prepare_corpora(self, track: Track, challenge: Challenge) -> tuple[PreparedDocuments, ...]:
        """Every document file that the challenge needs, before any clock starts."""
        return prepare(
            corpora_needed(track, challenge),
            cache=self._options.home / "cache" / "corpora",
            track_dir=track.path.parent,
            progress=_CorpusProgress(self._progress),
        )

    def start_cluster(
        self, keeper: _RecordKeeper, track: Track, documents: tuple[PreparedDocuments, ...]
    ) -> tuple[Target, statistics.Snapshot]:
        """Start the node where it is ours; the target of the load, and the cluster's counters before it."""
        if self._endpoint is None:
            self._progress.say(f"starting {self._info.distribution}-{self._info.version}")
            self._stack.callback(self._engine.stop)
            self._endpoint = self._engine.start()
            self._info = self._connect(self._endpoint)
        keeper.record = replace(
            keeper.record,
            clusters={"default": self._cluster_facts()},
            corpora=tuple(CorpusFacts(part.corpus, part.digest, part.document_count) for part in documents),
        )
        keeper.save()
        hosts, client_options = parse_hosts(self._endpoint.urls, self._options.client_options)
        major, minor = (*self._info.version_tuple, 0, 0)[:2]
        target = Target(hosts, client_options, Dialect(self._info.distribution, (major, minor)))
        return target, statistics.take(self._cluster, [index.name for index in track.indices])

    def finish_cluster(self, keeper: _RecordKeeper, track: Track, before: statistics.Snapshot) -> None:
        """Put what the race did to the cluster into the record."""
        names = [index.name for index in track.indices]
        after = statistics.take(self._cluster, names)
        facts = self._cluster_facts()
        warnings = (*before.warnings, *after.warnings)
        try:
            indices = self._cluster.indices_facts(names)
        except ClusterError as error:
            indices, warnings = {}, (*warnings, f"no facts about the indices: {error}")
        facts = replace(facts, indices=indices, statistics=statistics.difference(before, after))
        keeper.record = replace(
            keeper.record,
            clusters={"default": facts},
            warnings=tuple(dict.fromkeys((*keeper.record.warnings, *warnings))),
        )

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
            ),
            self._progress,
        )

    def _connect(self, endpoint: Endpoint) -> ClusterInfo:
        self._cluster = self._stack.enter_context(Cluster(endpoint.urls, self._options.client_options))
        info = self._cluster.info()
        try:
            self._nodes = self._cluster.nodes()
        except ClusterError as error:  # a managed cluster may hide them
            self._progress.say(f"warning: no facts about the nodes: {error}")
        return info

    def _cluster_facts(self) -> ClusterFacts:
        endpoint = self._endpoint
        return ClusterFacts(
            pipeline=self._engine.pipeline,
            hosts=endpoint.urls if endpoint else (),
            distribution=self._info.distribution,
            version=self._info.version,
            build_hash=self._info.build_hash,
            name=self._info.name,
            nodes=self._nodes,
            settings=endpoint.settings if endpoint else {},
        )


class _RecordKeeper:
    """The record as it grows: saved after every step, in a thread, while the next step runs."""

    def __init__(self, folder: RaceFolder, record: RaceRecord) -> None:
        self.record = record
        self._folder = folder
        self._saver = ThreadPoolExecutor(1, thread_name_prefix="record")
        self._saving: Future[None] | None = None
        self._lines: list[bytes] = []

    def __enter__(self) -> _RecordKeeper:
        self._folder.save(self.record)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.record.status == "running":
            self.finish("failed", str(exc[1]) if exc[1] else None)
        self._saver.shutdown()

    def observe(self, task: str, second: Second) -> None:
        """Keep a closed second; the series is written with the others of its moment."""
        self._folder.append_seconds(json.dumps(seconds_line(task, second)).encode() + b"\n")

    def add(self, results: tuple[TaskResult, ...], coordinator: Coordinator) -> None:
        self.record = replace(self.record, tasks=(*self.record.tasks, *results), drivers=coordinator.drivers)
        self.save()

    def save(self) -> None:
        """Save in the background; an error of the save before it is raised here."""
        if self._saving is not None:
            self._saving.result()
        self._saving = self._saver.submit(self._folder.save, self.record)

    def finish(self, status: str, failure: str | None = None) -> None:
        self.record = replace(self.record, status=status, finished_at=_now(), failure=failure)
        self.save()
        if self._saving is not None:
            self._saving.result()


class _Interrupts:
    """Ctrl-C and SIGTERM: KeyboardInterrupt, but while the steps run the coordinator's `cancel`."""

    def __init__(self) -> None:
        self._instead: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def call_instead(self, action: Callable[[], None]) -> None:
        self._instead = action

    def raise_again(self) -> None:
        self._instead = None

    def _handle(self, number: int, frame: object) -> None:
        if self._instead is None:
            raise KeyboardInterrupt
        self._instead()


class _CorpusProgress:
    """Says which corpus is being made, once each."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._said: set[str] = set()

    def __call__(self, what: str, done: int, total: int) -> None:
        if what not in self._said:
            self._said.add(what)
            self._progress.say(f"{what}: {total:,} documents")


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
        progress.say(
            f"warning: race {race.race_id} (pid {race.pid}) runs on this host: both will disturb each other "
            "(--kill-running-processes ends it)"
        )


def _count_what_is_there(cluster: Cluster, track: Track, challenge: Challenge, coordinator: Coordinator) -> None:
    """An index that the race does not make anew starts with what it holds; assert-count needs to know."""
    types = {task.operation.type for task in challenge.tasks}
    if "assert-count" not in types or types & {"create-index", "delete-index"}:
        return
    for index in track.indices:
        reply = cluster.request("GET", f"/{index.name}/_count", ignore=(404,))
        if "count" in reply:
            coordinator.count_as_acknowledged(index.name, int(reply["count"]))


def _announcement(number: int, challenge: Challenge, step: Step) -> str:
    names = ", ".join(task.name for task in step.tasks)
    return f"[{number + 1}/{len(challenge.steps)}] {names}"


def _news(result: TaskResult) -> str:
    """One line about a task that has ended."""
    if not result.include_in_reporting:
        return f"      {format_duration(result.duration_s)}"
    rate = result.throughput.mean
    figures = [f"{format_number(rate)} {result.throughput.unit}/s"] if rate is not None else []
    times = result.latency_ms or result.service_time_ms or {}
    name = "latency" if result.latency_ms else "service time"
    figures += [f"{name} {rank} {_milliseconds(times, rank)}" for rank in ("p50", "p99") if rank in times]
    if result.errors:
        figures.append(f"{result.errors} errors")
    return f"      {', '.join(figures)}"


def _milliseconds(times: Mapping[str, float], rank: str) -> str:
    """A percentile; one that falls among unsent and timed-out requests is longer than all that was measured."""
    if isinf(times[rank]):
        return f"> {format_number(times['max'])} ms"
    return f"{format_number(times[rank])} ms"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def failed_checks(record: RaceRecord) -> bool:
    """Whether a check of any task failed, for --strict."""
    return any(check.level != "ok" for task in record.tasks for check in task.checks)


def outcome_error(record: RaceRecord) -> EsbenchError | None:
    """The error that ended a race, to be told after its table."""
    if record.status != "failed":
        return None
    return RaceError(f"the race failed: {record.failure}")
