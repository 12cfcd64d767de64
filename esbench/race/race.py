"""The steps of a race: reach a cluster, prepare the track, run its steps, keep the record.

The only module that knows track, load, engine, telemetry and record together. It reads no flag, no environment variable
and no configuration file.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.cluster.client import ClusterInfo
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import EsbenchError, RaceError, RecordError
from esbench.errors.short import first_of
from esbench.events.listeners import Listener, Listeners
from esbench.events.progress import Progress
from esbench.load.coordinator import Cancelled, Coordinator, CutShort, StepFailed
from esbench.load.hot import clock_ns
from esbench.load.launcher import Launcher, LocalLauncher
from esbench.load.messages import Stock, Target
from esbench.model import DEFAULT_CLUSTER, Step
from esbench.operations.base import kind_of
from esbench.race.answers import ReadTasks
from esbench.race.cluster import RacedCluster, RaceTarget, StepTelemetry, WatchedRace
from esbench.race.clusters import RacedClusters, no_such_cluster
from esbench.race.hidden_events import HiddenEvents
from esbench.race.host_limits import check_clients, check_workers, too_fast
from esbench.race.interrupts import InterruptsByOthers
from esbench.race.options import RaceOptions
from esbench.race.pace import Pace, part_of
from esbench.race.recording import RecordWriter, now
from esbench.race.server import RacedServer
from esbench.race.steps import PreparedRace, Steps
from esbench.race.targets import ClusterTargets, FoundIndex, targets_of
from esbench.race.telemetry_feed import TelemetryFeed, spans
from esbench.race.track import RacedTrack
from esbench.record.capacity_part import KNOWN
from esbench.record.hidden import HiddenSecrets
from esbench.record.host import driver_class, esbench_facts, host_class, host_facts
from esbench.record.index_prefix import index_prefix
from esbench.record.locks import RaceLock, end_other_races, other_races
from esbench.record.model import (
    ClusterFacts,
    CorpusFacts,
    RaceRecord,
    TaskResult,
    TrackFacts,
)
from esbench.record.secrets import redact, secret_values
from esbench.record.store import RaceFolder, RaceStore
from esbench.tables import LAUNCHERS, SERVERS, load

if TYPE_CHECKING:
    from esbench.engine.embedded import EmbeddedEngine


def run(
    options: RaceOptions,
    progress: Progress,
    listeners: Sequence[Listener] = (),
    node: EmbeddedEngine | None = None,
    pace: Pace | None = None,
    steps: Steps | None = None,
) -> RaceRecord:
    """Run a race and return its record, whose `status` is complete, cancelled or failed. `listeners` follow it.

    A started `node`, if given, is raced instead of one that the race starts, and runs on afterwards. `pace` is that of
    a round, in which other sides are raced at once; `steps`, those of the challenge by default, follow the race, too.
    Raises an EsbenchError if the race could not begin. What was measured before a failure or Ctrl-C is in the record.
    """
    options, started_at, epoch_ns = _knowing_secrets(options), now(), clock_ns()
    pace, steps = pace or Pace(), steps or Steps()
    with ExitStack() as stack:
        interrupts = stack.enter_context(pace.join(options.race_id))
        stack.enter_context(progress.checked(interrupts.check))
        with pace.turn():
            folder = stack.enter_context(_race_folder(options, started_at))
            lock = stack.enter_context(RaceLock(options.home, options.race_id))
            warnings = [*_of_workers(options), *_see_to_other_races(options, pace, progress)]
            coordinator = stack.enter_context(_coordinator(options, folder, epoch_ns))
            warnings += coordinator.warnings
            cluster = _raced_cluster(options, progress, folder, stack, node)
            raced = _raced_track(options, cluster, progress, pace, steps)
            targets = targets_of(options, raced, cluster)
            lock.claim([each.claim for each in targets])
            warnings += _checked(targets, options, pace)
        for warning in (*steps.warnings, *warnings):
            progress.warn(folder.hide.text(warning))
        first = _first_record(options, started_at, raced, cluster.facts(), coordinator.load_hosts, warnings)
        clock = partial(_seconds_since, epoch_ns)
        recording = stack.enter_context(RecordWriter(folder, first, clock))
        audience = Listeners((recording, steps, *(HiddenEvents(each, folder.hide) for each in listeners)))
        audience.race_begins(first, raced.challenge.steps)
        stack.callback(lambda: audience.race_ended(recording.record))
        with _kept_to_its_end(recording, cluster), _telling_of_others(options, pace, recording):
            with pace.turn():
                target, stock = _prepared(options, raced, cluster, coordinator, recording, progress)
            pace.watch({} if node else cluster.pids)  # a node that all sides share tells nothing of one
            watched = WatchedRace(recording, raced.track, audience, clock, coordinator.pids)
            with cluster.telemetry(watched) as telemetry:
                prepared = PreparedRace(cluster, target, stock, coordinator)
                reads = ReadTasks(options, prepared, folder, progress)
                load = _Load(interrupts, pace, steps, prepared, recording, audience, telemetry, targets)
                try:
                    for number, step in enumerate(steps.of(raced.challenge, prepared)):
                        recording.keep_parts(steps.parts())
                        reads.before(step)
                        load.run(number, step)
                        reads.after(step)
                finally:
                    recording.keep_parts(steps.parts())
                reads.ask()
            cluster.finish(recording, raced.track)
            recording.warn(*(said for each in targets for said in each.remember(raced.challenge.steps)))
        return folder.hide.part(recording.record)


def look(options: RaceOptions, progress: Progress, steps: Steps | None = None) -> RacedTrack:
    """Return the track that a race with these options and steps would run.

    Nothing is started; an external cluster is asked for its version. Raises an EsbenchError for faults that can be
    found beforehand.
    """
    options = _knowing_secrets(options)
    with ExitStack() as stack:
        _of_workers(options)
        cluster, raced = _reached(options, progress, stack, steps)
        _checked(targets_of(options, raced, cluster), options, Pace())
        return raced


@dataclass(frozen=True)
class RacePlan:
    """The effects that a race would have. `raced`: its tasks; `deleted`: names and patterns that it deletes.

    `found`: the indices of its names that are there now; `health`: the cluster's, "" for a node that would be started.
    `refusal`: why it would not begin, None if it would.
    """

    raced: RacedTrack
    info: ClusterInfo
    needs_download: bool
    deleted: tuple[str, ...]
    found: tuple[FoundIndex, ...] = ()
    health: str = ""
    refusal: EsbenchError | None = None
    warnings: tuple[str, ...] = ()


def plan(options: RaceOptions, progress: Progress, steps: Steps | None = None) -> RacePlan:
    """Return what a race with these options and steps would do. Nothing is started, written or deleted.

    Raises an EsbenchError for faults of the options, the track or the cluster.
    """
    options = _knowing_secrets(options)
    with ExitStack() as stack:
        cluster, raced = _reached(options, progress, stack, steps)
        targets, refusal = targets_of(options, raced, cluster), None
        warnings = (*_of_workers(options), *raced.warnings)
        try:
            warnings += _checked(targets, options, Pace())
        except RaceError as error:
            refusal = error
        deleted = tuple(dict.fromkeys(name for each in targets for name in each.deleted))
        found = tuple(index for each in targets for index in each.found())
        return RacePlan(
            raced,
            cluster.info,
            cluster.needs_download,
            deleted,
            found=found,
            health=cluster.health,
            refusal=refusal,
            warnings=warnings,
        )


def _reached(
    options: RaceOptions, progress: Progress, stack: ExitStack, steps: Steps | None = None
) -> tuple[RaceTarget, RacedTrack]:
    """Return the cluster of a race that is only looked at, connected if it is external, and the race's track."""
    folder = RaceFolder(RaceStore(options.home).races_folder / options.race_id)  # not made
    cluster = _raced_cluster(options, progress, folder, stack)
    return cluster, _raced_track(options, cluster, progress, Pace(), steps or Steps())


