"""Causes: what else moved in a task whose rows have a verdict, by more than its own spread (docs/verdicts.md).

A figure that moved is no proof. They are ranked: first what a cluster does besides (garbage collection, refreshes,
caches that miss), then what follows from that (merging), then what its requests cost, which is another face of the row
itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from statistics import fmean

from esbench.comparison.effects import Design, fit_tasks
from esbench.comparison.metrics import Race
from esbench.comparison.model import Cause, Row, TaskCauses
from esbench.comparison.reasons import FASTER, SLOWER, UNCLEAR
from esbench.comparison.stats import adjusted
from esbench.comparison.verdicts import SIGNIFICANT
from esbench.measure.verdict import SAMPLED_TOOK, TOOK
from esbench.record.figures import CACHES, LOWER, REQUEST_CACHE, cache_hits_percent, node_figure
from esbench.record.model import TaskResult

_SMALLEST = math.log(1.1)  # a smaller change of a figure explains nothing
_SHOWN, _SHOWN_METHODS = 4, 2  # of a task
_FEW_TIMES = 5.0  # a larger change is said by both figures, not in percent
_LEANING = 0.9  # of an interval
_HOT_POINTS = 10.0  # percent of the snapshots of a thread pool

_CONSEQUENCE, _COST = 1, 2

_Value = Callable[[TaskResult], float | None]


@dataclass(frozen=True)
class _Mover:
    """A figure that may explain a row: the more of it, the slower is the task.

    `value` returns it for a task of a race, None if it is unknown; `least`: what counts as next to nothing, so that a
    ratio to it means something. `shown` returns the number that people know it by, in `unit`. `rank`: its place
    among those that moved; `of_nodes`: it counts all that its nodes did.
    """

    name: str
    unit: str
    least: float
    value: _Value
    shown: _Value | None = None
    rank: int = 0
    of_nodes: bool = False


def _cluster(task: TaskResult, name: str) -> float | None:
    """Return a counter of the cluster during a task; None if it did not report it."""
    found: float | None = task.telemetry.get("cluster", {}).get(name)
    return found


def _per(amount: float | None, of: float | None) -> float | None:
    return amount / of if amount is not None and of else None


def _requests(task: TaskResult) -> int:
    return task.requests + task.warmup.requests


def _per_request(name: str) -> _Value:
    return lambda task: _per(_cluster(task, name), _requests(task))


def _per_second(name: str) -> _Value:
    return lambda task: _per(_cluster(task, name), _wall_s(task))


def _of_nodes(name: str, kind: str) -> _Value:
    return lambda task: node_figure(task, name, kind)


def _gained_per_request(name: str) -> _Value:
    return lambda task: _per(node_figure(task, name), _requests(task))


def _cpu_ms(task: TaskResult) -> float | None:
    percent = node_figure(task, "cpu_core_percent", "mean")
    return None if percent is None else _per(10 * percent * _wall_s(task), _requests(task))


def _wall_s(task: TaskResult) -> float:
    """Return how long a task took by the clock on the wall, with the other sides' slices."""
    return (task.duration_s or 0.0) * (task.slices.pace if task.slices else 1.0)


def _hits_percent(task: TaskResult, cache: str) -> float | None:
    """Return the hits of a cache; 0 of the request cache if no search looked into it."""
    hits = cache_hits_percent(task, cache)
    is_unused = hits is None and cache == REQUEST_CACHE and bool(_cluster(task, "search_query_count"))
    return 0.0 if is_unused else hits


def _missed_percent(task: TaskResult, cache: str) -> float | None:
    hits = _hits_percent(task, cache)
    return None if hits is None else 100 - hits


def _took_ms(task: TaskResult) -> float | None:
    for part in task.requests_by_name:
        if part.name in (TOOK, SAMPLED_TOOK) and part.service_time_ms:
            return part.service_time_ms.get("mean")
    return None


def _received(task: TaskResult) -> float | None:
    return _per(task.bytes_received, task.requests)


_MOVERS = (
    _Mover("GC", "ms per request", 0.001, _gained_per_request("gc_time_ms"), of_nodes=True),
    _Mover("heap", "%", 1, _of_nodes("heap_used_percent", "mean"), of_nodes=True),
    _Mover("refreshes", "per s", 0.1, _per_second("refresh_count")),
    _Mover("flushes", "per s", 0.1, _per_second("flush_count")),
    _Mover("merging", "ms per s", 1, _per_second("merge_time_ms"), rank=_CONSEQUENCE),
    _Mover("segments", "", 1, lambda task: _cluster(task, "segments"), rank=_CONSEQUENCE),
    _Mover("rejections", "per request", 0.001, _gained_per_request("rejections"), of_nodes=True),
    _Mover("queued", "requests", 0.1, _of_nodes("queued", "mean"), of_nodes=True),
    *(
        _Mover(
            f"{cache} cache hits",
            "%",
            5,
            partial(_missed_percent, cache=cache),
            partial(_hits_percent, cache=cache),
        )
        for cache in CACHES
    ),
    _Mover("disk reads", "kB per s", 100, _of_nodes("disk_read_kb_per_s", "mean"), of_nodes=True),
    _Mover("reply size", "bytes", 1, _received),
    _Mover("took", "ms", 0.1, _took_ms, rank=_COST),
    _Mover("query time", "ms per request", 0.01, _per_request("search_query_time_ms"), rank=_COST),
    _Mover("fetch time", "ms per request", 0.01, _per_request("search_fetch_time_ms"), rank=_COST),
    _Mover("get time", "ms per request", 0.01, _per_request("get_time_ms"), rank=_COST),
    _Mover("indexing time", "ms per request", 0.01, _per_request("indexing_time_ms"), rank=_COST),
    _Mover("CPU", "ms per request", 0.001, _cpu_ms, rank=_COST, of_nodes=True),
)


