"""A load worker: one process, one event loop, its share of the clients of each task.

    python -m esbench.worker.process FD NUMBER

FD is its end of a socket pair. It exchanges the five messages with the coordinator and ends when that is gone.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any

from esbench.errors import EsbenchError, RaceError
from esbench.errors.printable import printable
from esbench.load.failures import remedy, sentence
from esbench.load.hosts import Hosts
from esbench.load.hot import IS_COMPILED, NEVER_NS, clock_ns
from esbench.load.messages import (
    ABORT_DRAIN_S,
    HTTP,
    Hello,
    Loss,
    Message,
    Prepare,
    RunStep,
    Stop,
    Target,
    Tick,
)
from esbench.load.open_files import raise_limit
from esbench.load.outbox import Outbox
from esbench.measure.cpu_time import Usage, run_delay_ns
from esbench.measure.precise_timer import Alarm
from esbench.measure.slices import WholeTime
from esbench.measure.verdict import ASSERTION, Verdict
from esbench.model import Task
from esbench.operations.indices import ASSERTION_FAILED
from esbench.requests.ledger import Ledger
from esbench.units import format_duration
from esbench.worker.preparation import Preparation
from esbench.worker.worker_task import TaskShare

NS = 1_000_000_000
_SWEEP_S = 0.05
_RETRY_S = 0.1  # while a step that begins has no host


class Worker:
    """A load worker: prepares and runs the steps that the coordinator asks for, one at a time."""

    def __init__(self, number: int, pipe: Pipe, outbox: Outbox) -> None:
        """Create a worker that reads from `pipe` and sends through `outbox`."""
        self._number = number
        self._pipe = pipe
        self._outbox = outbox
        self._preparation = Preparation()
        self._prepared: Prepare
        self._shares: Sequence[TaskShare] = ()
        self._hosts: dict[str, Hosts] = {}  # by cluster
        self._ledger = Ledger()
        self._running = False  # from a step's start until the tasks of all workers have ended
        self._alarms: set[Alarm] = set()
        self._leaving = False
        self._failure: EsbenchError | None = None
        self._loop_lag_ns = 0
        self._begun_ns = 0
        self._time = WholeTime(0)  # of the step
        self._finished = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until the coordinator asks to leave, or is gone."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unexpected)
        loop.add_reader(self._pipe.fileno(), self._read)
        os.set_blocking(self._pipe.fileno(), True)  # uvloop has changed it: no half of a long message is an end
        self._hello()
        sweeper = loop.create_task(self._sweep())
        ticker = loop.create_task(self._tick_every_second())
        await self._finished.wait()
        for task in (sweeper, ticker):
            task.cancel()
        for share in self._shares:
            share.close()
        for hosts in self._hosts.values():
            hosts.close()

    def _read(self) -> None:
        try:
            message: Message = self._pipe.recv()
        except (EOFError, OSError):
            self._finished.set()  # the coordinator is gone
            return
        if isinstance(message, Prepare):
            self._spawn(self._prepare(message))
        elif isinstance(message, RunStep):
            self._start(message)
        elif isinstance(message, Stop):
            self._stop(message)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _send(self, message: Message) -> None:
        try:
            self._outbox.send(message)
        except OSError:
            self._finished.set()

    def _flush(self) -> None:
        try:
            self._outbox.flush()
        except OSError:
            self._finished.set()

    def _hello(self, step: int | None = None, error: EsbenchError | None = None) -> None:
        kind = type(asyncio.get_running_loop()).__module__.partition(".")[0]
        self._send(Hello(self._number, os.getpid(), kind, step, error, _usage(), self._lost(), IS_COMPILED))

    # Hosts

    def _hosts_of(self, cluster: str, target: Target) -> Hosts:
        """Return the hosts of a cluster as this worker knows them: one lost in a step still is in the next one."""
        known = self._hosts.get(cluster)
        if known is not None and known.all == target.hosts:
            return known
        if known is not None:
            known.close()
        # A server of another kind is only reached here: a SQL server speaks first, in plain text.
        options = replace(target.options, use_ssl=False) if target.kind != HTTP else target.options
        self._hosts[cluster] = hosts = Hosts(
            target.hosts,
            options,
            lost=self._report_hosts,
            back=self._host_is_back,
            any_server=target.any_server or target.kind != HTTP,
        )
        return hosts

    def _lost(self) -> Mapping[str, Loss]:
        return {label: loss for hosts in self._hosts.values() for label, loss in hosts.lost.items()}

    def _host_is_back(self) -> None:
        for share in self._shares:
            if not share.ended:
                for client in share.clients:
                    client.return_home()
        self._report_hosts()

    def _report_hosts(self) -> None:
        if self._running:
            self._tick()
        else:
            self._hello()

    # A step

    async def _prepare(self, message: Prepare) -> None:
        self._prepared = message
        self._ledger = Ledger()
        self._failure = None
        try:
            hosts = {name: self._hosts_of(name, target) for name, target in message.target.clusters.items()}
            self._shares = await self._preparation.shares(message, hosts, self._ledger)
        except EsbenchError as error:
            self._hello(message.step, error)
            return
        except Exception as error:  # noqa: BLE001 - the coordinator must hear of it, whatever it is
            self._hello(message.step, _internal(error, "while preparing"))
            return
        gc.collect()
        gc.freeze()
        gc.disable()
        self._hello(message.step)

    def _start(self, message: RunStep) -> None:
        """Set up the tasks, to begin in their time."""
        begin_ns = message.time.begin_ns
        if not self._running:
            self._running, self._begun_ns, self._time = True, begin_ns, message.time
        shares = [share for share in self._shares if share.task.name in message.tasks and not share.ended]
        for share in shares:
            ended, failed = partial(self._ended, share), partial(self._failed, share.task)
            share.set_up(message.time, self._prepared.seed, ended, failed)

        def begin() -> None:
            alarm.close()
            self._alarms.discard(alarm)
            self._begin(begin_ns, shares)

        alarm = Alarm(asyncio.get_running_loop(), begin)
        self._alarms.add(alarm)
        alarm.set(begin_ns)

    def _begin(self, start_ns: int, shares: Sequence[TaskShare]) -> None:
        while clock_ns() < start_ns:
            pass  # where alarms are the loop's timers, they may be a millisecond early
        for share in shares:
            if not share.ended:
                share.begun = True
                share.loop.start(start_ns)
        self._report_ends()

    def _ended(self, share: TaskShare) -> None:
        share.ended = True
        share.program.close()
        share.close()
        if self._running:
            self._report_ends()

    def _report_ends(self) -> None:
        if any(share.ended and not share.reported_end for share in self._shares):
            self._tick()

    def _failed(self, task: Task, verdict: Verdict) -> None:
        """Abort the step at the first failure, unless the race or the task tolerates it.

        A failed assertion is never tolerated.
        """
        tolerated = not self._prepared.abort_on_error
        if task.ignore_response_error_level == "non-fatal" and not verdict.error_is_of_connection:
            tolerated = True
        asserted = verdict.error in (ASSERTION, ASSERTION_FAILED)
        if tolerated and not asserted:
            return
        if self._failure is None and verdict.error != "cancelled":
            hint = "" if asserted else remedy(verdict)
            self._abort(RaceError(sentence(verdict), where=f'task "{task.name}"', hint=hint))

    def _abort(self, failure: EsbenchError) -> None:
        self._failure = failure
        self._stop(Stop(drain_s=ABORT_DRAIN_S))
        self._tick()

    def _stop(self, message: Stop) -> None:
        self._leaving = self._leaving or message.leave
        for share in self._shares:
            if self._running and not share.ended and (not message.tasks or share.task.name in message.tasks):
                self._stop_share(share, message.drain_s)
        if message.step_over:
            self._running = False
        self._leave_if_idle()

    @property
    def _is_idle(self) -> bool:
        """True if this worker has nothing left to do; tasks of others may go on."""
        return not self._running or all(share.reported_end for share in self._shares)

    def _leave_if_idle(self) -> None:
        if self._leaving and self._is_idle:
            self._finished.set()

    def _stop_share(self, share: TaskShare, drain_s: float | None) -> None:
        if not share.begun:  # then it never will
            self._ended(share)
            return
        share.loop.stop()
        if drain_s is not None:
            give_up = partial(share.loop.give_up, "cancelled", "the race was stopped")
            asyncio.get_running_loop().call_later(drain_s, give_up)

    # Reports

    async def _tick_every_second(self) -> None:
        makes_garbage = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)  # its transports do, uvloop's not
        while True:
            now_ns = clock_ns()
            await asyncio.sleep((self._time.next_tick_ns(now_ns) - now_ns) / NS)
            if self._running:
                self._tick()
                if makes_garbage:
                    gc.collect()  # quick: all that was there before the step is frozen

    def _tick(self) -> None:
        now_ns = clock_ns()
        running = [share for share in self._shares if not share.reported_end]
        ended = [share for share in running if share.ended]
        tick = Tick(
            worker=self._number,
            step=self._prepared.step,
            tasks=tuple(share.take_seconds(NEVER_NS if share.ended else now_ns) for share in running if share.begun),
            ended=tuple(share.take_end() for share in ended),
            at_ns=now_ns,
            usage=_usage(),
            loop_lag_ns=self._loop_lag_ns,
            ledger=self._ledger.take() if ended else Ledger(),
            failure=self._failure,
            lost=self._lost(),
        )
        self._loop_lag_ns = 0
        if self._is_idle:
            gc.enable()
            gc.unfreeze()
        self._send(tick)
        self._leave_if_idle()

    async def _sweep(self) -> None:
        """Fail timed-out requests, 20 times a second; send waiting messages, and measure how late the event loop is."""
        while True:
            before_ns = clock_ns()
            await asyncio.sleep(_SWEEP_S)
            now_ns = clock_ns()
            self._flush()
            if self._running and before_ns >= self._begun_ns:  # to prepare a step is no lag of it
                self._loop_lag_ns = max(self._loop_lag_ns, now_ns - before_ns - int(_SWEEP_S * NS))
            if self._running:
                for share in self._shares:
                    if share.begun and not share.ended:
                        # all that had arrived by then has been read since: no stall of the driver is a timeout
                        share.loop.sweep(before_ns)
                for cluster, hosts in self._hosts.items():
                    if hosts.none_left and self._failure is None and not self._is_idle:
                        self._give_up_hosts(cluster, hosts)

    def _give_up_hosts(self, cluster: str, hosts: Hosts) -> None:
        """Abort if all hosts of a cluster are lost, and none has answered anything for too long."""
        shares = [share for share in self._shares if share.task.cluster == cluster]
        hosts.hear(max((client.received_ns for share in shares for client in share.clients), default=0))
        if hosts.given_up:
            self._abort(_no_host_left(hosts, self._shares))

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Stop the race after a programming error."""
        error = context.get("exception")
        self._failure = self._failure or _internal(error, str(context.get("message", "")))
        if self._running:
            for share in self._shares:
                if not share.ended:
                    self._stop_share(share, 0.0)
            self._tick()
        else:
            self._hello(None, self._failure)


