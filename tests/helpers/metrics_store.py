"""Replies of a cluster that takes documents of races, and keeps none."""

from __future__ import annotations

from typing import Any

from raw_server import INFO, RawServer, Reply

REJECTED = {"type": "es_rejected_execution_exception", "reason": "queue capacity 200"}


def items(*statuses: int, error: Any = REJECTED) -> Reply:
    results = [{"status": status, **({"error": error} if status >= 400 else {})} for status in statuses]
    return 200, {"items": [{"create": result} for result in results]}


class Replies(dict[str, Reply]):
    """Those of a cluster that keeps nothing; bulk requests get `bulks` one after another, then all goes well."""

    server: RawServer

    def __init__(self, *bulks: Reply) -> None:
        super().__init__({"GET /": (200, INFO)})
        self.bulks = list(bulks)

    def get(self, key: str, default: Any = None) -> Any:
        if key.endswith("/_bulk"):
            if self.bulks:
                return self.bulks.pop(0)
            return items(*[201] * (self.server.requests[-1].body.count(b"\n") // 2))
        if key.endswith("/_search"):
            return 200, {"_scroll_id": "s", "hits": {"hits": []}}
        if "_template/" in key or key.endswith(("/_refresh", "/_search/scroll")):
            return 200, {}
        return super().get(key, default)
