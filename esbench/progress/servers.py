"""The load of the servers, from the samples of their nodes' own statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esbench.telemetry.device import Reading

DEVICES = ("nodes", "node-stats")  # of which a race has one, which reads both figures
_STALE_S = 10.0


class Servers:
    """The CPU use and heap use of the server processes, by their latest samples."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cpu: dict[str, tuple[float, float, float | None]] = {}  # node -> when, ms of CPU, percent of one core
        self._heap: dict[str, tuple[float, float]] = {}  # node -> when, percent

    def take(self, reading: Reading) -> None:
        """Take CPU time and heap use from a reading; ignore other groups of figures."""
        now_s = self._clock() - reading.age_s
        if reading.group == "process" and (ms := reading.counters.get("cpu_ms")) is not None:
            percent = None
            if (before := self._cpu.get(reading.of)) is not None and now_s > before[0] and ms >= before[1]:
                percent = (ms - before[1]) / (now_s - before[0]) / 10
            self._cpu[reading.of] = (now_s, ms, percent)
        if reading.group == "jvm" and (percent := reading.gauges.get("heap_used_percent")) is not None:
            self._heap[reading.of] = (now_s, percent)

    @property
    def cpu_core_percent(self) -> float | None:
        """The mean CPU use of the nodes, 100 being one core; None without a recent sample."""
        lately = [percent for when, _, percent in self._cpu.values() if percent is not None and self._is_fresh(when)]
        return sum(lately) / len(lately) if lately else None

    @property
    def heap_percent(self) -> float | None:
        """The heap use of the node that uses most of its heap, in percent; None without a recent sample."""
        return max((percent for when, percent in self._heap.values() if self._is_fresh(when)), default=None)

    @property
    def nodes(self) -> int:
        return len(self._cpu)

    def _is_fresh(self, when_s: float) -> bool:
        return self._clock() - when_s < _STALE_S
