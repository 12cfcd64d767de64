"""A round: the races of all sides at once. Each has its own thread, cluster, workers and record.

Nodes boot at the same time. What else a side does alone (prepare documents, steps without load) is done in turn, one
side after the other; a step with load begins on all sides at the same moment, and load goes from side to side in slices
(measure.slices). A round is over as soon as one side has failed or is cancelled: the others end as cancelled.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from esbench.errors import RaceError
from esbench.features.duel.slices import Slicing, shaped, slicing
from esbench.load.coordinator import at_once
from esbench.load.hot import clock_ns
from esbench.measure.slices import NS, SlicedTime, WholeTime
from esbench.model import Challenge, Step
from esbench.race.hook import Pace, T
from esbench.race.interrupts import Interrupts, InterruptsByOthers
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.sessions import COMPLETE, Pacing, TaskPacing
from esbench.telemetry.processes import Processes

SETTLE_S = 0.1
_SAMPLED_BEFORE_NS = 10_000_000  # a slice begins: in the gap, when what was in flight is answered
_START_DELAY_NS = 20_000_000  # until all sides know the start
_POLL_S = 0.2
_END_WITHIN_S = 3.0  # for a side, after a second interrupt


@dataclass(frozen=True)
class PilotStep(Step):
    """The first seconds of the step that follows: what they show is no result."""


class Round:
    """The races of all sides of a session at once; `order`: the sides, in the order of their turns in this round.

    `sides` numbers them, as in every round; the order of their slices is drawn from `seed`.
    """

    def __init__(self, order: Sequence[str], pacing: Pacing, seed: int) -> None:
        self.pacing = pacing
        self.sides = sorted(order)
        self._order = tuple(order)
        self._seed = seed
        self._changed = threading.Condition()
        self._is_over = False
        self._is_interrupted = False
        self._leave_at_s = math.inf  # the sides that still run then
        self._ended: set[str] = set()
        self._turns = dict.fromkeys(order, 0)  # that each side has had
        self._meetings = dict.fromkeys(order, 0)  # that each side has come to
        self._brought: dict[str, Any] = {}
        self._start_ns: dict[int, int] = {}  # of the step that begins with a meeting
        self._paces = {side: SidePace(self, side) for side in order}
        self._cpu: SlicedCpu | None = None
        self.race_ids: dict[str, str] = {}
        self.pids: dict[str, Mapping[str, int]] = {}

    def race(self, runs: Mapping[str, Callable[[Pace], RaceRecord]]) -> dict[str, RaceRecord]:
        """Run the race of each side, and return their records.

        Raises the error of the first side that could not begin, or KeyboardInterrupt if the user interrupted it.
        """
        records: dict[str, RaceRecord] = {}
        errors: list[BaseException] = []

        def run(side: str) -> None:
            try:
                records[side] = runs[side](self._paces[side])
            except BaseException as error:  # noqa: BLE001 - raised again below, in the thread of the caller
                errors.append(error)
            finally:
                ended_well = side in records and records[side].status == COMPLETE
                if not ended_well and not self._is_over:  # a second interrupt would kill the others' workers
                    self._stop()
                with self._changed:
                    self._ended.add(side)
                    self._changed.notify_all()

        threads = [
            threading.Thread(target=run, args=(side,), name=f"race of {side}", daemon=True) for side in self._order
        ]
        try:
            with Interrupts() as interrupts:
                interrupts.call_instead(self._interrupt)
                for thread in threads:
                    thread.start()
                for thread in threads:
                    while thread.is_alive() and time.monotonic() < self._leave_at_s:
                        thread.join(_POLL_S)
                interrupts.raise_again()
        finally:
            if self._cpu is not None:
                self._cpu.end()
        for error in errors:
            if not isinstance(error, KeyboardInterrupt):
                raise error
        return records

    def _interrupt(self) -> None:
        """Handle a signal: end the round; a second time, leave behind a side that does not end soon."""
        if self._is_interrupted:
            self._leave_at_s = min(self._leave_at_s, time.monotonic() + _END_WITHIN_S)
        self._is_interrupted = True
        self._stop()

    def _stop(self) -> None:
        """End the round: each race ends as cancelled; a second time, at once."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        for pace in self._paces.values():
            pace.interrupts.interrupt()

    # What the sides do together

    @contextmanager
    def turn(self, side: str) -> Iterator[None]:
        """Context manager: wait until the sides before this one have had as many turns; then it is this side's."""
        number = self._turns[side]
        before = self._order[: self._order.index(side)]
        after = self._order[self._order.index(side) :]
        self._wait(self._turns, {**dict.fromkeys(before, number + 1), **dict.fromkeys(after, number)})
        try:
            yield
        finally:
            with self._changed:
                self._turns[side] += 1
                self._changed.notify_all()

    def meet(self, side: str) -> int:
        """Wait until all sides have come to the same meeting; return its number."""
        with self._changed:
            number = self._meetings[side] = self._meetings[side] + 1
            self._changed.notify_all()
        self._wait(self._meetings, dict.fromkeys(self._order, number))
        return number

    def exchange(self, side: str, brought: Any) -> tuple[int, Sequence[Any]]:
        """Wait until each side has brought something; return the side's number, and what each has brought."""
        self._brought[side] = brought
        self.meet(side)
        found = [self._brought[each] for each in self.sides]
        self.meet(side)  # until all have seen it
        return self.sides.index(side), found

    def begin(self, side: str, slices: Slicing, delay_ns: int) -> SlicedTime:
        """Wait until the step is ready on all sides; return the side's time in it."""
        number = self.meet(side)
        with self._changed:
            start_ns = self._start_ns.setdefault(number, clock_ns() + _START_DELAY_NS + delay_ns)
            time_of_side = SlicedTime(
                start_ns,
                round(slices.length_s * NS),
                round(slices.gap_s * NS),
                round(SETTLE_S * NS),
                len(self.sides),
                self.sides.index(side),
                self._seed * 1_000 + number,
            )
            if self._cpu is None:
                self._cpu = SlicedCpu([self.pids.get(name, {}) for name in self.sides], time_of_side)
        return time_of_side

    def end(self, side: str) -> tuple[tuple[float, float], ...]:
        """Wait until the step has ended on all sides; return the CPU seconds of the side's nodes, in and beside each
        of its slices."""
        self.meet(side)
        with self._changed:
            watch = self._cpu
        found = () if watch is None else watch.of_side(self.sides.index(side))
        self.meet(side)
        with self._changed:
            self._cpu = None
        return found

    def _wait(self, counts: Mapping[str, int], least: Mapping[str, int]) -> None:
        """Wait until the count of each side is as high as `least` says.

        Raises KeyboardInterrupt if the round is over before, RaceError if a side has ended without it.
        """

        def behind() -> set[str]:
            return {side for side, count in least.items() if counts[side] < count}

        with self._changed:
            self._changed.wait_for(lambda: self._is_over or not behind() or not behind().isdisjoint(self._ended))
            if self._is_over:
                raise KeyboardInterrupt
            if gone := behind():
                raise RaceError(f"{', '.join(sorted(gone & self._ended))} has fewer steps, and has ended")


