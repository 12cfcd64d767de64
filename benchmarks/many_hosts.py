"""The real coordinator with simulated load hosts: what it costs to follow 10, 100 or 1,000 of them.

    python benchmarks/many_hosts.py [HOSTS]...

Each host has one worker that reports once a second as a real one does: the pickled counts of a thousand requests in
two tasks. Printed are, for each number of hosts: the time that a step takes to be dealt and sent, the CPU of the
coordinator's thread while the step runs, in percent of one core, the time from the step's end to its results, and the
size of the record.
"""

from __future__ import annotations

import heapq
import random
import sys
import threading
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing.reduction import ForkingPickler
from typing import Any

from tabulate import tabulate

from esbench.cluster.dialect import Dialect
from esbench.cluster.options import ClientOptions, Host
from esbench.features.hosts.clock import ClockReading, HostClock
from esbench.features.hosts.launcher import RemoteWorker
from esbench.load.coordinator import Coordinator, at_once
from esbench.load.hot import clock_ns
from esbench.load.messages import Hello, Message, Prepare, RunStep, Stock, Stop, Target, TaskEnd, TaskSeconds, Tick
from esbench.measure.cpu_time import Usage
from esbench.measure.slices import WholeTime
from esbench.measure.tally import Second, Tally
from esbench.model import Operation, Schedule, Step, Task
from esbench.operations import builtin_operations
from esbench.record.model import RaceRecord, TrackFacts
from esbench.record.store import encode_record
from esbench.units import Rate

NS = 1_000_000_000
SECONDS = 10
REQUESTS = 1_000  # of a worker, a second and a task


@cache
def tally(seed: int) -> Tally:
    """Return the counts of a worker's second: response times as a cluster's are, a lognormal with a long tail."""
    draw, found = random.Random(seed), Tally(due=REQUESTS, sent=REQUESTS, requests=REQUESTS, units=REQUESTS)
    found.in_window = REQUESTS
    for counts in (found.latency, found.service_time, found.driver_lag, found.client_wait, found.schedule_lag):
        for _ in range(REQUESTS):
            counts.add(round(draw.lognormvariate(14.5, 0.6)))
    return found


@dataclass
class SimulatedHost:
    """A load host without a machine: answers messages at once, and ticks once a second while a step runs."""

    number: int
    agenda: Agenda
    lost: str | None = None
    is_provided_for: bool = True
    clock: HostClock = field(default_factory=HostClock)

    def __post_init__(self) -> None:
        self.name = f"host-{self.number}"
        self.clock.compare([ClockReading(0, 1000, 2000)])
        self.worker = RemoteWorker(self.number, self, self.number)  # type: ignore[arg-type]

    def send(self, number: int, message: Message) -> None:
        ForkingPickler.dumps(message)  # as it is sent
        if isinstance(message, Prepare):
            self.tasks = [share.task.name for share in message.assignments]
            self._deliver(Hello(number, number, "uvloop", message.step))
        elif isinstance(message, RunStep):
            self.begin_ns = message.time.begin_ns
            for second in range(1, SECONDS + 1):
                self.agenda.add(self.begin_ns + second * NS, self, second)
        elif isinstance(message, Stop) and message.leave:
            self.worker.hang_up("left")

    def tick(self, second: int) -> None:
        """Report a second; the last one with the ends of the tasks."""
        at_ns, is_last = clock_ns(), second == SECONDS
        seconds = tuple(
            TaskSeconds(name, (Second(second - 1, False, tally(2 * (second % 5) + place)),), second)
            for place, name in enumerate(self.tasks)
        )
        ends = [
            TaskEnd(name, self.begin_ns, self.begin_ns + SECONDS * NS, 0, self.begin_ns, at_ns) for name in self.tasks
        ]
        self._deliver(Tick(self.number, 0, seconds, tuple(ends) if is_last else (), at_ns, Usage(), 0))

    def kill(self, number: int) -> None:
        self.worker.hang_up("killed")

    def _deliver(self, message: Message) -> None:
        self.worker.deliver(bytes(ForkingPickler.dumps(message)))


class Agenda(threading.Thread):
    """A thread that lets hosts tick when it is time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._due: list[tuple[int, int, int, SimulatedHost]] = []
        self._lock = threading.Lock()

    def add(self, at_ns: int, host: SimulatedHost, second: int) -> None:
        with self._lock:
            heapq.heappush(self._due, (at_ns, host.number, second, host))

    def run(self) -> None:
        while True:
            with self._lock:
                due = heapq.heappop(self._due) if self._due and self._due[0][0] <= clock_ns() else None
            if due is None:
                time.sleep(0.001)
            else:
                due[3].tick(due[2])


class SimulatedHosts:
    """A launcher of simulated load hosts."""

    log = "nowhere"
    start_delay_ns = 50_000_000

    def __init__(self, count: int) -> None:
        agenda = Agenda()
        agenda.start()
        self._hosts = [SimulatedHost(number, agenda) for number in range(count)]

    def start(self) -> list[RemoteWorker]:
        return [host.worker for host in self._hosts]

    def close(self) -> None:
        pass

    def compare_clocks(self) -> None:
        pass

    def clock_uncertainty_ms(self, host: str) -> float:
        return 0.5

    def stolen_s(self) -> Mapping[Hashable, float]:
        return {(host.name, 0): 0.0 for host in self._hosts}

    def warnings(self) -> tuple[str, ...]:
        return ()

    def host_facts(self) -> tuple[Mapping[str, Any], ...]:
        return tuple({"name": host.name} for host in self._hosts)


def measure(count: int) -> tuple[str, ...]:
    """Run a step on `count` hosts, and return a row of the table."""
    read = builtin_operations().bind(Operation("read", "get", {"index": "orders", "id": "1"}))
    rate = Schedule("deterministic", Rate(REQUESTS * count, "ops"))
    tasks = tuple(
        Task(f"read-{number}", read, clients=4 * count, schedule=rate, time_period_s=SECONDS) for number in (1, 2)
    )
    target = Target((Host("10.0.0.1"),), ClientOptions(), Dialect("elasticsearch", (7, 10)))
    began: list[float] = []

    def begin(delay_ns: int) -> WholeTime:
        began.extend((time.monotonic(), time.thread_time()))
        return at_once(delay_ns)

    launcher = SimulatedHosts(count)
    with Coordinator(launcher, abort_on_error=True, seed=1, race_id="many") as coordinator:
        before_s = time.monotonic()
        results = coordinator.run(0, Step(tasks), target, Stock(), begin=begin)
        after_s, cpu_s = time.monotonic(), time.thread_time() - began[1]
        record = RaceRecord("many", "complete", "", TrackFacts("many", "", ""), "many")
        size = len(encode_record(replace(record, tasks=results, drivers=coordinator.drivers)))
    requests = sum(task.requests for task in results)
    assert requests == 2 * count * SECONDS * REQUESTS, f"{requests} requests are not all"
    late_s = after_s - began[0] - SECONDS
    return (
        f"{count:,}",
        f"{(began[0] - before_s) * 1000:,.0f} ms",
        f"{cpu_s / SECONDS:.1%}",
        f"{late_s * 1000:,.0f} ms",
        f"{size / 1e6:.2f} MB",
    )


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [10, 100, 200, 1_000]
    rows = [measure(count) for count in counts]
    headers = ("hosts", "dealt and sent in", "CPU of the coordinator", "results after", "record")
    print(tabulate(rows, headers=headers, disable_numparse=True, colalign=("right",) * 5))


if __name__ == "__main__":
    main()
