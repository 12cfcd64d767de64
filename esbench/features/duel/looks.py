"""The number of a duel's rounds, and after which its rows are judged: by their spread, not by their result.

There are two looks, or one if the first is the last. The first comes after the fewest rounds that a verdict takes:
tasks whose rows are all settled by then are not raced again, and the time goes to the others. When the last one comes
follows from the spread of the rounds so far. A row's p value counts once for each planned look, and the rows that were
settled at an earlier one stay in the family of those that are tested together (`stats.adjusted`). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from esbench.comparison import stats

_SHARE = 0.75  # of the rows that can be settled, for which a plan has enough rounds
_FEWEST_MORE = 2  # rounds that are worth a look before them


@dataclass(frozen=True)
class SettlingAim:
    """The aim of a duel: to settle a change whose logarithm is `margin`, in `rows` rows that are judged together.

    `fewest` rounds are what a verdict takes.
    """

    margin: float
    rows: int
    fewest: int

    def looks(self, spreads: Sequence[float], most: int) -> tuple[int, ...]:
        """Return the rounds after which rows are judged: one number or two, of which the last ends the duel.

        `spreads`: the standard deviation of a round's difference in each row. `most`: the rounds that the time holds.
        """
        once = self._rounds(spreads, 1, most)
        if once < self.fewest + _FEWEST_MORE:
            return (once,)
        return self.fewest, self.later(spreads, most)

    def later(self, spreads: Sequence[float], most: int) -> int:
        """Return the rounds after which the last of two looks comes, when the first has been."""
        return max(self.fewest + _FEWEST_MORE, self._rounds(spreads, 2, most))

    def is_settled(self, spread: float, looks: Sequence[int]) -> bool:
        """True if a row with this spread should be settled by the last look."""
        if looks[-1] < self.fewest:
            return False
        return stats.paired_margin(spread, looks[-1], self.rows, len(looks)) <= self.margin

    def needed(self, spread: float, looks: int = 2) -> int | None:
        """Return the rounds that settle a row with this spread; None above 50."""
        return stats.paired_rounds_to_settle(spread, self.margin, self.rows, self.fewest, looks)

    def _rounds(self, spreads: Sequence[float], looks: int, most: int) -> int:
        """Return the rounds that settle three quarters of the rows that `most` rounds can settle; `most` if these
        settle none."""
        needed = (self.needed(spread, looks) for spread in spreads)
        within = sorted(rounds for rounds in needed if rounds is not None and rounds <= most)
        return within[ceil(_SHARE * len(within)) - 1] if within else most
