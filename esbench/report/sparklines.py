"""Throughput and p99 of tasks over their measurement as lines of small bars, and their checks: for a terminal.

Bars begin at zero. Each stands for the same number of seconds; its p99 is that of all replies in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from esbench.measure.histogram import Counts, percentiles_ns
from esbench.measure.measures import response_time
from esbench.record.figures import reported_tasks, task_label
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import SecondLine, by_task, merged
from esbench.report.table_model import Column, Section, Table
from esbench.report.text import shortened
from esbench.units import format_number

TITLE = "Over time (p99 of latency, in a closed loop of service time)"
BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.-=+*#@"
NOTHING = {BLOCKS: "·", ASCII: "?"}
COLUMNS = (
    Column("Task", "task"),
    Column("Throughput", "throughput"),
    Column("Highest", "highest_throughput", numeric=True),
    Column("p99", "p99"),
    Column("Highest", "highest_p99", numeric=True),
    Column("Checks", "checks"),
)
_FIGURES = 14 + 9  # columns of both highest values
_GAPS = 2 * (len(COLUMNS) - 1)
_LEAST, _MOST = 8, 60  # bars
_LEAST_OF_A_BAR_S = 0.5  # the rate of a shorter rest would be noise


@dataclass(frozen=True)
class Bars:
    """The values of a task's bars, None for no value: units per second, and ms."""

    units_per_s: tuple[float | None, ...]
    p99_ms: tuple[float | None, ...]


def over_time(
    record: RaceRecord, seconds: Iterable[SecondLine], width: int, *, ascii_only: bool
) -> tuple[Section, ...]:
    """Return a section with a row of bars for each task that tables show; empty without such tasks.

    It is at most `width` columns wide if that is possible.
    """
    tasks = reported_tasks(record)
    if not tasks:
        return ()
    lines = by_task(line for line in seconds if line.phase == "measurement")
    names = shortened([task_label(record, task) for task in tasks], max(16, width // 4))
    checks = [_checks(task) for task in tasks]
    room = _room(width, names, checks)
    if room < _LEAST:  # the warnings below have their names
        checks = [_short(task) for task in tasks]
        room = max(_LEAST, _room(width, names, checks))
    levels = ASCII if ascii_only else BLOCKS
    rows = []
    for task, name, said in zip(tasks, names, checks, strict=True):
        bars = bars_of(task, lines.get(task.name, ()), min(room, _MOST))
        rate, p99 = _highest(bars.units_per_s), _highest(bars.p99_ms)
        rows.append(
            (
                name,
                spark(bars.units_per_s, levels) or None,
                None if rate is None else f"{format_number(rate)} {task.unit}/s",
                spark(bars.p99_ms, levels) or None,
                None if p99 is None else f"{format_number(p99)} ms",
                said,
            )
        )
    return (Section(TITLE, Table(COLUMNS, tuple(rows))),)


def bars_of(task: TaskResult, lines: Sequence[SecondLine], most: int) -> Bars:
    """Return at most `most` bars over the seconds of a task's measurement window; without seconds, no bars.

    `lines` are those of the task's measurement phase. A second without a line is one in which nothing was completed.
    Replies after the window are in the last bar's p99. The beginning of a slice is no part of a bar.
    """
    start_s, end_s = task.window.start_s, task.window.end_s
    first, last = math.floor(start_s), math.ceil(end_s) - 1
    if not lines or last < first:
        return Bars((), ())
    width = math.ceil((last - first + 1) / most)
    bars: list[list[SecondLine]] = [[] for _ in range(first, last + 1, width)]
    for line in lines:
        bars[(min(max(line.second, first), last) - first) // width].append(line)
    rates = []
    for number, bar in enumerate(bars):
        begins_s = first + number * width
        covered_s = task.time.measured_s(max(begins_s, start_s), min(begins_s + width, end_s))
        units = sum(line.units for line in bar if line.second <= last)
        rates.append(units / covered_s if covered_s >= _LEAST_OF_A_BAR_S else None)
    measure = response_time(is_open=task.loop == "open").name
    return Bars(tuple(rates), tuple(_p99_ms(merged(bar, measure)) for bar in bars))


def _p99_ms(counts: Counts) -> float | None:
    """Return the lower bound of the p99, by nearest rank however few the samples; None without samples."""
    ns = percentiles_ns(counts, (99.0,)).get(99.0)
    return None if ns is None else ns / 1e6


def spark(values: Sequence[float | None], levels: str) -> str:
    """Return a character for each value: one of `levels`, from zero to the highest value, or of `NOTHING` for None.

    `levels` is BLOCKS or ASCII.
    """
    highest = _highest(values) or 1.0
    top = len(levels) - 1
    return "".join(
        NOTHING[levels] if value is None else levels[min(top, int(value / highest * len(levels)))] for value in values
    )


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _room(width: int, names: Sequence[str], checks: Sequence[str]) -> int:
    """Return the number of columns for each of the two lines of bars."""
    return (width - max(map(len, names)) - max(6, *map(len, checks)) - _FIGURES - _GAPS) // 2


def _checks(task: TaskResult) -> str:
    """Return the names of the checks that failed, with a `!` before those for which figures must not be used."""
    failed = [
        f"{'! ' if check.level == 'unusable' else ''}{check.name}" for check in task.checks if check.level != "ok"
    ]
    return ", ".join(failed) or "ok"


def _short(task: TaskResult) -> str:
    levels = [check.level for check in task.checks if check.level != "ok"]
    return f"{'! ' if 'unusable' in levels else ''}{len(levels)} failed" if levels else "ok"
