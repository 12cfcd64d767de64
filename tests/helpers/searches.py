"""Races that searched for a capacity, made without one: probes of an open loop, and what was found."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from races import golden_race, task_of, with_search

from esbench.features.capacity.record import (
    CapacitySearch,
    FoundCapacity,
    LateCounts,
    LateCurve,
    Probe,
    SearchTerms,
    SeenProbe,
)
from esbench.record.model import Check, NodeFacts, RaceRecord, TaskResult, Throughput, Window

P99, ERRORS = "p99 < 50 ms", "errors < 0.1 %"
OVERLOADED = Check("target-rate", "unusable", "only 80.0% of the target rate was reached", value=0.8)
CURVE = LateCurve(4210.0, 4050.0, 4330.0, 30.0, 1.2, 600.0, 6)
PRECISE = FoundCapacity("precise", 4210.0, 4050.0, 4330.0, curves=(CURVE,))


def nodes(cpu_percent: float, queued: float, rejections: int = 0, gc_time_ms: int = 100) -> dict[str, Any]:
    """What a task's telemetry has of one node."""
    return {
        "nodes": {
            "nodes": 1,
            "cpu_core_percent": {"mean": cpu_percent, "peak": cpu_percent},
            "heap_used_percent": {"mean": 40.0, "peak": 60.0},
            "gc_time_ms": gc_time_ms,
            "queued": {"mean": queued, "peak": 4 * queued},
            "rejections": rejections,
            "by_node": {"node-0": {"cpu_core_percent": cpu_percent}},
        }
    }


def probe(
    rate_per_s: float, *late_ratios: float, stage: str = "near", void: str = "", cut_short: bool = False
) -> SeenProbe:
    """A probe of 30 s in batches of 2 s, with these shares of late requests by objective."""
    due = (round(2 * rate_per_s),) * 15
    counts = tuple(LateCounts(rate_per_s, due, (round(2 * rate_per_s * ratio),) * 15) for ratio in late_ratios)
    return SeenProbe(Probe(rate_per_s, 30.0, stage), counts, 36.0, void, cut_short, f"get-by-id@{rate_per_s:g}")


def task(seen: SeenProbe, p99_ms: float, **changes: Any) -> TaskResult:
    """The task of a probe; half of its requests took a fifth of the p99."""
    rate = seen.probe.rate_per_s
    requests = round(30 * rate)
    return replace(
        task_of(golden_race(), "get-by-id-open"),
        **{
            "name": seen.task,
            "operation": "get-by-id",
            "loop": "open",
            "target_rate_per_s": rate,
            "target_unit": "ops",
            "window": Window(5.0, 35.0),
            "duration_s": 35.0,
            "requests": requests,
            "units": float(requests),
            "throughput": Throughput("ops", rate),
            "latency_ms": {"p50": min(p99_ms, 900.0) / 5, "p99": p99_ms, "p99_at_least": 900.0},
            "within_ms": {},
            "checks": (),
            "errors": 0,
            "error_kinds": {},
            "unsent": 0,
            "status_codes": {"200": requests},
            "telemetry": {},
            **changes,
        },
    )


def searched(
    found: FoundCapacity | None, probes: dict[SeenProbe, TaskResult], *objectives: str, **changes: Any
) -> RaceRecord:
    """A race that searched with these probes, for `P99` if no objectives are given."""
    terms = SearchTerms((0.01, 0.001)[: len(objectives) or 1], 6000.0)
    search = CapacitySearch("get-by-id", objectives or (P99,), {}, terms, tuple(probes), found)
    clusters = golden_race().clusters
    (cluster,) = clusters.values()
    node = NodeFacts("node-0", cluster.version, processors=16)
    record = with_search(golden_race(tasks=tuple(probes.values()), warnings=()), search)
    return replace(record, clusters={"default": replace(cluster, nodes=(node,))}, **changes)


def usual(found: FoundCapacity | None = PRECISE, **changes: Any) -> RaceRecord:
    """A search that narrows the capacity down to 4,210/s: above it the node's CPU is at its limit."""
    probes = {
        (first := probe(3000.0, 0.0, stage="bracket")): task(first, 11.5, telemetry=nodes(980.0, 0.0)),
        (much := probe(6000.0, 0.62, stage="bracket", cut_short=True)): task(
            much, math.inf, checks=(OVERLOADED,), telemetry=nodes(1590.0, 210.0)
        ),
        (void := probe(4100.0, 0.02, void="driver lag is 60% of p99")): task(void, 70.0),
        (below := probe(3900.0, 0.004)): task(below, 38.25, telemetry=nodes(1320.0, 0.4)),
        (above := probe(4600.0, 0.12)): task(above, 212.0, checks=(OVERLOADED,), telemetry=nodes(1580.0, 80.0)),
        (held := replace(probe(4050.0, 0.008, stage="sustain"), task="get-by-id@4050 sustained")): task(
            held, 46.0, telemetry=nodes(1375.0, 0.5)
        ),
    }
    return searched(found, probes, **changes)
