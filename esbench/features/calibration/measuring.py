"""The steps of a calibration: race the built-in null server, and measure what this host's driver can do.

Its load goes the way of every race: the same coordinator, workers, loops, recorder and checks. It reads no flag, no
environment variable and no configuration file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from esbench.cluster.client import ClusterInfo
from esbench.cluster.options import parse_hosts
from esbench.events.progress import Progress
from esbench.load.coordinator import Coordinator, StepFailed
from esbench.load.launcher import LocalLauncher
from esbench.load.messages import Stock, Target
from esbench.model import Index, Operation, Schedule, Step, Task, Variable
from esbench.null_server import NullServer
from esbench.operations import builtin_operations
from esbench.race.host_limits import check_workers
from esbench.race.interrupts import Interrupts
from esbench.race.recording import now
from esbench.record import host
from esbench.record.calibration import CLUSTER_MS, RANKS, SHARE_LIMIT_PERCENT, Calibration, CalibrationFile, Run
from esbench.record.locks import other_races
from esbench.record.model import Check, TaskResult
from esbench.units import Rate, format_number

RATES_PER_S = (1_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 80_000, 100_000, 150_000, 200_000)
CLIENTS = 64
_MOST_CLIENTS = 500  # more would take a worker more
_WARMUP_RATIO = 0.25  # of the measurement
_REACHED_RATIO = 0.99
_GET = Operation("get", "get", {"id": "$[[n]]"}, (Variable("n", "range", {"from": 1, "to": 1_000_000}),))
_DELAY = {"rules": [{"path": "/_doc/", "delay": {"type": "constant", "ms": CLUSTER_MS}}]}


@dataclass(frozen=True)
class CalibrateOptions:
    """The options of a calibration. `seconds` is the length of each measurement."""

    home: Path
    workers: int
    seconds: float


def run(options: CalibrateOptions, progress: Progress) -> Calibration:
    """Measure what this host's driver can do, store it for races to refer to, and return it.

    An EsbenchError or KeyboardInterrupt leaves the earlier calibration as it was.
    """
    check_workers(options.workers)  # it shares cores anyway, and says so at its end
    facts = host.host_facts(options.home)
    host_class = host.host_class(facts)
    file = CalibrationFile(options.home)
    file.find(host_class, options.workers)  # a damaged file is an error before the work
    cores = int(facts["cpu_cores"])
    servers = max(1, min(2 * options.workers, cores - options.workers))
    with ExitStack() as stack:
        stack.enter_context(Interrupts())
        driver = _Driver(options, servers, stack)
        driver.measure(_closed(options.seconds / 2))  # imports, connections and caches of both sides
        closed = driver.measure(*(_closed(options.seconds, number) for number in range(options.workers)))
        progress.say(f"closed loop: {closed.rate_per_s:,.0f} requests/s")
        driver.delay_replies()
        paced: list[Run] = []
        for rate_per_s in RATES_PER_S:
            paced.append(_best_of_two(driver, _open(rate_per_s, options.seconds)))
            progress.say(_news(paced[-1]))
            if not paced[-1].reached:
                break
        calibration = Calibration(
            calibrated_at=now(),
            host_class=host_class,
            workers=options.workers,
            servers=servers,
            esbench=host.esbench_facts(),
            loop=host.loop_implementation(),
            seconds=options.seconds,
            closed=closed,
            open=tuple(paced),
            warnings=tuple(_disturbances(options, servers, cores, driver.of_the_host)),
        )
    file.keep(calibration)
    return calibration


class _Driver:
    """The driver of a race, with null servers instead of a cluster; `of_the_host` are the worst checks of its runs."""

    def __init__(self, options: CalibrateOptions, servers: int, stack: ExitStack) -> None:
        self.of_the_host: dict[str, Check] = {}
        self._coordinator = stack.enter_context(
            Coordinator(
                LocalLauncher(options.workers, options.home / "calibration.log"),
                abort_on_error=True,
                seed=1,
                race_id="calibration",
            )
        )
        self._servers = [stack.enter_context(NullServer()) for _ in range(servers)]
        hosts, client_options = parse_hosts([server.url for server in self._servers])
        info = ClusterInfo("elasticsearch", self._servers[0].script.version)
        self._target = Target(hosts, client_options, info.dialect)
        self._types = builtin_operations()
        self._steps = 0

    def delay_replies(self) -> None:
        """Make the null servers answer like a cluster that takes CLUSTER_MS, from now on."""
        for server in self._servers:
            server.use(_DELAY)

    def measure(self, *tasks: Task) -> Run:
        """Run tasks side by side, as one step of a race, and return their figures."""
        busy_before, cpu_before, begin_s = self._busy_s(), self._cpu_s(), time.monotonic()
        try:
            stock = Stock(indices=(Index("orders"),))
            bound = (replace(task, operation=self._types.bind(task.operation)) for task in tasks)
            results = self._coordinator.run(self._steps, Step(tuple(bound)), self._target, stock)
        except StepFailed as failed:
            raise failed.error from failed
        self._steps += 1
        took_s = time.monotonic() - begin_s
        busy_s = [after - before for before, after in zip(busy_before, self._busy_s(), strict=True)]
        requests = sum(result.warmup.requests + result.requests for result in results)
        self._notice(results)
        target_per_s = results[0].target_rate_per_s
        rate_per_s = sum(result.throughput.mean or 0.0 for result in results)
        return Run(
            rate_per_s=rate_per_s,
            workers=sum(result.workers for result in results),
            clients=sum(result.clients for result in results),
            cpu_us_per_request=1e6 * (self._cpu_s() - cpu_before) / max(1, requests),
            server_busy_ratio=max(busy_s) / took_s,
            target_rate_per_s=target_per_s,
            reached=target_per_s is None or rate_per_s >= _REACHED_RATIO * target_per_s,
            driver_lag_ms=_middle_and_tail(results[0].driver_lag_ms),
            latency_ms=_middle_and_tail(results[0].latency_ms),
        )

    def _busy_s(self) -> list[float]:
        return [server.counts().busy_s for server in self._servers]

    def _cpu_s(self) -> float:
        return sum(driver.cpu_s for driver in self._coordinator.drivers)

    def _notice(self, results: tuple[TaskResult, ...]) -> None:
        for check in (check for result in results for check in result.checks if check.subject == "host"):
            worst = self.of_the_host.get(check.name)
            if worst is None or (check.value or 0.0) > (worst.value or 0.0):
                self.of_the_host[check.name] = check


def _closed(seconds: float, number: int = 0) -> Task:
    return Task(f"closed-{number}", _GET, CLIENTS, warmup_time_s=_WARMUP_RATIO * seconds, time_period_s=seconds)


def _open(rate_per_s: int, seconds: float) -> Task:
    """Return an open-loop task at a rate.

    It has ten times the clients that a cluster which answers in CLUSTER_MS keeps busy, since that may stall for a
    moment.
    """
    clients = min(_MOST_CLIENTS, max(CLIENTS, round(10 * rate_per_s * CLUSTER_MS / 1000)))
    schedule = Schedule(rate=Rate(rate_per_s, "ops"))
    return Task("open", _GET, clients, schedule, warmup_time_s=_WARMUP_RATIO * seconds, time_period_s=seconds)


def _best_of_two(driver: _Driver, task: Task) -> Run:
    """Measure a rate, and once more if it looks bad: other work on the host only ever adds to lag."""
    first = driver.measure(task)
    if first.reached and first.worst_share_percent <= SHARE_LIMIT_PERCENT:
        return first
    return min(first, driver.measure(task), key=lambda run: (not run.reached, run.worst_share_percent))


def _middle_and_tail(distribution: Mapping[str, float] | None) -> dict[str, float]:
    """Return p50 and p99 as far as they are known and finite."""
    return {rank: value for rank, value in (distribution or {}).items() if rank in RANKS and isfinite(value)}


def _news(run: Run) -> str:
    figures = [f"{run.rate_per_s:,.0f} reached"] if not run.reached else []
    lag = ", ".join(f"{rank} {format_number(value)} ms" for rank, value in run.driver_lag_ms.items())
    figures += [f"driver lag {lag}"] if lag else []
    return f"{run.target_rate_per_s:,.0f} requests/s: {', '.join(figures)}"


def _disturbances(
    options: CalibrateOptions, servers: int, cores: int, of_the_host: Mapping[str, Check]
) -> Iterator[str]:
    """Yield reasons why the driver may be better than what was measured."""
    for race in other_races(options.home):
        yield f"race {race.race_id} (pid {race.pid}) ran on this host, too"
    if options.workers + servers > cores:
        yield f"workers ({options.workers}) and null servers ({servers}) shared {cores} cores"
    for check in of_the_host.values():
        yield f"{check.message}: calibrate while nothing else runs"
