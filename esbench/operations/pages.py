"""Parsing of a page of search results, by msgspec: a thousand hits must not block the event loop."""

from __future__ import annotations

from typing import Any

import msgspec

from esbench.requests.exchange import RequestFailed


class Hit(msgspec.Struct):
    sort: list[Any] | None = None


class Hits(msgspec.Struct):
    hits: list[Hit] = []
    total: dict[str, Any] | int | None = None

    @property
    def counted(self) -> int | None:
        """The number of matching documents, exact or a lower bound; None if the reply does not count them."""
        return self.total.get("value") if isinstance(self.total, dict) else self.total

    @property
    def known_total(self) -> int | None:
        """The exact number of matching documents; None if the reply does not state it exactly."""
        is_lower_bound = isinstance(self.total, dict) and self.total.get("relation") != "eq"
        return None if is_lower_bound else self.counted


class Page(msgspec.Struct):
    """The parts of a search reply that the next page needs."""

    hits: Hits = msgspec.field(default_factory=Hits)
    took: int = 0
    scroll_id: str | None = msgspec.field(default=None, name="_scroll_id")
    pit_id: str | None = None
    aggregations: dict[str, Any] | None = None


def read_page(body: bytes) -> Page:
    """Parse a reply as a page; raises RequestFailed if it is not a page of results."""
    try:
        return msgspec.json.decode(body, type=Page)
    except (msgspec.DecodeError, RecursionError) as error:
        text = body[:1000].decode("utf-8", "replace")
        raise RequestFailed("bad response", f"not a page of results: {error}: {text}") from None
