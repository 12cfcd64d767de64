"""segment-stats: number and sizes of the segments of indices, after each step and at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar

from esbench.telemetry.device import Scene
from esbench.telemetry.indices import IndexDevice, NodeNames

_INDICES_AT_MOST = 100
_FIELDS = ("num_docs", "deleted_docs", "size_in_bytes", "committed", "search", "compound", "version")
_SHARD = "indices.*.shards.*"
_SIZES = tuple(f"{_SHARD}.{name}" for name in ("routing", *(f"segments.*.{field}" for field in _FIELDS[:3])))
_ALL = tuple(f"{_SHARD}.{name}" for name in ("routing", *(f"segments.*.{field}" for field in _FIELDS)))
_index = attrgetter("index")
_COLUMNS = ("index", "shard", "prirep", "node", "segment", "docs", "deleted", "bytes", *_FIELDS[3:])


@dataclass(frozen=True)
class Segment:
    """A segment of a copy of a shard; `node` is an id."""

    index: str
    shard: int
    primary: bool
    node: str
    name: str
    facts: Mapping[str, Any]

    @property
    def docs(self) -> int:
        """The number of documents."""
        count: int = self.facts["num_docs"]
        return count

    @property
    def size_bytes(self) -> int:
        """The size in bytes."""
        size: int = self.facts["size_in_bytes"]
        return size


class SegmentStats(IndexDevice):
    """Segments of the primary shards: their number, documents, deleted documents and sizes."""

    name: ClassVar[str] = "segment-stats"
    help: ClassVar[str] = "number and sizes of segments after each step, and a table of all of them at the end"
    patience_s: ClassVar[float] = 30.0

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._nodes = NodeNames(scene.cluster)

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        found = list(segments(self.ask("_segments", _SIZES)))
        return _sums(found) if found else {}

    def end(self) -> Mapping[str, Any]:
        """Return sums over all indices and by index, the largest first; the table is written to `segments.txt`."""
        found = list(segments(self.ask("_segments", _ALL)))
        if not found:
            return {}
        self.scene.folder.mkdir(parents=True, exist_ok=True)
        (self.scene.folder / "segments.txt").write_text(self._table(found), encoding="utf-8")
        by_index = groupby(sorted(found, key=_index), key=_index)
        sums = {index: _sums(list(those)) for index, those in by_index}
        largest = sorted(sums, key=lambda index: (-sums[index]["size_bytes"], index))
        if (left_out := len(largest) - _INDICES_AT_MOST) > 0:
            self.note(f"{left_out} smaller indices are only in segments.txt and in the sums")
        indices = [{"index": index, **sums[index]} for index in largest[:_INDICES_AT_MOST]]
        return {**_sums(found), "indices": indices, "table": "segments.txt"}

    def _table(self, found: list[Segment]) -> str:
        """Return a text table with a line for each segment of each copy, as in `_cat/segments`."""
        names = self._nodes.of({segment.node for segment in found})
        rows: list[tuple[str, ...]] = [_COLUMNS]
        for segment in sorted(found, key=lambda one: (one.index, one.shard, not one.primary, one.node)):
            copy = (segment.index, str(segment.shard), "p" if segment.primary else "r", names[segment.node])
            facts = (str(segment.facts.get(field, "-")).lower() for field in _FIELDS)
            rows.append((*copy, segment.name, *facts))
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
        return "\n".join(lines) + "\n"


def segments(reply: Mapping[str, Any]) -> Iterator[Segment]:
    """Yield the segments in a reply of `_segments`."""
    for index, entry in reply.get("indices", {}).items():
        for number, copies in entry["shards"].items():
            for copy in copies:
                routing = copy["routing"]
                for name, facts in copy.get("segments", {}).items():
                    yield Segment(index, int(number), routing["primary"], routing["node"], name, facts)


def _sums(found: Sequence[Segment]) -> dict[str, int]:
    """Return sums over the segments of primary shards."""
    primaries = [segment for segment in found if segment.primary]
    return {
        "segments": len(primaries),
        "docs": sum(segment.docs for segment in primaries),
        "deleted_docs": sum(segment.facts["deleted_docs"] for segment in primaries),
        "size_bytes": sum(segment.size_bytes for segment in primaries),
        "largest_bytes": max((segment.size_bytes for segment in primaries), default=0),
        "largest_docs": max((segment.docs for segment in primaries), default=0),
    }
