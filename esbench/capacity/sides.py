"""The searches of several sides at once, each probe at one rate on all of them: which rate is next. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from esbench.capacity.search import next_of
from esbench.record.capacity import FoundCapacity, Probe, SearchTerms, SeenProbe

SideSearch = tuple[SearchTerms, Sequence[SeenProbe]]


def next_of_sides(searches: Sequence[SideSearch], side: int) -> Probe | FoundCapacity:
    """Return the next probe of the side with this number, or what it has found once no side needs another probe.

    The rate is what the side asks for that has asked for fewest of those whose search has not ended. Each side has its
    own curve, through all probes near its own estimate.
    """
    found = [next_of(terms, seen) for terms, seen in searches]
    asking = [number for number, each in enumerate(found) if isinstance(each, Probe)]
    if not asking:
        return found[side]
    asks = min(asking, key=lambda number: sum(each.probe.stage != "other" for each in searches[number][1]))
    probe = found[asks]
    return replace(probe, stage="other") if isinstance(probe, Probe) and asks != side else probe