def _no_host_left(hosts: Hosts, shares: Sequence[TaskShare]) -> RaceError:
    tasks = ", ".join(f'task "{share.task.name}"' for share in shares if not share.ended)
    lost = ", ".join(f"{name} ({loss.reason})" for name, loss in hosts.lost.items())
    return RaceError(f"no host could be reached for {format_duration(hosts.grace_s)}: {lost}", where=tasks)


def _internal(error: object, doing: str) -> EsbenchError:
    """Return a programming error as a RaceError, with its traceback printed; an EsbenchError is returned as it is."""
    import traceback

    if isinstance(error, EsbenchError):
        return error
    lines = traceback.format_exception(error) if isinstance(error, BaseException) else [str(error)]
    print(printable("".join(lines)), file=sys.stderr, flush=True)
    return RaceError(
        f"an internal error in a load worker {doing}: {error!r}", hint="its traceback is in logs/worker.log"
    )


def _usage() -> Usage:
    """Return the CPU time that this process has used so far, and the time that it waited for a CPU."""
    return Usage(time.process_time_ns(), run_delay_ns())


def main() -> None:
    """Run a worker on an inherited socket. Ctrl-C and SIGHUP are left to the coordinator."""
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    raise_limit()
    fd, number = int(sys.argv[1]), int(sys.argv[2])
    with socket.socket(fileno=fd) as sock, Pipe(os.dup(fd)) as pipe:
        worker = Worker(number, pipe, Outbox(sock))
        _event_loop_runner()(worker.run())


def _event_loop_runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    try:
        import uvloop
    except ImportError:
        # returned, not called here: what is raised while an error is handled has that error as its context
        return asyncio.run
    return uvloop.run


if __name__ == "__main__":
    main()
