"""Logs of one JSON object a line: esbench's own, Elasticsearch's query log, Query Insights, INFINI gateway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from esbench.features.replay.entries import (
    BadLineError,
    Entry,
    Stamp,
    duration_ms,
    number_of,
    read_json,
    read_object,
    read_stamp,
)
from esbench.features.replay.searches import ADMINISTRATION, OTHER_LANGUAGES, WRITES, endpoint_of, why_left_out

TOP_ONLY = "Query Insights has the top N only"
HASHED = "hashed literals match nothing"
INSPECTED = ("", TOP_ONLY, HASHED)


def read_own(line: str) -> Entry:
    """Return the request of a line of esbench's own format (docs/reference/replay-log.md). Raises BadLineError."""
    fields = read_object(line)
    method, path, body = fields.get("method"), fields.get("path"), fields.get("body")
    if not (isinstance(method, str) and isinstance(path, str)):
        raise BadLineError("method or path is missing")
    stamp = read_stamp(str(fields.get("@timestamp", "")))
    body = _body(path, body) if isinstance(body, str) else body
    entry = _request(stamp, method, path, body, fields.get("took_ms"), fields.get("status"), fields.get("hits"))
    return replace(entry, left_out=HASHED) if fields.get("hashed") is True and not entry.left_out else entry


def read_query_log(line: str) -> Entry:
    """Return the request of a line of Elasticsearch's query log (9.4). Raises BadLineError."""
    fields = read_object(line)
    prefix = "elasticsearch.querylog."
    stamp = read_stamp(str(fields.get("@timestamp", "")))
    took = duration_ms(fields.get(prefix + "took_millis"))
    if took is None:
        raise BadLineError("its took_millis is missing")
    exact = duration_ms(fields.get(prefix + "took"))
    took = exact / 1e6 if exact is not None else took
    hits = number_of(fields.get(prefix + "dsl.total_count", fields.get(prefix + "result_count")))
    status = 200 if fields.get("event.outcome") == "success" else None
    if fields.get(prefix + "type", "dsl") != "dsl":
        return Entry(stamp, "POST", "", None, took, status, at_end=True, left_out=OTHER_LANGUAGES)
    indices = fields.get(prefix + "indices", [])
    if not isinstance(indices, list) or not all(isinstance(name, str) for name in indices):
        raise BadLineError("its indices are not a list of names")
    query = fields.get(prefix + "query", "")
    body = read_object(query) if isinstance(query, str) and query else None
    path = f"/{','.join(indices)}/_search" if indices else "/_search"
    left_out = why_left_out("POST", path, body)
    return Entry(stamp, "POST", path, body, took, status, _count(hits), at_end=True, left_out=left_out)


def read_insights(line: str) -> Entry:
    """Return the search of a document of Query Insights; it is not sent again. Raises BadLineError."""
    fields = read_object(line)
    inner = fields.get("_source", fields)
    fields = inner if isinstance(inner, dict) else fields
    epoch_ms = number_of(fields.get("timestamp"))
    if epoch_ms is None:
        raise BadLineError("its timestamp is missing")
    if not 0 <= epoch_ms < 1e15:
        raise BadLineError("its timestamp is out of range")
    latency = _at(fields, "measurements", "latency")
    took = duration_ms(latency.get("number") if isinstance(latency, dict) else latency)
    indices = fields.get("indices", [])
    names = [name for name in indices if isinstance(name, str)] if isinstance(indices, list) else []
    source = fields.get("source")
    body = read_json(source) if isinstance(source, str) and source else source
    path = f"/{','.join(names)}/_search"
    return Entry(Stamp(epoch_ms / 1000, 0.001), "POST", path, body, took, left_out=TOP_ONLY)


def read_gateway(line: str) -> Entry:
    """Return the request of a document of INFINI gateway's logging filter. Raises BadLineError."""
    fields = read_object(line)
    inner = fields.get("_source", fields)
    fields = inner if isinstance(inner, dict) else fields
    method, path = _at(fields, "request", "method"), _at(fields, "request", "path")
    if not (isinstance(method, str) and isinstance(path, str)):
        raise BadLineError("request.method or request.path is missing")
    uri = _at(fields, "request", "uri")
    query = uri.partition("?")[2] if isinstance(uri, str) else ""
    path = f"{path}?{query}" if query and "?" not in path else path
    body = _at(fields, "request", "body")
    stamp = read_stamp(str(fields.get("timestamp", fields.get("@timestamp", ""))))
    elapsed, status = _at(fields, "response", "elapsed"), _at(fields, "response", "status_code")
    return _request(stamp, method, path, _body(path, body) if isinstance(body, str) else body, elapsed, status)


def read_body(method: str, path: str, body: str) -> Any:
    """Return the parsed body of a read; None of a write, whose body may be anything. Raises BadLineError."""
    return None if why_left_out(method, path, None) in (WRITES, ADMINISTRATION) else _body(path, body)


def _request(
    stamp: Stamp, method: str, path: str, body: Any, took: object, status: object, hits: object = None
) -> Entry:
    method = method.upper()
    code = number_of(status)
    return Entry(
        stamp,
        method,
        path,
        body,
        duration_ms(took),
        int(code) if code is not None and 100 <= code <= 599 else None,
        _count(number_of(hits)),
        left_out=why_left_out(method, path, body),
    )


def _body(path: str, body: str) -> Any:
    if not body.strip():
        return None
    if endpoint_of(path)[1] in ("_msearch", "_bulk"):
        return [read_json(line) for line in body.splitlines() if line.strip()]
    return read_json(body)


def _count(value: float | None) -> int | None:
    return None if value is None or not 0 <= value < 2**63 else int(value)


def _at(fields: Mapping[str, Any], *keys: str) -> Any:
    value: Any = fields
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
