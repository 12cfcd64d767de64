"""The steps of a race in their order: those of its challenge. A search for capacity decides on them while it races."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from esbench.events.listeners import Listener
from esbench.load.coordinator import Coordinator
from esbench.load.messages import Stock, Target
from esbench.model import Challenge, Step
from esbench.race.cluster import RaceTarget


@dataclass(frozen=True)
class PreparedRace:
    """The parts of a race that are there before its first step."""

    cluster: RaceTarget
    target: Target
    stock: Stock
    coordinator: Coordinator


class Steps(Listener):
    """The steps of a challenge, one after the other. It follows the race, and each step may depend on those before."""

    warnings: tuple[str, ...] = ()  # about what `chosen` has left out

    def chosen(self, challenge: Challenge) -> Challenge:
        """Return the challenge with the tasks that the race may run. EsbenchError if it lacks one that must be."""
        return challenge

    def of(self, challenge: Challenge, prepared: PreparedRace) -> Iterator[Step]:
        """Yield each step when those before it have ended."""
        yield from challenge.steps

    def enough(self) -> bool:
        """True if the running step need not go on."""
        return False

    def parts(self) -> Mapping[str, Any]:
        """Return what is kept in the record, by the keys of its parts (record.parts), as it is so far."""
        return {}
