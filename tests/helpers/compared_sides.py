"""Sides of several rounds, made of the golden race, for tests of comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from races import golden_race, task_of, with_task

from esbench.comparison.model import Pair, Row, Side
from esbench.measure.histogram import Counts, encode
from esbench.record.model import RaceRecord, ScoreFigures, Session, TaskResult, Throughput
from esbench.record.series import SecondLine

OPEN = "get-by-id-open"
# Around a level: four rounds a side with a spread of half a percent.
LEVEL = (1.0, 1.005, 0.995, 1.002)
TURNS = {"baseline": (1, 4, 6, 7), "contender": (2, 3, 5, 8)}  # ABBABAAB
ALONE = {"baseline": (1, 2, 3, 4), "contender": (5, 6, 7, 8)}


def side(name: str, task: str, changes: Sequence[dict[str, Any]], places: Sequence[int], **race: Any) -> Side:
    """A race of a session for each of `changes` of a task; its open task may be used."""
    records = []
    for number, (change, place) in enumerate(zip(changes, places, strict=True), 1):
        session = Session("s", "duel", name, number, number, place)
        started_at = f"2026-11-21T1{place}:00:00+00:00"
        record = golden_race(race_id=f"{name}-{number}", session=session, started_at=started_at, **race)
        records.append(with_task(usable(record), task, **change))
    return Side(name, tuple(records), "s")


def usable(record: RaceRecord) -> RaceRecord:
    return with_task(record, OPEN, checks=(), unsent=0)


def docs_per_s(values: Sequence[float]) -> list[dict[str, Any]]:
    return [{"throughput": Throughput("docs", value)} for value in values]


def latencies(values: Sequence[float], **more: Any) -> list[dict[str, Any]]:
    """p50 as given, p99 three times as long."""
    return [{"latency_ms": {"p50": value, "p99": 3 * value, "max": 9 * value}, **more} for value in values]


def scaled(level: float) -> list[float]:
    return [level * factor for factor in LEVEL]


def sweep(name: str, points: Sequence[tuple[float, float]], places: Sequence[int], levels: Sequence[float]) -> Side:
    """Races of a session that searched vectors with 10, 20, 30 ... candidates, each with a point: recall and
    throughput, which each race has times one of `levels`."""
    whole = side(name, "get-by-id", [{}] * len(places), places)
    records = []
    for record, level in zip(whole.records, levels, strict=True):
        of = replace(task_of(record, "get-by-id"), checks=())
        tasks = tuple(
            replace(
                of,
                name=f"candidates-{10 * number}",
                step=number,
                throughput=Throughput("ops", per_s * level),
                scores=ScoreFigures("recall@10", 100, 50, 0.5, recall, recall, recall),
            )
            for number, (recall, per_s) in enumerate(points, 1)
        )
        records.append(replace(record, tasks=tasks))
    return replace(whole, records=tuple(records))


def row_of(pair: Pair, metric: str, task: str) -> Row:
    return next(row for row in pair.rows if (row.metric, row.task) == (metric, task))


def v1(row: Row) -> str:
    """The word of a row's verdict before there were five; "" without one."""
    return row.verdict.reason.v1 if row.verdict is not None else ""


def seconds_of(record: RaceRecord) -> Iterator[SecondLine]:
    """Seconds of all tasks whose longest durations are above every percentile, ten of a task."""
    counts = Counts()
    counts.add(3_600 * 10**9)
    encoded = encode(counts)
    for task in record.tasks:
        for second in range(10):
            yield line(task, second, latency=encoded, service_time=encoded)


def line(task: TaskResult, second: int, units: float = 1, **histograms: str) -> SecondLine:
    return SecondLine(task.name, second, "measurement", 0, 1, 1, units, **histograms)  # type: ignore[arg-type]
