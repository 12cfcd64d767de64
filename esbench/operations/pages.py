"""What scripts read from a page of results, by msgspec: a thousand hits must not hold up the event loop."""

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
        """How many documents match, or at least match."""
        return self.total.get("value") if isinstance(self.total, dict) else self.total

    @property
    def known_total(self) -> int | None:
        """How many documents match, where the reply knows it exactly."""
        is_lower_bound = isinstance(self.total, dict) and self.total.get("relation") != "eq"
        return None if is_lower_bound else self.counted


class Page(msgspec.Struct):
    """A reply to a search, as far as the next page needs it."""

    hits: Hits = msgspec.field(default_factory=Hits)
    took: int = 0
    scroll_id: str | None = msgspec.field(default=None, name="_scroll_id")
    pit_id: str | None = None
    aggregations: dict[str, Any] | None = None


def read_page(body: bytes) -> Page:
    """The page in a reply; RequestFailed when it is none."""
    try:
        return msgspec.json.decode(body, type=Page)
    except (msgspec.DecodeError, RecursionError) as error:
        text = body[:1000].decode("utf-8", "replace")
        raise RequestFailed("bad response", f"not a page of results: {error}: {text}") from None
