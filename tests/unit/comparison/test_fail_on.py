"""`--fail-on` and JUnit: what makes a comparison fail, and what leaves that open."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from xml.etree import ElementTree as ET

import pytest
from compared_sides import OPEN, TURNS, docs_per_s, latencies, scaled, seconds_of, side

from esbench.comparison.compare import compare
from esbench.comparison.conditions import outcome, parse_condition
from esbench.comparison.model import CompareOptions, Comparison
from esbench.errors import UsageError
from esbench.record.model import Check, Throughput
from esbench.report.junit import junit


def bulk(factor: float) -> Comparison:
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    theirs = side("contender", "bulk", docs_per_s(scaled(20000 * factor)), TURNS["contender"])
    return compare(ours, [theirs], CompareOptions(seconds=seconds_of))


def latency(factor: float) -> Comparison:
    ours = side("baseline", OPEN, latencies(scaled(2)), TURNS["baseline"])
    theirs = side("contender", OPEN, latencies(scaled(2 * factor)), TURNS["contender"])
    return compare(ours, [theirs], CompareOptions(seconds=seconds_of))


@pytest.mark.parametrize(
    ("condition", "factor", "hits"),
    [
        ("slower", 0.8, True),
        ("slower", 1.2, False),
        ("throughput<-5%", 0.8, True),
        ("throughput<-25%", 0.8, False),
        ("throughput<-1%", 0.98, True),
        ("mean throughput > +10%", 1.2, True),
        ("Throughput<-5%:raw", 0.8, True),
    ],
)
def test_a_condition_on_throughput(condition: str, factor: float, hits: bool) -> None:
    found = outcome(parse_condition(condition), bulk(factor))
    assert found.hits == (("Mean throughput of bulk",) if hits else ())


@pytest.mark.parametrize(
    ("condition", "factor", "hits"),
    [
        ("p99>+10%", 1.2, ("p99 latency of get-by-id-open",)),
        ("p50 latency>10%", 1.2, ("p50 latency of get-by-id-open",)),
        ("p99>+10%", 1.05, ()),
    ],
)
def test_a_condition_on_a_percentile(condition: str, factor: float, hits: tuple[str, ...]) -> None:
    assert outcome(parse_condition(condition), latency(factor)).hits == hits


@pytest.mark.parametrize("condition", ["p9>+10%", "p99 latancy>+10%", "median throughput<-5%", "p99.9>+10%"])
def test_a_condition_on_what_is_never_judged_is_wrong_usage(condition: str) -> None:
    with pytest.raises(UsageError, match=r"is not judged .*p99 latency.*:raw"):
        parse_condition(condition)
    assert parse_condition(f"{condition}:raw").raw


def test_rows_without_a_verdict_leave_a_condition_open() -> None:
    lacking = "p99 service time of bulk (not judged: only 400 requests, and it needs 1,000)"
    assert outcome(parse_condition("p99>+10%"), bulk(1.0)).undecided == (lacking,)
    assert outcome(parse_condition("slower"), bulk(1.0)).undecided == ()  # it did not ask for that row
    assert outcome(parse_condition("throughput<-5%"), bulk(1.0)).undecided == ()
    assert outcome(parse_condition("p42>5%:raw"), bulk(1.0)).undecided == ("no such row",)


def test_a_row_that_a_side_cannot_fill_leaves_a_condition_open() -> None:
    """Where every request failed nothing is slower, and nothing is cleared."""
    failed = [{"throughput": Throughput("docs", None), "service_time_ms": None, "errors": 400}] * 4
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    theirs = side("contender", "bulk", failed, TURNS["contender"])
    found = compare(ours, [theirs], CompareOptions(seconds=seconds_of))
    for condition in ("slower", "throughput<-5%", "throughput<-5%:raw"):
        assert any(
            name.startswith("Mean throughput of bulk") for name in outcome(parse_condition(condition), found).undecided
        )


def test_what_rises_from_nothing_or_beyond_what_was_measured_has_no_percentage_and_is_open() -> None:
    failing = [{**each, "errors": 40, "error_rate_ratio": 0.1} for each in docs_per_s(scaled(20000))]
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    found = compare(ours, [side("contender", "bulk", failing, TURNS["contender"])], CompareOptions(seconds=seconds_of))
    condition = parse_condition("error rate>10%:raw")
    assert "error rate of bulk" in [name.partition(" (")[0] for name in outcome(condition, found).undecided]
    level = outcome(condition, compare(ours, [ours], CompareOptions(seconds=seconds_of)))
    assert "error rate of bulk" not in level.undecided
    beyond = latencies(scaled(2), latency_ms={"p50": 2.0, "p99": inf, "max": 6.0})  # the longest is the other's p99
    sides = (
        side(name, OPEN, each, TURNS[name]) for name, each in (("baseline", latencies([2] * 4)), ("contender", beyond))
    )
    one, other = sides
    condition = parse_condition("p99 latency>10%:raw")
    assert outcome(condition, compare(one, [other], CompareOptions(seconds=seconds_of))).undecided


def test_an_estimate_that_may_be_chance_fails_a_raw_condition_only() -> None:
    ours = side("baseline", "bulk", docs_per_s([20000, 24000, 18000, 21000]), TURNS["baseline"])
    theirs = side("contender", "bulk", docs_per_s([18500, 16000, 21000, 17500]), TURNS["contender"])
    found = compare(ours, [theirs], CompareOptions(seconds=seconds_of))
    judged, raw = (outcome(parse_condition(text), found) for text in ("throughput<-5%", "throughput<-5%:raw"))
    assert (judged.hits, judged.undecided) == ((), ())
    assert "Mean throughput of bulk" in raw.hits


def test_a_rate_that_the_contender_misses_is_worse_than_any_percentage() -> None:
    missed = latencies(
        scaled(2), checks=(Check("target-rate", "unusable", "missed"),), throughput=Throughput("ops", 800)
    )
    ours, theirs = (
        side("baseline", OPEN, latencies(scaled(2)), TURNS["baseline"]),
        side("b", OPEN, missed, (2, 3, 5, 8)),
    )
    for one, other, hits in ((ours, theirs, True), (theirs, ours, False)):
        found = compare(one, [other], CompareOptions(seconds=seconds_of))
        assert bool(outcome(parse_condition("p99 latency>+1000%"), found).hits) == hits
        assert not outcome(parse_condition("p99 latency<-1000%"), found).hits
        assert bool(outcome(parse_condition("slower"), found).hits) == hits


def test_driver_lag_and_more_errors_are_no_clearance() -> None:
    lagging = latencies(scaled(2.4), driver_lag_ms={"p50": 0.35, "p99": 3.0})
    level = latencies(scaled(2.0), driver_lag_ms={"p50": 0.05, "p99": 0.1})
    ours, theirs = (side(n, OPEN, each, TURNS[n]) for n, each in (("baseline", level), ("contender", lagging)))
    found = outcome(parse_condition("p50 latency>+10%"), compare(ours, [theirs], CompareOptions(seconds=seconds_of)))
    assert (found.hits, found.undecided) == (
        (),
        ("p50 latency of get-by-id-open (not judged: the driver's lag changed by 0.30 ms)",),
    )
    failing = [{**each, "errors": 4} for each in docs_per_s(scaled(24000))]
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    errors = compare(ours, [side("contender", "bulk", failing, TURNS["contender"])], CompareOptions(seconds=seconds_of))
    (found,) = outcome(parse_condition("slower"), errors).undecided
    assert found.startswith(
        "Mean throughput of bulk (not judged: faster, but 1.00 % of the contender's requests failed"
    )


@pytest.mark.parametrize("text", ["fast", "p99", "p99>ten%", "p99>10", ">10%", "p99=>10%"])
def test_what_is_no_condition_says_what_is(text: str) -> None:
    with pytest.raises(UsageError, match="slower"):
        parse_condition(text)


def test_junit_has_a_test_for_each_judged_row() -> None:
    compared = bulk(0.8)
    suite = ET.fromstring(junit(compared, [parse_condition("slower")]))[0]
    cases = {(case.get("classname"), case.get("name")): [each.tag for each in case] for case in suite.iter("testcase")}
    assert cases["bulk", "Mean throughput"] == ["failure"]
    assert cases["bulk", "p99 service time"] == ["skipped"]
    assert cases["get-by-id", "Mean throughput"] == []
    assert "get-by-id Mean throughput: " in (suite.findtext("system-out") or "")
    assert suite.attrib == {
        "name": "baseline / contender",
        "package": "esbench",
        "id": "0",
        "timestamp": compared.pairs[0].contender.records[0].started_at.removesuffix("+00:00"),
        "hostname": "localhost",
        "time": "0",
        "tests": str(len(compared.pairs[0].primary)),
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }


def test_junit_has_the_verdict_of_a_row_as_json_has() -> None:
    suite = ET.fromstring(junit(bulk(0.8), []))[0]
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert "slower" in (properties["conclusion"] or "")

    def found(row: str) -> dict[str, str | None]:
        return {
            str(name).removeprefix(f"{row} "): value for name, value in properties.items() if str(name).startswith(row)
        }

    verdict = {"verdict": "slower", "reason": "slower", "has_basis": "true", "scope": "sides", "verdict_v1": "slower"}
    assert found("bulk Mean throughput") == verdict
    lacking = found("bulk p99 service time")
    assert (lacking["verdict"], lacking["reason"]) == ("not judged", "few-requests-in-tail")
    assert (lacking["has_basis"], lacking["scope"], lacking["verdict_v1"]) == ("false", "", "few events")


def test_junit_shows_lower_bounds_as_such() -> None:
    compared = latency(1.0)
    (pair,) = compared.pairs
    row = pair.primary[0]
    assert row.contender is not None
    bound = replace(row, contender=replace(row.contender, value=900.0, exceeded=True))
    text = junit(replace(compared, pairs=(replace(pair, rows=(bound,)),)), [])
    assert " -&gt; &gt; 900.0 docs/s" in text
