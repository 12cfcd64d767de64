"""Lines of very many points: what of them a chart shows."""

from __future__ import annotations

import random

from esbench.report.thinning import points_each, shown_points


def test_a_line_that_a_screen_can_show_is_shown_whole() -> None:
    assert shown_points([[float(value) for value in range(6_000)]]) == list(range(6_000))
    assert points_each(6_000) == 1


def test_of_a_longer_line_each_extreme_is_shown() -> None:
    draw = random.Random(3)
    columns = [[draw.random() for _ in range(86_400)] for _ in range(2)]
    columns[0][50_001], columns[1][3] = 9.0, -9.0
    shown = shown_points(columns)
    assert len(shown) < 4_000
    assert shown == sorted(set(shown))
    assert {0, 3, 50_001, 86_399} <= set(shown)
    for values in columns:
        for start in range(0, 86_400, points_each(86_400)):
            span = range(start, min(start + points_each(86_400), 86_400))
            of_span = [values[number] for number in shown if number in span]
            assert (min(of_span), max(of_span)) == (min(values[n] for n in span), max(values[n] for n in span))


def test_gaps_remain() -> None:
    values: list[float | None] = [1.0] * 10_000
    values[5_000] = None
    assert 5_000 in shown_points([values])
    assert shown_points([[None] * 10_000])[0] == 0
