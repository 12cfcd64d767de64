"""What of a reply is registered."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from esbench.errors import TrackError
from esbench.operations import builtin_operations
from esbench.operations.conditions import ReplyFacts
from esbench.operations.registers import registers_of

HITS = {"hits": [{"_id": "a", "n.m": [1, 2]}, {"_id": "b", "n.m": []}, {"other": 1}]}


def registered(body: Any, config: Any) -> Any:
    (register,) = registers_of({"x": config}, "")
    return register.value(ReplyFacts(200, json.dumps(body).encode()), Random(1))


@pytest.mark.parametrize(
    ("body", "path", "expected"),
    [
        (HITS, "hits.0._id", "a"),
        (HITS, "hits.*._id", ["a", "b"]),
        (HITS, "hits.*.n.m.*", [1, 2]),
        (HITS, "hits.*.n.m", [[1, 2], []]),
        (HITS, "hits.*.none", []),
        (HITS, "hits.1", {"_id": "b", "n.m": []}),
        ([{"id": 1}, {"id": 2}], "*.id", [1, 2]),
        ([{"id": 1}, {"id": 2}], "1.id", 2),
        ([[1, 2], [3]], "*.*", [1, 2, 3]),
        ({"*": 1, "0": 2}, "*", 1),
        ({"*": 1, "0": 2}, "0", 2),
    ],
)
def test_paths_lead_into_arrays(body: Any, path: str, expected: Any) -> None:
    assert registered(body, f"_ctx.response.body_json.{path}") == expected


@pytest.mark.parametrize("path", ["hits.3._id", "hits.-1._id", "hits._id", "hits.x", "none.*.x", "hits.0._id.*"])
def test_what_is_not_there_is_missing(path: str) -> None:
    with pytest.raises(KeyError):
        registered(HITS, f"_ctx.response.body_json.{path}")


@pytest.mark.parametrize("path", ["hits.*.none", "hits.0._id", "hits.0"])
def test_one_is_drawn_from_an_array_that_has_elements(path: str) -> None:
    assert registered(HITS, {"path": "_ctx.response.body_json.hits.*._id", "pick": "one"}) in ("a", "b")
    with pytest.raises(KeyError):
        registered(HITS, {"path": f"_ctx.response.body_json.{path}", "pick": "one"})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"path": "a", "pick": "any"}, 'request 1: "register": x: "pick" cannot be \'any\''),
        ({"path": "a", "picks": "one"}, 'request 1: "register": x has a path, not '),
        ({"pick": "one"}, 'request 1: "register": x has a path, not '),
        (7, 'request 1: "register": x has a path, not 7 (say _ctx.response.body_json.id, or '),
        (["a"], 'request 1: "register": x has a path, not '),
    ],
)
def test_what_cannot_be_registered_is_refused(config: Any, expected: str) -> None:
    with pytest.raises(TrackError) as raised:
        builtin_operations().get("http-requests").check({"requests": [{"path": "/", "register": {"x": config}}]}, "")
    assert str(raised.value).startswith(expected)
