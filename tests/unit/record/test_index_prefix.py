"""Names without the prefix that tells sides on one node apart."""

from __future__ import annotations

from typing import Any

import pytest

from esbench.record.index_prefix import has_prefix, index_prefix, other_params, without_prefix


@pytest.mark.parametrize(("params", "prefix"), [({}, ""), ({"index_prefix": None}, ""), ({"index_prefix": "a-"}, "a-")])
def test_the_prefix_is_a_track_parameter(params: dict[str, Any], prefix: str) -> None:
    assert index_prefix(params) == prefix
    assert other_params({**params, "documents": 7}) == {"documents": 7}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("side1-orders", "orders"),
        ("side1-a,side1-b", "a,b"),
        ("/side1-orders/_search?q=side1-x", "/orders/_search?q=x"),
        (".ds-side1-logs-2026-000001", ".ds-logs-2026-000001"),
        ("inside1-orders", "inside1-orders"),
        ({"side1-a": ["side1-b", 1, None, True]}, {"a": ["b", 1, None, True]}),
    ],
)
def test_a_name_loses_its_prefix_wherever_it_stands(value: Any, plain: Any) -> None:
    assert without_prefix(value, "side1-") == plain
    assert without_prefix(value, "") is value


def test_indices_of_data_streams_have_the_prefix_of_their_stream() -> None:
    assert has_prefix("side2-orders", ("side2-", "side3-"))
    assert has_prefix(".ds-side3-logs-000001", ("side2-", "side3-"))
    assert not has_prefix("orders-side2-", ("side2-", "side3-"))
    assert not has_prefix("side2-orders", ())
