"""A matrix of several races: one figure of each, by task and by facts of the race such as a track parameter.

Nothing is judged here. Pure: sides in, a frozen Matrix out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from esbench.comparison.comparability import differences
from esbench.comparison.model import Side
from esbench.errors import UsageError, did_you_mean, nearest
from esbench.errors.short import first_of
from esbench.measure.measures import response_time
from esbench.record.figures import Figure, Notice, figures_of, reported_tasks, task_label
from esbench.record.model import RaceRecord, TaskResult

_MOST_NAMED = 4
_SHORT = re.compile(r"p\d{1,2}(?:\.\d+)?|max")  # of the response time
_SAME = {"throughput": "Mean throughput", "errors": "error rate"}
Label = str | int | float
_Place = tuple[tuple[Label, ...], Label]  # row and column
_Read = Callable[[Side, RaceRecord, TaskResult], Any]
_KEYS: Mapping[str, _Read] = {
    "task": lambda side, record, task: task_label(record, task),
    "operation": lambda side, record, task: task.operation,
    "clients": lambda side, record, task: task.clients,
    "rate": lambda side, record, task: task.target_rate_per_s,
    "race": lambda side, record, task: record.race_id,
    "side": lambda side, record, task: side.name,
    "track": lambda side, record, task: record.track.name,
    "challenge": lambda side, record, task: record.challenge,
    "version": lambda side, record, task: ", ".join(cluster.server for cluster in record.clusters.values()),
}
_OF_NAMES: Mapping[str, Callable[[RaceRecord], Mapping[str, Any]]] = {
    "param": lambda record: record.track_params,
    "tag": lambda record: record.user_tags,
}
KEYS = (*_KEYS, *(f"{kind}:NAME" for kind in _OF_NAMES))


@dataclass(frozen=True)
class Matrix:
    """A figure by row and column. `row_keys` name the parts of a row's label, `rows` are the labels.

    `cells` are by row and column: the mean over the races of a cell, with their number, None without a usable figure.
    `value` is the figure as it was asked for, `units` are the different units of the cells.
    """

    value: str
    units: tuple[str, ...]
    row_keys: tuple[str, ...]
    rows: tuple[tuple[Label, ...], ...]
    columns: tuple[Label, ...]
    cells: Mapping[_Place, tuple[Figure, int] | None]
    notices: tuple[Notice, ...] = ()


def matrix(sides: Sequence[Side], rows: str, columns: str, value: str, allow: Collection[str] = ()) -> Matrix:
    """Return the matrix of a figure of the sides' tasks.

    `rows` and `columns` are keys with commas between them (`KEYS`: task, param:documents ...). `value` is throughput,
    errors, p50 ... p99.99 or max (latency of an open loop, service time of a closed one), or a metric of the summary.
    `allow`: keys of the workload that may differ between the races of one cell. Raises UsageError for an unknown key
    or value, and if a cell has several tasks, or races that differ in more than their round.
    """
    row_keys, column_keys = _parsed(rows, "--rows"), _parsed(columns, "--columns")
    found: dict[_Place, list[tuple[RaceRecord, Figure | None]]] = {}
    metrics: set[str] = set()
    figures = iter(figures_of([record for side in sides for record in side.records]))
    for side in sides:
        for record in side.records:
            by_name = {(figure.metric.lower(), figure.task): figure for figure in next(figures)}
            metrics |= {metric for metric, _ in by_name}
            for task in reported_tasks(record):
                labels = [_label(key, side, record, task) for key in (*row_keys, *column_keys)]
                place = tuple(labels[: len(row_keys)]), _joined(labels[len(row_keys) :])
                figure = by_name.get((_metric(value, task).lower(), task_label(record, task)))
                found.setdefault(place, []).append((record, figure))
    units = {figure.unit for cell in found.values() for _, figure in cell if figure is not None}
    if not units:
        known = ["throughput", "errors", "p50", "p99", "max", *sorted(metrics)]
        hint = nearest(value, known) or "throughput, errors, p50, p99, max or a metric of esbench show"
        raise UsageError(f'no task has "{value}"', where="--value", hint=hint)
    for place, cell in found.items():
        _refuse_several_tasks(place, [figure for _, figure in cell if figure is not None])
    by_races: dict[tuple[str, ...], _Place] = {}  # tasks of the same races are one question
    for place, cell in found.items():
        by_races.setdefault(tuple(record.race_id for record, _ in cell), place)
    for place in by_races.values():
        _refuse_mixed(place, [record for record, _ in found[place]], allow)
    return Matrix(
        value,
        tuple(sorted(units)),
        row_keys,
        tuple(dict.fromkeys(row for row, _ in found)),
        _ordered(column for _, column in found),
        {place: _mean([figure for _, figure in cell]) for place, cell in found.items()},
        (*_unusable(found), *_further_differences(sides, (*row_keys, *column_keys))),
    )


def _parsed(text: str, where: str) -> tuple[str, ...]:
    keys = tuple(part.strip() for part in text.split(",") if part.strip())
    for key in keys:
        kind, _, name = key.partition(":")
        if key not in _KEYS and not (kind in _OF_NAMES and name):
            raise UsageError(f'"{key}" is not a key', where=where, hint=did_you_mean(key, KEYS) or ", ".join(KEYS))
    if not keys:
        raise UsageError("no key is named", where=where, hint=", ".join(KEYS))
    return keys


def _label(key: str, side: Side, record: RaceRecord, task: TaskResult) -> Label:
    kind, _, name = key.partition(":")
    found = _OF_NAMES[kind](record).get(name) if name else _KEYS[key](side, record, task)
    if found is None:
        return "(default)" if kind == "param" else "-"
    return found if isinstance(found, int | float) and not isinstance(found, bool) else str(found)


def _joined(labels: Sequence[Label]) -> Label:
    return labels[0] if len(labels) == 1 else ", ".join(map(str, labels))


def _ordered(labels: Any) -> tuple[Label, ...]:
    """Return each label once: numbers in ascending order, others as they come."""
    each: list[Label] = list(dict.fromkeys(labels))
    numbers = [label for label in each if not isinstance(label, str)]
    return (*sorted(numbers), *(label for label in each if isinstance(label, str)))


def _metric(value: str, task: TaskResult) -> str:
    if _SHORT.fullmatch(value):
        return f"{value} {response_time(is_open=task.loop == 'open').title}"
    return _SAME.get(value, value)


def _mean(found: Sequence[Figure | None]) -> tuple[Figure, int] | None:
    usable = [figure for figure in found if figure is not None and figure.usable]
    if not usable:
        return None
    exceeded = any(figure.exceeded for figure in usable)
    mean = usable[0].value if len(usable) == 1 else fmean(figure.value for figure in usable)
    return replace(usable[0], value=mean, exceeded=exceeded), len(usable)


def _refuse_several_tasks(place: _Place, cell: Sequence[Figure]) -> None:
    tasks = list(dict.fromkeys(figure.task for figure in cell))
    if len(tasks) > 1:
        raise UsageError(
            f"the cell {_named(place)} holds {len(tasks)} tasks: {first_of(tasks, _MOST_NAMED)}",
            hint="say task in --rows or --columns",
        )


def _refuse_mixed(place: _Place, records: Sequence[RaceRecord], allow: Collection[str]) -> None:
    names = _differing(records, allow)
    if names:
        raise UsageError(
            f"the cell {_named(place)} holds races that differ in {first_of(names, _MOST_NAMED)}",
            hint="say which in --rows or --columns (race, version, param:NAME), or leave some out",
        )


def _named(place: _Place) -> str:
    return f"{', '.join(map(str, place[0]))} / {place[1]}"


def _differing(records: Sequence[RaceRecord], allow: Collection[str] = ()) -> list[str]:
    """Return the names of the facts in which races differ, without their tags."""
    first, *others = {record.race_id: record for record in records}.values()
    if not others:
        return []
    found = differences(Side("", (first,)), Side("", tuple(others)), allow)
    return [difference.name for difference in found if not (difference.is_label or difference.allowed)]


def _unusable(found: Mapping[Any, Sequence[tuple[RaceRecord, Figure | None]]]) -> tuple[Notice, ...]:
    names = [
        f"{figure.task} of {record.race_id}"
        for cell in found.values()
        for record, figure in cell
        if figure is not None and not figure.usable
    ]
    return (
        (Notice(f"left out, since a check says that it must not be used: {first_of(names, _MOST_NAMED)}"),)
        if names
        else ()
    )


def _further_differences(sides: Sequence[Side], keys: Sequence[str]) -> tuple[Notice, ...]:
    """Return a notice with the facts in which the races differ though no key says so."""
    named = {key.replace(":", " ", 1) for key in keys}
    if named & {"race", "side"}:
        return ()
    names = [name for name in _differing([record for side in sides for record in side.records]) if name not in named]
    return (Notice(f"the races differ in more than that: {first_of(names, _MOST_NAMED)}"),) if names else ()
