"""How busy the servers are, by the samples of their nodes' own statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esbench.telemetry.device import Reading

DEVICES = ("nodes", "node-stats")  # of which a race has one, which reads both figures
_STALE_S = 10.0


class Servers:
    """The CPU of the server processes and the heap in use, of the last samples that were taken."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cpu: dict[str, tuple[float, float, float | None]] = {}  # node -> when, ms of CPU, percent of one core
        self._heap: dict[str, tuple[float, float]] = {}  # node -> when, percent

    def take(self, reading: Reading) -> None:
        """Take what is of use; other groups of figures are none."""
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
        """The mean of the nodes, 100 being one core; None where nothing was read lately."""
        lately = [percent for when, _, percent in self._cpu.values() if percent is not None and self._is_fresh(when)]
        return sum(lately) / len(lately) if lately else None

    @property
    def heap_percent(self) -> float | None:
        """Of the node that has used most of its own."""
        return max((percent for when, percent in self._heap.values() if self._is_fresh(when)), default=None)

    @property
    def nodes(self) -> int:
        return len(self._cpu)

    def _is_fresh(self, when_s: float) -> bool:
        return self._clock() - when_s < _STALE_S
