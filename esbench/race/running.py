"""A race from its beginning to its end: what it needs is there in its context, and its steps run one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import EsbenchError, RecordError
from esbench.events.listeners import Listener, Listeners
from esbench.events.progress import Progress
from esbench.load.coordinator import Cancelled, CutShort, StepFailed
from esbench.load.hot import clock_ns
from esbench.load.messages import Stock, Target
from esbench.measure.histogram import Counts, percentiles_ns
from esbench.measure.measures import response_time, with_beyond
from esbench.measure.tally import Second
from esbench.model import Challenge, Step, Task
from esbench.race.cluster import RaceTarget, StepTelemetry, WatchedRace
from esbench.race.hidden_events import HiddenEvents
from esbench.race.hook import Hook, PreparedRace, RaceHooks
from esbench.race.host_limits import too_fast
from esbench.race.options import RaceOptions
from esbench.race.preparing import (
    check_worker_count,
    coordinator_of,
    corpus_facts,
    count_what_is_there,
    hide_secrets,
    reach,
)
from esbench.race.recording import RecordWriter, now
from esbench.race.targets import (
    check_targets,
    targets_of,
    warn_about_concurrent_races,
    warn_about_other_races,
)
from esbench.record.hidden import HiddenSecrets
from esbench.record.host import driver_class, esbench_facts, host_class, host_facts
from esbench.record.locks import RaceLock
from esbench.record.model import RaceRecord, TaskResult, TrackFacts
from esbench.record.secrets import redact
from esbench.record.store import RaceFolder, RaceStore
from esbench.telemetry.device import Pulse, TaskSpan


class BegunRace:
    """A race as a context. When the block begins, its folder, lock, load workers and track are there, and what it races
    is reached; they are left when the block ends.

    Raises an EsbenchError if the race cannot begin.
    """

    def __init__(self, options: RaceOptions, progress: Progress, hook: Hook) -> None:
        self._options, self._started_at, self._epoch_ns = hide_secrets(options), now(), clock_ns()
        self._progress = progress
        self.hook = RaceHooks(hook, self._options)
        self._stack = ExitStack()

    def __enter__(self) -> BegunRace:
        with ExitStack() as beginning:
            stack = beginning.enter_context(self._stack)  # a cluster that starts later puts its end on it, too
            self.interrupts = stack.enter_context(self.hook.pace.join(self._options.race_id))
            stack.enter_context(self._progress.checked(self.interrupts.check))
            with self.hook.pace.turn():
                self._begin(stack)
            beginning.pop_all()  # it has begun: from here on __exit__ leaves what was entered
        return self

    def __exit__(self, *exc: Any) -> bool | None:
        return self._stack.__exit__(*exc)

    def _begin(self, stack: ExitStack) -> None:
        options, progress, siblings = self._options, self._progress, self.hook.pace.siblings
        self._folder = stack.enter_context(_race_folder(options, self._started_at))
        lock = stack.enter_context(RaceLock(options.home, options.race_id))
        warnings = [*check_worker_count(options), *warn_about_other_races(options, siblings, progress)]
        self._coordinator = stack.enter_context(coordinator_of(options, self._folder, self._epoch_ns))
        warnings += self._coordinator.warnings
        self._cluster, self._raced = reach(options, progress, self._folder, stack, self.hook)
        self.targets = targets_of(options, self._raced, self._cluster)
        # What it uses is known when the track was loaded for its cluster. It is claimed before it is looked at, lest
        # another race that uses the same begins in between.
        lock.claim([each.claim for each in self.targets])
        self._warnings = [*warnings, *check_targets(self.targets, options, siblings)]

    @property
    def challenge(self) -> Challenge:
        """The challenge as it is raced."""
        return self._raced.challenge

    def announce(self, listeners: Sequence[Listener]) -> None:
        """Make the race's record, and let listeners follow it from its beginning on."""
        for warning in (*self.hook.warnings, *self._warnings):
            self._progress.warn(self._folder.hide.text(warning))
        first = self._first_record()
        self._clock = partial(_seconds_since, self._epoch_ns)
        self.recording = self._stack.enter_context(RecordWriter(self._folder, first, self._clock))
        others = (HiddenEvents(each, self._folder.hide) for each in listeners)
        self.audience = Listeners((self.recording, self.hook, *others))
        self.audience.race_begins(first, self._raced.challenge.steps)
        self._stack.callback(lambda: self.audience.race_ended(self.recording.record))

    def _first_record(self) -> RaceRecord:
        options, raced, load_hosts = self._options, self._raced, self._coordinator.load_hosts
        host, track = host_facts(options.home), raced.track
        return replace(
            _unbegun(options, self._started_at),
            track=TrackFacts(track.name, str(track.path), track.digest, options.track_revision),
            challenge=raced.challenge.name,
            host_class=driver_class(load_hosts) or host_class(host),
            environment=host,
            clusters=self._cluster.facts(),
            warnings=(
                *options.client_options.warnings,
                *(warning for other in options.others.values() for warning in other.client_options.warnings),
                *raced.warnings,
                *self._warnings,
            ),
            parts=self.hook.parts(),
            load_hosts=load_hosts,
        )

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Context manager: however the block ends, the record is saved with the race's status.

        Raises the error of a race that has measured nothing.
        """
        with (
            keep_to_its_end(self.recording, self._cluster),
            warn_about_concurrent_races(self._options, self.hook.pace, self.recording),
        ):
            yield

    @contextmanager
    def prepared(self) -> Iterator[StepRunner]:
        """Context manager: the documents are prepared, the target has started, and telemetry watches it."""
        recording, cluster, pace = self.recording, self._cluster, self.hook.pace
        with pace.turn():
            documents = self._documents()
        target = self._cluster.start(recording)  # all sides at once
        with pace.turn():
            stock = self._begun(documents)
        pace.watch({} if self.hook.node else cluster.pids)  # a node that all sides share tells nothing of one
        pids = self._coordinator.pids
        watched = WatchedRace(recording, self._raced.track, self.audience, self._clock, pids)
        with cluster.telemetry(watched) as telemetry:
            try:
                yield StepRunner(self, self._as_prepared(target, stock), telemetry)
            finally:
                recording.keep_parts(self.hook.parts())
        cluster.finish(recording, self._raced.track)
        recording.warn(*(said for each in self.targets for said in each.remember(self.challenge.steps)))

    def _as_prepared(self, target: Target, stock: Stock) -> PreparedRace:
        cluster, coordinator = self._cluster, self._coordinator
        return PreparedRace(self._options, cluster, target, stock, coordinator, self._folder, self._progress)

    def _documents(self) -> tuple[PreparedDocuments, ...]:
        """Prepare the documents, and return them. The record of a race that cannot is not kept."""
        try:
            documents = self._raced.prepare_documents()
            self._cluster.prepare(documents)
        except EsbenchError:
            self.recording.withdraw()
            raise
        return documents

    def _begun(self, documents: tuple[PreparedDocuments, ...]) -> Stock:
        """Begin the record, and return what load workers need of the documents.

        Raises an EsbenchError for an operation that the cluster lacks.
        """
        raced, recording = self._raced, self.recording
        recording.begin(self._cluster.facts(), [corpus_facts(part) for part in documents])
        count_what_is_there(raced, self._cluster, self._coordinator)
        stock = raced.stock(documents)
        for warning in too_fast(self._options, raced.challenge, stock, recording.record.host_class):
            self._progress.warn(warning)
            recording.warn(warning)
        return stock

    @property
    def record(self) -> RaceRecord:
        """The record of the race, without secrets."""
        return self._folder.hide.part(self.recording.record)


@dataclass(frozen=True)
class StepRunner:
    """A prepared race: it runs steps with telemetry; their results are kept, and passed to listeners."""

    race: BegunRace
    prepared: PreparedRace
    telemetry: StepTelemetry

    def steps(self) -> Iterator[tuple[int, Step]]:
        """Yield each step with its number (from 0), when those before it have ended."""
        return enumerate(self.race.hook.steps(iter(self.race.challenge.steps), self.prepared))

    def run(self, number: int, step: Step) -> None:
        """Run a step. If it is cut short, keep what it measured before raising the error again."""
        self.race.recording.keep_parts(self.race.hook.parts())
        self.race.interrupts.call_instead(self.prepared.coordinator.cancel)
        with self.race.hook.pace.step(step):
            self._run(number, step)

    def _run(self, number: int, step: Step) -> None:
        self.race.audience.step_begins(number, step)
        self.telemetry.begin_step(number, [task.name for task in step.tasks])
        following = self.race.audience
        if self.telemetry.follows_seconds:
            following = Listeners((self.race.audience, _TelemetryFeed(self.telemetry.pulse, step.tasks)))
        try:
            results = self.prepared.coordinator.run(
                number,
                step,
                self.prepared.target,
                self.prepared.stock,
                listener=following,
                begin=self.race.hook.pace.begin,
                enough=self.race.hook.enough,
            )
            results = self.race.hook.pace.end(results)
        except CutShort as ended:
            self._keep(ended.results)
            self._end(number, step, ended.results, cut_short=True)
            raise
        self._keep(results)
        self.race.interrupts.raise_again()  # the cluster may hang
        self._end(number, step, results)

    def _keep(self, results: tuple[TaskResult, ...]) -> None:
        self.race.recording.add(results, self.prepared.coordinator.drivers)
        for result in results:
            self.race.audience.task_ended(result)

    def _end(self, number: int, step: Step, results: tuple[TaskResult, ...], *, cut_short: bool = False) -> None:
        self.telemetry.end_step(number, _spans(results), cut_short=cut_short)
        self.race.recording.tell(self.telemetry.news())
        self.race.recording.warn(*self.prepared.coordinator.take_notes())
        self.race.recording.warn(*(said for each in self.race.targets for said in each.remember([step])))


@contextmanager
def keep_to_its_end(recording: RecordWriter, cluster: RaceTarget) -> Iterator[None]:
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


def _seconds_since(epoch_ns: int) -> float:
    return (clock_ns() - epoch_ns) / 1e9


class _TelemetryFeed(Listener):
    """A listener that passes each second of a step's tasks to `tell` as a Pulse."""

    def __init__(self, tell: Callable[[Pulse], None], tasks: Sequence[Task]) -> None:
        self._tell = tell
        self._open = {task.name for task in tasks if task.schedule.is_open}

    def second(self, task: str, second: Second) -> None:
        tally = second.tally
        times = Counts()
        for name in with_beyond(response_time(is_open=task in self._open).name):
            times.merge(getattr(tally, name))
        p99_ns = percentiles_ns(times, (99.0,)).get(99.0)
        p99_ms = None if p99_ns is None else p99_ns / 1e6
        self._tell(Pulse(task, second.second, tally.requests, tally.errors.total, p99_ms, second.warmup))


def _spans(results: Sequence[TaskResult]) -> list[TaskSpan]:
    """Return the time spans in which the tasks of a step ran, without those that never began."""
    return [
        TaskSpan(
            result.name,
            result.begun_s,
            result.clock_until_s(result.duration_s),
            result.clock_s(result.window.start_s),
            result.clock_until_s(result.window.end_s),
            result.cluster,
        )
        for result in results
        if result.begun_s is not None
    ]
