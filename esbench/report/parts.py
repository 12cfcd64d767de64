"""Reports of races with a part of a feature (record.parts): a result in place of the tasks, its tables and charts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from esbench.record.figures import Notice
from esbench.record.model import RaceRecord
from esbench.record.parts import attribute_at, declared_parts
from esbench.record.store import RaceEntry
from esbench.report.table_model import ColumnOf, Section


class ShownPart(Protocol):
    """The result of a race, which reports show in place of its tasks. `title` names it; `level`: good, warning, bad."""

    @property
    def title(self) -> str: ...

    @property
    def level(self) -> str: ...

    def sentence(self) -> str:
        """Return the result in words, without a full stop."""
        ...

    def overview(self) -> Mapping[str, Any]:
        """Return the result for programs."""
        ...

    def notices(self) -> Iterable[Notice]:
        """Return what a reader needs beside the result."""
        ...

    def main(self) -> Section:
        """Return the table that stands in place of the tasks."""
        ...

    def sections(self) -> Sequence[Section]:
        """Return the further tables."""
        ...

    def sections_of_page(self) -> Sequence[Section]:
        """Return those further tables that charts do not replace."""
        ...

    def charts(self) -> Iterator[Any]:
        """Yield the charts of a page (features.pages.page.Chart)."""
        ...


class PartReport(Protocol):
    """The report of a part, at the place that `Part.report` names. `title` is that of its column in lists."""

    @property
    def title(self) -> str: ...

    def listed(self, entry: Any) -> str:
        """Return the text of the part in lists, by what these read of it."""
        ...

    def shown(self, record: RaceRecord) -> ShownPart:
        """Return the result of a race that has the part."""
        ...


def _reports(keys: Collection[str]) -> Iterator[tuple[str, PartReport]]:
    """Yield each key of a part that reports show, and its report."""
    for key, part in declared_parts(keys).items():
        report: PartReport | None = attribute_at(part.report) if part.report else None
        if report is not None:
            yield key, report


def shown_part(record: RaceRecord) -> tuple[str, ShownPart] | None:
    """Return the key of the part that is the result of a race, and that result; None of a race of tasks alone."""
    return next(((key, report.shown(record)) for key, report in _reports(record.parts)), None)


def part_columns(entries: Sequence[RaceEntry]) -> Iterator[ColumnOf[RaceEntry]]:
    """Yield the column of each part that a race of a list has."""
    for key, report in _reports({key for entry in entries for key in entry.parts}):
        yield _column(key, report)


def _column(key: str, report: PartReport) -> ColumnOf[RaceEntry]:
    def text(entry: RaceEntry) -> str:
        return report.listed(entry.parts[key]) if key in entry.parts else ""

    return ColumnOf(report.title, key, below=True, read=text)
