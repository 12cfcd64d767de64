"""The parts of a record about capacities: a search for one, and one of which target rates were percents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat

from esbench.errors import UsageError
from esbench.features.capacity.record import CapacitySearch, FoundCapacity, KnownCapacity, SeenProbe
from esbench.measure.objectives import parse_objective
from esbench.record.model import LONGEST_S
from esbench.record.parts import Part

_MISFIT = "the search for a capacity does not fit its objectives"


@dataclass(frozen=True)
class SearchEntry:
    """The result of a search for a capacity, of its whole the part that lists show."""

    task: str
    objectives: tuple[str, ...]
    beside: Mapping[str, float] = field(default_factory=dict)
    found: FoundCapacity | None = None


def check_found(search: CapacitySearch | SearchEntry) -> None:
    """Raise ValueError unless the objectives of a search can be parsed, and what it has found fits them."""
    try:
        for text in search.objectives:
            parse_objective(text)
    except UsageError as error:
        raise ValueError(f"the search for a capacity: {error}") from error
    number, found = len(search.objectives), search.found
    if found and (found.binding not in range(number) or len(found.curves) not in (0, number)):
        raise ValueError(_MISFIT)


def check_search(search: CapacitySearch) -> None:
    """Raise ValueError unless all of a search fits its objectives."""
    check_found(search)
    number, most_late = len(search.objectives), search.terms.most_late if search.terms else ()
    fits = len(most_late) == number if search.terms else not search.probes
    fits = fits and all(0 < most < 1 for most in most_late) and all(map(_fits, search.probes, repeat(number)))
    if not fits:
        raise ValueError(_MISFIT)


def _fits(seen: SeenProbe, objectives: int) -> bool:
    fits = len(seen.counts) == objectives and all(len(counts.due) == len(counts.late) for counts in seen.counts)
    return fits and 0 < seen.probe.measured_s <= LONGEST_S


SEARCH = Part(
    "capacity",
    CapacitySearch,
    check_search,
    entry=SearchEntry,
    check_entry=check_found,
    only_tried=lambda search, task: task in search.probe_tasks,
    report="esbench.features.capacity.report:REPORT",
    judged="esbench.features.capacity.verdicts:JUDGED",
)
KNOWN: Part[KnownCapacity, None] = Part("capacity_of", KnownCapacity)  # of a race with target rates in percent of it
