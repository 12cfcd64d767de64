"""`--fail-on` and JUnit: what makes a comparison fail, and what leaves that open."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from compared_sides import OPEN, TURNS, docs_per_s, latencies, scaled, seconds_of, side

from esbench.compare import compare
from esbench.comparison.conditions import outcome, parse_condition
from esbench.comparison.model import CompareOptions, Comparison
from esbench.errors import UsageError
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
        ("median throughput<-5%", 0.8, False),
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
        ("p9>+10%", 1.2, ()),
    ],
)
def test_a_condition_on_a_percentile(condition: str, factor: float, hits: tuple[str, ...]) -> None:
    assert outcome(parse_condition(condition), latency(factor)).hits == hits


def test_rows_without_a_verdict_leave_a_condition_open() -> None:
    assert outcome(parse_condition("slower"), bulk(1.0)).undecided == ("p99 service time of bulk (few events)",)
    assert outcome(parse_condition("throughput<-5%"), bulk(1.0)).undecided == ()
    assert outcome(parse_condition("p42>5%"), bulk(1.0)).undecided == ("no such row",)


@pytest.mark.parametrize("text", ["fast", "p99", "p99>ten%", "p99>10", ">10%", "p99=>10%"])
def test_what_is_no_condition_says_what_is(text: str) -> None:
    with pytest.raises(UsageError, match="slower"):
        parse_condition(text)


def test_junit_has_a_test_for_each_judged_row() -> None:
    compared = bulk(0.8)
    suite = ET.fromstring(junit(compared, [parse_condition("slower")]))[0]
    cases = {(case.get("classname"), case.get("name")): [each.tag for each in case] for case in suite}
    assert cases["bulk", "Mean throughput"] == ["failure"]
    assert cases["bulk", "p99 service time"] == ["skipped"]
    assert cases["get-by-id", "Mean throughput"] == ["system-out"]
    assert suite.attrib == {
        "name": "baseline / contender",
        "tests": str(len(compared.pairs[0].primary)),
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
