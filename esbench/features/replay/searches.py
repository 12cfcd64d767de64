"""The choice of searches among requests: all others are left out, and the reason is counted."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

WRITES, SCROLLS, PIT, ASYNC = "writes", "scrolls", "points in time", "async searches"
HEADS = "HEAD: whether something is there"
OTHER_LANGUAGES, ADMINISTRATION, BODY_MISSING = "SQL, ES|QL and EQL", "administration", "their body is not in the log"
NOT_HTTP = "no path of an index"
_NO_PATH = re.compile(r"(?!/)|.*[\x00-\x20\x7f]", re.DOTALL)  # a space or a line break would be another request
_READS = {"_search", "_msearch", "_count", "_mget"}
_DOCUMENTS = {"_doc", "_source"}
_WRITES = {"_bulk", "_create", "_update", "_delete_by_query", "_update_by_query", "_reindex"}
_ASYNC = {"_async_search", "_plugins/_asynchronous_search"}
_LANGUAGES = {"_sql", "_eql", "_query", "_ppl"}


def endpoint_of(path: str) -> tuple[str, str, str]:
    """Return the indices ("" for all), the endpoint ("_search") and what follows it, of a path without parameters."""
    parts = [part for part in path.partition("?")[0].split("/") if part]
    place = next((n for n, part in enumerate(parts) if part.startswith("_") and part != "_all"), len(parts))
    return "/".join(parts[:place]), parts[place] if place < len(parts) else "", "/".join(parts[place + 1 :])


def why_left_out(method: str, path: str, body: Any) -> str:  # noqa: PLR0911 - a line for each reason
    """Return why a request is not sent again; "" for a search, a count or a read of documents."""
    if _NO_PATH.match(path):
        return NOT_HTTP
    _, endpoint, further = endpoint_of(path)
    names = {name for name, _ in parse_qsl(path.partition("?")[2], keep_blank_values=True)}
    if endpoint in _ASYNC or f"{endpoint}/{further}".startswith("_plugins/_asynchronous_search"):
        return ASYNC
    if endpoint in _LANGUAGES:
        return OTHER_LANGUAGES
    if endpoint == "_pit" or further.startswith("point_in_time") or _has_pit(body):
        return PIT
    if further.startswith("scroll") or "scroll" in names:
        return SCROLLS
    if method == "HEAD":
        return HEADS
    if endpoint in _DOCUMENTS:
        return "" if method == "GET" and further else WRITES
    if endpoint in _WRITES:
        return WRITES
    is_read = endpoint in _READS and further in ("", "template") and method in ("GET", "POST")
    return "" if is_read else ADMINISTRATION


def _has_pit(body: Any) -> bool:
    documents = body if isinstance(body, list) else [body]
    return any(isinstance(document, dict) and "pit" in document for document in documents)
