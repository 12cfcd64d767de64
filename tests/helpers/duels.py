"""Records as a duel leaves them, made of a golden race: rounds of two sides in turn, with changes that are known."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from esbench.comparison.model import Side
from esbench.measure.histogram import Counts, encode, percentiles_ns
from esbench.record.model import PERCENTILES, RaceRecord, Session, TaskResult
from esbench.record.series import SecondLine
from esbench.record.store import decode_record

GOLDEN = Path(__file__).parents[1] / "golden" / "race-schema-4.json"
SECONDS = 10
_SAMPLES = 110  # a second
_NS_PER_MS = 1e6


def sides(
    changes: Mapping[str, float], rounds: int = 6, names: tuple[str, str] = ("baseline", "contender")
) -> list[Side]:
    """Two sides of a session. `changes`: the tasks that are raced, and what the contender's times are multiplied by."""
    golden = decode_record(GOLDEN.read_bytes())
    turns = [side for pair in range(rounds) for side in ((0, 1) if pair % 2 == 0 else (1, 0))]
    records: tuple[list[RaceRecord], list[RaceRecord]] = ([], [])
    for position, side in enumerate(turns):
        draws = random.Random(position)
        found = records[side]
        tasks = tuple(
            _raced(task, (changes[task.name] if side else 1.0) * draws.lognormvariate(0, 0.015))
            for task in golden.tasks
            if task.name in changes
        )
        session = Session("duel", "duel", names[side], len(found) + 1, position // 2 + 1, position + 1)
        found.append(
            replace(
                golden,
                race_id=f"{names[side]}-{len(found) + 1}",
                started_at=f"2026-11-21T10:{position:02}:00+00:00",
                tasks=tasks,
                session=session,
                track_params={**golden.track_params, "number_of_replicas": side},
            )
        )
    return [Side(name, tuple(found), "duel") for name, found in zip(names, records, strict=True)]


def seconds(record: RaceRecord) -> Iterator[SecondLine]:
    """The seconds of such a race: all alike, so that no percentile hangs on a few of them."""
    for task in record.tasks:
        for second in range(SECONDS):
            yield SecondLine(
                task.name,
                int(task.window.start_s) + second,
                "measurement",
                _SAMPLES,
                _SAMPLES,
                _SAMPLES,
                float(_SAMPLES),
                **task.histograms,
            )


def _raced(task: TaskResult, times: float) -> TaskResult:
    """A task whose requests took a multiple of some milliseconds; a closed loop sends as often as that allows."""
    measures = ("latency", "service_time") if task.loop == "open" else ("service_time",)
    encoded = _counted(round(times, 3))
    times_ms = {
        f"p{rank:g}": ns / _NS_PER_MS for rank, ns in percentiles_ns(_times(round(times, 3)), PERCENTILES).items()
    }
    mean = 1000.0 if task.loop == "open" else 5000 / times
    return replace(
        task,
        requests=_SAMPLES * SECONDS,
        errors=0,
        unsent=0 if task.loop == "open" else None,
        checks=(),
        throughput=replace(task.throughput, mean=mean),
        histograms=dict.fromkeys(measures, encoded),
        service_time_ms=times_ms,
        latency_ms=times_ms if task.loop == "open" else None,
    )


@cache
def _times(times: float) -> Counts:
    draws, counts = random.Random(1), Counts()
    for _ in range(_SAMPLES * SECONDS):
        counts.add(int(times * draws.lognormvariate(0.7, 0.5) * _NS_PER_MS))
    return counts


@cache
def _counted(times: float) -> str:
    return encode(_times(times))
