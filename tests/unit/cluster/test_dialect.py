"""What each generation of servers wants to be told."""

from __future__ import annotations

from typing import Any

import pytest

from esbench.cluster.dialect import Dialect

TYPED = {(5, 0): "doc", (5, 6): "doc", (6, 0): "doc", (6, 1): "doc", (6, 2): "_doc", (6, 8): "_doc"}
TYPELESS = [("elasticsearch", (7, 0)), ("elasticsearch", (9, 0)), ("opensearch", (1, 0)), ("opensearch", (3, 1))]


@pytest.mark.parametrize(("version", "name"), TYPED.items())
def test_5_and_6_have_types(version: tuple[int, int], name: str) -> None:
    dialect = Dialect("elasticsearch", version)
    assert dialect.typed
    assert dialect.document_path("orders") == f"/orders/{name}"
    assert dialect.bulk_path("orders") == f"/orders/{name}/_bulk"
    assert dialect.index_body({"mappings": {"properties": {}}}) == {"mappings": {name: {"properties": {}}}}


@pytest.mark.parametrize(("distribution", "version"), TYPELESS)
def test_later_servers_have_none(distribution: str, version: tuple[int, int]) -> None:
    dialect = Dialect(distribution, version)
    assert not dialect.typed
    assert dialect.document_path("orders") == "/orders/_doc"
    assert dialect.bulk_path("orders") == "/orders/_bulk"
    assert dialect.index_body({"mappings": {"properties": {}}}) == {"mappings": {"properties": {}}}


@pytest.mark.parametrize(
    ("mappings", "wrapped"),
    [
        ({}, True),
        ({"dynamic": "strict"}, True),
        ({"_source": {"enabled": False}, "properties": {}}, True),
        ({"dynamic_templates": []}, True),
        ({"_routing": {"required": True}}, True),
        ({"order": {"properties": {}}}, False),  # a type of the track's own
        ({"order": {"properties": {}}, "_default_": {}}, False),
    ],
)
def test_a_typeless_mapping_is_wrapped_and_a_typed_one_left(mappings: dict[str, Any], wrapped: bool) -> None:
    body = {"settings": {"number_of_shards": 1}, "mappings": mappings}
    made = Dialect("elasticsearch", (6, 8)).index_body(body)
    assert made == {"settings": {"number_of_shards": 1}, "mappings": {"_doc": mappings} if wrapped else mappings}
    assert body["mappings"] is mappings  # the track's own body is left alone


def test_a_body_without_mappings_is_left() -> None:
    assert Dialect("elasticsearch", (5, 6)).index_body({"settings": {}}) == {"settings": {}}
    assert Dialect("elasticsearch", (5, 6)).index_body({}) == {}
