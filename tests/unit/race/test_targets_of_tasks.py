"""The indices that tasks name, which a track need not declare; and whether tasks may write."""

from __future__ import annotations

from typing import Any

import pytest
from followed import task

from esbench.features.duel.session import may_write
from esbench.model import Challenge, Step
from esbench.race.cluster import _targets_in


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"index": "logs"}, ["logs"]),
        ({"index": "logs-*,-logs-old"}, ["logs-*"]),
        ({"data-stream": ["a", "b"]}, ["a", "b"]),
        ({"path": "/logs/_search"}, ["logs"]),
        ({"path": "/_cluster/health"}, []),
        ({"requests": [{"index": "a"}, {"stream": [{"path": "b/_count"}]}]}, ["a", "b"]),
        ({"body": {"index": "no"}}, []),
    ],
)
def test_the_indices_that_parameters_name(params: dict[str, Any], named: list[str]) -> None:
    assert list(_targets_in(params)) == named


@pytest.mark.parametrize(("kinds", "writes"), [(["search", "refresh"], False), (["search", "bulk"], True)])
def test_a_challenge_of_reads_and_administration_does_not_write(kinds: list[str], writes: bool) -> None:
    steps = tuple(Step((task(kind, kind=kind),)) for kind in kinds)
    assert may_write(Challenge("c", steps)) is writes
