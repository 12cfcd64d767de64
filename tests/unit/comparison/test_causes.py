"""What moved together with a row that has a verdict, and in which order it is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from compared_sides import TURNS, docs_per_s, scaled, seconds_of, side

from esbench.comparison.causes import text
from esbench.comparison.compare import compare
from esbench.comparison.model import Cause, CompareOptions, Side, TaskCauses
from esbench.record.model import NamedRequest


def changed(of: Side, spread: float = 0.02, **telemetry: Any) -> Side:
    """The side with figures of telemetry in its tasks, which differ a little from race to race."""

    def near(value: Any, place: int) -> Any:
        if isinstance(value, dict):
            return {name: near(inner, place) for name, inner in value.items()}
        return value * (1 + spread * (place % 3 - 1))

    records = tuple(
        replace(record, tasks=tuple(replace(t, telemetry=near(telemetry, place)) for t in record.tasks))
        for place, record in enumerate(of.records)
    )
    return replace(of, records=records)


def found(factor: float, ours: dict[str, Any], theirs: dict[str, Any], spread: float = 0.02) -> tuple[TaskCauses, ...]:
    baseline = changed(side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"]), spread, **ours)
    contender = changed(
        side("contender", "bulk", docs_per_s(scaled(20000 * factor)), TURNS["contender"]), spread, **theirs
    )
    return compare(baseline, [contender], CompareOptions(seconds=seconds_of)).pairs[0].causes


def names(causes: tuple[TaskCauses, ...]) -> list[str]:
    return [cause.name for each in causes for cause in each.causes]


def cluster(**figures: float) -> dict[str, Any]:
    return {"cluster": figures}


def test_what_moved_with_a_slower_row_is_named() -> None:
    (causes,) = found(0.8, cluster(refresh_count=10, segments=5), cluster(refresh_count=300, segments=5))
    assert (causes.task, causes.metric) == ("bulk", "Mean throughput")
    assert causes.percent == pytest.approx(-20, abs=1)
    assert [cause.name for cause in causes.causes] == ["refreshes"]


def test_the_largest_change_comes_first_and_costs_come_last() -> None:
    ours = cluster(refresh_count=10, flush_count=10, segments=5, indexing_time_ms=100)
    theirs = cluster(refresh_count=20, flush_count=30, segments=50, indexing_time_ms=90_000)
    assert names(found(0.8, ours, theirs)) == ["flushes", "refreshes", "segments", "indexing time"]


def test_what_moved_the_other_way_is_not_named() -> None:
    ours, theirs = cluster(refresh_count=10, segments=50), cluster(refresh_count=300, segments=5)
    assert names(found(1.2, ours, theirs)) == ["segments"]
    assert names(found(0.8, ours, theirs)) == ["refreshes"]


def test_what_moved_by_its_own_spread_or_by_little_is_not_named() -> None:
    assert names(found(0.8, cluster(segments=50), cluster(segments=53))) == []
    assert names(found(0.8, cluster(segments=50), cluster(segments=60), spread=0.9)) == []
    (causes,) = found(0.8, cluster(segments=50), cluster(segments=50))
    assert text(causes) == "bulk: Mean throughput -20%: nothing that was watched moved with it"


def test_a_row_without_a_verdict_has_no_causes() -> None:
    assert found(1.0, cluster(refresh_count=10), cluster(refresh_count=300)) == ()


def test_a_cache_that_misses_is_said_by_its_hits() -> None:
    ours = cluster(request_cache_hits=990, request_cache_misses=10)
    (causes,) = found(0.8, ours, cluster(request_cache_hits=0, request_cache_misses=1000))
    assert [(each.name, round(each.baseline), each.contender) for each in causes.causes] == [
        ("request cache hits", 99, 0.0)
    ]


def test_a_cache_that_is_not_looked_into_has_no_hits() -> None:
    ours = cluster(request_cache_hits=990, request_cache_misses=10, search_query_count=1000)
    causes = found(0.8, ours, cluster(request_cache_hits=0, request_cache_misses=0, search_query_count=1000))
    assert names(causes) == ["request cache hits"]


def test_figures_of_the_nodes() -> None:
    def nodes(gc_ms: float, heap: float) -> dict[str, Any]:
        return {"nodes": {"gc_time_ms": gc_ms, "heap_used_percent": {"mean": heap, "peak": 95}}}

    assert names(found(0.8, nodes(100, 60), nodes(2000, 91))) == ["GC", "heap"]


def test_hot_methods_that_only_the_slower_side_has() -> None:
    def hot(others: int, **frames: float) -> dict[str, Any]:
        shown = [{"frame": name, "share_percent": share} for name, share in frames.items()]
        moved = dict.fromkeys(("refresh_count", "flush_count", "segments", "merge_time_ms", "get_time_ms"), others)
        return {"hot-threads": {"samples": 3, "pools": [{"pool": "search", "frames": shown}]}, "cluster": moved}

    def records(of: Side, telemetry: dict[str, Any]) -> Side:
        tasks = [tuple(replace(task, telemetry=telemetry) for task in record.tasks) for record in of.records]
        return replace(
            of, records=tuple(replace(record, tasks=each) for record, each in zip(of.records, tasks, strict=True))
        )

    baseline = records(
        side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"]), hot(100, inflate=4, seek=30)
    )
    contender = records(
        side("contender", "bulk", docs_per_s(scaled(16000)), TURNS["contender"]), hot(1000, inflate=44, seek=35)
    )
    pair = compare(baseline, [contender], CompareOptions(seconds=seconds_of)).pairs[0]
    assert names(pair.causes)[-1] == "inflate"
    assert len(names(pair.causes)) == 5  # four figures besides
    assert any("inflate 4 -> 44 %" in notice.text for notice in pair.notices)


def test_of_many_figures_one_that_moved_by_chance_is_not_named() -> None:
    ours, theirs = {"flush_count": 100.0}, {"flush_count": 250.0}
    assert names(found(0.8, cluster(**ours), cluster(**theirs), spread=0.3)) == ["flushes"]
    others = ("merge_time_ms", "search_query_time_ms", "search_fetch_time_ms", "get_time_ms", "indexing_time_ms")
    still = dict.fromkeys(others, 1000.0)
    assert names(found(0.8, cluster(**ours, **still), cluster(**theirs, **still), spread=0.3)) == []


def test_hits_that_all_searches_have_but_a_few_are_the_same() -> None:
    def cache(hits: int) -> dict[str, Any]:
        return cluster(query_cache_hits=hits, query_cache_misses=1000 - hits)

    assert names(found(0.8, cache(985), cache(980), spread=0.001)) == []
    assert names(found(0.8, cache(985), cache(700), spread=0.001)) == ["query cache hits"]


def test_the_sampled_took_of_the_server() -> None:
    def took(of: Side, mean_ms: float) -> Side:
        part = NamedRequest("took (sampled)", 100, 0, service_time_ms={"mean": mean_ms, "p50": mean_ms})
        return replace(
            of,
            records=tuple(
                replace(record, tasks=tuple(replace(task, requests_by_name=(part,)) for task in record.tasks))
                for record in of.records
            ),
        )

    baseline = took(side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"]), 5)
    contender = took(side("contender", "bulk", docs_per_s(scaled(16000)), TURNS["contender"]), 7)
    pair = compare(baseline, [contender], CompareOptions(seconds=seconds_of)).pairs[0]
    assert [each.name for causes in pair.causes for each in causes.causes] == ["took"]
    assert not any("took" in row.task for row in pair.rows)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause("GC", "ms per request", 0.2, 0.68), "GC +240%"),
        (Cause("heap", "%", 62.0, 91.0), "heap 62 -> 91 %"),
        (Cause("refreshes", "per s", 0.0, 9.7), "refreshes 0 -> 9.7 per s"),
        (Cause("GC", "ms per request", 0.68, 0.2), "GC -71%"),
    ],
)
def test_words(cause: Cause, words: str) -> None:
    assert text(TaskCauses("term-query", "Mean throughput", -18.2, (cause,))) == (
        f"term-query: Mean throughput -18.2%: {words}"
    )


def test_a_change_by_many_times_has_its_digits() -> None:
    assert text(TaskCauses("read", "Mean throughput", 1407.38, ())).startswith("read: Mean throughput +1,407%: nothing")
