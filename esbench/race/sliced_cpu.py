"""The CPU time that the nodes of several sides use in the slices of each side, while a step runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from esbench.load.hot import clock_ns
from esbench.measure.slices import NS, SlicedTime
from esbench.telemetry.processes import Processes

_SAMPLED_BEFORE_NS = 10_000_000  # a slice begins: in the gap, when what was in flight is answered


class SlicedCpu:
    """The CPU time of each side's nodes at the begin of each slice, of whichever side, while a step runs."""

    def __init__(self, pids: Sequence[Mapping[str, int]], slices: SlicedTime) -> None:
        self._slices = slices
        self._nodes = [Processes(each, lambda gone: None) for each in pids]  # of one that has ended, its race says why
        self._used_s: list[list[float]] = []  # for each slice of any side, by side
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu of the nodes", daemon=True)
        if any(nodes.seen for nodes in self._nodes):
            self._thread.start()

    def end(self) -> None:
        """End the sampling."""
        self._ended.set()

    def of_side(self, side: int) -> tuple[tuple[float, float], ...]:
        """Return the CPU seconds in and beside each of a side's slices that are over; empty if it is not known."""
        self.end()
        if not self._nodes[side].seen:
            return ()
        self._thread.join()
        found: list[list[float]] = []
        for slot in range(len(self._used_s) - 1):
            used_s = self._used_s[slot + 1][side] - self._used_s[slot][side]
            is_own = self._slices.side_at(self._slices.start_ns + slot * self._slices.period_ns) == side
            if is_own:
                found.append([used_s, 0.0])
            elif found:
                found[-1][1] += used_s
        return tuple((round(own_s, 3), round(beside_s, 3)) for own_s, beside_s in found)

    def _run(self) -> None:
        while True:
            due_ns = self._slices.start_ns + len(self._used_s) * self._slices.period_ns - _SAMPLED_BEFORE_NS
            if self._ended.wait(max(0, due_ns - clock_ns()) / NS):
                return
            self._used_s.append([nodes.cpu_s() for nodes in self._nodes])
