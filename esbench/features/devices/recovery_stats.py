"""recovery-stats: shards that are copied to a node or opened there, while it happens and as a sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from esbench.cluster.replies import count, counted, mapping, text
from esbench.telemetry.device import IndexDevice, Param, Reading, Scene
from esbench.telemetry.snapshots import count_at

_GROUP = "recovery"
_INDICES_AT_MOST = 50
_SAMPLED_AT_MOST = 20
_OTHERS = "(others)"
_index = attrgetter("index")
_STAGES = ("init", "index", "verify_index", "translog", "finalize", "done")
# Gauge of a sample -> where a shard of `_recovery` has it.
_PROGRESS = {
    "bytes": "index.size.total_in_bytes",
    "recovered_bytes": "index.size.recovered_in_bytes",
    "files": "index.files.total",
    "recovered_files": "index.files.recovered",
    "translog_operations": "translog.total",
    "recovered_translog_operations": "translog.recovered",
}
_KEEP = tuple(
    f"*.shards.{name}"
    for name in (
        "id",
        "type",
        "stage",
        "start_time_in_millis",
        "total_time_in_millis",
        "target.name",
        "index.*throttle_time_in_millis",
        *_PROGRESS.values(),
    )
)
_INDICES = Param("recovery-stats-indices", "names", (), "indices, data streams or patterns; without it the track's")

Key = tuple[str, int, str, int]  # index, number of the shard, target node, start


@dataclass(frozen=True)
class Recovery:
    """A recovery of one copy of a shard.

    `key` is (index, number of the shard, name of the target node, start in ms since the epoch). `kind` is peer (copied
    from another node), existing_store (opened again), empty_store (new), snapshot, local_shards. `stage` is init,
    index, verify_index, translog, finalize or done. `progress`: bytes, files and translog_operations in all, and each
    with the prefix `recovered_` so far.
    """

    key: Key
    kind: str
    stage: str
    took_ms: int
    throttled_ms: int
    progress: Mapping[str, int]

    @property
    def index(self) -> str:
        """The name of the index."""
        return self.key[0]


class RecoveryStats(IndexDevice):
    """Recoveries while they run, by index, and the sums of each step and of the race."""

    name = "recovery-stats"
    help = "shards that are copied or opened: bytes, files and translog operations, by index"
    of = _INDICES
    params = (
        _INDICES,
        Param("recovery-stats-sample-interval", "duration", 1.0, "time between two samples"),
    )
    figures = frozenset()
    patience_s = 10.0

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._before: Mapping[Key, Recovery] | None = None  # as they stood when the race began
        self._now: dict[Key, Recovery] = {}  # as each was last seen
        self._active: set[str] = set()

    def begin(self) -> None:
        super().begin()
        self._look()
        self._before = dict(self._now)

    def sample(self) -> Iterable[Reading]:
        """Return the progress of running recoveries by index; an index that has none any more gets one last reading."""
        found = _by_index(recoveries(self.ask("_recovery", _KEEP, active_only=True)))
        indices = sorted(self._active | found.keys())
        self._active = set(found)
        return [Reading(index, _GROUP, _gauges(found.get(index, []))) for index in indices]

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        if self._before is None:
            return {}
        earlier = self._look()
        return _sums(earlier, self._now.values())

    def end(self) -> Mapping[str, Any]:
        """Return figures of all recoveries that began or progressed during the race; empty without any.

        `recoveries`: kind -> number of those begun; `unfinished`; recovered_bytes, recovered_files,
        recovered_translog_operations; longest_ms and throttled_ms, the maxima of one recovery. `indices` has the same
        with `index`, of the 50 indices with the most recovered bytes.
        """
        if self._before is None:
            return {}
        self._look()
        by_index: list[dict[str, Any]] = []
        for index, those in groupby(sorted(self._now.values(), key=_index), key=_index):
            if sums := _sums(self._before, list(those)):
                by_index.append({"index": index, **sums})
        by_index.sort(key=lambda sums: -sums["recovered_bytes"])
        if len(by_index) > _INDICES_AT_MOST:
            self.note(f"{len(by_index) - _INDICES_AT_MOST} indices with fewer recovered bytes are only in the sums")
        return {**_sums(self._before, self._now.values()), "indices": by_index[:_INDICES_AT_MOST]} if by_index else {}

    def _look(self) -> dict[Key, Recovery]:
        """Ask for all recoveries and add them to those known. Returns those known before.

        The cluster forgets a copy that is gone, this object does not.
        """
        earlier = dict(self._now)
        self._now |= {one.key: one for one in recoveries(self.ask("_recovery", _KEEP))}
        return earlier


def _by_index(found: Iterable[Recovery]) -> dict[str, list[Recovery]]:
    """Return index -> its recoveries; with many indices, those with the most bytes, and the others together."""
    every = {index: list(those) for index, those in groupby(sorted(found, key=_index), key=_index)}
    most_first = sorted(every, key=lambda index: (-sum(one.progress["bytes"] for one in every[index]), index))
    kept = {index: every[index] for index in most_first[:_SAMPLED_AT_MOST]}
    if others := [one for index in most_first[_SAMPLED_AT_MOST:] for one in every[index]]:
        kept[_OTHERS] = others
    return kept


def recoveries(reply: Mapping[str, Any]) -> Iterator[Recovery]:
    """Yield the recoveries in a reply of `_recovery`."""
    for index, entry in reply.items():
        for shard in entry["shards"]:
            node, started_ms = text(mapping(shard.get("target")).get("name")), count_at(shard, "start_time_in_millis")
            files = mapping(shard.get("index"))
            throttled = (count(size) or 0 for name, size in files.items() if name.endswith("throttle_time_in_millis"))
            yield Recovery(
                key=(index, counted(shard["id"]), node, started_ms),
                kind=text(shard["type"]).lower(),
                stage=text(shard["stage"]).lower(),
                took_ms=count_at(shard, "total_time_in_millis"),
                throttled_ms=sum(throttled),
                progress={name: count_at(shard, path) for name, path in _PROGRESS.items()},
            )


def _gauges(found: list[Recovery]) -> dict[str, float | None]:
    stages = Counter(one.stage for one in found)
    return {
        "shards": len(found),
        **{name: sum(one.progress[name] for one in found) for name in _PROGRESS},
        **{f"in_{stage}": stages[stage] for stage in _STAGES if stage != "done"},
    }


def _sums(before: Mapping[Key, Recovery], after: Iterable[Recovery]) -> dict[str, Any]:
    """Return the sums of the recoveries that have begun or progressed since `before`; empty without any."""
    changed = [one for one in after if one != before.get(one.key)]
    if not changed:
        return {}
    begun = [one for one in changed if one.key not in before]

    def gained(name: str) -> int:
        earlier = [before[one.key].progress[name] for one in changed if one.key in before]
        return sum(one.progress[name] for one in changed) - sum(earlier)

    return {
        "recoveries": dict(sorted(Counter(one.kind for one in begun).items())),
        "unfinished": sum(one.stage != "done" for one in changed),
        **{name: gained(name) for name in _PROGRESS if name.startswith("recovered_")},
        "longest_ms": max(one.took_ms for one in changed),
        "throttled_ms": max(one.throttled_ms for one in changed),
    }
