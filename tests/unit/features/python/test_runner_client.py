"""The client that runners of a track's own get."""

from __future__ import annotations

from typing import Any

import pytest

from esbench.cluster.options import ClientOptions, parse_hosts
from esbench.features.python.runner_client import RunnerClient


class Asked(RunnerClient):
    """A client that remembers what it would ask."""

    calls: list[tuple[str, str, Any]] = []

    async def perform_request(self, method: str, path: str, *, body: Any = None, **_: Any) -> Any:
        self.calls.append((method, path, body))


@pytest.mark.parametrize("positional", [True, False])
async def test_a_lifecycle_policy_is_put_with_its_name_as_a_keyword_or_not(positional: bool) -> None:
    hosts, options = parse_hosts(("http://127.0.0.1:9200",), ClientOptions())
    async with Asked.connect(hosts, options, 60.0, "8.19.4") as es:
        es.calls.clear()
        policy = {"policy": {"phases": {}}}
        name = {"name": "logs"}
        await (es.ilm.put_lifecycle("logs", body=policy) if positional else es.ilm.put_lifecycle(**name, body=policy))
        assert es.calls == [("PUT", "/_ilm/policy/logs", policy)]
