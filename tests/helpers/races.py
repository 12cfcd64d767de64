"""The golden race record, and variants of it, for tests of what happens after a race."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from esbench.comparison.compare import compare
from esbench.comparison.model import Pair, Side
from esbench.features.capacity.parts import SEARCH
from esbench.features.capacity.record import CapacitySearch, FoundCapacity, LateCounts, Probe, SearchTerms, SeenProbe
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import SecondLine, encode_second, read_seconds
from esbench.record.store import RaceFolder, RaceStore, decode_record

GOLDEN = Path(__file__).parents[1] / "golden" / "race-schema-11.json"


def golden_race(**changes: Any) -> RaceRecord:
    """The golden record, as that of a race of one load host which had all the time, no objectives, no scores, and no
    parts of features: one of its tasks was raced in slices and scored, two have objectives, and one was shared by
    two load hosts."""
    record = decode_record(GOLDEN.read_bytes())
    tasks = tuple(replace(task, slices=None, objectives=(), host_shares=(), scores=None) for task in record.tasks)
    return replace(record, **{"tasks": tasks, "load_hosts": (), "parts": {}, **changes})


def search_of(record: RaceRecord, rate_per_s: float = 100.0, why: str = "precise", task: str = "") -> RaceRecord:
    """The race as one that searched for the capacity of a task, by default its first, and ended with this rate."""
    found = FoundCapacity(why, rate_per_s, rate_per_s, rate_per_s)
    counts = LateCounts(rate_per_s, (1000, 1000), (5, 5))
    probe = SeenProbe(Probe(rate_per_s, 30.0, "near"), (counts,), 36.0, task=record.tasks[0].name)
    name = task or record.tasks[0].operation
    terms = SearchTerms((0.01,), closed_per_s=2 * rate_per_s)
    return with_search(record, CapacitySearch(name, ("p99 < 50 ms",), {}, terms, (probe,), found))


def with_search(record: RaceRecord, search: CapacitySearch | None) -> RaceRecord:
    """The race with this search for a capacity, or without one."""
    others = {key: part for key, part in record.parts.items() if key != SEARCH.key}
    return replace(record, parts=others if search is None else {SEARCH.key: search, **others})


def kept_search(record: RaceRecord) -> CapacitySearch:
    """The search for a capacity of a race that has one."""
    search = SEARCH.kept_in(record)
    assert search is not None
    return search


def task_of(record: RaceRecord, name: str) -> TaskResult:
    return next(task for task in record.tasks if task.name == name)


def with_task(record: RaceRecord, name: str, **changes: Any) -> RaceRecord:
    tasks = (replace(task, **changes) if task.name == name else task for task in record.tasks)
    return replace(record, tasks=tuple(tasks))


def keep(home: Path, record: RaceRecord) -> None:
    """Store a race, with a second for each of its tasks that holds all of its requests."""
    folder = RaceStore(home).create(record.race_id)
    keep_seconds(folder, record)
    folder.save(record)


def keep_seconds(folder: RaceFolder, record: RaceRecord) -> None:
    """Append a second for each task of a race, which holds all of its requests."""
    for task in record.tasks:
        requests = task.requests + task.warmup.requests
        folder.append_seconds(encode_second(SecondLine(task.name, 0, "measurement", 0, requests, requests, 1.0)))


def as_counted(record: RaceRecord, seconds_file: Path) -> RaceRecord:
    """The race with as many requests of its tasks as a file of seconds has."""
    counted = Counter[str]()
    for line in read_seconds(seconds_file):
        counted[line.task] += line.requests
    tasks = (
        replace(task, requests=counted[task.name], warmup=replace(task.warmup, requests=0)) for task in record.tasks
    )
    return replace(record, tasks=tuple(tasks))


def compared(baseline: RaceRecord, contender: RaceRecord) -> Pair:
    """Two single races side by side."""
    return compare(Side("baseline", (baseline,)), [Side("contender", (contender,))]).pairs[0]