def causes(design: Design, rows: Iterable[Row]) -> Iterator[TaskCauses]:
    """Yield, for each task with a primary row that changed, what else moved with it.

    Of a row that is unclear, only if nine tenths of its interval lie on one side. Only what moved in the row's
    direction, by 10 % at least, and not by chance. Figures of nodes that both sides shared are left out.
    """
    seen, shared_nodes = set(), design.shares_nodes
    for row in rows:
        is_worse = _is_worse(row)
        if row.is_primary and is_worse is not None and row.task not in seen:
            seen.add(row.task)
            movers = [mover for mover in _MOVERS if not (shared_nodes and mover.of_nodes)]
            hot = () if shared_nodes else _hot_methods(design, row.task, is_worse)
            told = (*islice(_moved(design, row.task, movers, is_worse), _SHOWN), *islice(hot, _SHOWN_METHODS))
            yield TaskCauses(row.task, row.metric, row.diff_percent, told)


def _is_worse(row: Row) -> bool | None:
    """True if the contender's figure is worse, None if that is not known.

    An unclear row leans to one side if nine tenths of its interval lie there.
    """
    if row.word in (FASTER, SLOWER):
        return row.word == SLOWER
    if row.word != UNCLEAR or row.estimate is None:
        return None
    low, high = math.log(row.estimate.low), math.log(row.estimate.high)
    above = max(0.0, min(1.0, high / (high - low))) if high > low else 0.0
    if _LEANING > above > 1 - _LEANING or not low < high:
        return None
    return (above >= _LEANING) == (row.better == LOWER)


def _moved(design: Design, label: str, movers: Sequence[_Mover], is_worse: bool) -> Iterator[Cause]:
    """Yield the figures that moved with the row, by their ranks, and of one rank by the size of their change.

    Their p values are adjusted together: of many figures some move by chance.
    """
    fits = [fit_tasks(design, {label}, partial(_log, mover, label)) for mover in movers]
    p_values = adjusted([math.nan if fitted is None else fitted.estimate.p for fitted in fits])
    found = []
    for mover, fitted, p in zip(movers, fits, p_values, strict=True):
        change = 0.0 if fitted is None else math.log(fitted.estimate.ratio)
        if (change > 0) == is_worse and abs(change) >= _SMALLEST and p < SIGNIFICANT:
            found.append((mover.rank, -abs(change), mover))
    for *_, mover in sorted(found, key=lambda ranked: ranked[:2]):
        shown = mover.shown or mover.value
        ours, theirs = (_mean(shown, races, label) for races in (design.baseline, design.contender))
        yield Cause(mover.name, mover.unit, ours, theirs)


def _log(mover: _Mover, label: str, race: Race) -> float | None:
    task = race.tasks.get(label)  # an earlier race may lack it
    value = None if task is None else mover.value(task)
    return None if value is None else math.log(max(value, mover.least))


def _mean(value: _Value, races: Iterable[Race], label: str) -> float:
    known = [found for race in races if (found := value(race.tasks[label])) is not None]
    return fmean(known) if known else 0.0


def _hot_methods(design: Design, label: str, is_worse: bool) -> Iterator[Cause]:
    """Yield the methods that were hotter on the slower side in each of its races, where the nodes' threads were
    watched."""
    sides = [[_frames(race.tasks[label]) for race in races] for races in (design.baseline, design.contender)]
    if not all(frames for side in sides for frames in side):
        return
    slower, faster = sides[::-1] if is_worse else sides
    for frame in dict.fromkeys(frame for frames in slower for frame in frames):
        least = min(frames.get(frame, 0.0) for frames in slower)
        if least - max(frames.get(frame, 0.0) for frames in faster) >= _HOT_POINTS:
            yield Cause(frame, "%", *(fmean(frames.get(frame, 0.0) for frames in side) for side in sides))


def _frames(task: TaskResult) -> dict[str, float]:
    """Return the share of its pool's snapshots, in percent, of each hot method of a task."""
    pools = task.telemetry.get("hot-threads", {}).get("pools", ())
    return {frame["frame"]: frame["share_percent"] for pool in pools for frame in pool.get("frames", ())}


def text(found: TaskCauses) -> str:
    """Return what moved with a task in words: `term-query -18%: GC +240%, heap 62 -> 91 %`."""
    change = "" if found.percent is None else f" {found.percent:+{',.0f' if abs(found.percent) >= 100 else '.3g'}}%"
    return f"{found.task}: {found.metric}{change}: {moved_text(found)}"


def moved_text(found: TaskCauses) -> str:
    """Return what moved with a task: `GC +240%, heap 62 -> 91 %`."""
    return ", ".join(map(_cause_text, found.causes)) or "nothing that was watched moved with it"


def _cause_text(cause: Cause) -> str:
    times = cause.contender / cause.baseline if cause.baseline and cause.contender else math.inf
    if cause.unit in ("", "%") or max(times, 1 / times) >= _FEW_TIMES:
        return f"{cause.name} {_figure(cause.baseline)} -> {_figure(cause.contender)} {cause.unit}".rstrip()
    return f"{cause.name} {100 * (times - 1):+.0f}%"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
