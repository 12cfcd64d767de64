"""Sentences about interference with a race, before or during it: a cluster that was not idle. Pure.

An idle cluster gives no sentence, whatever its size; neither does one that has just been started.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from esbench.cluster.dialect import flat
from esbench.errors import UsageError
from esbench.errors.short import first_of
from esbench.record.index_prefix import has_prefix
from esbench.telemetry.cluster_state import IndexUse, Surroundings, Use
from esbench.units import format_bytes, parse_size

_BUSY_PER_S = 1.0
_BUSY_AT_LEAST = 10  # operations of others
_NAMED = 3


def disturbances(now: Surroundings, earlier: Use | None = None, other_prefixes: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a sentence for each circumstance that may disturb a race that is about to begin.

    These are an unhealthy cluster, allocation that is restricted, full disks, running merges, and activity of others:
    `earlier` is the activity of its indices some time before, and any growth since then is that of others. Indices
    whose names begin with one of `other_prefixes` are left out: those of races that are meant to run beside this one.
    """
    yield from _unhealthy(now.health)
    settings = dict(flat(now.settings.get("persistent", {}))) | dict(flat(now.settings.get("transient", {})))
    allocation = settings.get("cluster.routing.allocation.enable", "all")
    if allocation != "all":
        yield f"cluster.routing.allocation.enable is {allocation}: not every shard will be allocated"
    yield from _full_disks(now)
    if now.use is not None:
        merging = [
            name for name, index in now.use.indices.items() if index.merges and not has_prefix(name, other_prefixes)
        ]
        if merging:
            yield f"merges run before the race begins ({first_of(merging, _NAMED)}): they take disk and CPU from it"
        if earlier is not None:
            yield from _others("something else used the cluster before", earlier, now.use, (), other_prefixes)


def disturbed(
    before: Surroundings, after: Surroundings, own: Collection[str], other_prefixes: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield a sentence for each disturbance during the race: a changed number of nodes, red health, activity of others.

    Activity counts from 10 operations and 1 operation/s on, in indices that existed before the race and are neither the
    race's `own` nor the system's, nor those of `other_prefixes`, as in `disturbances`.
    """
    then, now = before.health.get("nodes"), after.health.get("nodes")
    if then is not None and now is not None and then != now:
        yield f"the cluster had {then} node{'' if then == 1 else 's'} before the race and {now} after it"
    if after.health.get("status") == "red":  # yellow may be what the track wanted: replicas without a node for them
        yield "the cluster is red after the race: shards are missing"
    if before.use is not None and after.use is not None:
        yield from _others(
            "indices that are not the track's were used during", before.use, after.use, own, other_prefixes
        )


def _unhealthy(health: Mapping[str, Any]) -> Iterator[str]:
    status, unassigned = health.get("status", "green"), health.get("unassigned_shards", 0)
    if status != "green":
        yield f"the cluster is {status} before the race: {unassigned} shard{_s(unassigned)} not assigned"
    moving = health.get("relocating_shards", 0) + health.get("initializing_shards", 0)
    if moving:
        yield f"{moving} shard{_s(moving)} moving or recovering before the race: that takes disk and network from it"


def _s(count: int) -> str:
    return " is" if count == 1 else "s are"


def _full_disks(now: Surroundings) -> Iterator[str]:
    watermark = str(now.disk.get("watermark.low", ""))
    if not watermark or str(now.disk.get("threshold_enabled", "true")) == "false":
        return
    if len(now.machines) == 1 and str(now.disk.get("watermark.enable_for_single_data_node", "true")) == "false":
        return  # of a single node: where else should its shards go
    for machine in now.machines.values():
        for disk in machine.disks:
            if disk.total_bytes and disk.available_bytes is not None:
                try:
                    least = _least_free_bytes(watermark, disk.total_bytes, now.disk.get("watermark.low.max_headroom"))
                except UsageError:
                    continue  # a form of a later version
                if disk.available_bytes < least:
                    yield (
                        f"{machine.name} has {format_bytes(disk.available_bytes)} of disk left, less than the low "
                        f"watermark ({watermark}) wants: it gets no shards, and at the flood stage indices are blocked"
                    )


def _least_free_bytes(watermark: str, total_bytes: int, headroom: Any) -> float:
    """Return the free bytes that a watermark requires: a percentage or ratio of use, or a size to leave free.

    `headroom` is the upper limit for a percentage or ratio.
    """
    if match := re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)(%?)", watermark):
        used_ratio = float(match[1]) / (100 if match[2] else 1)
        least = (1 - used_ratio) * total_bytes
        return least if headroom in (None, "-1") else min(least, parse_size(headroom))
    return parse_size(watermark)


def _others(who: str, before: Use, after: Use, own: Collection[str], other_prefixes: tuple[str, ...]) -> Iterator[str]:
    """Yield a sentence about activity in indices that existed `before` and are neither `own`, nor the cluster's, nor
    those of `other_prefixes`."""
    seconds = after.at_s - before.at_s
    done = {
        name: _gained(before.indices[name], now)
        for name, now in after.indices.items()
        if name in before.indices and name not in own and not _is_systems(name) and not has_prefix(name, other_prefixes)
    }
    names = sorted((name for name in done if sum(done[name])), key=lambda name: -sum(done[name]))
    counts = [sum(column) for column in zip(*done.values(), strict=True)]
    if sum(counts) >= max(_BUSY_AT_LEAST, _BUSY_PER_S * seconds):
        kinds = zip(counts, ("documents written", "shard queries", "gets"), strict=True)
        did = ", ".join(f"{count:,} {kind}" for count, kind in kinds if count)
        yield f"{who} the race, within {seconds:.1f} s: {did} ({first_of(names, _NAMED)})"


def _gained(then: IndexUse, now: IndexUse) -> tuple[int, int, int]:
    """Return the increase of documents written, queries and gets; zeros for an index that was created again."""
    gained = (now.indexed - then.indexed, now.queries - then.queries, now.gets - then.gets)
    return gained if min(gained) >= 0 else (0, 0, 0)


def _is_systems(name: str) -> bool:
    """True for an index that the cluster keeps for itself."""
    return name.startswith((".ds-ilm-history", ".ds-.")) or (name.startswith(".") and not name.startswith(".ds-"))