def _raced_cluster(
    options: RaceOptions,
    progress: Progress,
    folder: RaceFolder,
    stack: ExitStack,
    node: EmbeddedEngine | None = None,
) -> RaceTarget:
    """Return what the options race: any HTTP server, a SQL server, or a cluster of Elasticsearch or OpenSearch."""
    if options.any_server:
        return RacedServer(options)
    if options.is_sql:
        return load(SERVERS["sql"])(options, progress, folder, stack)  # type: ignore[no-any-return]
    default = RacedCluster(options, progress, folder, stack, node)
    if not options.others:
        return default
    others = {name: RacedCluster(options.of_other(name), progress, folder, stack, name=name) for name in options.others}
    return RacedClusters({DEFAULT_CLUSTER: default, **others})


def _knowing_secrets(options: RaceOptions) -> RaceOptions:
    """Return the options with the secrets of track parameters and node settings, which errors then hide, too.

    Each of several clusters hides those of the others: one may repeat what it was sent about another.
    """
    secrets = (*options.secrets, *secret_values(options.track_params), *secret_values(options.node.node_settings))
    secrets += tuple(secret_values(options.user_tags))
    for each in (options.client_options, *(other.client_options for other in options.others.values())):
        secrets += each.secrets()
    others = {
        name: replace(other, client_options=replace(other.client_options, other_secrets=secrets))
        for name, other in options.others.items()
    }
    return replace(options, client_options=replace(options.client_options, other_secrets=secrets), others=others)


