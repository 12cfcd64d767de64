"""Slow logs of Elasticsearch 6 to 8 and OpenSearch, as text and as JSON: of requests, and of shards.

OpenSearch writes both kinds into one file. Its text lacks commas after total_hits[-1] and id[...] in 2.19.6 and 3.6.0;
its JSON escapes the source twice, and names no index of a request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from esbench.features.replay.entries import (
    BadLineError,
    CutLineError,
    Entry,
    Sign,
    Stamp,
    duration_ms,
    hits_of,
    read_json,
    read_object,
    read_stamp,
)
from esbench.features.replay.searches import WRITES, why_left_out

BEGINS = re.compile(r"\[(?P<stamp>\d{4}-\d\d-\d\d[T ][^\]]{8,20})\]\s*\[")
_TOOK = re.compile(r"took\[[^\]]*\], took_millis\[(?P<ms>\d{1,15})\], ")
_HITS = re.compile(r"total_hits\[([^\]]*)\]")
_SHARDS = re.compile(r"total_shards\[(\d{1,9})\]")
_INDICES = re.compile(r"\], indices\[([^\]]*)\], source\[")
_SHARD = re.compile(r"\[(?P<index>[^\]\[]+)\]\[(?P<shard>\d+)\]\s*$")
_END = re.compile(r"\](?:, id\[.*?\](?:,? ?request_id\[[^\]]*\])?)?,?\s*$", re.DOTALL)
_END_WITHOUT_ID = re.compile(r"\],?\s*$")
_LONGEST_END = 10_000
_JOIN_S = 10.0
_MOST_OPEN = 10_000
_MOST_ALIKE = 64  # searches of one source that may be under way at once


@dataclass(frozen=True, slots=True)
class _Shard:
    index: str
    shard: str
    phase: str
    total: int


class SlowLog:
    """The searches of slow logs. Lines of shards of one search are joined by source, id and time.

    Where the file has lines of whole requests, those of shards are children.
    """

    def __init__(self, index: str, has_requests: bool) -> None:
        self._index = index
        self._has_requests = has_requests
        self._open: dict[int, list[tuple[float, set[_Shard]]]] = {}
        self._count = 0

    def read_text(self, line: str) -> Entry | Sign:
        """Return the search of a line of text. Raises BadLineError."""
        begin, took = BEGINS.match(line), _TOOK.search(line)
        if begin is None:
            raise BadLineError("it does not begin with [TIME]")
        if "[index.indexing.slowlog" in line[: line.find(" took[")]:
            return Entry(read_stamp(begin["stamp"]), "POST", "", left_out=WRITES)
        place = line.find("source[")
        if took is None or place < 0:
            raise CutLineError("its end is missing") if not line.rstrip().endswith("]") else BadLineError("no took")
        source, ident = _source_and_id(line, place + len("source["))
        hits = _HITS.search(line, took.end(), place)
        stamp = read_stamp(begin["stamp"])
        ms = float(took["ms"])
        count = hits_of(hits[1]) if hits else None
        if "phase_took_millis[" in line[took.end() : place]:
            indices = _INDICES.search(line, took.end(), place + len("source["))
            return self._request(stamp, ms, count, indices[1] if indices else None, source)
        shard = _SHARD.search(line, 0, took.start())
        if shard is None:
            raise BadLineError("it names no shard")
        total = _SHARDS.search(line, took.end(), place)
        phase = "fetch" if ".fetch" in line[: took.start()] else "query"
        found = _Shard(shard["index"], shard["shard"], phase, int(total[1]) if total else 1)
        return self._shard_line(stamp, ms, count, found, source, ident)

    def read_json(self, line: str) -> Entry | Sign:
        """Return the search of a line of JSON. Raises BadLineError."""
        return self.read_fields(read_object(line))

    def read_fields(self, fields: Mapping[str, Any]) -> Entry | Sign:
        """Return the search of a JSON line's fields. Raises BadLineError."""
        prefix = "elasticsearch.slowlog."

        def text(name: str) -> str:
            value = fields.get(prefix + name, fields.get(name, ""))
            return value if isinstance(value, str) else str(value)

        stamp = read_stamp(str(fields.get("@timestamp", fields.get("timestamp", ""))))
        logger = str(fields.get("component", fields.get("log.logger", "")))
        if logger.startswith(("i.i.s", "index.indexing.slowlog")):
            return Entry(stamp, "POST", "", left_out=WRITES)
        ms = duration_ms(text("took_millis"))
        if ms is None:
            raise BadLineError("its took_millis is missing")
        source = _unescaped(text("source"))
        if fields.get("type") == "search_request_slowlog" or "phase_took" in fields:
            return self._request(
                stamp,
                ms,
                hits_of(text("total_hits")),
                text("indices").strip("[]") if "indices" in fields else None,
                source,
            )
        shard = _SHARD.search(text("message"))
        if shard is None:
            raise BadLineError("it names no shard")
        total = duration_ms(text("total_shards")) or 1
        found = _Shard(shard["index"], shard["shard"], "fetch" if "fetch" in logger else "query", int(total))
        return self._shard_line(stamp, ms, hits_of(text("total_hits")), found, source, text("id"))

    def _request(self, stamp: Stamp, ms: float, hits: int | None, indices: str | None, source: str) -> Entry:
        self._has_requests = True
        name = self._index if indices is None else indices.replace(" ", "")
        path = f"/{name}/_search" if name else "" if indices is None else "/_search"  # indices[]: all of them
        return _entry(stamp, path, source, ms, hits)

    def _shard_line(
        self, stamp: Stamp, ms: float, hits: int | None, shard: _Shard, source: str, ident: str
    ) -> Entry | Sign:
        if self._has_requests:
            return Sign.CHILD
        arrival = stamp.epoch_s - ms / 1000
        seen = self._open.setdefault(hash((source, ident)), [])
        seen[:] = [(begun, shards) for begun, shards in seen if abs(arrival - begun) <= _JOIN_S][-_MOST_ALIKE:]
        for _, shards in seen:
            is_full = shard.phase == "query" and sum(other.phase == "query" for other in shards) >= shard.total
            if shard not in shards and not is_full:
                is_other = all(other.index != shard.index for other in shards)
                shards.add(shard)
                return Sign.OTHER_INDEX if is_other else Sign.CHILD
        seen.append((arrival, {shard}))
        self._forget(arrival)
        return _entry(stamp, f"/{shard.index}/_search", source, ms, hits if shard.total == 1 else None)

    def _forget(self, now: float) -> None:
        """Drop searches whose lines are all written, so that memory stays flat."""
        self._count += 1
        if self._count < _MOST_OPEN:
            return
        self._count = 0
        self._open = {key: seen for key, seen in self._open.items() if abs(seen[-1][0] - now) <= _JOIN_S}


def _entry(stamp: Stamp, path: str, source: str, ms: float, hits: int | None) -> Entry:
    body = read_json(source) if source.strip() not in ("", "{}") else None
    if body is not None and not isinstance(body, dict):
        raise BadLineError("its source is not a JSON object")
    entry = Entry(stamp, "POST", path, body, ms, None, hits, at_end=True)
    return replace(entry, left_out=why_left_out("POST", path, body)) if path else entry


def _source_and_id(line: str, begin: int) -> tuple[str, str]:
    """Return the source, which may hold brackets, and the id: the last `}], id[` ends the source."""
    place = line.rfind("], id[")
    if place >= begin and (place == begin or line[place - 1] == "}") and _END.fullmatch(line, place):
        return line[begin:place], line[place + len("], id[") :].partition("]")[0]
    end = _END_WITHOUT_ID.search(line, max(begin, len(line) - _LONGEST_END))
    if end is None:
        raise CutLineError("its end is missing")
    return line[begin : end.start()], ""


def _unescaped(source: str) -> str:
    """Return the source of OpenSearch's JSON, which is escaped once more than JSON needs."""
    if not source.startswith('{\\"'):
        return source
    inner = read_json(f'"{source}"')
    return inner if isinstance(inner, str) else source
