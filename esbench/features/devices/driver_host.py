"""The driver's own host and processes, observed from the first task to the last: the figures of vmstat, once a second.

It asks the operating system only; figures that a system does not report (I/O wait on macOS, say) are absent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from esbench.telemetry.device import Device, Param, Reading, Scene, TaskSpan
from esbench.telemetry.processes import Processes, disk_figures, process_figures
from esbench.telemetry.series import KB_PER_BYTE, SeriesOf, known, rounded, whole

_LOOPBACK = ("lo", "lo0")
_IDLE = ("idle", "iowait")
_HOST = "host"
_BLOCKS = Path("/sys/block")
_CARDS = Path("/sys/class/net")
_KINDS: Mapping[str, tuple[str, ...]] = {  # ours -> psutil's; guests' time is within user and nice
    "user": ("user",),
    "system": ("system",),
    "nice": ("nice",),
    "iowait": ("iowait",),
    "irq": ("irq", "softirq"),
    "steal": ("steal",),
    "idle": ("idle",),
}


class DriverHost(Device):
    """CPU, load, memory, swap, disks and network of this host, and the share of esbench's own processes."""

    name = "driver"
    help = "the driver's host (CPU, load, memory, swap, disk and network I/O) and its processes"
    always = True
    asks_cluster = False
    params = (Param("driver-sample-interval", "duration", 1.0, "time between two samples"),)

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        workers = {f"worker-{number}": pid for number, pid in enumerate(scene.workers)}
        self._processes = Processes({"parent": os.getpid(), **workers}, self.note)
        self._gains = Gains()

    def sample(self) -> Iterator[Reading]:
        yield cpu_reading(self._gains, psutil.cpu_times(), psutil.cpu_stats())
        yield _load()
        yield _memory()
        yield from _disk(self._gains)
        yield from _network(self._gains)
        yield from self._processes.readings(_process)

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        cpu, load, memory, disk, network = (
            series.get((_HOST, group), SeriesOf()) for group in ("cpu", "load", "memory", "disk", "network")
        )
        return known(
            {
                "cpu_percent": {
                    kind: rounded(cpu.share(f"{kind}_s", "total_s", *span.window), 100.0) for kind in _KINDS
                },
                "busy_percent": {
                    "mean": rounded(cpu.share("busy_s", "total_s", *span.window), 100.0),
                    "peak": rounded(cpu.peak_share("busy_s", "total_s", *span.window), 100.0),
                },
                "load_1m": load.last("load_1m", span.window_end_s),
                "memory_used_peak_bytes": whole(memory.peak("used_bytes", *span.window)),
                "swap_in_bytes": whole(memory.gained("swap_in_bytes", *span.window)),
                "swap_out_bytes": whole(memory.gained("swap_out_bytes", *span.window)),
                "disk_read_kb_per_s": rounded(disk.rate("read_bytes", *span.window), KB_PER_BYTE),
                "disk_written_kb_per_s": rounded(disk.rate("written_bytes", *span.window), KB_PER_BYTE),
                "network_received_kb_per_s": rounded(network.rate("received_bytes", *span.window), KB_PER_BYTE),
                "network_sent_kb_per_s": rounded(network.rate("sent_bytes", *span.window), KB_PER_BYTE),
                "process_core_percent": {
                    name: rounded(seen.rate("cpu_s", *span.window), 100.0)
                    for (name, group), seen in series.items()
                    if group == "process"
                },
            }
        )


class Gains:
    """Counters of the host that start at 0 and never fall, even if the system's own counters do.

    Linux takes back some of the time that CPUs waited for disks; disks and network cards appear and disappear with
    their counts.
    """

    def __init__(self) -> None:
        self._last: dict[str, Mapping[str, float]] = {}
        self._totals: dict[str, float] = {}

    def total(self, counter: str, parts: Mapping[str, float]) -> float:
        """Return the total growth of a counter, given the current value of each of its parts by name.

        A part adds nothing if it is new or has fallen.
        """
        last = self._last.get(counter, {})
        gained = sum(max(0.0, value - last.get(name, value)) for name, value in parts.items())
        self._last[counter] = parts
        self._totals[counter] = self._totals.get(counter, 0.0) + gained
        return self._totals[counter]


