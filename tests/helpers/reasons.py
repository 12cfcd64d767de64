"""A small comparison for each reason that a verdict can have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compared_sides import (
    ALONE,
    LEVEL,
    OPEN,
    TURNS,
    docs_per_s,
    latencies,
    line,
    scaled,
    seconds_of,
    side,
    sweep,
    usable,
)
from races import golden_race, kept_search, search_of, task_of, with_search, with_task
from sliced_sides import CLOSED, LENGTH_S, NOISE, Drawn, Level, flat, long_requests, rounds

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Comparison, Side
from esbench.measure.histogram import Counts, encode
from esbench.record.answers import APPROXIMATE, Line, NotAsked, RequestAnswer
from esbench.record.model import Check, RaceRecord, ScoreFigures, Throughput, Window
from esbench.record.series import SecondLine

_CLUSTER = golden_race().clusters["default"]
_MISSED = Check("target-rate", "unusable", "only 80 % of the target rate was reached", "a lower rate")
_RATHER_NOISY = (0.15, -0.1, 0.05, -0.15, 0.1, -0.05)
_VERY_NOISY = (0.6, -0.4, 0.3, -0.5, 0.5, -0.3)


def _at_once(
    ours: Sequence[Level],
    theirs: Sequence[Level],
    baseline: Mapping[str, Any] | None = None,
    contender: Mapping[str, Any] | None = None,
    **more: Any,
) -> Comparison:
    """Two sides of one task that were raced at the same time, in slices."""
    drawn = Drawn()
    sides = [
        drawn.side(name, levels, **{**more, **(changes or {})})
        for name, levels, changes in (("baseline", ours, baseline), ("contender", theirs, contender))
    ]
    return compare(sides[0], sides[1:], CompareOptions(seconds=drawn.read))


def _by(factor: float, **more: Any) -> Comparison:
    """A contender that does `factor` times as much."""
    return _at_once(rounds(), rounds(factor, noise=(0.0,)), **more)


def _noisy(noise: Sequence[float], **more: Any) -> Comparison:
    return _at_once(rounds(noise=noise), rounds(noise=(0.0,)), **more)


def _cluster(host: str, **facts: Any) -> dict[str, Any]:
    """A side on a cluster that esbench did not start."""
    node = replace(_CLUSTER.nodes[0], id=host, host=host.rpartition(":")[0])
    cluster = replace(_CLUSTER, pipeline="benchmark-only", hosts=(host,), nodes=(node,), **facts)
    return {"clusters": {"default": cluster}}


_HERE = {"baseline": _cluster("127.0.0.1:9200"), "contender": _cluster("127.0.0.1:9201")}


def _only(side: Side, *tasks: str) -> Side:
    records = (replace(each, tasks=tuple(task_of(each, name) for name in tasks)) for each in side.records)
    return replace(side, records=tuple(records))


def _in_turns(
    task: str,
    baseline: list[dict[str, Any]],
    contender: list[dict[str, Any]],
    places: Mapping[str, Sequence[int]] = TURNS,
    seconds: Callable[[RaceRecord], Any] = seconds_of,
    allow: tuple[str, ...] = (),
    **race: Any,
) -> Comparison:
    """Two sides of one task that were raced in turns; `race` are facts of the contender's races."""
    ours = _only(side("baseline", task, baseline, places["baseline"]), task)
    theirs = _only(side("contender", task, contender, places["contender"], **race), task)
    return compare(ours, [theirs], CompareOptions(seconds=seconds, allow=allow))


def _bulk(contender: list[dict[str, Any]], **more: Any) -> Comparison:
    return _in_turns("bulk", docs_per_s(scaled(20000)), contender, **more)


def _scored(per_s: float, recall: float) -> list[dict[str, Any]]:
    scores = ScoreFigures("recall@10", 100, 50, 0.5, recall, 0.8, 0.1)
    return [{**each, "scores": scores} for each in docs_per_s(scaled(per_s))]


def _paced(baseline: list[dict[str, Any]], contender: list[dict[str, Any]], **more: Any) -> Comparison:
    return _in_turns(OPEN, baseline, contender, **more)


def _alone(docs: float, race_id: str, length_s: float, requests: int) -> Side:
    record = with_task(
        usable(golden_race(race_id=race_id)),
        "bulk",
        throughput=Throughput("docs", docs),
        window=Window(0, length_s),
        requests=requests,
    )
    return _only(Side(race_id, (record,)), "bulk")


