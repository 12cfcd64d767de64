"""shard-stats: size and work of each shard, and the node it is on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from esbench.cluster.replies import count, flag, mapping, text
from esbench.telemetry.device import IndexDevice, Param, Reading, Scene, TaskSpan
from esbench.telemetry.series import SeriesOf
from esbench.telemetry.snapshots import copies

_GROUP = "shard"
_SHARDS_AT_MOST = 100
# Name -> section and field of a shard in `_stats`.
_GAUGES = {
    "docs": ("docs", "count"),
    "deleted_docs": ("docs", "deleted"),
    "store_bytes": ("store", "size_in_bytes"),
    "segments": ("segments", "count"),
}
_COUNTERS = {
    "indexed": ("indexing", "index_total"),
    "searches": ("search", "query_total"),
    "gets": ("get", "total"),
}
_FIELDS = tuple({**_GAUGES, **_COUNTERS}.values())
_METRICS = ",".join(dict.fromkeys(section for section, _ in _FIELDS))
_KEEP = (
    "_shards",
    *(f"indices.*.shards.*.{name}" for name in ("routing", *(f"{section}.{field}" for section, field in _FIELDS))),
)


class ShardStats(IndexDevice):
    """Documents, size, segments and work of each started shard; of more than 100 shards the largest."""

    name = "shard-stats"
    help = "documents, size, segments, writes and searches of each shard"
    params = (Param("shard-stats-sample-interval", "duration", 60.0, "time between two samples"),)
    figures = frozenset(_COUNTERS)

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._followed: set[str] = set()
        self._last: list[dict[str, Any]] = []
        self._missing = 0

    def sample(self) -> Iterable[Reading]:
        reply = self.ask(f"_stats/{_METRICS}", _KEEP, level="shards")
        self._last = sorted(self._shards(reply), key=_rank)
        shards = mapping(reply.get("_shards"))
        self._missing = (count(shards.get("total")) or 0) - (count(shards.get("successful")) or 0)
        self._follow([shard["shard"] for shard in self._last])
        return [
            Reading(
                shard["shard"],
                _GROUP,
                {name: shard[name] for name in _GAUGES},
                {name: shard[name] for name in _COUNTERS},
            )
            for shard in self._last
            if shard["shard"] in self._followed
        ]

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        """Return the busiest copy of a shard in a task's window: `busiest_indexed`, `busiest_searches`, `busiest_gets`.

        Each is {shard, share_percent}, its share in the work of all copies. One is absent without such work, with a
        single copy, or if copies appeared, moved or were promoted meanwhile; all are if some shards are left out: their
        work is not known.
        """
        if len(self._last) > _SHARDS_AT_MOST:
            return {}
        found: dict[str, Any] = {}
        copies = {
            of: figures
            for (of, group), figures in series.items()
            if group == _GROUP and figures.times_s[-1] > span.window_start_s
        }
        for name in _COUNTERS:
            told = {of: figures.gained(name, *span.window) for of, figures in copies.items()}
            gained = {of: value for of, value in told.items() if value is not None}
            if len(gained) == len(copies) > 1 and (total := sum(gained.values())) > 0:
                busiest = max(sorted(gained), key=lambda of: gained[of])
                share_percent = round(100 * gained[busiest] / total, 1)
                found[f"busiest_{name}"] = {"shard": busiest, "share_percent": share_percent}
        return found

    def end(self) -> Mapping[str, Any]:
        """Return the shards as of the last sample; empty if no shard was seen.

        `shards` has the 100 largest, the largest first; `started` is the number of all, `missing` that of copies that
        are not assigned or did not answer.
        """
        left_out = len(self._last) - _SHARDS_AT_MOST
        if left_out > 0:
            self.note(f"{left_out} of {len(self._last)} shards are left out: the {_SHARDS_AT_MOST} largest are kept")
        if not self._last:
            return {}
        return {
            "started": len(self._last),
            "missing": self._missing,
            "shards": self._last[:_SHARDS_AT_MOST],
        }

    def _shards(self, reply: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield `shard` (`orders[0]p@node-0`, with r for a replica), `state` and the figures of each started copy."""
        found = list(copies(mapping(reply.get("indices"))))
        names = self.nodes.of(text(copy["routing"]["node"]) for _, _, copy in found)
        for index, number, copy in found:
            routing = copy["routing"]
            label = f"{index}[{number}]{'p' if flag(routing['primary']) else 'r'}@{names[routing['node']]}"
            figures = {
                name: count(mapping(copy.get(section)).get(field))
                for name, (section, field) in {**_GAUGES, **_COUNTERS}.items()
            }
            yield {"shard": label, "state": text(routing["state"]), **figures}

    def _follow(self, labels: list[str]) -> None:
        """Choose the shards to record: those chosen before that still exist, then the largest of the others."""
        self._followed &= set(labels)
        for label in labels:
            if len(self._followed) == _SHARDS_AT_MOST:
                break
            self._followed.add(label)


def _rank(shard: Mapping[str, Any]) -> tuple[float, float, str]:
    """Return the sort key that puts the largest shard first."""
    return -(shard["store_bytes"] or 0), -(shard["docs"] or 0), shard["shard"]