@contextmanager
def _kept_to_its_end(recording: RecordWriter, cluster: RaceTarget) -> Iterator[None]:
    """Save the record as complete, cancelled or failed. Raises the error of a race that has measured nothing."""
    try:
        yield
        recording.finish("complete")
    except (Cancelled, KeyboardInterrupt):
        recording.finish("cancelled")
    except StepFailed as failed:
        recording.finish("failed", cluster.explain(failed.error))
    except EsbenchError as error:
        recording.finish("failed", cluster.explain(error))
        if not recording.record.tasks:
            raise


def _prepared(
    options: RaceOptions,
    raced: RacedTrack,
    cluster: RaceTarget,
    coordinator: Coordinator,
    recording: RecordWriter,
    progress: Progress,
) -> tuple[Target, Stock]:
    """Prepare the documents, start the cluster, and return what the load workers need of both.

    Raises an EsbenchError for an operation that the cluster lacks.
    """
    try:
        documents = raced.prepare_documents()
        cluster.prepare(documents)
    except EsbenchError:
        recording.withdraw()
        raise
    target = cluster.start(recording)
    recording.begin(cluster.facts(), [_corpus_facts(part) for part in documents])
    _count_what_is_there(raced, cluster, coordinator)
    stock = raced.stock(documents)
    for warning in too_fast(options, raced.challenge, stock, recording.record.host_class):
        progress.warn(warning)
        recording.warn(warning)
    return target, stock


def _of_workers(options: RaceOptions) -> tuple[str, ...]:
    """Return the warnings about the number of load workers of this host; those of load hosts are not known yet."""
    return () if options.is_driven_apart else check_workers(options.workers)


def _launcher(options: RaceOptions, log: Path) -> Launcher:
    """Return what starts the load workers: on this host, or on load hosts."""
    if not options.is_driven_apart:
        return LocalLauncher(options.workers, log)
    return load(LAUNCHERS["hosts"])(options, log)  # type: ignore[no-any-return]


def _coordinator(options: RaceOptions, folder: RaceFolder, epoch_ns: int) -> Coordinator:
    return Coordinator(
        _launcher(options, folder.logs / "worker.log"),
        abort_on_error=options.abort_on_error,
        max_error_ratio=options.max_error_ratio,
        seed=options.seed,
        race_id=options.race_id,
        epoch_ns=epoch_ns,
        index_prefix=index_prefix(options.track_params),
    )


