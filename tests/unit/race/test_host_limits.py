"""What is refused because this host cannot carry it, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from bound import bound_operation

from esbench.cluster.options import Host
from esbench.errors import RaceError, UsageError
from esbench.model import Challenge, Operation, Step, Task
from esbench.race.host_limits import check_clients, check_memory_at_once, check_workers
from esbench.race.node_options import NodeOptions
from esbench.race.options import RaceOptions


def test_workers_beyond_the_cores_are_warned_of_and_many_more_are_refused() -> None:
    assert check_workers(2, cores=2) == ()
    assert check_workers(3, cores=2)[0].startswith("3 load workers share 2 cores")
    assert check_workers(8, cores=1)[0].startswith("8 load workers share 1 core:")
    with pytest.raises(UsageError, match="--workers=5000: this host has 2 cores, and at most 8 workers run on each"):
        check_workers(5000, cores=2)


READ = {"operation-type": "get", "index": "a", "id": "1"}


@pytest.mark.parametrize(
    ("clients", "operation", "needed"),
    [
        (1_000_000, bound_operation("q", "search", {"index": "a", "body": {}}), "1,000,000"),
        (20_000, bound_operation("q", "composite", {"requests": [{"stream": [READ]}] * 8}), "160,000"),
    ],
)
def test_more_connections_than_ports_are_refused(clients: int, operation: Operation, needed: str) -> None:
    options = RaceOptions(Path("home"), "r", Path("t"), hosts=(Host("127.0.0.1", 9200), Host("127.0.0.2", 9200)))
    task = Task("q", operation, clients=clients)
    with pytest.raises(RaceError, match=rf"^2 hosts: {clients:,} clients need {needed} ports, ") as caught:
        check_clients(options, Challenge("c", (Step((task,)),)))
    assert "connections can be open" in caught.value.hint


@pytest.mark.parametrize(
    ("available", "hint"),
    [
        (5 << 30, None),
        (4 << 30, "--turns has one side up at a time; --heap=1165m fits"),
        (2 << 30, "--heap=482m fits"),
        (1 << 20, "end what else runs"),
    ],
)
def test_nodes_of_all_sides_have_to_fit_at_once(available: int, hint: str | None) -> None:
    nodes = [NodeOptions(heap_bytes=1 << 30), NodeOptions(heap_bytes=3 << 29, nodes=2)]
    if hint is None:
        check_memory_at_once(nodes, 8 << 30, available)
        return
    with pytest.raises(
        RaceError, match=r"^the nodes of all sides need 4\.6 GB at once, and .* are available"
    ) as caught:
        check_memory_at_once(nodes, 8 << 30, available)
    assert caught.value.hint == hint
