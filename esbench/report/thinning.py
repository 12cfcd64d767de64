"""The points of a long line that a chart shows: as many as a screen can, among them all extremes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_SPANS = 600  # a chart is about as many pixels wide; each pixel has at least the two ends of a vertical stroke
_MOST = 10 * _SPANS


def points_each(points: int) -> int:
    """Return how many points of a line stand for each span of which a few are shown; 1 if all are."""
    return 1 if points <= _MOST else -(-points // _SPANS)


def shown_points(columns: Sequence[Sequence[float | None]]) -> list[int]:
    """Return the numbers of the points that are shown, in their order: all up to 6,000.

    `columns` are values of the same points, None where one is missing. Of more points, those are shown of each span
    that have the lowest or the highest value of a column, and the first one without a value, so that gaps remain.
    """
    points = len(columns[0])
    each = points_each(points)
    if each == 1:
        return list(range(points))
    shown = {0, points - 1}
    for start in range(0, points, each):
        span = range(start, min(start + each, points))
        for values in columns:
            shown.update(_extremes(values, span))
    return sorted(shown)


def _extremes(values: Sequence[float | None], span: range) -> Iterable[int]:
    """Yield the numbers of the lowest and the highest value in a span, and of the first one that is missing."""
    known = [(value, number) for number in span if (value := values[number]) is not None]
    if known:
        yield min(known)[1]
        yield max(known)[1]
    if len(known) < len(span):
        yield next(number for number in span if values[number] is None)
