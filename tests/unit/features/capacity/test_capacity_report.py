"""A search for capacity as it is shown: the sentence, the tables, what gave way, the page, and the commands."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bokeh.models import Legend
from html_pages import loads, text_of
from races import golden_race, keep, kept_search, with_search
from searches import CURVE, ERRORS, OVERLOADED, P99, PRECISE, nodes, probe, searched, task, usual

from esbench.cli.main import run
from esbench.comparison.model import Side
from esbench.features.capacity.curve import fit
from esbench.features.capacity.curve_chart import curve_ratio, search_charts
from esbench.features.capacity.record import FoundCapacity, LateCounts, Probe
from esbench.features.capacity.tables import (
    curve_section,
    late_interval,
    objectives_section,
    probes_table,
    servers_section,
)
from esbench.features.capacity.words import ShownSearch, capacity_notices, search_of, sentence
from esbench.features.pages.race import race_page
from esbench.features.pages.races import races_page
from esbench.measure.objectives import parse_objective
from esbench.record.figures import failed_checks
from esbench.record.model import Check, RaceRecord
from esbench.record.store import decode_record, encode_record
from esbench.report.race_summary import short_summary, summary
from esbench.report.render import render
from esbench.report.table_model import Above, ReportDocument, Section, Table
from esbench.report.text import render_text

pytestmark = pytest.mark.computed


def shown_of(record: RaceRecord) -> ShownSearch:
    shown = search_of(record)
    assert shown is not None
    return shown


def said(found: FoundCapacity | None, *objectives: str, rates: dict[float, tuple[float, float]] | None = None) -> str:
    """The sentence of a search whose probes had these shares of late requests and p99 (ms) at these rates."""
    rates = {800.0: (0.0, 9.0), 839.0: (0.6, 900.0)} if rates is None else rates
    late = {probe(rate, *[ratio] * (len(objectives) or 1)): p99 for rate, (ratio, p99) in rates.items()}
    return sentence(shown_of(searched(found, {seen: task(seen, p99) for seen, p99 in late.items()}, *objectives)))


RANKS = ("p50", "p90", "p95", "p99", "p99.9")
AT_839 = "at 839/s 60 % are late"
SO_FAR = "as far as was found when the time was over"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (FoundCapacity("precise", 817.4, 797.2, 838.0), f"carries 817/s with p99 < 50 ms (797 to 838); {AT_839}"),
        (
            FoundCapacity("cliff", 819.0, 800.0, 839.0),
            f"carries 800/s with p99 < 50 ms, and not 839/s: it is a cliff; {AT_839}",
        ),
        (
            FoundCapacity("out of time", 819.0, 750.0, math.inf, curves=(CURVE,)),
            f"carries about 819/s with p99 < 50 ms (750 to no upper end), {SO_FAR}; {AT_839}",
        ),
        (
            FoundCapacity("out of time", 800.0, 800.0, 839.0),
            f"carries between 800/s and 839/s with p99 < 50 ms, {SO_FAR}; {AT_839}",
        ),
        (
            FoundCapacity("out of time", 800.0, 800.0, math.inf),
            f"carries above 800/s with p99 < 50 ms, {SO_FAR}; {AT_839}",
        ),
        (
            FoundCapacity("at least", 20000.0, 20000.0, math.inf),
            "carries at least 20,000/s with p99 < 50 ms: the driver cannot send more (esbench calibrate)",
        ),
    ],
)
def test_a_sentence_says_what_the_cluster_carries(found: FoundCapacity, text: str) -> None:
    assert said(found) == f"get-by-id {text}"


OPEN_ENDED = [(700.0, math.inf, "above 700/s"), (0.0, 830.0, "below 830/s"), (0.0, math.inf, "at some rate")]


@pytest.mark.parametrize(("low", "high", "where"), [(700.0, 830.0, "between 700/s and 830/s"), *OPEN_ENDED])
def test_a_flat_search_says_where_the_limit_lies_so_far(low: float, high: float, where: str) -> None:
    found = FoundCapacity("flat", 800.0, low, high)
    hardly = "hardly depends on the rate; its limit is reached"
    assert said(found) == f"get-by-id: p99 {hardly} {where} so far; {AT_839}"
    within = said(found, "within 50 ms >= 99 %")
    assert within == f"get-by-id: the share within 50 ms {hardly} {where} so far; {AT_839}"


@pytest.mark.parametrize(("low", "high", "where"), OPEN_ENDED)
def test_a_steep_search_without_an_interval_would_take_longer(low: float, high: float, where: str) -> None:
    found = FoundCapacity("flat", 800.0, low, high)
    steep = replace(found, curves=(replace(CURVE, slope=8.0),))
    assert said(steep) == said(found).replace("hardly depends on the rate", "would take longer than the budget to find")
    assert where in said(steep)


def test_a_share_within_a_time_is_carried_in_plain_words() -> None:
    found = FoundCapacity("precise", 760.0, 740.0, 780.0, curves=(CURVE,))
    assert "carries 760/s with 99 % within 50 ms (740 to 780)" in said(found, "within 50 ms >= 99 %")


def test_a_flat_search_with_an_interval_says_about_how_much_it_is() -> None:
    better = "to know it better would take longer than the budget"
    assert said(FoundCapacity("flat", 760.0, 700.0, 830.0, curves=(CURVE,))).startswith(
        f"get-by-id carries about 760/s with p99 < 50 ms (700 to 830): {better}; "
    )


@pytest.mark.parametrize(
    ("objective", "p99_ms", "shows"),
    [
        ("p99 < 1 ms", 2.3, "it is 2.300 ms"),
        ("p99 < 1 ms", math.inf, "it is above 900.0 ms"),
        ("p99.9 < 1 ms", 2.3, "40 % are late"),
        ("errors < 0.1 %", 2.3, "40 % fail"),
    ],
)
def test_a_limit_that_no_rate_holds_is_compared_with_the_lowest_probe(
    objective: str, p99_ms: float, shows: str
) -> None:
    rates = {500.0: (1.0, 80.0), 10.0: (0.4, p99_ms)}
    text = said(FoundCapacity("no rate", 0.0, 0.0, 10.0), objective, rates=rates)
    assert text == f"get-by-id: no rate holds {objective}: at 10/s {shows}"


def test_the_sentence_names_a_probe_with_clearly_too_many_late_requests() -> None:
    rates = {800.0: (0.0, 9.0), 839.0: (0.011, 51.0), 900.0: (0.08, 90.0), 1000.0: (0.5, 500.0)}
    text = said(FoundCapacity("precise", 817.4, 797.2, 838.0), rates=rates)
    assert text.endswith("; at 900/s 8 % are late")


def test_without_a_probe_that_can_be_used_nothing_was_found_in_time() -> None:
    nothing = FoundCapacity("out of time", 0.0, 0.0, math.inf)
    assert said(nothing, rates={}) == "get-by-id: no rate could be judged before the time was over"


@pytest.mark.parametrize(
    ("rates", "so_far"),
    [
        ({}, "no probe was measured yet"),
        ({500.0: (0.0, 5.0)}, "500/s held"),
        ({500.0: (0.0, 5.0), 900.0: (0.2, 80.0)}, "500/s held, 900/s did not hold"),
        ({650.0: (0.0, 5.0), 742.0: (0.016, 80.0), 790.0: (0.009, 45.0)}, "650/s held, 742/s did not hold"),
        ({742.0: (0.011, 60.0), 790.0: (0.005, 40.0)}, "790/s held"),
    ],
)
def test_a_search_that_has_not_ended_says_how_far_it_came(rates: dict[float, tuple[float, float]], so_far: str) -> None:
    assert said(None, rates=rates) == f"get-by-id: the search has not ended: {so_far}"
    assert objectives_section(shown_of(usual(None))) == ()


def test_tasks_beside_it_and_all_objectives_are_in_the_sentence() -> None:
    record = usual()
    search = replace(kept_search(record), beside={"bulk": 20.0})
    text = sentence(shown_of(with_search(record, search)))
    assert text.startswith("get-by-id (beside bulk at 20/s) carries 4,210/s")
    assert " with p99 < 50 ms and errors < 0.1 % (4,050 to 810); at 839/s" in said(
        replace(PRECISE, high_per_s=810.0), P99, ERRORS
    )


def test_the_short_summary_has_the_search_for_its_tasks() -> None:
    printed = render(short_summary(usual()), "text", columns=80)
    assert printed.startswith(SENTENCE)
    assert printed[printed.index("Probes\n") : printed.index("note: esbench show")] == SHORT
    assert max(map(len, printed.splitlines())) <= 80


SENTENCE = """\
get-by-id carries 4,210/s with p99 < 50 ms (4,050 to 4,330); at 4,600/s 12 % are
  late: the CPU of a node is at its limit
