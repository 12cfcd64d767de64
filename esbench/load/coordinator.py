"""The coordinator runs steps on worker processes: deals client slots, starts and stops the clock, merges reports.

It exchanges the five messages of `messages` with the workers and knows no cluster, engine or record folder.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from esbench.errors import EsbenchError, RaceError
from esbench.events.listeners import Listener
from esbench.load.assignment import deal, most_workers
from esbench.load.checks import lost_hosts
from esbench.load.health import Watch
from esbench.load.host_outages import HostOutages
from esbench.load.hot import clock_ns
from esbench.load.launcher import Launcher, WorkerProcess, end_all
from esbench.load.measurements import TaskMeasurements
from esbench.load.messages import ABORT_DRAIN_S, Hello, Message, Prepare, RunStep, Stock, Stop, Target, Tick
from esbench.load.step_state import RunningStep
from esbench.measure.cpu_time import Usage
from esbench.measure.slices import WholeTime
from esbench.model import Step, Task
from esbench.operations.base import kind_of
from esbench.record.model import DriverFacts, TaskResult
from esbench.requests.ledger import Ledger

if TYPE_CHECKING:
    from esbench.load.host_shares import HostShares

NS = 1_000_000_000
_READY_TIMEOUT_S = 60.0
_CONNECT_S = 0.02  # that a client may take: a handshake of TLS costs both sides milliseconds
_PYTHON_READY_TIMEOUT_S = 1800.0  # parameter sources of a track's own may read or make a lot first
_SILENT_S = 6.0  # a worker ticks once a second
_DRAIN_S = 5.0  # for requests in flight after a cancel
_END_WITHIN_S = 2.0  # for a worker to end after a Stop and the drain
_HANG_UP_S = 1.0  # for a worker's process to end after its pipe
_LEAVE_S = 3.0  # for the workers to end at the end of a race


@dataclass
class _Worker:
    process: WorkerProcess
    loop: str = ""
    compiled: bool = False
    usage: Usage = field(default_factory=Usage)
    last_heard_s: float = field(default_factory=time.monotonic)
    has_hung_up: bool = False  # its pipe has ended: nothing is unread in it

    @property
    def number(self) -> int:
        return self.process.number

    @property
    def is_silent(self) -> bool:
        """True if the worker has sent nothing for too long; a message still unread in its pipe counts as sent."""
        return time.monotonic() - self.last_heard_s > _SILENT_S and (self.has_hung_up or not self.process.has_message())


def at_once(delay_ns: int) -> WholeTime:
    """Return the time of a step that is raced alone, and begins as soon as its workers know of it, after `delay_ns`."""
    return WholeTime(clock_ns() + delay_ns)


def _never() -> bool:
    return False


class CutShort(Exception):  # noqa: N818 - its cause may be no error
    """Raised when a step was ended early; `results` are what it measured until then."""

    def __init__(self, why: str, results: tuple[TaskResult, ...]) -> None:
        super().__init__(why)
        self.results = results


class Cancelled(CutShort):
    """Raised when the user cancelled the race."""

    def __init__(self, results: tuple[TaskResult, ...]) -> None:
        super().__init__("cancelled", results)


class StepFailed(CutShort):
    """Raised when a step was aborted because of `error`."""

    def __init__(self, error: EsbenchError, results: tuple[TaskResult, ...]) -> None:
        super().__init__(str(error), results)
        self.error = error


class Coordinator:
    """Worker processes and the steps that they run, one at a time. Use it as a context manager."""

    def __init__(
        self,
        launcher: Launcher,
        *,
        abort_on_error: bool,
        max_error_ratio: float | None = None,
        seed: int,
        race_id: str,
        drain_s: float = _DRAIN_S,
        epoch_ns: int | None = None,
        index_prefix: str = "",
    ) -> None:
        """Create a coordinator of the launcher's workers, which are started when its context is entered.

        With `abort_on_error`, the first failed request ends its step, unless its task tolerates it; with
        `max_error_ratio`, a task of which a larger share of requests has failed does. After a cancel, requests in
        flight are awaited for `drain_s`. `epoch_ns` is the zero of the race's clock (of `clock_ns`), by default now.
        `index_prefix`: of the names of the race's indices.
        """
        self._launcher = launcher
        self._abort_on_error = abort_on_error
        self._max_error_ratio = max_error_ratio
        self._seed = seed
        self._race_id = race_id
        self._drain_s = drain_s
        self._epoch_ns = clock_ns() if epoch_ns is None else epoch_ns
        self._index_prefix = index_prefix
        self._workers: list[_Worker] = []
        self._ledger = Ledger()
        self._notes: dict[str, None] = {}  # in the order in which they came
        self._outages = HostOutages()
        self._cancel_requests = 0

    def __enter__(self) -> Coordinator:
        """Start the worker processes; they get ready while the caller goes on."""
        try:
            self._workers = [_Worker(process) for process in self._launcher.start()]
        except BaseException:
            self._launcher.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._tell(self._workers, Stop(drain_s=0.0, leave=True))
        end_all([worker.process for worker in self._workers], _LEAVE_S)
        self._launcher.close()

    @property
    def drivers(self) -> tuple[DriverFacts, ...]:
        """The host, kind of event loop and used CPU time of each worker."""
        return tuple(
            DriverFacts(
                host=w.process.host,
                worker=w.number,
                cpu_s=w.usage.cpu_ns / NS,
                clock_uncertainty_ms=self._launcher.clock_uncertainty_ms(w.process.host),
                loop=w.loop,
                compiled=w.compiled,
            )
            for w in self._workers
        )

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the workers of this host, in the order of their numbers; empty before the start."""
        return tuple(worker.process.pid for worker in self._workers) if not self._launcher.host_facts() else ()

    @property
    def load_hosts(self) -> tuple[Mapping[str, Any], ...]:
        """Facts about each load host; empty if the workers run on this one."""
        return self._launcher.host_facts()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about the load hosts: what may make their figures differ."""
        return self._launcher.warnings()

    def take_notes(self) -> tuple[str, ...]:
        """Return what workers have said of tasks that have ended, each sentence once, and forget it."""
        notes, self._notes = tuple(self._notes), {}
        return notes

    @property
    def ledger(self) -> Ledger:
        """The writes of the race so far."""
        return self._ledger

    def count_as_acknowledged(self, index: str, documents: int, cluster: str) -> None:
        """Record the number of documents that an index of a cluster holds before the race writes to it."""
        self._ledger.of(cluster).acknowledge(index, documents)

    def cancel(self) -> None:
        """Take no new arrivals, in this step and in any later one; the running `run` then raises Cancelled.

        May be called by a signal handler. The second call kills the workers at once.
        """
        self._cancel_requests += 1
        if self._cancel_requests > 1:
            for worker in self._workers:
                worker.process.kill()

    def run(
        self,
        number: int,
        step: Step,
        target: Target,
        stock: Stock,
        listener: Listener | None = None,
        begin: Callable[[int], WholeTime] = at_once,
        enough: Callable[[], bool] = _never,
    ) -> tuple[TaskResult, ...]:
        """Run one step and return its tasks' results, in order. `number` is the step's number in the race, from 0.

        `listener` is notified of the units that its tasks will process in all (`totals_known`), of the step's start,
        its seconds, the workers' reports, and hosts that are lost or back. `begin` is called when all workers are
        ready, with the ns that a message may take to reach them, and returns the time in which the step runs. As soon
        as `enough` is true, which is asked all the time, the step ends like one whose completing task has ended.

        Raises StepFailed if the step was aborted and Cancelled after `cancel`, both with the results so far; an
        EsbenchError if it could not begin.
        """
        listener = listener or Listener()
        left = [worker for worker in self._workers if not worker.process.is_host_lost]
        hosts: dict[str, list[int]] = {}
        for worker in left:
            hosts.setdefault(worker.process.host, []).append(worker.number)
        if not left:
            raise RaceError("all load hosts are lost", where=_named("task", [task.name for task in step.tasks]))
        dealt = deal(step, tuple(hosts.values()), stock)
        units_in_all = _units_in_all(step, stock)
        measurements = {
            task.name: TaskMeasurements(
                task,
                number,
                unit=(kind := kind_of(task.operation)).unit_of(task.operation.params),
                admin=kind.traits.administrative,
                per_request=(
                    amounts := next(a.per_request for shares in dealt.values() for a in shares if a.task is task)
                ),
                most_workers=most_workers(task, kind, amounts, stock),
                workers=frozenset(n for n, shares in dealt.items() if any(a.task is task for a in shares)),
                epoch_ns=self._epoch_ns,
                units_in_all=units_in_all.get(task.name),
                index_prefix=self._index_prefix,
                host_shares=self._host_shares(task) if len(hosts) > 1 else None,
            )
            for task in step.tasks
        }
        taking_part = [worker for worker in left if dealt[worker.number]]
        names = tuple(task.name for task in step.tasks)
        self._outages.begin(number, names, [worker.number for worker in taking_part], listener.host_changed)
        for worker in taking_part:
            self._send(
                worker,
                Prepare(
                    number,
                    dealt[worker.number],
                    target,
                    stock,
                    self._seed,
                    self._race_id,
                    self._abort_on_error,
                    self._ledger,
                ),
            )
        self._await_ready(taking_part, step, number)
        if self._cancel_requests:
            raise Cancelled(())
        self._launcher.compare_clocks()
        time_of_step = begin(self._launcher.start_delay_ns)
        usages = {worker.number: worker.usage for worker in taking_part}
        watch = Watch(time_of_step, usages, self._launcher.stolen_s())
        running = RunningStep(step, measurements, listener.second, watch)
        for task in measurements.values():
            task.step_start_ns, task.time = time_of_step.begin_ns, time_of_step
        first = RunStep(number, time_of_step, running.next_tasks())
        for worker in taking_part:
            self._send(worker, first)
        listener.totals_known(units_in_all)
        listener.step_runs(number, {name: task.unit for name, task in measurements.items()}, time_of_step.stretch)
        error = self._follow(taking_part, number, running, listener, enough)
        self._launcher.compare_clocks()
        lost = [lost_hosts(list(self._outages.of_step), target.host_count)] if self._outages.of_step else []
        results = running.results(lost)
        if self._cancel_requests:
            raise Cancelled(results)
        if error is not None:
            raise StepFailed(error, results)
        return results

    def _host_shares(self, task: Task) -> HostShares:
        from esbench.load.host_shares import HostShares

        host_of = {worker.number: worker.process.host for worker in self._workers}
        return HostShares(host_of, self._launcher.clock_uncertainty_ms, is_open=task.schedule.is_open)

    def _await_ready(self, workers: Sequence[_Worker], step: Step, number: int) -> None:
        """Wait until all workers are ready, or until a cancel. Raises an EsbenchError if one cannot get ready."""
        waiting = {worker.number for worker in workers}
        names = ", ".join(task.name for task in step.tasks)
        has_code = any(task.operation.python for task in step.tasks)
        timeout_s = _PYTHON_READY_TIMEOUT_S if has_code else _READY_TIMEOUT_S
        timeout_s += _CONNECT_S * sum(task.clients for task in step.tasks)
        deadline = time.monotonic() + timeout_s
        while waiting and not self._cancel_requests:
            if not all(worker.process.is_provided_for for worker in workers):
                deadline = time.monotonic() + timeout_s
            if time.monotonic() > deadline:
                raise RaceError(f"load workers {sorted(waiting)} did not get ready in {timeout_s:.0f} s", where=names)
            for worker, message in self._receive(workers):
                if isinstance(message, Hello):
                    worker.loop, worker.compiled, worker.usage = message.loop, message.compiled, message.usage
                    if message.lost or message.step == number:
                        self._outages.take(worker.number, message.lost)
                    if message.error is not None and message.step in (None, number):
                        raise message.error
                    if message.step == number:
                        waiting.discard(worker.number)
            for worker in workers:
                if (how := worker.process.ended()) is not None and not self._cancel_requests:
                    raise self._death(worker, how, [task.name for task in step.tasks])
                # to prepare may take long without a word, but not of a process that does not run
                if worker.is_silent and worker.process.is_stopped:
                    raise self._silence(worker, [task.name for task in step.tasks])

    def _follow(
        self,
        workers: Sequence[_Worker],
        number: int,
        running: RunningStep,
        listener: Listener,
        enough: Callable[[], bool],
    ) -> EsbenchError | None:
        """Take ticks until every task has ended. Returns the error that ended the step early, if any.

        After an error or a cancel the workers are stopped, and those that do not end soon are left behind.
        """
        error: EsbenchError | None = None
        left = list(workers)
        deadline = math.inf
        looked_ns = 0
        while not running.ended and time.monotonic() < deadline:
            for worker, message in self._receive(left):
                heard = self._hear(worker, message, running, listener)
                error = error or heard
            for worker in tuple(left):
                lost = self._lost(worker, running)
                if lost is not None:
                    left.remove(worker)
                    running.give_up_on(worker.number, lost.what)
                    goes_on = worker.process.is_host_lost and not self._abort_on_error and left
                    error = error if goes_on else error or lost
            if (now_ns := clock_ns()) - looked_ns > NS or running.ended:
                running.watch.stolen(now_ns, self._launcher.stolen_s())
                looked_ns = now_ns
            if deadline < math.inf:
                continue
            if error is not None or self._cancel_requests:
                running.cut_short()
                drain_s = self._drain_s if self._cancel_requests else ABORT_DRAIN_S
                self._tell(left, Stop(drain_s=drain_s))
                deadline = time.monotonic() + drain_s + _END_WITHIN_S
            elif running.just_completed(enough=enough()):
                self._tell(left, Stop())
            elif tasks := running.next_tasks():
                later = running.watch.time.begun_later(clock_ns() + self._launcher.start_delay_ns)
                running.begin(tasks, later)
                self._tell(left, RunStep(number, later, tasks))
        for worker in left:
            running.give_up_on(worker.number, f"load worker {worker.number} did not end when it was stopped")
        self._tell(left, Stop(step_over=True))
        return error

    def _hear(self, worker: _Worker, message: Message, running: RunningStep, listener: Listener) -> EsbenchError | None:
        """Take a worker's message while a step runs. Returns the error for which the step must end early, if any."""
        if isinstance(message, Tick):
            worker.usage = message.usage
            self._ledger.enter(message.ledger)
            self._outages.take(worker.number, message.lost)
            self._notes |= dict.fromkeys(note for end in message.ended for note in end.notes)
            listener.worker_ticked(worker.number, message.usage, message.loop_lag_ns)
            running.take(worker.number, message)
            if message.failure is None and self._max_error_ratio is not None:
                return running.excess(self._max_error_ratio)
            return message.failure
        return message.error if isinstance(message, Hello) else None

    def _lost(self, worker: _Worker, running: RunningStep) -> RaceError | None:
        """Return the error for a worker that has ended or is silent, None for a live one. A silent worker is killed."""
        tasks = running.unfinished_of(worker.number)
        if (how := worker.process.ended()) is not None:
            return self._death(worker, how, tasks)
        if worker.is_silent:
            return self._silence(worker, tasks)
        return None

    def _silence(self, worker: _Worker, tasks: Sequence[str]) -> RaceError:
        worker.process.kill()
        worker.process.ended(_HANG_UP_S)
        return RaceError(
            f"load worker {worker.number} has sent nothing for {_SILENT_S:.0f} s", where=_named("task", tasks)
        )

    def _death(self, worker: _Worker, how: str, tasks: Sequence[str]) -> RaceError:
        if worker.process.is_host_lost:
            return RaceError(how, where=_named("task", tasks), hint=f"see {self._launcher.log}")
        return RaceError(
            f"load worker {worker.number} ended unexpectedly ({how})",
            where=_named("task", tasks),
            hint=f"see {self._launcher.log}",
        )

    def _tell(self, workers: Sequence[_Worker], message: Message) -> None:
        for worker in workers:
            try:
                worker.process.send(message)
            except OSError:
                pass  # noticed as a dead worker

    def _send(self, worker: _Worker, message: Message) -> None:
        worker.last_heard_s = time.monotonic()  # from now on it has something to say
        try:
            worker.process.send(message)
        except OSError as error:
            how = worker.process.ended(_HANG_UP_S) or "still running"
            what = how if worker.process.is_host_lost else f"load worker {worker.number} is gone ({how})"
            raise RaceError(what, hint=f"see {self._launcher.log}") from error

    def _receive(self, workers: Sequence[_Worker]) -> list[tuple[_Worker, Message]]:
        """Return the messages that arrive within 0.2 s. A pipe that has ended is marked; its process has 1 s to end."""
        by_fd = {worker.process.fileno(): worker for worker in workers}
        received: list[tuple[_Worker, Message]] = []
        for fd in wait(list(by_fd), timeout=0.2):
            worker = by_fd[fd]  # type: ignore[index]
            try:
                message = worker.process.receive()
            except (EOFError, OSError):
                worker.has_hung_up = True
                worker.process.ended(_HANG_UP_S)
                continue
            worker.last_heard_s = time.monotonic()
            received.append((worker, message))
        return received


def _units_in_all(step: Step, stock: Stock) -> dict[str, float]:
    """Return the units that each task of a step will process, by task, where the number is known beforehand."""
    found = {
        task.name: kind_of(task.operation).units_in_all(
            task.operation.params, stock.documents, stock.indices or stock.data_streams, f'task "{task.name}"'
        )
        for task in step.tasks
    }
    return {name: units for name, units in found.items() if units is not None}


def _named(kind: str, names: Sequence[str]) -> str:
    return ", ".join(f'{kind} "{name}"' for name in names)
