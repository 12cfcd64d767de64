"""The requests of each turn of one client: those that it sends once, and one of those that have weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby
from random import Random
from typing import Any

from esbench.errors import TrackError
from esbench.operations.parameters import flag

ONCE, WEIGHT = "once-per-client", "weight"
_MOST = 1e9


def check_turns(requests: Sequence[Mapping[str, Any]], where: str) -> None:
    """Raise TrackError for requests of which no further turn can be made, or whose weights cannot be."""
    for number, request in enumerate(requests, 1):
        weight = weight_of(request, f"request {number}", where)
        if weight is not None and flag(request.get(ONCE), False):
            what = f'request {number} has both "{ONCE}" and "{WEIGHT}"'
            raise TrackError(what, where=where, hint="a request that is sent once is not drawn")
    if all(flag(request.get(ONCE), False) for request in requests):
        raise TrackError(f'each request has "{ONCE}"', where=where, hint="after its first turn a client has none left")


def weight_of(request: Mapping[str, Any], name: str, where: str) -> float | None:
    """Return the weight of a request, None without one. Raises TrackError for one that is no number above zero."""
    weight = request.get(WEIGHT)
    if weight is None:
        return None
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < _MOST:
        raise TrackError(f'{name}: "weight" must be a number above zero, not {str(weight)[:100]!r}', where=where)
    return float(weight)


class Turns:
    """The turns of one client, as positions among the requests of its operation.

    A request that is sent once per client is in each turn until it has succeeded. Of adjacent requests with weights
    each turn has one, drawn by its weight.
    """

    def __init__(self, requests: Sequence[Mapping[str, Any]], random: Random) -> None:
        self._random = random
        self._left = {number for number, request in enumerate(requests) if flag(request.get(ONCE), False)}
        self._sent_once = frozenset(self._left)
        self._groups: list[tuple[Sequence[int], Sequence[float]]] = []  # positions, and their weights summed up
        for is_drawn, members in groupby(range(len(requests)), lambda number: requests[number].get(WEIGHT) is not None):
            positions = list(members)
            weights = [float(requests[number][WEIGHT]) for number in positions] if is_drawn else []
            self._groups.append((positions, list(accumulate(weights))))

    def next(self) -> list[int]:
        """Return the requests of the next turn, in order; it has one at least."""
        turn: list[int] = []
        for positions, cumulative in self._groups:
            if cumulative:
                turn += self._random.choices(positions, cum_weights=cumulative)
            else:
                turn += [number for number in positions if number not in self._sent_once or number in self._left]
        return turn

    def succeeded(self, number: int) -> None:
        """Take note that a request has succeeded."""
        self._left.discard(number)
