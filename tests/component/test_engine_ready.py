"""What nodes say of themselves once they are up."""

from __future__ import annotations

import pytest
from raw_server import serve

from esbench.errors import EngineError
from esbench.features.node.ready import describe_nodes


def test_processes_are_in_the_order_of_their_nodes_from_eleven_on_too() -> None:
    names = [f"node-{number}" for number in range(12)]
    nodes = {
        f"id-{number}": {"name": name, "version": "8.19.4", "process": {"id": 100 + number}, "jvm": {"version": "21"}}
        for number, name in reversed(list(enumerate(names)))
    }
    with serve({"GET /_nodes/process,jvm": (200, {"nodes": nodes})}) as server:
        assert [process.pid for process in describe_nodes(server.port, names)] == list(range(100, 112))
        with pytest.raises(EngineError, match="the cluster has lost node-12"):
            describe_nodes(server.port, [*names, "node-12"])