class SidePace(Pace):
    """The pace of one side's race. `piloted`: the results of the last pilot, which are in no record."""

    def __init__(self, of_all: Round, side: str) -> None:
        self.interrupts = InterruptsByOthers()
        self._round = of_all
        self._side = side
        self._slicing: Slicing | None = None  # of the present step; None of one without load
        self._is_pilot = False
        self.piloted: tuple[TaskResult, ...] = ()

    def join(self, race_id: str) -> InterruptsByOthers:
        self._round.race_ids[self._side] = race_id
        return self.interrupts

    @property
    def siblings(self) -> frozenset[str]:
        return frozenset(race for side, race in self._round.race_ids.items() if side != self._side)

    @property
    def pacing(self) -> Pacing:
        """The pacing of the round, with what its pilots have found so far."""
        return self._round.pacing

    def plan(self, tasks: Sequence[TaskPacing]) -> None:
        """Race tasks as their pilot has found; each side says the same, once all pilots have ended."""
        kept = tuple(each for each in self.pacing.tasks if each.task not in {task.task for task in tasks})
        self._round.pacing = replace(self.pacing, tasks=(*kept, *tasks))

    def shaped(self, challenge: Challenge) -> Challenge:
        return shaped(challenge, self._round.pacing, len(self._round.sides))

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self._round.turn(self._side):
            yield

    def exchange(self, brought: T) -> tuple[int, Sequence[T]]:
        return self._round.exchange(self._side, brought)

    def watch(self, pids: Mapping[str, int]) -> None:
        self._round.pids[self._side] = pids

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        self._slicing, self._is_pilot = slicing(step, self._round.pacing), isinstance(step, PilotStep)
        if self._slicing is not None:
            yield
            return
        with self._round.turn(self._side):
            yield

    def begin(self, delay_ns: int) -> WholeTime:
        if self._slicing is None:
            return at_once(delay_ns)
        return self._round.begin(self._side, self._slicing, delay_ns)

    def end(self, results: tuple[TaskResult, ...]) -> tuple[TaskResult, ...]:
        if self._slicing is None:
            return results
        cpu_s = self._round.end(self._side)
        results = tuple(
            result
            if result.slices is None
            else replace(result, slices=replace(result.slices, cpu_s=cpu_s[result.slices.skipped :]))
            for result in results
        )
        if self._is_pilot:
            self.piloted, results = results, ()
        return results


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
