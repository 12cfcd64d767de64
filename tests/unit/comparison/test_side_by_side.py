"""Sides that were raced at once, in slices: one difference a round, and what their nodes and slices allow to say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from compared_sides import row_of
from races import golden_race
from sliced_sides import CLOSED, LENGTH_S, NOISE, OPEN, Drawn, Level, flat, long_requests, rounds

from esbench.comparison.compare import compare
from esbench.comparison.conditions import outcome, parse_condition
from esbench.comparison.model import CompareOptions, Comparison, Pair, Row, RowVerdict, Side
from esbench.comparison.reasons import FEW_ROUNDS, NO_SECONDS
from esbench.comparison.stats import paired_rounds_to_settle
from esbench.record.model import Check, RaceRecord, Window
from esbench.record.series import SecondLine

CLUSTER = golden_race().clusters["default"]


def compared(
    ours: Sequence[Level],
    theirs: Sequence[Level],
    options: CompareOptions | None = None,
    baseline: dict[str, Any] | None = None,
    contender: dict[str, Any] | None = None,
    **more: Any,
) -> Comparison:
    drawn = Drawn()
    one = drawn.side("baseline", ours, **{**more, **(baseline or {})})
    other = drawn.side("contender", theirs, **{**more, **(contender or {})})
    return compare(one, [other], replace(options or CompareOptions(), seconds=drawn.read))


def pair_of(factor: float, **more: Any) -> Pair:
    """A contender that does `factor` times as much, in six rounds that differ by a percent."""
    return compared(rounds(), rounds(factor, noise=(0.0,)), **more).pairs[0]


def throughput(pair: Pair, task: str = CLOSED) -> Row:
    return row_of(pair, "Mean throughput", task)


def verdict(row: Row) -> RowVerdict:
    assert row.verdict is not None
    return row.verdict


def warming(constant_s: float, noise: float = 0.0) -> Level:
    return lambda second: (1 + noise) * (1 - 0.6 * math.exp(-second / constant_s))


def texts(pair: Pair) -> str:
    return "\n".join(notice.text for notice in pair.notices)


# --- verdicts


@pytest.mark.parametrize(("factor", "kind"), [(1.2, "faster"), (0.8, "slower"), (1.0, "same"), (1.04, "same")])
@pytest.mark.parametrize("metric", ["Mean throughput", "p99 service time"])
def test_rounds_with_both_sides_have_a_verdict(metric: str, factor: float, kind: str) -> None:
    row = row_of(pair_of(factor), metric, CLOSED)
    assert verdict(row).reason.v1 == kind
    assert row.estimate is not None and row.estimate.method == "paired"
    assert row.estimate.ratio == pytest.approx(factor if metric == "Mean throughput" else 1 / factor, rel=0.01)


def test_the_weather_of_a_round_is_on_both_sides_and_cancels() -> None:
    weather = (0.5, -0.3, 0.2, 0.0, -0.4, 0.3)
    row = throughput(compared(rounds(noise=weather), rounds(1.2, noise=weather)).pairs[0])
    assert row.estimate is not None
    assert row.estimate.high - row.estimate.low < 0.01
    assert verdict(row).reason.v1 == "faster"


@pytest.mark.parametrize("task", [CLOSED, OPEN])
@pytest.mark.parametrize("factor", [1.0, 1.08, 1.3])
def test_swapping_the_sides_mirrors_everything(task: str, factor: float) -> None:
    mirrored = {"faster": "slower", "slower": "faster"}
    levels = [warming(2, each) for each in NOISE], [flat(factor)] * 6
    forth, back = compared(*levels, task=task).pairs[0], compared(*levels[::-1], task=task).pairs[0]
    for one, other in zip(forth.primary, back.primary, strict=True):
        assert verdict(other).reason.v1 == mirrored.get(verdict(one).reason.v1, verdict(one).reason.v1)
        assert verdict(other).note == verdict(one).note
        assert one.estimate is not None and other.estimate is not None
        assert other.estimate.low == pytest.approx(1 / one.estimate.high, rel=1e-6)
    assert forth.sliced is not None and back.sliced is not None
    assert forth.sliced.cuts == back.sliced.cuts
    assert forth.speed_ratio is not None and back.speed_ratio is not None
    assert forth.speed_ratio.ratio * back.speed_ratio.ratio == pytest.approx(1)


def test_tasks_without_slices_are_compared_as_races_in_turns() -> None:
    pair = pair_of(1.2, changes={"slices": None})
    row = throughput(pair)
    assert pair.sliced is None
    assert row.estimate is not None and row.estimate.method == "interleaved"


def test_rounds_without_their_counterpart_are_not_paired_and_took_no_turns() -> None:
    pair = compared(rounds(), rounds(1.3, 5)).pairs[0]
    assert pair.sliced is None
    assert not pair.is_interleaved
    assert verdict(throughput(pair)).reason.v1 == "session-only"
    assert pair.speed_ratio is not None and pair.speed_ratio.method == "independent"


def test_sides_at_once_do_not_take_turns() -> None:
    assert not pair_of(1.0).is_interleaved
    assert pair_of(1.0, changes={"slices": None}).is_interleaved


def test_a_rate_that_one_side_missed_decides_nothing_between_rounds_that_are_not_paired() -> None:
    missed = {"changes": {"checks": (Check("target-rate", "unusable", "80 % only"),)}}
    pair = compared(rounds(), rounds(count=5), task=OPEN, baseline=missed).pairs[0]
    assert verdict(row_of(pair, "p99 latency", OPEN)).reason.v1 == "!"


# --- seconds that are missing


@pytest.mark.parametrize("task", [CLOSED, OPEN])
def test_without_the_seconds_of_a_race_its_task_is_neither_cut_nor_judged(task: str) -> None:
    drawn = Drawn()
    ours, theirs = drawn.side("baseline", rounds(), task=task), drawn.side("contender", [warming(2)] * 6, task=task)
    drawn.seconds["contender-4"] = []
    pair = compare(ours, [theirs], CompareOptions(seconds=drawn.read)).pairs[0]
    missing = RowVerdict(NO_SECONDS, "the seconds of contender-4 are missing (seconds.jsonl)")
    assert [verdict(row) for row in pair.primary] == [missing, missing]
    assert (pair.baseline, pair.contender) == (ours, theirs)
    assert pair.sliced is not None and pair.sliced.cuts[task].at_s == 0
    assert pair.speed_ratio is None


def test_a_task_that_ended_inside_its_warmup_lacks_no_seconds() -> None:
    drawn = Drawn()
    sides = [
        drawn.side(name, rounds(), changes={"checks": (Check("inside-warmup", "warning", "too short"),)})
        for name in ("baseline", "contender")
    ]
    drawn.seconds = {
        race_id: [replace(line, phase="warmup") for line in lines] for race_id, lines in drawn.seconds.items()
    }
    pair = compare(sides[0], sides[1:], CompareOptions(seconds=drawn.read)).pairs[0]
    assert verdict(throughput(pair)).reason.v1 == "same"


def test_the_seconds_of_races_at_once_are_read_once() -> None:
    drawn, read = Drawn(), list[str]()
    ours, theirs = drawn.side("baseline", rounds()), drawn.side("contender", rounds())

    def seconds(record: RaceRecord) -> Iterator[SecondLine]:
        read.append(record.race_id)
        return drawn.read(record)

    compare(ours, [theirs], CompareOptions(seconds=seconds))
    assert sorted(read) == sorted(record.race_id for record in (*ours.records, *theirs.records))


def test_a_change_of_8_percent_is_none_with_fresh_nodes_unless_it_is_said() -> None:
    for option, shared, kind in ((None, False, "same"), (0.05, False, "faster"), (None, True, "faster")):
        prefixes = ({"track_params": {"index_prefix": f"side{side}-"}} if shared else {} for side in (1, 2))
        ours, theirs = prefixes
        pair = pair_of(1.08, options=CompareOptions(min_effect_ratio=option), baseline=ours, contender=theirs)
        assert verdict(throughput(pair)).reason.v1 == kind


def test_an_undecided_row_says_how_many_rounds_would_settle_it() -> None:
    levels = rounds(noise=(0.15, -0.1, 0.05, -0.15, 0.1, -0.05))
    row = throughput(compared(levels, rounds(noise=(0.0,))).pairs[0])
    assert row.estimate is not None
    needed = paired_rounds_to_settle(row.estimate.residual_sd, math.log(1.1), 2)
    assert verdict(row).reason.v1 == "~"
    assert (
        verdict(row).note
        == f"about {needed} rounds in all would show a difference of 10% (esbench duel --resume s --rounds={needed})"
    )
    assert needed is not None and needed > 6


# --- the number of rounds, and whose nodes they were


@pytest.mark.parametrize(
    ("count", "shared", "kind"), [(5, False, "few rounds"), (5, True, "faster"), (3, True, "few rounds")]
)
def test_a_verdict_needs_six_rounds_or_four_on_one_node(count: int, shared: bool, kind: str) -> None:
    sides = [{"track_params": {"index_prefix": f"side{side}-"}} if shared else {} for side in (1, 2)]
    levels = rounds(count=count), rounds(1.3, count, noise=(0.0,))
    row = throughput(compared(*levels, baseline=sides[0], contender=sides[1]).pairs[0])
    assert verdict(row).reason.v1 == kind
    assert row.estimate is not None
    assert (" rounds" in verdict(row).detail) == (kind == "few rounds")
    assert ("on this node" in verdict(row).note) == shared


def test_a_single_round_has_values_and_no_interval() -> None:
    row = throughput(compared(rounds(count=1), rounds(1.3, 1)).pairs[0])
    assert verdict(row) == RowVerdict(FEW_ROUNDS, "1 of 6 rounds", "esbench duel --resume s --rounds=6")
    assert row.estimate is None


def test_sides_on_one_node_differ_in_neither_prefix_nor_names_of_indices() -> None:
    def of(side: int) -> dict[str, Any]:
        prefix = f"side{side}-"
        indices = {f"{prefix}orders": {"settings": {"index.number_of_shards": 5}}}
        return {"track_params": {"index_prefix": prefix}, "clusters": {"default": replace(CLUSTER, indices=indices)}}

    assert pair_of(1.0, baseline=of(1), contender=of(2)).is_same


def test_a_node_that_is_started_for_each_round_is_not_only_this_node() -> None:
    drawn = Drawn()
    sides = []
    for number, name in enumerate(("baseline", "contender"), 1):
        side = drawn.side(name, rounds(), track_params={"index_prefix": f"side{number}-"})
        records = [
            replace(record, clusters={"default": replace(CLUSTER, settings={"pids": [process]})})
            for process, record in enumerate(side.records)
        ]
        sides.append(replace(side, records=tuple(records)))
    pair = compare(sides[0], sides[1:], CompareOptions(seconds=drawn.read)).pairs[0]
    assert "on this node" not in verdict(throughput(pair)).note


def of_others(*hosts: str) -> dict[str, Any]:
    nodes = tuple(replace(CLUSTER.nodes[0], id=host, host=host.rpartition(":")[0]) for host in hosts)
    return {"clusters": {"default": replace(CLUSTER, pipeline="benchmark-only", hosts=hosts, nodes=nodes)}}


HERE = of_others("127.0.0.1:9200"), of_others("127.0.0.1:9201")


def of_clusters(factor: float, **more: Any) -> Pair:
    """Two clusters that esbench did not start, on one host, the same in all rounds."""
    return pair_of(factor, **{"baseline": HERE[0], "contender": HERE[1], **more})


@pytest.mark.parametrize(("factor", "word"), [(1.3, "faster"), (0.7, "slower"), (1.0, "same")])
@pytest.mark.parametrize("in_turns", [False, True])
def test_nodes_that_are_kept_have_a_verdict_on_these_clusters(factor: float, word: str, in_turns: bool) -> None:
    row = throughput(of_clusters(factor, **({"changes": {"slices": None}} if in_turns else {})))
    found = verdict(row)
    assert row.estimate is not None and row.estimate.method == ("interleaved" if in_turns else "paired")
    assert (found.word, found.reason.scope, found.reason.has_basis) == (word, "these clusters", True)
    assert (found.reason.code, found.reason.v1) == (f"{word}-these-clusters", "these nodes")
    assert "127.0.0.1:9201 is" in found.detail and "7.10" not in found.detail


def test_a_verdict_on_these_clusters_counts_only_where_it_is_asked_for() -> None:
    slower = Comparison((of_clusters(0.7),))
    for text, hits in (("slower", 0), ("slower:these-clusters", 2), ("throughput<-5%", 0)):
        found = outcome(parse_condition(text), slower)
        assert (len(found.hits), bool(found.undecided)) == (hits, not hits)
        assert all(f"on these clusters, which {text}:these-clusters counts" in each for each in found.undecided)
    assert outcome(parse_condition("throughput<-5%:these-clusters"), slower).hits
    same = outcome(parse_condition("slower:these-clusters"), Comparison((of_clusters(1.0),)))
    assert (same.hits, same.undecided) == ((), ())
    for_sides = outcome(parse_condition("slower:these-clusters"), Comparison((pair_of(0.7),)))
    assert for_sides.hits


def test_clusters_on_different_hosts_are_not_judged_unless_that_is_allowed() -> None:
    sides = {"baseline": of_others("10.0.0.1:9200"), "contender": of_others("10.0.0.2:9200")}
    found = verdict(throughput(pair_of(1.3, **sides)))
    assert (found.word, found.reason.code, found.reason.v1) == ("not judged", "other-hosts", "these nodes")
    allowed = pair_of(1.3, options=CompareOptions(allow=("node host",)), **sides)
    assert verdict(throughput(allowed)).reason.code == "faster-these-clusters"
    one_cluster = {"baseline": of_others("10.0.0.1:9200"), "contender": of_others("10.0.0.1:9200")}
    row = throughput(pair_of(1.3, changes={"slices": None}, **one_cluster))
    assert (verdict(row).reason.code, verdict(row).reason.scope) == ("faster", "sides")


@pytest.mark.parametrize("changes", [{}, {"slices": None}], ids=["at once", "in turns"])
def test_clusters_whose_difference_changes_over_the_rounds_are_unclear(changes: dict[str, Any]) -> None:
    drawn = Drawn()
    falling = [flat(1.3 - 0.05 * number) for number in range(6)]
    ours, theirs = (
        drawn.side(*of, changes=changes, **side)
        for of, side in zip((("baseline", rounds()), ("contender", falling)), HERE, strict=True)
    )
    row = throughput(compare(ours, [theirs], CompareOptions(seconds=drawn.read)).pairs[0])
    assert (verdict(row).word, verdict(row).reason.code) == ("unclear", "changes-over-the-rounds")
    assert row.estimate is not None
    fresh = throughput(compared(rounds(), falling).pairs[0])
    assert verdict(fresh).reason.scope == "sides"  # of nodes that are started for each round that is the luck of starts


@pytest.mark.parametrize(("counts", "code"), [((900, 900), "faster-these-clusters"), ((900, 901), "other-documents")])
def test_clusters_that_hold_different_documents_are_not_judged(counts: tuple[int, int], code: str) -> None:
    sides = []
    for of_side, documents in zip(HERE, counts, strict=True):
        cluster = replace(of_side["clusters"]["default"], indices={"orders": {"documents": documents}})
        sides.append({"clusters": {"default": cluster}})
    found = verdict(throughput(pair_of(1.3, baseline=sides[0], contender=sides[1])))
    assert found.reason.code == code
    allowed = pair_of(1.3, options=CompareOptions(allow=("answers",)), baseline=sides[0], contender=sides[1])
    assert verdict(throughput(allowed)).reason.code == "faster-these-clusters"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"documents": 2000}, "--track-params=documents:14000"),  # 5,000 of 800, and a tenth more in whole slices
        ({"bulk_documents": 2000}, "--track-params=bulk_documents:14000"),
        ({}, "7 times as many documents"),
    ],
)
def test_a_load_that_is_too_short_says_how_many_documents_it_takes(params: dict[str, Any], said: str) -> None:
    rare = {"changes": {"operation_type": "bulk"}, "track_params": params, "rate": 40.0}
    found = verdict(row_of(pair_of(1.0, **rare), "p99 service time", CLOSED))
    assert found.reason.code == "few-requests-in-tail"
    assert said in found.remedy


def test_clusters_in_fewer_than_six_rounds_have_none() -> None:
    row = throughput(compared(rounds(count=5), rounds(1.3, 5), baseline=HERE[0], contender=HERE[1]).pairs[0])
    assert (verdict(row).word, verdict(row).detail, verdict(row).reason.v1) == (
        "unclear",
        "5 of 6 rounds",
        "these nodes",
    )


def test_one_cluster_is_known_by_its_nodes_whatever_its_addresses() -> None:
    def of(side: int, host: str) -> dict[str, Any]:
        nodes = tuple(replace(CLUSTER.nodes[0], id=name) for name in ("n1", "n2"))
        cluster = replace(CLUSTER, pipeline="benchmark-only", hosts=(host,), nodes=nodes)
        return {"track_params": {"index_prefix": f"side{side}-"}, "clusters": {"default": cluster}}

    pair = pair_of(1.3, baseline=of(1, "10.0.0.1:9200"), contender=of(2, "10.0.0.2:9200"))
    assert verdict(throughput(pair)).reason.v1 == "faster"
    assert "on this node" in verdict(throughput(pair)).note


def test_sides_that_share_no_host_are_told_what_cancels() -> None:
    strangers = pair_of(1.0, baseline=of_others("10.0.0.1:9200"), contender=of_others("10.0.0.2:9200"))
    neighbours = pair_of(1.0, baseline=of_others("10.0.0.1:9200"), contender=of_others("10.0.0.1:9201"))
    local = pair_of(1.0, baseline=of_others("127.0.0.1:9200"), contender=of_others("10.0.0.1:9200"))
    assert "what disturbs one of them is in the difference" in texts(strangers)
    assert "weather" not in texts(neighbours) + texts(local)


# --- slices


def cpu(beside_s: float) -> dict[str, Any]:
    return {"slices": {"cpu_s": ((1.5, beside_s),) * LENGTH_S}}


@pytest.mark.parametrize(
    ("ours", "theirs", "factor", "kind", "noted"),
    [
        (0.005, 0.01, 1.3, "faster", False),
        (0.05, 0.05, 1.3, "faster", False),
        (0.005, 0.2, 1.3, "faster", True),
        (0.005, 0.2, 1.08, "busy beside", True),  # 13 %, which may be all of it
        (0.2, 0.005, 1.08, "busy beside", True),
        (0.005, 0.05, 1.02, "same", True),  # 3 %
    ],
)
def test_work_beside_its_slices_is_what_the_ratio_may_be_off(
    ours: float, theirs: float, factor: float, kind: str, noted: bool
) -> None:
    pair = pair_of(factor, baseline=cpu(ours), contender=cpu(theirs))
    assert verdict(throughput(pair)).reason.v1 == kind
    assert ("CPU in the other side's slices" in verdict(throughput(pair)).note) == noted
    assert ("--slice" in verdict(throughput(pair)).note) == (kind == "busy beside")
    assert "idle side" not in texts(pair)


def test_the_slowest_requests_may_be_those_that_met_the_other_side() -> None:
    pair = pair_of(1.3, baseline=cpu(0.005), contender=cpu(0.2))
    assert verdict(row_of(pair, "p99 service time", CLOSED)).reason.v1 == "busy beside"


@pytest.mark.parametrize(
    ("theirs", "kind"),
    [((0.1, 0.2, 0.05, 0.3, 0.1, 0.25), "same"), ((0.4, 0.5, 0.45, 0.5, 0.4, 0.45), "busy beside")],
)
def test_work_beside_slices_counts_where_the_rounds_agree_on_it(theirs: tuple[float, ...], kind: str) -> None:
    pair = pair_of(1.05, baseline={"beside_s": (0.2, 0.05, 0.1, 0.1, 0.15, 0.1)}, contender={"beside_s": theirs})
    assert verdict(throughput(pair)).reason.v1 == kind


def test_only_what_is_after_the_cut_counts_as_busy() -> None:
    busy_at_first = {"slices": {"cpu_s": ((1.5, 1.5),) * 4 + ((1.5, 0.0),) * (LENGTH_S - 4)}}
    levels = [warming(1.5, each) for each in NOISE], rounds(1.3, noise=(0.0,))
    pair = compared(*levels, baseline=busy_at_first, contender=cpu(0.0)).pairs[0]
    assert pair.sliced is not None and pair.sliced.cuts[CLOSED].at_s == 4
    assert verdict(throughput(pair)).reason.v1 == "faster"


def test_without_the_nodes_cpu_a_notice_says_once_that_it_is_not_known() -> None:
    assert texts(pair_of(1.0)).count("idle side not measured") == 1


def test_requests_in_flight_in_the_others_slices_are_an_overlap() -> None:
    total = 6 * LENGTH_S * 1000
    for share, factor, kind in (
        (0.02, 1.3, "faster"),
        (0.1, 1.15, "overlap"),
        (0.02, 1.0, "same"),
        (0.005, 1.3, "faster"),
    ):
        pair = pair_of(factor, contender={"slices": {"overlapping": int(share * total / 6)}})
        assert verdict(throughput(pair)).reason.v1 == kind
        assert ("in flight" in verdict(throughput(pair)).note) == (share > 0.01)
        assert ("--slice-gap" in verdict(throughput(pair)).note) == (kind == "overlap")
        assert (verdict(row_of(pair, "p99 service time", CLOSED)).reason.v1 == "overlap") == (share > 0.01)


def test_what_leaks_in_two_ways_adds_up() -> None:
    overlapping = {"overlapping": int(0.03 * LENGTH_S * 1000)}
    contender = {"slices": {**overlapping, **cpu(0.1)["slices"]}}
    pair = pair_of(1.1, baseline=cpu(0.005), contender=contender)
    note = verdict(throughput(pair)).note
    assert verdict(throughput(pair)).reason.v1 == "busy beside"
    assert "in flight" in note and "CPU in the other side's slices" in note
    for alone in ({"slices": overlapping}, {"slices": cpu(0.1)["slices"]}):
        assert verdict(throughput(pair_of(1.1, baseline=cpu(0.005), contender=alone))).reason.v1 == "faster"


def test_an_open_loop_near_saturation_needs_longer_slices() -> None:
    """8 clients, 1,000/s: at 2 ms of work a quarter is busy, at 7.5 ms nearly all, and queues take a second."""
    for mean_ms, noted in ((2.0, False), (7.5, True)):
        changes = {"clients": 8, "service_time_ms": {"mean": mean_ms, "p50": 1.0, "p99": 3.0, "max": 4.0}}
        row = row_of(pair_of(1.0, task=OPEN, changes=changes), "p50 latency", OPEN)
        assert ("slices too short" in verdict(row).note) == noted


def long_pair(baseline_s: float, contender_s: float, length_s: int, slices: float = 6, placed: bool = True) -> Pair:
    drawn = Drawn()
    sides = [
        long_requests(drawn, name, [service_s * (1 + each / 20) for each in NOISE], length_s, slices)
        for name, service_s in (("baseline", baseline_s), ("contender", contender_s))
    ]
    if not placed:
        for race_id, lines in drawn.seconds.items():
            drawn.seconds[race_id] = [replace(line, completed_at=None) for line in lines]
    return compare(sides[0], sides[1:], CompareOptions(seconds=drawn.read)).pairs[0]


@pytest.mark.parametrize(
    ("baseline_s", "contender_s", "length_s", "kind"),
    [(0.655, 0.675, 4, "same"), (0.47, 0.49, 2, "same"), (0.5, 0.42, 2, "faster"), (1.0, 1.1, 4, "slower")],
)
def test_long_requests_are_compared_by_when_they_were_completed(
    baseline_s: float, contender_s: float, length_s: int, kind: str
) -> None:
    """Whole requests in slices would differ by up to a third, or by nothing."""
    row = throughput(long_pair(baseline_s, contender_s, length_s))
    assert row.estimate is not None
    assert row.estimate.ratio == pytest.approx(baseline_s / contender_s, rel=0.01)
    assert verdict(row).reason.v1 == kind


def test_requests_of_more_than_a_quarter_of_a_slice_need_longer_slices() -> None:
    pair = long_pair(0.655, 0.675, 2)
    row = throughput(pair)
    assert verdict(row).reason.v1 == "slices too short"
    assert verdict(row).note == "its requests are too long for slices of 2 s (--slice=3s)"
    assert row.estimate is None
    assert pair.speed_ratio is None


def test_a_task_that_ended_in_its_first_slice_has_no_throughput_to_compare() -> None:
    row = throughput(long_pair(0.4, 0.4, 2, slices=0.9))
    assert (verdict(row).reason.v1, "more documents" in verdict(row).note) == ("slices too short", True)


def test_of_older_races_only_short_requests_have_comparable_throughputs() -> None:
    """Their seconds do not hold when requests were completed."""
    kinds = [verdict(throughput(long_pair(s, s, 2, placed=False))).reason.v1 for s in (0.03, 0.2)]
    assert kinds == ["same", "slices too short"]


def test_too_few_requests_in_a_fifth_of_the_task_are_few_events() -> None:
    pair = pair_of(1.0, rate=200.0)
    row = row_of(pair, "p99 service time", CLOSED)
    assert (verdict(row).reason.v1, row.estimate) == ("few events", None)
    assert verdict(throughput(pair)).reason.v1 == "same"


def test_sections_that_differ_by_more_than_threefold_are_noted() -> None:
    stalled = [lambda second: 0.2 if second in (9, 10, 11) else 1.0, *rounds(count=5)]
    pair = compared(stalled, rounds()).pairs[0]
    assert "stalls decide" in verdict(row_of(pair, "p99 service time", CLOSED)).note
    assert "stalls decide" not in verdict(throughput(pair)).note


def test_a_rate_that_only_one_side_missed_decides() -> None:
    missed = {"changes": {"checks": (Check("target-rate", "unusable", "80 % only"),)}}
    row = row_of(pair_of(1.0, task=OPEN, baseline=missed), "p99 latency", OPEN)
    assert verdict(row).reason.v1 == "faster"


def test_a_rate_that_few_rounds_or_one_node_missed_decides_nothing() -> None:
    missed = {"changes": {"checks": (Check("target-rate", "unusable", "80 % only"),)}}
    few = compared(rounds(count=5), rounds(count=5), task=OPEN, baseline=missed).pairs[0]
    assert verdict(row_of(few, "p99 latency", OPEN)).reason.v1 == "!"
    nodes = {"baseline": missed | of_others("10.0.0.1:9200"), "contender": of_others("10.0.0.2:9200")}
    assert verdict(row_of(pair_of(1.0, task=OPEN, **nodes), "p99 latency", OPEN)).reason.v1 == "!"


# --- the cut of the warmup


def test_sides_that_warm_up_alike_are_not_cut() -> None:
    pair = compared([warming(4, each) for each in NOISE], [warming(4)] * 6).pairs[0]
    assert pair.sliced is not None
    assert (pair.sliced.cuts[CLOSED].at_s, pair.sliced.cuts[CLOSED].is_steady) == (0, True)
    assert verdict(throughput(pair)).reason.v1 == "same"


@pytest.mark.parametrize("task", [CLOSED, OPEN])
def test_what_moves_the_ratio_is_cut_in_all_rounds_of_both_sides(task: str) -> None:
    pair = compared(rounds(), [warming(2)] * 6, task=task).pairs[0]
    assert pair.sliced is not None
    cut = pair.sliced.cuts[task]
    assert cut.is_steady and cut.at_s in (4, 8)
    for record in (*pair.baseline.records, *pair.contender.records):
        (result,) = record.tasks
        assert result.window.start_s == cut.at_s
        assert result.requests + result.warmup.requests == pytest.approx(LENGTH_S * 1000, rel=0.2)
    (ours,) = pair.baseline.records[0].tasks
    assert ours.requests == (LENGTH_S - cut.at_s) * 1010
    assert ours.throughput.mean == pytest.approx(1010 / 0.9)
    assert ours.throughput.median == pytest.approx(1010 / 0.9)
    assert (ours.service_time_ms or {})["p50"] == pytest.approx(0.9 / 1.01, rel=0.002)
    assert verdict(pair.primary[0]).reason.v1 == "same"


def test_what_the_seconds_do_not_hold_is_left_out_of_a_task_that_was_cut() -> None:
    whole = {"bytes_sent": 1 << 20, "bytes_received": 1 << 24, "status_codes": {"200": LENGTH_S * 1000}}
    pair = compared(rounds(), [warming(2)] * 6, changes=whole).pairs[0]
    shown = {row.metric for row in pair.rows}
    assert shown.isdisjoint({"bytes sent", "bytes sent per request", "bytes received per request", "status 200"})
    assert "bytes sent per request" in {row.metric for row in pair_of(1.0, changes=whole).rows}


def test_a_ratio_that_never_is_steady_is_cut_at_two_thirds_and_says_so() -> None:
    pair = compared(rounds(), [lambda second: 1 + second / 10] * 6).pairs[0]
    assert pair.sliced is not None
    cut = pair.sliced.cuts[CLOSED]
    assert (cut.at_s, cut.is_steady, cut.age_s) == (12, False, 12)
    note = "not steady: figures from 12 s on, after 12 s of load on the node"
    assert verdict(throughput(pair)).note == note


def after_own_warmup(drawn: Drawn, side: Side, own_s: int) -> Side:
    """The side as if the first seconds of its tasks had been the track's own warmup."""
    for race_id in (record.race_id for record in side.records):
        drawn.seconds[race_id] = [
            replace(line, phase="warmup") if line.second < own_s else line for line in drawn.seconds[race_id]
        ]
    return with_window_from(side, own_s)


