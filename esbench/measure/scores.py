"""Scores of replies, 0 to 1: how good an answer is, as its recall or its relevance, beside how fast it came. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

_DIGITS = 4  # of a score that is counted
_TWO_SIDED_95 = NormalDist().inv_cdf(0.975)


@dataclass(slots=True)
class Scores:
    """Counts of scores: how often each was had, to four digits, and by query their number and sum.

    `name` is that of the score, "recall@10"; empty before the first one.
    """

    name: str = ""
    counts: dict[float, int] = field(default_factory=dict)
    by_query: dict[int, tuple[int, float]] = field(default_factory=dict)

    def add(self, name: str, query: int, score: float) -> None:
        """Count the score of a reply to a query, by its number."""
        self.name = name
        score = round(score, _DIGITS)
        self.counts[score] = self.counts.get(score, 0) + 1
        count, total = self.by_query.get(query, (0, 0.0))
        self.by_query[query] = (count + 1, total + score)

    def merge(self, other: Scores) -> None:
        self.name = self.name or other.name
        for score, count in other.counts.items():
            self.counts[score] = self.counts.get(score, 0) + count
        for query, (count, total) in other.by_query.items():
            mine, of_mine = self.by_query.get(query, (0, 0.0))
            self.by_query[query] = (mine + count, of_mine + total)

    @property
    def count(self) -> int:
        """The number of replies that were scored."""
        return sum(self.counts.values())

    @property
    def total(self) -> float:
        """The sum of all scores."""
        return math.fsum(score * count for score, count in self.counts.items())

    def percentile(self, rank: float) -> float:
        """Return the score that `rank` percent of the replies have at most (nearest rank). ValueError without any."""
        wanted, seen = math.ceil(rank / 100 * self.count), 0
        for score in sorted(self.counts):
            seen += self.counts[score]
            if seen >= wanted:
                return score
        raise ValueError("no reply was scored")


def interval(by_query: Mapping[int, tuple[int, float]] | Iterable[tuple[int, float]]) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean score, from the number and the sum of the scores of each query.

    Replies to one query are alike, so that queries are its clusters: the ratio estimator's variance (Cochran, Sampling
    Techniques, 1977, 6.3). Where all queries score the same, one more of n would change the mean by 3 / n at most with
    95 % confidence (rule of three). None for fewer than two queries.
    """
    pairs = list(by_query.values() if isinstance(by_query, Mapping) else by_query)
    queries, replies = len(pairs), sum(count for count, _ in pairs)
    if queries < 2:
        return None
    mean = math.fsum(total for _, total in pairs) / replies
    squares = math.fsum((total - mean * count) ** 2 for count, total in pairs)
    half = _TWO_SIDED_95 * math.sqrt(queries / (queries - 1) * squares) / replies
    if half < 1e-9:
        half = 3 / queries
    return max(0.0, mean - half), min(1.0, mean + half)
