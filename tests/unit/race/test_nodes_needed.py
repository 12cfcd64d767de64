"""How many nodes a challenge needs before it can go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bound import bound_operation

from esbench.model import Challenge, Index, Operation, Step, Task, Track
from esbench.track.features import nodes_needed

GREEN = bound_operation("health", "cluster-health", {"request-params": {"wait_for_status": "green"}})
YELLOW = bound_operation("health", "cluster-health", {"request-params": {"wait_for_status": "yellow"}})


def needed(settings: dict[str, Any], operation: Operation) -> int:
    challenge = Challenge("c", (Step((Task("t", operation),)),))
    track = Track("t", Path("t.yml"), "", "", (challenge,), indices=(Index("i", {"settings": settings}),))
    return nodes_needed(track, challenge)


@pytest.mark.parametrize(
    "settings", [{"number_of_replicas": 1}, {"index.number_of_replicas": "1"}, {"index": {"number_of_replicas": 1}}]
)
def test_a_replica_needs_a_second_node_before_a_cluster_is_green(settings: dict[str, Any]) -> None:
    assert needed(settings, GREEN) == 2
    assert needed(settings, YELLOW) == 1
    assert needed(settings, bound_operation("refresh", "refresh")) == 1


@pytest.mark.parametrize("settings", [{}, {"number_of_replicas": 0}, {"index.auto_expand_replicas": "0-1"}])
def test_without_replicas_one_node_will_do(settings: dict[str, Any]) -> None:
    assert needed(settings, GREEN) == 1
