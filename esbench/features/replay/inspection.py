"""The contents of a log: the shapes of its searches, their shares, times and hits, and the rate over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from esbench.features.replay.entries import Entry
from esbench.features.replay.shapes import shape_of
from esbench.measure.histogram import Counts

SHOWN_SHAPES = 20
_MOST_SHAPES = 10_000
_WINDOW_S = 3600
_LONG_GAP_S = 3600.0


@dataclass
class Shape:
    """The requests of one shape: their number, recorded durations, and recorded hits."""

    key: str
    name: str
    count: int = 0
    took: Counts = field(default_factory=Counts)
    hits: int = 0
    with_hits: int = 0

    def add(self, entry: Entry) -> None:
        """Count a request."""
        self.count += 1
        if entry.took_ms is not None:
            self.took.add(int(entry.took_ms * 1e6))
        if entry.hits is not None:
            self.hits += entry.hits
            self.with_hits += 1

    def merge(self, other: Shape) -> None:
        """Add the requests of another shape."""
        self.count += other.count
        self.took.merge(other.took)
        self.hits += other.hits
        self.with_hits += other.with_hits


class Rates:
    """Requests by second, of arrivals that are nearly in order: seconds an hour old are closed."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._newest = 0
        self._closed_seconds = 0
        self._peak = 0
        self._lowest = 0
        self.count = 0
        self.first_s = 0.0
        self.last_s = 0.0
        self.longest_gap_s = 0.0
        self.gap_begins_s = 0.0

    def add(self, arrival_s: float) -> None:
        """Count an arrival."""
        if not self.count:
            self.first_s = self.last_s = arrival_s
        if arrival_s - self.last_s > self.longest_gap_s:
            self.longest_gap_s, self.gap_begins_s = arrival_s - self.last_s, self.last_s
        self.first_s, self.last_s = min(self.first_s, arrival_s), max(self.last_s, arrival_s)
        self.count += 1
        second = int(arrival_s)
        self._open[second] = self._open.get(second, 0) + 1
        if len(self._open) > 2 * _WINDOW_S:
            self._close(sorted(self._open)[:_WINDOW_S])

    @property
    def seconds(self) -> float:
        """From the first arrival to the last, a second at least."""
        return max(1.0, self.last_s - self.first_s)

    @property
    def mean(self) -> float:
        """Requests per second."""
        return self.count / self.seconds

    @property
    def peak(self) -> int:
        """The most requests in one second."""
        return max(self._peak, max(self._open.values(), default=0))

    @property
    def lowest(self) -> int:
        """The fewest requests in one second: 0 if a second had none."""
        if int(self.last_s) - int(self.first_s) + 1 > self._closed_seconds + len(self._open):
            return 0
        lowest = min(self._open.values(), default=0)
        return min(self._lowest, lowest) if self._closed_seconds else lowest

    @property
    def has_long_gap(self) -> bool:
        """True if no request came for more than an hour."""
        return self.longest_gap_s > _LONG_GAP_S

    def _close(self, seconds: list[int]) -> None:
        counts = [self._open.pop(second) for second in seconds]
        self._lowest = min(*counts, self._lowest) if self._closed_seconds else min(counts)
        self._peak = max(*counts, self._peak)
        self._closed_seconds += len(counts)


class Inspection:
    """Figures of a log, counted as it is read."""

    def __init__(self) -> None:
        self.rates = Rates()
        self.given_names: Mapping[str, str] = {}  # of shapes, by their keys
        self._shapes: dict[str, Shape] = {}
        self._rest = Shape("", "other shapes")

    def add(self, arrival_s: float, entry: Entry) -> str:
        """Count a search, and return the key of its shape."""
        self.rates.add(arrival_s)
        key, name = shape_of(entry.path, entry.body)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._rest
            if len(self._shapes) < _MOST_SHAPES:
                shape = self._shapes[key] = Shape(key, name)
        shape.add(entry)
        return key

    @property
    def names(self) -> dict[str, str]:
        """The names of all shapes by their keys; those of one name get the beginning of their key."""
        count = Counter(shape.name for shape in self._shapes.values())
        own = {
            key: f"{shape.name} #{key[:4]}" if count[shape.name] > 1 else shape.name
            for key, shape in self._shapes.items()
        }
        return own | dict(self.given_names)

    @property
    def shape_count(self) -> int:
        """The number of different shapes, 10,000 at most."""
        return len(self._shapes)

    def rows(self, most: int) -> list[Shape]:
        """Return the most frequent shapes, and the others as one; shapes of the same name get their key's beginning."""
        ordered = sorted(self._shapes.values(), key=lambda shape: (-shape.count, shape.key))
        rest = Shape("", f"{max(0, len(ordered) - most):,} other shapes")
        for shape in (*ordered[most:], self._rest):
            rest.merge(shape)
        names = self.names
        shown = [replace(shape, name=names[shape.key]) for shape in ordered[:most]]
        return [*shown, *([rest] if rest.count else [])]
