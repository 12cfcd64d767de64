"""The indices and data streams that operations delete, known before the race."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from esbench.model import DataStream, Index, Template, Templates, Track
from esbench.operations import builtin_operations

TRACK = Track(
    "shop",
    Path("track.json"),
    "",
    "",
    (),
    indices=(Index("orders"), Index("carts")),
    data_streams=(DataStream("logs-a"),),
    templates=Templates(
        legacy=(Template("t", {}, "old-*"), Template("kept", {}, "kept-*", False)),
        composable=(Template("c", {}, "new-*"),),
        component=(Template("part", {}),),
    ),
)


@pytest.mark.parametrize(
    ("kind", "params", "deleted"),
    [
        ("delete-index", {}, ("orders", "carts")),
        ("delete-index", {"index": "ord*,x"}, ("ord*", "x")),
        ("delete-index", {"index": ["a", "b"]}, ("a", "b")),
        ("delete-data-stream", {}, ("logs-a",)),
        ("delete-data-stream", {"data-stream": "a,b"}, ("a", "b")),
        ("delete-index-template", {}, ("old-*",)),
        ("delete-index-template", {"delete-matching-indices": False}, ()),
        ("delete-index-template", {"delete-matching-indices": True}, ("old-*", "kept-*")),
        ("delete-composable-template", {"template": "c"}, ("new-*",)),
        (
            "delete-composable-template",
            {"template": "other", "delete-matching-indices": True, "index-pattern": "all-*"},
            ("all-*",),
        ),
        ("delete-component-template", {}, ()),
        ("create-index", {}, ()),
        ("delete", {"id": "1"}, ()),
    ],
)
def test_targets_are_those_of_the_parameters_else_the_tracks(
    kind: str, params: dict[str, Any], deleted: tuple[str, ...]
) -> None:
    assert builtin_operations().get(kind).deleted_by(params, TRACK) == deleted


def test_every_type_that_deletes_a_kind_of_target_says_which() -> None:
    types = builtin_operations()
    deleting = {name for name in types if types.get(name).traits.deletes}
    assert deleting == {name for name in deleting if types.get(name).deleted_by({}, TRACK)}
