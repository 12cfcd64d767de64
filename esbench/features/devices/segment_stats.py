"""segment-stats: number and sizes of the segments of indices, after each step and at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from esbench.cluster.replies import counted, flag, mapping, text
from esbench.telemetry.device import IndexDevice
from esbench.telemetry.snapshots import copies

_INDICES_AT_MOST = 100
_FIELDS = ("num_docs", "deleted_docs", "size_in_bytes", "committed", "search", "compound", "version")
_COUNTS = _FIELDS[:3]
_SHARD = "indices.*.shards.*"
_SIZES = tuple(f"{_SHARD}.{name}" for name in ("routing", *(f"segments.*.{field}" for field in _COUNTS)))
_ALL = tuple(f"{_SHARD}.{name}" for name in ("routing", *(f"segments.*.{field}" for field in _FIELDS)))
_index = attrgetter("index")
_COLUMNS = ("index", "shard", "prirep", "node", "segment", "docs", "deleted", "bytes", *_FIELDS[3:])


@dataclass(frozen=True)
class ShardSegment:
    """A segment of a copy of a shard; `node` is an id.

    `facts` is its entry in the reply: num_docs, deleted_docs, size_in_bytes (counts), and others that were asked for.
    """

    index: str
    shard: int
    primary: bool
    node: str
    name: str
    facts: Mapping[str, Any]


class SegmentStats(IndexDevice):
    """Segments of the primary shards: their number, documents, deleted documents and sizes."""

    name = "segment-stats"
    help = "number and sizes of segments after each step, and a table of all of them at the end"
    patience_s = 30.0

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        found = list(segments(self.ask("_segments", _SIZES)))
        return _sums(found) if found else {}

    def end(self) -> Mapping[str, Any]:
        """Return sums over the primary shards of all indices; empty without segments.

        `indices` has those of each of the 100 largest, the largest first. Sums are segments, docs, deleted_docs,
        size_bytes, largest_bytes and largest_docs (of one segment). The `table` of the segments of all copies is
        written to `segments.txt`.
        """
        found = list(segments(self.ask("_segments", _ALL)))
        if not found:
            return {}
        self.keep("segments.txt", self._table(found))
        by_index = groupby(sorted(found, key=_index), key=_index)
        sums = {index: _sums(list(those)) for index, those in by_index}
        largest = sorted(sums, key=lambda index: (-sums[index]["size_bytes"], index))
        if (left_out := len(largest) - _INDICES_AT_MOST) > 0:
            self.note(f"{left_out} smaller indices are only in segments.txt and in the sums")
        indices = [{"index": index, **sums[index]} for index in largest[:_INDICES_AT_MOST]]
        return {**_sums(found), "indices": indices, "table": "segments.txt"}

    def _table(self, found: list[ShardSegment]) -> str:
        """Return a text table with a line for each segment of each copy, as in `_cat/segments`."""
        names = self.nodes.of({segment.node for segment in found})
        rows: list[tuple[str, ...]] = [_COLUMNS]
        for segment in sorted(found, key=lambda one: (one.index, one.shard, not one.primary, one.node)):
            copy = (segment.index, str(segment.shard), "p" if segment.primary else "r", names[segment.node])
            facts = (str(segment.facts.get(field, "-")).lower() for field in _FIELDS)
            rows.append((*copy, segment.name, *facts))
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
        return "\n".join(lines) + "\n"


def segments(reply: Mapping[str, Any]) -> Iterator[ShardSegment]:
    """Yield the segments of all copies, primaries and replicas, in a reply of `_segments`."""
    for index, number, copy in copies(mapping(reply.get("indices"))):
        routing = copy["routing"]
        for name, facts in mapping(copy.get("segments")).items():
            counts = {field: counted(facts[field]) for field in _COUNTS}
            yield ShardSegment(
                index, number, flag(routing["primary"]), text(routing["node"]), name, {**facts, **counts}
            )


def _sums(found: Sequence[ShardSegment]) -> dict[str, int]:
    """Return sums over the segments of primary shards."""
    primaries = [segment.facts for segment in found if segment.primary]
    return {
        "segments": len(primaries),
        "docs": sum(facts["num_docs"] for facts in primaries),
        "deleted_docs": sum(facts["deleted_docs"] for facts in primaries),
        "size_bytes": sum(facts["size_in_bytes"] for facts in primaries),
        "largest_bytes": max((facts["size_in_bytes"] for facts in primaries), default=0),
        "largest_docs": max((facts["num_docs"] for facts in primaries), default=0),
    }
