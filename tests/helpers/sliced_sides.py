"""Sides that were raced at once in slices, with the seconds of their races, for tests of comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from races import golden_race, task_of

from esbench.comparison.model import Side
from esbench.comparison.own_time import OwnSlices
from esbench.measure.histogram import Counts, distribution_ms, encode
from esbench.measure.slice_rate import PART_NS
from esbench.record.model import Phase, RaceRecord, Session, SlicePlan, TaskResult, Throughput, Window
from esbench.record.series import SecondLine

CLOSED, OPEN = "get-by-id", "get-by-id-open"
LENGTH_S = 20
SETTLE_S = 0.1
RATE = 1000.0
_CLIENTS = 8  # of long requests
NOISE = (0.01, -0.008, 0.004, -0.012, 0.006, 0.002)  # of rounds
Level = Callable[[int], float]  # own second -> factor of the rate


def flat(factor: float = 1.0) -> Level:
    return lambda second: factor


@dataclass
class Drawn:
    """Records of sides, with their seconds by race."""

    seconds: dict[str, list[SecondLine]] = field(default_factory=dict)

    def read(self, record: RaceRecord) -> Iterator[SecondLine]:
        return iter(self.seconds[record.race_id])

    def side(
        self,
        name: str,
        rounds: Sequence[Level],
        *,
        task: str = CLOSED,
        rate: float = RATE,
        slices: Mapping[str, Any] | None = None,
        beside_s: Sequence[float] = (),
        changes: Mapping[str, Any] | None = None,
        **race: Any,
    ) -> Side:
        """A side whose race of each round does `rate` requests a second times a level, which its durations follow.

        `beside_s`: the CPU seconds of its nodes beside each slice, by round, where they differ between rounds.
        """
        records = []
        for number, level in enumerate(rounds, 1):
            swapped = (number % 2 == 0) == (name == "baseline")
            session = Session("s", "duel", name, number, number, 2 * number - (not swapped))
            race_id = f"{name}-{number}"
            lines = [line(task, second, level(second), rate) for second in range(LENGTH_S)]
            times = {"started_at": f"2026-11-21T{number:02}:00:00Z", "finished_at": f"2026-11-21T{number:02}:02:00Z"}
            record = golden_race(race_id=race_id, session=session, **{**times, **race})
            of_round = {"cpu_s": ((1.5, beside_s[number - 1]),) * LENGTH_S} if beside_s else slices or {}
            record = replace(record, tasks=(result(record, task, lines, of_round, changes or {}),))
            self.seconds[race_id] = lines
            records.append(record)
        return Side(name, tuple(records), "s")


def long_requests(drawn: Drawn, name: str, services_s: Sequence[float], length_s: int, slices: float = 5) -> Side:
    """A side whose 8 clients are answered after the same time each, by round, in some slices."""
    records = []
    for number, service_s in enumerate(services_s, 1):
        race_id = f"{name}-{number}"
        lines = list(_long_lines(service_s, length_s, slices))
        session = Session("s", "duel", name, number, number, 2 * number - (name == "baseline"))
        record = golden_race(race_id=race_id, session=session)
        window = {"window": Window(0.1, slices * length_s), "duration_s": slices * length_s}
        changes = {
            **window,
            "clients": _CLIENTS,
            "service_time_ms": {"p50": service_s * 1000, "mean": service_s * 1000},
        }
        plan = {"length_s": float(length_s), "gap_s": 1.0}
        record = replace(record, tasks=(result(record, CLOSED, lines, plan, changes),))
        placed = OwnSlices(record.tasks[0], record.tasks[0].slices, lines)  # type: ignore[arg-type]
        rate = math.exp(placed.log(0, placed.whole) or 0.0)
        record = replace(record, tasks=(replace(record.tasks[0], throughput=Throughput("docs", rate)),))
        drawn.seconds[race_id] = lines
        records.append(record)
    return Side(name, tuple(records), "s")


def _long_lines(service_s: float, length_s: int, slices: float) -> Iterator[SecondLine]:
    for second in range(math.ceil(slices * length_s)):
        begin_s = second % length_s
        ends_s = [service_s * n for n in range(1, math.ceil(length_s / service_s) + 1)]
        inside = [end for end in ends_s if begin_s <= end < begin_s + 1]
        late = sum(end >= length_s for end in ends_s) if begin_s == length_s - 1 else 0
        at = Counts()
        for end in inside * _CLIENTS:
            at.add(round((end - begin_s) * 1e9) // PART_NS * PART_NS)
        requests = _CLIENTS * (len(inside) + late)
        counts = (0, requests, requests, 100.0 * requests)
        times = encode(durations(requests, service_s * 1000))
        yield SecondLine(CLOSED, second, "measurement", *counts, service_time=times, completed_at=encode(at))


def line(task: str, second: int, level: float, rate: float) -> SecondLine:
    requests = round(rate * level)
    encoded = encode(durations(requests, 1 / level))
    latency = {"latency": encoded, "driver_lag": encode(durations(requests, 0.001))} if task == OPEN else {}
    counts = (requests, requests, requests, float(requests))
    return SecondLine(task, second, "measurement", *counts, service_time=encoded, **latency)


def durations(requests: int, factor: float) -> Counts:
    """0.9 ms the median, 2 ms above p95, 3 ms the last hundredth, times a factor."""
    counts = Counts()
    for share, ms in ((0.6, 0.9), (0.35, 1.1), (0.035, 2.0), (0.015, 3.0)):
        one = Counts()
        one.add(round(ms * factor * 1e6))
        (bucket,) = one.buckets
        number = round(requests * share)
        counts.absorb({bucket: number}, one.total_ns * number, one.min_ns, one.max_ns, 0)
    return counts


def result(
    record: RaceRecord, name: str, lines: Sequence[SecondLine], slices: Mapping[str, Any], changes: Mapping[str, Any]
) -> TaskResult:
    """The result of a task without a cut: all of its lines."""
    plan = SlicePlan(length_s=1.0, gap_s=0.05, settle_s=SETTLE_S, sides=2, side=0, seed=1)
    counts = Counts()
    for each in lines:
        counts.merge(each.counts("service_time"))
    requests = sum(each.requests for each in lines)
    times = distribution_ms(counts, (50.0, 99.0))
    values: dict[str, Any] = {
        "slices": replace(plan, **slices),
        "step": 0,
        "window": Window(0.0, float(len(lines))),
        "duration_s": float(len(lines)),
        "warmup": Phase(0, 0.0, 0, 0.0),
        "requests": requests,
        "units": requests,
        "errors": 0,
        "error_kinds": {},
        "checks": (),
        "throughput": Throughput("ops", requests / (len(lines) * (1 - plan.settle_s / plan.length_s))),
        "service_time_ms": times,
    }
    if name == OPEN:
        lag = {"p50": 0.001, "p99": 0.003}
        values |= {"latency_ms": times, "driver_lag_ms": lag, "unsent": 0, "due": requests}
    return replace(task_of(record, name), **{**values, **changes})


def rounds(factor: float = 1.0, count: int = 6, noise: Sequence[float] = NOISE) -> list[Level]:
    """Levels of some rounds, each a little off."""
    return [flat(factor * (1 + noise[number % len(noise)])) for number in range(count)]