def _single(length_s: float) -> Comparison:
    def level(record: RaceRecord) -> list[SecondLine]:
        task = task_of(record, "bulk")
        mean = task.throughput.mean or 0.0
        return [line(task, second, mean * (1 + 0.01 * math.sin(second / 20))) for second in range(int(length_s))]

    sides = (
        _alone(20000, "20261120t150200-aaaa", length_s, 200),
        _alone(24000, "20261121t101500-bbbb", length_s, 200),
    )
    return compare(sides[0], [sides[1]], CompareOptions(seconds=level))


def _few_beyond_in_sections() -> Comparison:
    """4,000 requests in 200 s: 8 of them lie beyond p99 in each fifth."""
    counts = Counts()
    for _ in range(20):
        counts.add(10**9)
    encoded = encode(counts)

    def seconds(record: RaceRecord) -> list[SecondLine]:
        return [line(task_of(record, "bulk"), second, 20_000, service_time=encoded) for second in range(200)]

    ours, theirs = (
        replace(each, records=(with_task(each.records[0], "bulk", service_time_ms={"p50": 0.3, "p99": 0.5}),))
        for each in (_alone(20000, race_id, 200, 4000) for race_id in ("20261120t150200-aaaa", "20261121t101500-bbbb"))
    )
    return compare(ours, [theirs], CompareOptions(seconds=seconds))


def _changing() -> Comparison:
    return _at_once(rounds(), [flat(1.3 - 0.05 * number) for number in range(6)], **_HERE)


def _other_documents() -> Comparison:
    sides = {
        name: _cluster(f"127.0.0.1:920{number}", indices={"orders": {"documents": 900 + number}})
        for number, name in enumerate(("baseline", "contender"))
    }
    return _by(1.3, **sides)


def _long_requests() -> Comparison:
    drawn = Drawn()
    ours, theirs = (
        long_requests(drawn, name, [service_s * (1 + each / 20) for each in NOISE], 2, 6)
        for name, service_s in (("baseline", 0.655), ("contender", 0.675))
    )
    return compare(ours, [theirs], CompareOptions(seconds=drawn.read))


def _missing() -> Comparison:
    ours, theirs = (side(name, "bulk", docs_per_s(scaled(20000)), TURNS[name]) for name in TURNS)
    kept = _only(theirs, "bulk", "get-by-id")
    last = replace(kept.records[-1], tasks=(task_of(kept.records[-1], "get-by-id"),))
    lacking = replace(kept, records=(*kept.records[:-1], last))
    return compare(_only(ours, "bulk", "get-by-id"), [lacking], CompareOptions(seconds=seconds_of, allow=("tasks",)))


def searches() -> Comparison:
    """Two sides that searched for a capacity, one of which found none in one of its races."""

    def of(name: str) -> Side:
        found = _only(side(name, CLOSED, [{}] * 4, TURNS[name]), CLOSED)
        return replace(found, records=tuple(search_of(record, 1000.0) for record in found.records))

    theirs = of("contender")
    nothing = with_search(theirs.records[1], replace(kept_search(theirs.records[1]), found=None))
    records = (theirs.records[0], nothing, *theirs.records[2:])
    return compare(of("baseline"), [replace(theirs, records=records)], CompareOptions(seconds=seconds_of))


def _swept(ours: Sequence[tuple[float, float]], theirs: Sequence[tuple[float, float]]) -> Comparison:
    sides = (sweep(name, points, TURNS[name], LEVEL) for name, points in zip(TURNS, (ours, theirs), strict=True))
    return compare(next(sides), list(sides), CompareOptions(seconds=seconds_of))


def _answered(ours: Sequence[Line], theirs: Sequence[Line]) -> Comparison:
    lines = {"baseline": ours, "contender": theirs}
    sides = [_only(side(name, CLOSED, [{}] * 4, TURNS[name]), CLOSED) for name in lines]

    def answers(record: RaceRecord) -> Sequence[Line]:
        return lines[record.race_id.partition("-")[0]]

    return compare(sides[0], sides[1:], CompareOptions(seconds=seconds_of, answers=answers))


def _count(number: int) -> list[Line]:
    return [RequestAnswer(CLOSED, 1, "v1", "GET /orders/_doc/7", {"count": number})]