def with_window_from(side: Side, start_s: float) -> Side:
    records = [
        replace(record, tasks=tuple(replace(task, window=Window(start_s, LENGTH_S)) for task in record.tasks))
        for record in side.records
    ]
    return replace(side, records=tuple(records))


def test_the_tracks_own_warmup_is_not_cut_again() -> None:
    drawn = Drawn()
    levels = {"baseline": rounds(), "contender": [warming(2)] * 6}
    sides = [after_own_warmup(drawn, drawn.side(name, each), 5) for name, each in levels.items()]
    pair = compare(sides[0], sides[1:], CompareOptions(seconds=drawn.read)).pairs[0]
    assert pair.sliced is not None and pair.sliced.cuts[CLOSED].at_s == 0
    assert pair.baseline.records == sides[0].records


@pytest.mark.parametrize("first_s", [0.1, 1.6, 2.5])
def test_a_slow_first_bulk_is_no_warmup_of_the_track(first_s: float) -> None:
    """A client's first request in a slice is never measured, so the window of a bulk begins with its first reply."""
    drawn = Drawn()
    sides: list[Side] = []
    for name, levels in (("baseline", rounds()), ("contender", [warming(2)] * 6)):
        sides.append(with_window_from(drawn.side(name, levels, slices={"length_s": 2.0}), first_s))
        for record in sides[-1].records:
            lines, (task,) = drawn.seconds[record.race_id], record.tasks
            drawn.seconds[record.race_id] = [
                replace(lines[int(first_s)], phase="warmup", requests=task.clients),
                *lines[int(first_s) :],
            ]
    pair = compare(sides[0], sides[1:], CompareOptions(seconds=drawn.read)).pairs[0]
    assert pair.sliced is not None and pair.sliced.cuts[CLOSED].at_s >= 4


