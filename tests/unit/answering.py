"""A cluster without sockets, for tests that say what it answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from esbench.cluster.client import Cluster


class AnsweringCluster(Cluster):
    """`answer` is asked for each request; what it raises, the request raises."""

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        timeout_s: float | None = None,
        ignore: Collection[int] = (),
    ) -> Any:
        return self.answer(method, path, params or {}, body)

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        raise NotImplementedError