def _raced_track(options: RaceOptions, cluster: RaceTarget, progress: Progress, pace: Pace, steps: Steps) -> RacedTrack:
    """Load the track for the cluster's version. EsbenchError if the cluster or this host lacks what it needs."""
    raced = RacedTrack(options, cluster.info, progress)
    raced.take(steps.chosen(raced.challenge))
    raced.warnings += steps.warnings
    raced.challenge = part_of(pace.shaped(raced.challenge), options.session.round if options.session else 1)
    for task in raced.challenge.tasks:
        if task.cluster not in cluster.clusters:
            raise no_such_cluster(task.name, task.cluster, list(cluster.clusters))
    cluster.require(raced.track, raced.challenge)
    if not (options.any_server or options.is_sql):
        raced.fit({name: each.info.dialect for name, each in cluster.clusters.items()})
    check_clients(options, raced.challenge)
    raced.check_sizes()
    return raced


@dataclass(frozen=True)
class _Load:
    """Runs steps: with telemetry, and with their results in the record and passed to listeners."""

    interrupts: InterruptsByOthers
    pace: Pace
    steps: Steps
    prepared: PreparedRace
    recording: RecordWriter
    audience: Listener
    telemetry: StepTelemetry
    targets: tuple[ClusterTargets, ...]

    def run(self, number: int, step: Step) -> None:
        """Run a step. If it is cut short, keep what it measured before raising the error again."""
        self.interrupts.call_instead(self.prepared.coordinator.cancel)
        with self.pace.step(step):
            self._run(number, step)

    def _run(self, number: int, step: Step) -> None:
        self.audience.step_begins(number, step)
        self.telemetry.begin_step(number, [task.name for task in step.tasks])
        following = self.audience
        if self.telemetry.follows_seconds:
            following = Listeners((self.audience, TelemetryFeed(self.telemetry.pulse, step.tasks)))
        try:
            results = self.prepared.coordinator.run(
                number,
                step,
                self.prepared.target,
                self.prepared.stock,
                listener=following,
                begin=self.pace.begin,
                enough=self.steps.enough,
            )
            results = self.pace.end(results)
        except CutShort as ended:
            self._keep(ended.results)
            self._end(number, step, ended.results, cut_short=True)
            raise
        self._keep(results)
        self.interrupts.raise_again()  # the cluster may hang
        self._end(number, step, results)

    def _keep(self, results: tuple[TaskResult, ...]) -> None:
        self.recording.add(results, self.prepared.coordinator.drivers)
        for result in results:
            self.audience.task_ended(result)

    def _end(self, number: int, step: Step, results: tuple[TaskResult, ...], *, cut_short: bool = False) -> None:
        self.telemetry.end_step(number, spans(results), cut_short=cut_short)
        self.recording.tell(self.telemetry.news())
        self.recording.warn(*self.prepared.coordinator.take_notes())
        self.recording.warn(*(said for each in self.targets for said in each.remember([step])))


def _unbegun(options: RaceOptions, started_at: str) -> RaceRecord:
    """Return what is known of a race before its track is read."""
    path = options.track_path
    return RaceRecord(
        race_id=options.race_id,
        status="running",
        started_at=started_at,
        track=TrackFacts(path.stem, str(path), "", options.track_revision),
        challenge=options.challenge or "",
        esbench=esbench_facts(),
        track_params=redact(options.track_params),
        user_tags=redact(options.user_tags),
        seed=options.seed,
        test_mode=options.test_mode,
        session=options.session,
    )


def _first_record(
    options: RaceOptions,
    started_at: str,
    raced: RacedTrack,
    clusters: Mapping[str, ClusterFacts],
    load_hosts: tuple[Mapping[str, Any], ...],
    warnings: Sequence[str],
) -> RaceRecord:
    host, track = host_facts(options.home), raced.track
    return replace(
        _unbegun(options, started_at),
        track=TrackFacts(track.name, str(track.path), track.digest, options.track_revision),
        challenge=raced.challenge.name,
        host_class=driver_class(load_hosts) or host_class(host),
        environment=host,
        clusters=clusters,
        warnings=(
            *options.client_options.warnings,
            *(warning for other in options.others.values() for warning in other.client_options.warnings),
            *raced.warnings,
            *warnings,
        ),
        parts={} if raced.capacity is None else {KNOWN.key: raced.capacity},
        load_hosts=load_hosts,
    )


def _corpus_facts(part: PreparedDocuments) -> CorpusFacts:
    return CorpusFacts(
        part.corpus, part.digest, part.document_count, part.synthetic, streamed=part.streamed is not None
    )


