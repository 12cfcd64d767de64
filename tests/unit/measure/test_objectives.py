"""Objectives as a track writes them: what is understood, in one spelling, and what is refused, with its remedy."""

from __future__ import annotations

import pytest

from esbench.errors import UsageError
from esbench.measure.objectives import allows, is_held, parse_objective


@pytest.mark.parametrize(
    ("written", "text", "limit_ms", "most_ratio"),
    [
        ("p99<50ms", "p99 < 50 ms", 50, 0.01),
        ("P 99.9 <= 2 s", "p99.9 <= 2000 ms", 2000, 0.001),
        ("p9<7us", "p9 < 0.007 ms", 0.007, 0.91),
        ("p100<1s", "p100 < 1000 ms", 1000, 0),
        ("within 50ms>=99%", "within 50 ms >= 99 %", 50, 0.01),
        ("within0.5s > 99.99 %", "within 500 ms > 99.99 %", 500, 0.0001),
        ("within 1s>=100%", "within 1000 ms >= 100 %", 1000, 0),
        ("errors<0.1%", "errors < 0.1 %", None, 0.001),
        (" errors <= 0 % ", "errors <= 0 %", None, 0),
        ("mean<5ms", "mean < 5 ms", None, None),
        ("throughput>1234567.5", "throughput > 1234567.5", None, None),
    ],
)
def test_an_objective_has_one_spelling_which_is_read_back(
    written: str, text: str, limit_ms: float | None, most_ratio: float | None
) -> None:
    objective = parse_objective(written)
    assert (objective.text, objective.limit_ms, objective.most_ratio) == (text, limit_ms, most_ratio)
    assert objective.is_share == (most_ratio is not None)
    assert parse_objective(objective.text) == objective


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("p99", '"p99" is not an objective (say "p99<50ms", "within 50ms>=99%", '),
        ("p99<", '"p99<" is not an objective (say '),
        ("p99<50", '"p99<50" has a time without a unit (say "p99<50ms")'),
        ("mean<=5", 'has a time without a unit (say "mean<=5ms")'),
        ("within 50>=99%", 'has a time without a unit (say "within 50ms>=99%")'),
        ("within 50ms>=99", 'has a share without a % (say "within 50ms>=99%")'),
        ("errors<1", 'has a share without a % (say "errors<1%")'),
        ("p99<5 parsecs", '"5 parsecs" has no known unit of time (units: ns, us, '),
        ("p99<0ms", "has a time of zero"),
        ("p99>50ms", '"p99>50ms" is the wrong way round (say "p99<50ms")'),
        ("errors>1%", 'is the wrong way round (say "errors<1%")'),
        ("within 5ms<=99%", 'is the wrong way round (say "within 5ms>=99%")'),
        ("throughput<1000", 'is the wrong way round (say "throughput>=1000")'),
        ("p99=5ms", 'has "=" (say "p99<5ms")'),
        (
            "throughput>=5 docs/s",
            'has a unit or no number (say "throughput>=1000": it is in the task\'s unit per second',
        ),
        ("errors<0%", '"errors<0%" can never be held (say "errors<=0%")'),
        ("within 5ms>100%", "can never be held"),
        ("errors<200%", "is not a part of a whole"),
        ("p101<5ms", "does not name a percentile"),
        ("latency<5ms", 'has no known figure "latency" (did you mean "mean<5ms" or "p99<5ms"?)'),
        ("error<1%", 'did you mean "errors<1%"?'),
        ("p99 latency<5ms", 'did you mean "p99<5ms"?'),
        ("mean throughput>=5", 'did you mean "throughput>=5"?'),
        ("max<1s", 'did you mean "p100<1s"?'),
        ("colour<1", 'has no known figure "colour" (say "p99<50ms", '),
    ],
)
def test_what_is_no_objective_is_refused_with_a_remedy(written: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_objective(written)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("written", "count", "requests", "held"),
    [
        ("p99<50ms", 10, 1000, True),
        ("p99<50ms", 11, 1000, False),
        ("within 50ms>=99%", 10, 1000, True),
        ("within 50ms>99%", 10, 1000, False),
        ("within 50ms>99%", 9, 1000, True),
        ("p99.9<50ms", 1, 1000, True),
        ("p99.99<50ms", 1, 10_000, True),
        ("within 50ms>=71%", 29, 100, True),  # 0.29 * 100 is below 29
        ("errors<1%", 1, 100, False),
        ("errors<=1%", 1, 100, True),
        ("errors<=0%", 0, 1, True),
        ("p100<50ms", 1, 1_000_000, False),
    ],
)
def test_requests_are_counted_exactly(written: str, count: int, requests: int, held: bool) -> None:
    assert allows(parse_objective(written), count, requests) == held


@pytest.mark.parametrize(
    ("written", "value", "held"),
    [
        ("mean<5ms", 5.0, False),
        ("mean<=5ms", 5.0, True),
        ("throughput>=1000", 1000.0, True),
        ("throughput>1000", 1000.0, False),
    ],
)
def test_a_figure_at_its_bound(written: str, value: float, held: bool) -> None:
    assert is_held(parse_objective(written), value) == held
