"""The result of a search for a capacity in reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esbench.features.capacity.parts import SearchEntry
from esbench.features.capacity.tables import (
    objectives_section,
    probes_table,
    search_sections,
    servers_section,
    signs_section,
)
from esbench.features.capacity.words import ShownSearch, capacity_notices, found_text, overview, search_of, sentence
from esbench.record.figures import Notice
from esbench.record.model import RaceRecord
from esbench.report.table_model import Section

if TYPE_CHECKING:
    from esbench.features.pages.page import Chart

_TITLE = "Capacity"


@dataclass(frozen=True)
class SearchResult:
    """The result of a search, as report.parts.ShownPart."""

    search: ShownSearch
    title: str = _TITLE

    @property
    def level(self) -> str:
        found = self.search.found
        return "good" if found and found.was_found else "bad" if found and found.why == "no rate" else "warning"

    def sentence(self) -> str:
        return sentence(self.search)

    def overview(self) -> Mapping[str, Any]:
        return overview(self.search)

    def notices(self) -> Iterator[Notice]:
        return capacity_notices(self.search)

    def main(self) -> Section:
        return Section("Probes", probes_table(self.search))

    def sections(self) -> Sequence[Section]:
        return search_sections(self.search.record, self.search)

    def sections_of_page(self) -> Sequence[Section]:
        """Return the tables without the curve, which a chart shows."""
        servers = servers_section(self.search.record, self.search)
        return (*objectives_section(self.search), *signs_section(self.search), *servers)

    def charts(self) -> Iterator[Chart]:
        from esbench.features.capacity.curve_chart import search_charts

        return search_charts(self.search)


class SearchReport:
    """The report of searches, as report.parts.PartReport."""

    title = _TITLE

    def listed(self, entry: SearchEntry) -> str:
        return "the search has not ended" if entry.found is None else found_text(entry, entry.found)

    def shown(self, record: RaceRecord) -> SearchResult:
        search = search_of(record)
        assert search is not None
        return SearchResult(search)


REPORT = SearchReport()