def _seconds_since(epoch_ns: int) -> float:
    return (clock_ns() - epoch_ns) / 1e9


@contextmanager
def _race_folder(options: RaceOptions, started_at: str) -> Iterator[RaceFolder]:
    """Create the race's folder; remove it at the end if the race did not begin."""
    store = RaceStore(options.home)
    hide = HiddenSecrets(options.client_options.secrets())
    folder = store.create(options.race_id, _unbegun(options, started_at), hide)
    try:
        yield folder
    finally:
        if not folder.is_kept:
            with suppress(RecordError):
                store.delete(folder.race_id)


def _see_to_other_races(options: RaceOptions, pace: Pace, progress: Progress) -> Iterator[str]:
    """End the other races if that is asked for, else yield a sentence about them."""
    if options.kill_running_processes:
        for race in end_other_races(options.home, {options.race_id, *pace.siblings}):
            progress.say(f"ended race {race.race_id} (pid {race.pid})")
        return
    races = other_races(options.home, {options.race_id, *pace.siblings})
    if len(races) == 1:
        (race,) = races
        yield (
            f"race {race.race_id} (pid {race.pid}) runs on this host: both will disturb each other "
            "(--kill-running-processes ends it)"
        )
    elif races:
        named = ", ".join(f"race {race.race_id} (pid {race.pid})" for race in races)
        yield (
            f"{len(races)} races run on this host, and will disturb this one: {named} "
            "(--kill-running-processes ends them)"
        )


def _checked(targets: Sequence[ClusterTargets], options: RaceOptions, pace: Pace) -> tuple[str, ...]:
    """Return sentences about what the race deletes. EsbenchError if it must not, or another race uses its indices."""
    own = {options.race_id, *pace.siblings}
    for race in () if options.kill_running_processes else other_races(options.home, own):
        pairs = product((each.claim for each in targets), race.claims)
        if shared := [name for ours, theirs in pairs for name in ours.shared_with(theirs)]:
            what = f"race {race.race_id} (pid {race.pid}) uses {', '.join(shared)} of the same cluster now"
            raise RaceError(what, hint="wait until it has ended, or end it with --kill-running-processes")
    return tuple(sentence for each in targets for sentence in each.check())


@contextmanager
def _telling_of_others(options: RaceOptions, pace: Pace, recording: RecordWriter) -> Iterator[None]:
    """At the end, put into the record which races ran beside this one, however it ends."""
    began_s = time.time()
    try:
        yield
    finally:
        recording.warn(*_beside(options, {options.race_id, *pace.siblings}, recording, began_s))


def _beside(options: RaceOptions, own: Collection[str], recording: RecordWriter, began_s: float) -> Iterator[str]:
    """Yield a sentence about the races of this home, but `own`, that began after this one and ran beside it."""
    said = "\n".join(recording.record.warnings)
    running = [race.race_id for race in other_races(options.home, own)]
    ran = sorted({*running, *RaceStore(options.home).saved_since(began_s)}.difference(own))
    if new := [race_id for race_id in ran if f"race {race_id} " not in said]:
        yield ran_beside(new)


def ran_beside(races: Sequence[str]) -> str:
    """Return one sentence about all races that ran beside a race."""
    if len(races) == 1:
        return f"race {races[0]} ran on this host at the same time: both disturbed each other"
    return f"{len(races)} races ran on this host at the same time, and disturbed this one: {first_of(races, 3)}"


def _count_what_is_there(raced: RacedTrack, clusters: RaceTarget, coordinator: Coordinator) -> None:
    """Count documents that the race does not write itself, in each cluster whose operations compare counts."""
    for cluster, target in clusters.clusters.items():
        tasks = [task for task in raced.challenge.tasks if task.cluster == cluster]
        traits = [kind_of(task.operation).traits for task in tasks]
        if not any(each.compares_counts for each in traits) or any(each.creates or each.deletes for each in traits):
            continue
        for name in raced.track.targets:
            if (count := target.client.count(name)) is not None:
                coordinator.count_as_acknowledged(name, count, cluster)