"""
SHORT = """\
Probes
Rate/s  Stage    Late %   from      to  p50 ms   p99 ms  Reached/s  Verdict
------  -------  ------  -----  ------  ------  -------  ---------  ---------
  3000  bracket       0      0  0.0049   2.300    11.50       3000  held
  6000  bracket   62.00  61.75   62.25   180.0  > 900.0       6000  cut short
  4100  near      2.000  1.915   2.088   14.00    70.00       4100  void
    Void: driver lag is 60% of p99
  3900  near      0.397  0.359   0.439   7.650    38.25       3900  held
  4600  near      12.00  11.81   12.19   42.40    212.0       4600  missed
  4050  sustain   0.802  0.748   0.859   9.200    46.00       4050  held

Capacity by objective, read off the same probes
Objective    Capacity/s  from    to
-----------  ----------  ----  ----
p99 < 50 ms        4210  4050  4330

p99 latency over the rate; | is the limit, 50 ms
Rate/s   p99 ms
------  -------  -----------------------------------------
  3000    11.50  #####...............|
  3900    38.25  ###############.....|
  4050    46.00  ##################..|
  4600    212.0  ####################|###################>
  6000  > 900.0  ####################|###################>

What gave way first
Above the capacity                  Below it  Above it  Unit
----------------------------------  --------  --------  -------------------
the CPU of a node is at its limit      76.56     99.06  % of its processors
requests stand in queues of thread     0.300     145.0  requests
pools

