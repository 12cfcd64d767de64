"""Comparisons of races with a part of a feature (record.parts): what it was asked for, and the rows of its results.

Rows that several tasks have together need no part: those of OF_TASKS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from esbench.comparison.model import CompareOptions, Difference
from esbench.record.model import RaceRecord
from esbench.record.parts import attribute_at, declared_parts

if TYPE_CHECKING:
    from esbench.comparison.comparability import Fact
    from esbench.comparison.effects import Design
    from esbench.comparison.rows import CandidateRow

# What compares results that several tasks of any race have together: functions as `JudgedPart.rows`.
OF_TASKS = ("esbench.features.vectors.at_recall:rows_at_recall",)


class JudgedPart(Protocol):
    """A part whose results are compared in place of the tasks that it ran, at the place that `Part.judged` names."""

    def without(self, record: RaceRecord) -> RaceRecord:
        """Return a race that has the part without the tasks which followed from what it saw, and what counts them."""
        ...

    def facts(self, record: RaceRecord) -> Mapping[str, Fact]:
        """Return what the part of a race was asked for, by the names that users see."""
        ...

    def rows(
        self, design: Design, differences: Sequence[Difference], options: CompareOptions
    ) -> Iterator[CandidateRow]:
        """Yield the rows of results that all races of both sides have."""
        ...


def _judged(record: RaceRecord) -> Iterator[JudgedPart]:
    """Yield the parts of a race whose results are compared."""
    for part in declared_parts(record.parts).values():
        judged: JudgedPart | None = attribute_at(part.judged) if part.judged else None
        if judged is not None:
            yield judged


def has_result(record: RaceRecord) -> bool:
    """True if results of a part are compared in place of tasks of the race."""
    return any(True for _ in _judged(record))


def without_parts(record: RaceRecord) -> RaceRecord:
    """Return a race without the tasks in place of which results of parts are compared, and what counts them."""
    for judged in _judged(record):
        record = judged.without(record)
    return record


def facts_of_parts(record: RaceRecord) -> dict[str, Fact]:
    """Return what the parts of a race were asked for, by the names that users see."""
    return {name: fact for judged in _judged(record) for name, fact in judged.facts(record).items()}


def rows_of_parts(
    design: Design, differences: Sequence[Difference], options: CompareOptions
) -> tuple[CandidateRow, ...]:
    """Return the rows of the results of parts, and of several tasks together, that all races of both sides have."""
    (first, *_) = design.races
    found = [*(judged.rows for judged in _judged(first.record)), *filter(None, map(attribute_at, OF_TASKS))]
    return tuple(row for rows in found for row in rows(design, differences, options))