def test_several_contenders_share_the_baselines_races_and_one_cut() -> None:
    drawn = Drawn()
    ours = drawn.side("baseline", rounds())
    theirs = [drawn.side("cold", [warming(2)] * 6), drawn.side("fast", rounds(1.3, noise=(0.0,)))]
    cold, fast = compare(ours, theirs, CompareOptions(seconds=drawn.read)).pairs
    assert cold.sliced is not None and fast.sliced is not None
    assert cold.sliced.cuts == fast.sliced.cuts
    assert fast.sliced.cuts[CLOSED].at_s > 0
    assert cold.baseline == fast.baseline
    assert [verdict(throughput(pair)).reason.v1 for pair in (cold, fast)] == ["same", "faster"]


# --- the whole table


def test_the_plan_says_what_luck_and_noise_ask_for() -> None:
    luck = (0.06, -0.05, 0.04, -0.07, 0.05, -0.03)
    uneven = [lambda second, level=1 + each: level * (1 + 0.05 * (-1) ** (second // 4)) for each in luck]
    pair = compared(rounds(noise=(0.0,)), uneven).pairs[0]
    assert pair.sliced is not None and pair.sliced.plan is not None
    plan = pair.sliced.plan
    assert plan.is_start_luck
    assert plan.between_ratio == pytest.approx(0.056, abs=0.01)
    five, ten = plan.needed
    assert five.rounds is not None and ten.rounds is not None and five.session_s is not None
    assert five.rounds > ten.rounds >= 6
    assert five.session_s == pytest.approx(five.rounds * (120 - 42 + plan.task_s))


def test_the_plan_knows_the_tracks_own_warmup() -> None:
    """Twice its 6 blocks, as nothing is left between rounds, after 8 own seconds of warmup."""
    drawn = Drawn()
    uneven = [lambda second, level=1 + each: level * (1 + 0.05 * (-1) ** (second // 4)) for each in NOISE]
    levels = {"baseline": rounds(noise=(0.0,)), "contender": uneven}
    sides = [after_own_warmup(drawn, drawn.side(name, each), 8) for name, each in levels.items()]
    pair = compare(sides[0], sides[1:], CompareOptions(seconds=drawn.read)).pairs[0]
    assert pair.sliced is not None and pair.sliced.plan is not None
    assert pair.sliced.cuts[CLOSED].at_s == 0
    assert pair.sliced.plan.task_s == pytest.approx((8 + 12 * 2) * 2.1)


def test_conditions_take_rows_without_basis_as_undecided() -> None:
    found = compared(rounds(count=5), rounds(0.7, 5))
    told = outcome(parse_condition("slower"), found)
    assert not told.hits and any("5 of 6 rounds" in each for each in told.undecided)
    assert outcome(parse_condition("slower"), compared(rounds(), rounds(0.7))).hits
