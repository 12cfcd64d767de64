"""The mark in the mapping of an index that esbench made."""

from __future__ import annotations

from typing import Any

import pytest

from esbench.cluster.dialect import Dialect
from esbench.cluster.marks import is_marked, marked, without_mark

NEW, OLD = Dialect("elasticsearch", (7, 10)), Dialect("elasticsearch", (6, 8))
PROPERTIES = {"properties": {"n": {"type": "long"}}}
META = {"made_by": "esbench"}


@pytest.mark.parametrize("dialect", [NEW, OLD, Dialect("opensearch", (3, 0))])
def test_a_mapping_gets_the_mark_beside_what_it_has(dialect: Dialect) -> None:
    body = {"settings": {"a": 1}, "mappings": {**PROPERTIES, "_meta": {"team": "search"}}}
    found = marked(body, dialect)
    assert found == {"settings": {"a": 1}, "mappings": {**PROPERTIES, "_meta": {"team": "search", **META}}}
    assert is_marked(found["mappings"])
    assert is_marked(dialect.index_body(found)["mappings"])
    assert without_mark(found["mappings"]) == body["mappings"]


def test_an_index_without_a_mapping_gets_one_where_mappings_have_no_types() -> None:
    assert marked({}, NEW) == {"mappings": {"_meta": META}}
    assert without_mark({"_meta": META}) == {}
    assert marked({"settings": {}}, OLD) == {"settings": {}}


@pytest.mark.parametrize("mappings", [{"doc": PROPERTIES}, "{{ broken }}", 5])
def test_what_has_a_type_or_is_no_mapping_is_sent_as_it_is(mappings: Any) -> None:
    for dialect in (NEW, OLD):
        assert marked({"mappings": mappings}, dialect) == {"mappings": mappings}


@pytest.mark.parametrize("mappings", [None, [], {}, PROPERTIES, {"_meta": {}}, {"_meta": 3}, {"_meta": {"made_by": 1}}])
def test_other_mappings_have_no_mark(mappings: Any) -> None:
    assert not is_marked(mappings)