At the capacity: the probes below and above it (the node; CPU in percent of one
  core)
Task                      CPU %  Heap %  GC ms  Queued   peak  Rejections
------------------------  -----  ------  -----  ------  -----  ----------
get-by-id@4050 sustained   1375   40.00    100   0.500  2.000           0
get-by-id@4600             1580   40.00    100   80.00  320.0           0

"""


def test_the_whole_summary_has_every_figure_and_the_search() -> None:
    document = summary(usual())
    assert document.lead == sentence(shown_of(usual()))
    titles = [section.title.partition(" (")[0] for section in document.sections]
    assert titles == [
        "Probes",
        "Capacity by objective, read off the same probes",
        "p99 latency over the rate; | is the limit, 50 ms",
        "What gave way first",
        "At the capacity: the probes below and above it",
        "During each task",
    ]
    assert "p99 latency" in [row[0] for row in document.table.rows]


def test_json_has_the_result_and_the_probes() -> None:
    document = json.loads(render(summary(usual()), "json"))
    found = document["overview"]["capacity"]
    assert (found["why"], found["rate_per_s"], found["low_per_s"], found["high_per_s"]) == (
        *("precise", 4210.0),
        *(4050.0, 4330.0),
    )
    assert found["gave_way"] == ["the CPU of a node is at its limit", "requests stand in queues of thread pools"]
    (probes,) = [section["rows"] for section in document["sections"] if section["title"] == "Probes"]
    assert [row["verdict"] for row in probes] == ["held", "cut short", "void", "held", "missed", "held"]
    endless = json.loads(render(summary(usual(replace(PRECISE, high_per_s=math.inf, low_per_s=0.0))), "json"))
    assert [endless["overview"]["capacity"][key] for key in ("low_per_s", "high_per_s")] == [None, None]


def test_the_interval_of_a_share_is_that_of_independent_requests_over_their_dispersion() -> None:
    """Exact for 5 of 1,000: [0.16 %, 1.16 %] (Clopper and Pearson). A burst is worth fewer requests."""
    spread = LateCounts(100.0, (100,) * 10, (1, 0) * 5)
    burst = replace(spread, late=(5, *[0] * 9))
    assert (spread.dispersion, burst.dispersion) == (1.0, pytest.approx(5.025, abs=0.01))

    def interval(counts: LateCounts) -> list[float]:
        seen = replace(probe(100.0, 0.0), counts=(counts,))
        shown = shown_of(searched(None, {seen: task(seen, 5.0)}))
        return [round(100 * end, 2) for end in late_interval(shown, shown.probes[0], 0)]

    assert interval(spread) == [0.16, 1.16]
    low, high = interval(burst)
    assert low < 0.05
    assert high > 2.0


def two_objectives(found: FoundCapacity | None) -> ShownSearch:
    held, missed = probe(800.0, 0.002, 0.0), probe(1000.0, 0.05, 0.0)
    return shown_of(searched(found, {held: task(held, 30.0), missed: task(missed, 90.0)}, P99, ERRORS))


def test_each_objective_has_its_share_and_its_capacity() -> None:
    shown = two_objectives(
        FoundCapacity("precise", 900.0, 870.0, 930.0, 0, (replace(CURVE, capacity_per_s=900.0), None))
    )
    titles = [column.title for column in probes_table(shown).columns]
    assert titles[2:8:3] == ["Late % (p99 < 50 ms)", "Failed (errors < 0.1 %)"]
    (section,) = objectives_section(shown)
    assert section.table.rows == (
        ("p99 < 50 ms", 900.0, 4050.0, 4330.0, "binds"),
        ("errors < 0.1 %", None, None, None, "every probe held it"),
    )
    (cliff,) = objectives_section(two_objectives(FoundCapacity("cliff", 894.0, 800.0, 1000.0)))
    assert cliff.table.rows[0] == ("p99 < 50 ms", 894.0, 800.0, 1000.0, "binds")


def test_a_curve_has_the_share_of_failed_requests_if_errors_bind() -> None:
    (section,) = curve_section(two_objectives(FoundCapacity("no rate", 0.0, 0.0, 800.0, binding=1)))
    assert section.title == "Share of late requests over the rate; | is the limit, 0.1 %"
    assert [row[1:] for row in section.table.rows] == [(0.0, f"{'':.<20}|")] * 2


def test_a_curve_is_at_most_twelve_lines_and_shows_the_probes_near_the_capacity() -> None:
    seen = [probe(rate, 0.001 if rate < 4210 else 0.05) for rate in range(1000, 9000, 250)]
    (section,) = curve_section(shown_of(searched(PRECISE, {each: task(each, 40.0) for each in seen})))
    lines = render_text(ReportDocument(Table((), ()), sections=(section,)), columns=80).splitlines()
    assert len(lines) == 12
    assert [row[0] for row in section.table.rows] == list(range(3250, 5500, 250))


def test_the_limit_has_one_place_in_the_bars_of_a_curve() -> None:
    tasks = {each: task(each, p99) for each, p99 in ((probe(3000, 0.0), 0.5), (probe(4000, 0.0), 40.0))}
    (section,) = curve_section(shown_of(searched(PRECISE, tasks)))
    lines = render_text(ReportDocument(Table((), ()), sections=(section,))).splitlines()[-2:]
    assert lines[0].index("|") == lines[1].index("|")


def test_without_figures_of_nodes_nothing_is_said_about_what_gave_way() -> None:
    record = usual()
    bare = replace(record, tasks=tuple(replace(each, telemetry={}) for each in record.tasks))
    shown = shown_of(bare)
    assert shown.signs is None
    assert servers_section(bare, shown) == ()
    assert sentence(shown).endswith("12 % are late")
    assert list(capacity_notices(shown)) == []


@pytest.mark.parametrize(
    ("below", "above", "signs"),
    [
        ({"cpu_percent": 900.0}, {"cpu_percent": 1000.0}, []),
        ({}, {"rejections": 10_000}, ["requests are rejected"]),
        ({"rejections": 10_000}, {"rejections": 11_000}, []),
        ({}, {"gc_time_ms": 6000}, ["nodes pause for garbage collection"]),
        ({"queued": 0.5}, {"queued": 9.0}, ["requests stand in queues of thread pools"]),
        (
            {},
            {"queued": 9.0, "cpu_percent": 1500.0},
            ["the CPU of a node is at its limit", "requests stand in queues of thread pools"],
        ),
    ],
)
def test_what_gave_way_differs_above_the_capacity(
    below: dict[str, Any], above: dict[str, Any], signs: list[str]
) -> None:
    usually = {"cpu_percent": 800.0, "queued": 0.0}
    held, missed = probe(4000.0, 0.0), probe(4600.0, 0.12)
    telemetry = [nodes(**{**usually, **figures}) for figures in (below, above)]
    probes = {held: task(held, 20.0, telemetry=telemetry[0]), missed: task(missed, 90.0, telemetry=telemetry[1])}
    shown = shown_of(searched(PRECISE, probes))
    assert [sign.what for sign in shown.signs or ()] == signs
    nothing = ["nothing that was measured gave way above the capacity"]
    assert [notice.text for notice in capacity_notices(shown)] == ([] if signs else nothing)


def test_replies_with_status_429_and_a_late_driver_are_signs() -> None:
    held, missed = probe(4000.0, 0.0), probe(4600.0, 0.12)
    late = Check("driver-lag", "warning", "late")
    watched = nodes(800.0, 0.0)
    busy = {**watched, "driver": {"busy_percent": {"mean": 97.0, "peak": 99.0}}}
    refused = task(missed, 90.0, telemetry=busy, status_codes={"200": 138_000, "429": 690}, checks=(late,))
    signs = shown_of(searched(PRECISE, {held: task(held, 20.0, telemetry=watched), missed: refused})).signs
    assert [(sign.what, sign.below, sign.above) for sign in signs or ()] == [
        ("requests are rejected", 0.0, 0.5),
        ("the driver is late or busy", 0.0, 100.0),
    ]  # the host below is not known
    unwatched = {held: task(held, 20.0, telemetry={}), missed: replace(refused, telemetry={})}
    assert [sign.what for sign in shown_of(searched(PRECISE, unwatched)).signs or ()] == [
        "requests are rejected",
        "the driver is late or busy",
    ]


def test_drift_and_a_rate_that_was_not_held_for_long_are_warnings() -> None:
    held = replace(probe(4050.0, 0.016, stage="sustain"), task="sustained")
    drifting = replace(PRECISE, curves=(replace(CURVE, drifts=True),))
    notices = list(capacity_notices(shown_of(searched(drifting, {held: task(held, 60.0)}))))
    assert [notice.text for notice in notices] == [
        "state-drift: later probes had more or fewer late requests than earlier ones at the same rate: the index or "
        "the node changed while it was searched, or something else ran on it for a time",
        "4,050/s did not hold for 30 s: 1.6 % are late",
    ]
    assert not any(notice.note or notice.unusable for notice in notices)


def test_tasks_beside_a_probe_that_held_must_have_reached_their_rates() -> None:
    held, missed = probe(800.0, 0.0), probe(839.0, 0.6)
    record = searched(None, {held: task(held, 9.0), missed: task(missed, 900.0)})
    beside = tuple(
        replace(task(seen, 9.0, checks=(OVERLOADED,)), name=f"insert beside {seen.task}") for seen in (held, missed)
    )
    search = replace(kept_search(record), beside={"insert": 200.0})
    record = replace(with_search(record, search), tasks=(*record.tasks, *beside))
    assert [notice.text for notice in capacity_notices(shown_of(record))] == [
        "800/s held, but insert did not reach its rate"
    ]
    assert failed_checks(record) == ""


@pytest.mark.parametrize("held", [True, False])
def test_a_race_that_was_interrupted_before_its_capacity_was_held_says_so(held: bool) -> None:
    probes = [probe(4000.0, 0.001), *([probe(4050.0, 0.001, stage="sustain")] if held else [])]
    record = searched(PRECISE, {each: task(each, 9.0) for each in probes}, status="cancelled")
    assert [notice.text for notice in capacity_notices(shown_of(record))] == (
        [] if held else ["the capacity was not held for a longer time: the status of the race is cancelled"]
    )


def test_a_result_that_the_driver_could_not_hold_says_so() -> None:
    void = probe(4050.0, 0.0, stage="sustain", void="driver lag is 60% of p99")
    notices = capacity_notices(shown_of(searched(PRECISE, {void: task(void, 9.0)})))
    assert [notice.text for notice in notices] == [
        "the capacity was not held for a longer time: driver lag is 60% of p99"
    ]


@pytest.mark.parametrize(("late", "verdict"), [(0.005, "held"), (0.12, "missed"), (0.4, "overloaded")])
def test_a_probe_is_judged_by_its_late_requests(late: float, verdict: str) -> None:
    seen = probe(800.0, late)
    assert shown_of(searched(None, {seen: task(seen, 9.0)})).probes[0].verdict == verdict


def test_a_rate_that_a_probe_did_not_reach_is_no_fault_of_the_race() -> None:
    record = usual()
    assert failed_checks(record) == ""
    assert not any(OVERLOADED.message in notice.text for notice in summary(record).notices)
    other = with_search(record, None)
    assert failed_checks(other) == "target-rate (get-by-id@6000, get-by-id@4600)"


def test_the_page_begins_with_the_result_and_has_charts() -> None:
    page = race_page(usual(), (), ())
    text = text_of(page)
    assert "get-by-id carries 4,210/s with p99 &lt; 50 ms (4,050 to 4,330)" in text
    assert text.index("carries 4,210/s") < text.index("Latency over the rate") < text.index("Probes")
    assert "Requests late over the rate: p99 &lt; 50 ms" in text
    assert "Some figures must not be used" not in text
    assert "Target rates were missed" not in text
    assert loads(page) == []


def test_the_chart_of_latency_has_every_objective() -> None:
    texts = [f"p{rank} < 50 ms" for rank in (90, 95, 99.9)]
    record = searched(None, {(seen := probe(500.0, 0.0)): task(seen, 9.0, latency_ms=dict.fromkeys(RANKS, 9.0))})
    shown = replace(shown_of(record), objectives=tuple(map(parse_objective, texts)))
    (legend,) = next(search_charts(shown)).model.select({"type": Legend})
    assert {item.label["value"] for item in legend.items} >= set(RANKS)


@pytest.mark.parametrize(
    "found",
    [
        None,
        *(FoundCapacity(why, 819.0, 800.0, 839.0) for why in ("precise", "cliff", "flat", "out of time")),
        FoundCapacity("flat", 4210.0, 0.0, math.inf, 0, (replace(CURVE, low_per_s=0.0, high_per_s=math.inf),)),
        FoundCapacity("at least", 800.0, 800.0, math.inf),
        FoundCapacity("no rate", 0.0, 0.0, 10.0),
        FoundCapacity("no rate", 0.0, 0.0, math.inf),
    ],
)
def test_every_end_can_be_shown_and_stored(found: FoundCapacity | None) -> None:
    record = decode_record(encode_record(usual(found)))
    assert kept_search(record) == kept_search(usual(found))
    nothing = searched(found, {})
    for each in (record, nothing, replace(record, tasks=())):
        for document in (summary(each), short_summary(each)):
            for form in ("text", "markdown", "csv", "json"):
                assert render(document, form)
        assert "</html>" in race_page(each, (), ())
    sides = [Side("a", (record,)), Side("b", (golden_race(race_id="b"),))]
    assert "</html>" in races_page(sides, lambda _: ((), ()))


def test_the_curve_of_a_record_is_the_one_that_was_fitted() -> None:
    """It allows as many late requests as its objective at the capacity, and is steep as the counts are."""
    counts = [LateCounts(rate, (5000,) * 2, (late,) * 2) for rate, late in ((900.0, 10), (1000.0, 50), (1100.0, 240))]
    curve = fit(counts, 0.01)
    assert curve_ratio(curve, 0.01, curve.capacity_per_s) == pytest.approx(0.01)
    for each in counts:
        assert curve_ratio(curve, 0.01, each.rate_per_s) == pytest.approx(each.late_ratio, rel=0.1)


@pytest.mark.parametrize(
    "changes",
    [
        {"objectives": ("p99 ! 50",)},
        {"objectives": (P99, ERRORS)},
        {"found": replace(PRECISE, binding=1)},
        {"probes": (replace(probe(500.0, 0.0), probe=Probe(500.0, 0.0, "near")),)},
    ],
)
def test_a_search_that_does_not_fit_its_objectives_is_no_record(changes: dict[str, Any]) -> None:
    record = usual()
    broken = with_search(record, replace(kept_search(record), **changes))
    with pytest.raises(ValueError, match="search for a capacity"):
        decode_record(encode_record(broken))


def test_commands_show_list_and_export_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESBENCH_HOME", str(tmp_path))
    keep(tmp_path, golden_race(race_id="plain"))

    def printed(*words: str) -> str:
        assert run(words) == 0
        return capsys.readouterr().out

    assert "Capacity" not in printed("list", "races")
    record = usual(race_id="searched")
    keep(tmp_path, record)
    assert "get-by-id carries 4,210/s with p99 < 50 ms (4,050 to 4,330)" in printed("list", "races")
    keep(tmp_path, usual(None, race_id="begun"))
    assert "the search has not ended" in printed("list", "races")
    listed = {race["race_id"]: race["capacity"] for race in json.loads(printed("list", "races", "--format=json"))}
    assert listed["plain"] == ""
    assert "carries 4,210/s" in printed("show", "searched")
    assert "carries 4,210/s" in printed("show", "searched", "--all")
    exported = json.loads(printed("export", "searched", "--json"))
    assert exported["race"]["capacity"]["found"]["rate_per_s"] == 4210.0
    for form in ("--csv", "--hlog", "--prometheus"):
        assert printed("export", "searched", form)
    printed("report", "searched", f"--html={tmp_path / 'page.html'}")
    assert "carries 4,210/s" in (tmp_path / "page.html").read_text()


def test_a_time_that_is_only_known_to_be_exceeded_says_so() -> None:
    (section,) = curve_section(shown_of(usual()))
    assert isinstance(section, Section)
    assert section.table.rows[-1][1] == Above(900.0)
