"""A cluster without sockets, for tests that say what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from esbench.cluster.client import Cluster, decode_json
from esbench.errors import ClusterError


class AnsweringCluster(Cluster):
    """`answer` is asked for each request. It gives JSON or text, alone or after a status, or an error to be raised."""

    def __init__(self) -> None:
        super().__init__(["http://nowhere:9200"])

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        timeout_s: float | None = None,
        ignore: Collection[int] = (),
        decode: Callable[[bytes], Any] = decode_json,
    ) -> Any:
        answer = self.answer(method, path, params or {}, body)
        if isinstance(answer, Exception):
            raise answer
        status, reply = answer if isinstance(answer, tuple) else (200, answer)
        if status >= 400 and status not in ignore:
            raise ClusterError(f"HTTP {status}", where=f"{method} {path}")
        return decode((reply if isinstance(reply, str) else json.dumps(reply)).encode())

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        raise NotImplementedError