def cpu_reading(gains: Gains, times: Any, stats: Any) -> Reading:
    """Return a reading of the CPU time of all cores, in seconds, from psutil's `cpu_times` and `cpu_stats`.

    Counters: user_s, system_s, nice_s, iowait_s, irq_s, steal_s, idle_s as far as the system has them; total_s; busy_s
    (all but idle and iowait); context_switches and interrupts. Times grow from 0 at the first reading with these
    `gains`.
    """
    counters: dict[str, float] = {}
    for kind, names in _KINDS.items():
        if parts := {name: getattr(times, name) for name in names if hasattr(times, name)}:
            counters[f"{kind}_s"] = gains.total(kind, parts)
    busy_s = sum(seconds for name, seconds in counters.items() if name.removesuffix("_s") not in _IDLE)
    counters |= {"busy_s": busy_s, "total_s": sum(counters.values())}
    counters |= {"context_switches": stats.ctx_switches, "interrupts": stats.interrupts}
    return Reading(_HOST, "cpu", counters=counters)


def _load() -> Reading:
    """Return a reading of the load averages and, on systems with /proc, of the number of runnable processes."""
    try:
        one, five, fifteen, running, *_ = Path("/proc/loadavg").read_text("ascii").split()
    except OSError:
        one, five, fifteen = map(str, os.getloadavg())
        running = ""
    gauges = {"load_1m": float(one), "load_5m": float(five), "load_15m": float(fifteen)}
    if running:
        gauges["runnable"] = float(running.partition("/")[0])
    return Reading(_HOST, "load", gauges)


def _memory() -> Reading:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    gauges = {f"{name}_bytes": getattr(memory, name, None) for name in ("used", "available", "buffers", "cached")}
    return Reading(
        _HOST,
        "memory",
        known({**gauges, "swap_used_bytes": swap.used}),
        {"swap_in_bytes": swap.sin, "swap_out_bytes": swap.sout},
    )


def _disk(gains: Gains) -> Iterator[Reading]:
    io = psutil.disk_io_counters(perdisk=True)
    if disks := {name: disk_figures(io[name]) for name in lowest_disks(io)}:  # a container may see none
        figures = next(iter(disks.values()))
        counters = {name: gains.total(name, {disk: of[name] for disk, of in disks.items()}) for name in figures}
        yield Reading(_HOST, "disk", counters=counters)


def lowest_disks(names: Iterable[str], blocks: Path = _BLOCKS) -> list[str]:
    """Return the disks that no other one counts, too: no partitions, loop devices, or devices of LVM, LUKS and RAID.

    `blocks` has Linux's block devices, with those that each lies upon; without such a folder these are all disks.
    """
    if not blocks.is_dir():
        return list(names)
    folders = {name: blocks / name.replace("/", "!") for name in names if not name.startswith("loop")}
    return [name for name, of in folders.items() if of.is_dir() and not any(of.glob("slaves/*"))]


def lowest_cards(names: Iterable[str], cards: Path = _CARDS) -> list[str]:
    """Return the network cards that no other one counts, too: no bonds, bridges, or VLANs.

    `cards` has Linux's network cards, with those that each lies upon; without such a folder these are all cards.
    """
    return [name for name in names if not any((cards / name).glob("lower_*"))]


def _network(gains: Gains) -> Iterator[Reading]:
    counted = psutil.net_io_counters(pernic=True)
    cards = {name: counted[name] for name in lowest_cards(counted)}
    loopback = {name for name in cards if name in _LOOPBACK}
    for group, names in (("network", set(cards) - loopback), ("loopback", loopback)):
        received = {name: cards[name].bytes_recv for name in names}
        sent = {name: cards[name].bytes_sent for name in names}
        counters = {
            "received_bytes": gains.total(f"{group} received", received),
            "sent_bytes": gains.total(f"{group} sent", sent),
        }
        yield Reading(_HOST, group, counters=counters)


def _process(name: str, process: psutil.Process) -> Reading:
    with process.oneshot():
        return Reading(name, "process", *process_figures(process))