def _cpu(beside_s: float) -> dict[str, Any]:
    return {"slices": {"cpu_s": ((1.5, beside_s),) * LENGTH_S}}


def _without_seconds() -> Comparison:
    drawn = Drawn()
    ours, theirs = drawn.side("baseline", rounds()), drawn.side("contender", rounds())
    drawn.seconds["contender-4"] = []
    return compare(ours, [theirs], CompareOptions(seconds=drawn.read))


_LEVEL = latencies(scaled(2.0))
_LATE = latencies(scaled(9.0), checks=(_MISSED,), throughput=Throughput("ops", 800.0))

COMPARISONS: Mapping[str, Callable[[], Comparison]] = {
    "faster": lambda: _by(1.3),
    "slower": lambda: _by(0.7),
    "only-contender-reached-rate": lambda: _paced(_LATE, _LEVEL),
    "only-baseline-reached-rate": lambda: _paced(_LEVEL, _LATE),
    "same": lambda: _by(1.0),
    "needs-rounds": lambda: _noisy(_RATHER_NOISY),
    "too-noisy": lambda: _noisy(_VERY_NOISY),
    "faster-these-clusters": lambda: _by(1.3, **_HERE),
    "slower-these-clusters": lambda: _by(0.7, **_HERE),
    "same-these-clusters": lambda: _by(1.0, **_HERE),
    "needs-rounds-these-clusters": lambda: _noisy(_RATHER_NOISY, **_HERE),
    "too-noisy-these-clusters": lambda: _noisy(_VERY_NOISY, **_HERE),
    "changes-over-the-rounds": _changing,
    "few-rounds": lambda: _at_once(rounds(count=5), rounds(1.3, 5)),
    "one-race-a-side": lambda: _single(200),
    "no-turns": lambda: _bulk(docs_per_s(scaled(24000)), places=ALONE),
    "background-load": lambda: _by(1.08, baseline=_cpu(0.005), contender=_cpu(0.2)),
    "overlap": lambda: _by(1.15, contender={"slices": {"overlapping": LENGTH_S * 100}}),
    "few-requests": lambda: _paced(*[[{**each, "requests": 15} for each in _LEVEL]] * 2),
    "few-requests-in-tail": lambda: _bulk([{**each, "requests": 400} for each in docs_per_s(scaled(20000))]),
    "short-races": lambda: _single(60),
    "short-races-for-tail": _few_beyond_in_sections,
    "short-slices": _long_requests,
    "driver-lag": lambda: _paced(
        latencies(scaled(2.0), driver_lag_ms={"p50": 0.05, "p99": 0.1}),
        latencies(scaled(2.4), driver_lag_ms={"p50": 0.35, "p99": 0.5}),
    ),
    "check": lambda: _bulk(
        [
            {**each, "checks": (Check("incomplete", "unusable", "a load worker died", "race again"),)}
            for each in docs_per_s(scaled(20000))
        ]
    ),
    "rate-missed": lambda: _paced(_LEVEL, [{**_LEVEL[0], "checks": (_MISSED,)}, *_LEVEL[1:]]),
    "missing-races": _missing,
    "no-value": lambda: _bulk([{"throughput": Throughput("docs", None), "requests": 90, "errors": 90}] * 4),
    "no-seconds": _without_seconds,
    "other-loop": lambda: _bulk(
        [{"loop": "open", "target_rate_per_s": 9.0, "latency_ms": {"p50": 1.0}}] * 4,
        allow=("loop", "target rate", "schedule"),
    ),
    "no-capacity": searches,
    "no-equal-recall": lambda: _swept([(0.93, 2000), (0.99, 900)], [(0.71, 3000), (0.86, 1400)]),
    "not-comparable": lambda: _bulk(docs_per_s(scaled(24000)), host_class="4 cores"),
    "other-hosts": lambda: _by(1.3, baseline=_cluster("10.0.0.1:9200"), contender=_cluster("10.0.0.2:9200")),
    "other-documents": _other_documents,
    "more-errors": lambda: _bulk([{**each, "errors": 4} for each in docs_per_s(scaled(24000))]),
    "lower-scores": lambda: _in_turns("bulk", _scored(20000, 0.97), _scored(24000, 0.91)),
    "answers-differ": lambda: _answered(_count(2), _count(3)),
    "recall-unknown": lambda: _answered([NotAsked(CLOSED, APPROXIMATE)], _count(3)),
}
