"""The golden race record, and variants of it, for tests of what happens after a race."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from esbench.comparison.compare import compare
from esbench.comparison.model import Pair, Side
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.store import RaceStore, decode_record

GOLDEN = Path(__file__).parents[1] / "golden" / "race-schema-4.json"


def golden_race(**changes: Any) -> RaceRecord:
    return replace(decode_record(GOLDEN.read_bytes()), **changes)


def task_of(record: RaceRecord, name: str) -> TaskResult:
    return next(task for task in record.tasks if task.name == name)


def with_task(record: RaceRecord, name: str, **changes: Any) -> RaceRecord:
    tasks = (replace(task, **changes) if task.name == name else task for task in record.tasks)
    return replace(record, tasks=tuple(tasks))


def keep(home: Path, record: RaceRecord) -> None:
    RaceStore(home).create(record.race_id).save(record)


def compared(baseline: RaceRecord, contender: RaceRecord) -> Pair:
    """Two single races side by side."""
    return compare(Side("baseline", (baseline,)), [Side("contender", (contender,))]).pairs[0]
