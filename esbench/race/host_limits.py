"""Limits of this host, checked before anything starts: cores, ports, open files, its driver's highest rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from esbench.cluster.addresses import resolve
from esbench.errors import RaceError, RecordError, UsageError
from esbench.load.assignment import connections, fullest_worker, highest_rate_per_s, per_request
from esbench.load.messages import Stock
from esbench.load.open_files import hard_limit, require_for
from esbench.model import Challenge, Step
from esbench.operations.base import kind_of
from esbench.race.node_options import NodeOptions
from esbench.race.options import RaceOptions
from esbench.record.calibration import CalibrationFile
from esbench.record.host import host_class, host_facts, usable_cores
from esbench.units import format_bytes

WORKERS_PER_CORE = 8  # with more, a check of the hosts within 3 s already finds no CPU
_UNDISTURBED = 0.8  # of the highest rate of a calibration
_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def check_workers(workers: int, cores: int | None = None) -> tuple[str, ...]:
    """Return the warnings about a number of load workers. UsageError for more than 8 for each of this host's cores."""
    cores = usable_cores() if cores is None else cores
    of_cores = f"{cores} core{'' if cores == 1 else 's'}"
    if workers > WORKERS_PER_CORE * cores:
        what = f"--workers={workers}: this host has {of_cores}, and at most {WORKERS_PER_CORE} workers run on each"
        raise UsageError(what, hint=f"--workers={cores} uses all cores, and leaves none to a node of this host")
    if workers > cores:
        return (f"{workers} load workers share {of_cores}: they wait for one another, and replies count as slower",)
    return ()


def check_memory_at_once(nodes: Sequence[NodeOptions], total_bytes: int, available_bytes: int) -> None:
    """Raise a RaceError if this host has no memory for the nodes of all sides at once."""
    from esbench.race.node_memory import heap_that_fits, memory_needed

    needed = sum(map(memory_needed, nodes))
    if needed <= available_bytes:
        return
    what = f"the nodes of all sides need {format_bytes(needed)} at once"
    memory = f"{format_bytes(available_bytes)} of this host's {format_bytes(total_bytes)} of memory are available"
    heap = heap_that_fits(available_bytes, sum(node.nodes for node in nodes))
    ways = ["--turns has one side up at a time"] if max(map(memory_needed, nodes)) <= available_bytes else []
    ways += [f"--heap={heap >> 20}m fits"] if heap else []
    raise RaceError(f"{what}, and {memory}", hint="; ".join(ways) or "end what else runs")


def check_clients(options: RaceOptions, challenge: Challenge) -> None:
    """Raise a RaceError if the clients need more connections than this host or one load worker may open.

    Limits of load hosts are reported by their workers.
    """
    if options.is_driven_apart:
        return
    for step in challenge.steps:
        _check_ports(options, step)
        shares = fullest_worker(step, options.workers)
        tasks = ", ".join(f'task "{share.task.name}"' for share in shares)
        clients = sum(len(share.slots) for share in shares)
        needed = sum(connections(share.task, len(share.slots)) for share in shares)
        require_for(clients, needed, hard_limit(), tasks)


def _check_ports(options: RaceOptions, step: Step) -> None:
    """Raise a RaceError if clients of a step, which all connect before it begins, need more ports than there are."""
    needed, ports = sum(connections(task, task.clients) for task in step.tasks), _local_ports()
    if ports is None or needed <= ports:
        return
    hosts = options.node.nodes
    if options.hosts:
        hosts = 1 if options.client_options.proxy else len(resolve(options.hosts))
    if needed > ports * hosts:
        clients = sum(task.clients for task in step.tasks)
        what = f"{clients:,} clients need {needed:,} ports, and this host has {ports:,} for each host it connects to"
        hint = f"{ports * hosts:,} connections can be open; sysctl net.ipv4.ip_local_port_range has the range"
        raise RaceError(what, where=f"{hosts} host{'' if hosts == 1 else 's'}", hint=hint)


def most_per_s(options: RaceOptions) -> float:
    """Return the highest rate (requests/s) at which this host's driver leaves a cluster's figures alone.

    That is 0.8 of the highest that calibration has seen, infinity without one, and for load hosts. RecordError if its
    file is damaged.
    """
    if options.is_driven_apart:
        return math.inf
    found = CalibrationFile(options.home).find(host_class(host_facts(options.home)), options.workers)
    return math.inf if found is None else _UNDISTURBED * found.highest_per_s


def too_fast(options: RaceOptions, challenge: Challenge, stock: Stock, host_class: str) -> Iterator[str]:
    """Yield warnings about target rates above what this host's driver can carry, according to its calibration."""
    if options.is_driven_apart:
        return
    try:
        calibration = CalibrationFile(options.home).find(host_class, options.workers)
    except RecordError as error:
        yield f"the calibration of this host is not used: {error}"
        return
    if calibration is None:
        return
    for task in challenge.tasks:
        if task.schedule.is_open:
            amounts = per_request(task, kind_of(task.operation), stock)
            if objection := calibration.objection(highest_rate_per_s(task, amounts)):
                yield f"{task.name}: {objection}"


def _local_ports() -> int | None:
    """Return the number of local ports for connections to one port of a host (Linux, ip(7)); None if not known."""
    try:
        first, last = map(int, _PORTS.read_text().split())
    except (OSError, ValueError):
        return None
    return last - first + 1
