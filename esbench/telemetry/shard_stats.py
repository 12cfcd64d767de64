"""shard-stats: size and work of each shard, and the node it is on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from esbench.telemetry.device import Param, Reading, Scene, TaskSpan
from esbench.telemetry.indices import IndexDevice, NodeNames
from esbench.telemetry.series import SeriesOf

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


@dataclass(frozen=True)
class Shard:
    """A started copy of a shard; `node` is a name. `figures`: `docs`, `store_bytes`, `searches` ..."""

    index: str
    number: int
    primary: bool
    node: str
    state: str
    figures: Mapping[str, float | None]

    @property
    def label(self) -> str:
        """The label `orders[0]p@node-0`, with r for a replica."""
        return f"{self.index}[{self.number}]{'p' if self.primary else 'r'}@{self.node}"

    @property
    def rank(self) -> tuple[float, float, str]:
        """The sort key that puts the largest shard first."""
        return -(self.figures["store_bytes"] or 0), -(self.figures["docs"] or 0), self.label


class ShardStats(IndexDevice):
    """Documents, size, segments and work of each started shard; of more than 100 shards the largest."""

    name: ClassVar[str] = "shard-stats"
    help: ClassVar[str] = "documents, size, segments, writes and searches of each shard"
    params: ClassVar[tuple[Param, ...]] = (
        Param("shard-stats-sample-interval", "duration", 60.0, "time between two samples"),
    )
    figures: ClassVar[frozenset[str]] = frozenset(_COUNTERS)

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._nodes = NodeNames(scene.cluster)
        self._followed: set[str] = set()
        self._last: tuple[Shard, ...] = ()
        self._missing = 0

    @property
    def interval_s(self) -> float:
        interval_s: float = self.given["shard-stats-sample-interval"]
        return interval_s

    def sample(self) -> Iterable[Reading]:
        reply = self.ask(f"_stats/{_METRICS}", _KEEP, level="shards")
        shards = tuple(sorted(self._shards(reply), key=lambda shard: shard.rank))
        counted = reply.get("_shards", {})
        self._last = shards
        self._missing = counted.get("total", 0) - counted.get("successful", 0)
        self._follow(shards)
        return [
            Reading(
                shard.label,
                _GROUP,
                {name: shard.figures[name] for name in _GAUGES},
                {name: shard.figures[name] for name in _COUNTERS},
            )
            for shard in shards
            if shard.label in self._followed
        ]

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        """Return, for each of writes, searches and gets in a task's window, the busiest copy and its share of them.

        Nothing if copies appeared, moved or were promoted meanwhile, or if some are left out: their work is not known.
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
            told = {of: figures.gained(name, span.window_start_s, span.window_end_s) for of, figures in copies.items()}
            gained = {of: value for of, value in told.items() if value is not None}
            if len(gained) == len(copies) > 1 and (total := sum(gained.values())) > 0:
                busiest = max(sorted(gained), key=lambda of: gained[of])
                share_percent = round(100 * gained[busiest] / total, 1)
                found[f"busiest_{name}"] = {"shard": busiest, "share_percent": share_percent}
        return found

    def end(self) -> Mapping[str, Any]:
        """Return the shards as of the last sample, the largest first.

        `missing` is the number of copies that are not assigned or did not answer.
        """
        left_out = len(self._last) - _SHARDS_AT_MOST
        if left_out > 0:
            self.note(f"{left_out} of {len(self._last)} shards are left out: the {_SHARDS_AT_MOST} largest are kept")
        if not self._last:
            return {}
        return {
            "started": len(self._last),
            "missing": self._missing,
            "shards": [
                {"shard": shard.label, "state": shard.state, **shard.figures} for shard in self._last[:_SHARDS_AT_MOST]
            ],
        }

    def _shards(self, reply: Mapping[str, Any]) -> Iterator[Shard]:
        copies = [
            (index, int(number), copy)
            for index, entry in reply.get("indices", {}).items()
            for number, copies in entry["shards"].items()
            for copy in copies
        ]
        names = self._nodes.of(copy["routing"]["node"] for _, _, copy in copies)
        for index, number, copy in copies:
            routing = copy["routing"]
            figures = {
                name: copy.get(section, {}).get(field) for name, (section, field) in {**_GAUGES, **_COUNTERS}.items()
            }
            yield Shard(index, number, routing["primary"], names[routing["node"]], routing["state"], figures)

    def _follow(self, shards: tuple[Shard, ...]) -> None:
        """Choose the shards to record: those chosen before that still exist, then the largest of the others."""
        labels = [shard.label for shard in shards]
        self._followed &= set(labels)
        for label in labels:
            if len(self._followed) == _SHARDS_AT_MOST:
                break
            self._followed.add(label)
