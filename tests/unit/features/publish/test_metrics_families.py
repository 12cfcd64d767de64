"""What scrapers are told of a race: names, labels, values, and formats that their parsers accept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest as as_text
from prometheus_client.openmetrics.exposition import generate_latest as as_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from races import golden_race

from esbench.features.publish.prometheus.families import families_of, families_of_sides, metric_name
from esbench.features.publish.prometheus.folding import parse_bounds
from esbench.features.publish.prometheus.following import FollowedRace, Running
from esbench.measure.cpu_time import Usage
from esbench.measure.tally import Second, Tally
from esbench.model import Operation, Schedule, Stage, Step, Task
from esbench.record.model import RaceRecord
from esbench.telemetry.device import Reading
from esbench.units import parse_rate

MS = 1_000_000
BOUNDS = parse_bounds("1,10,50", "")
PACED = Task("paced", Operation("read", "get"), clients=4, schedule=Schedule(rate=parse_rate("100")))
CLOSED = Task("closed", Operation("load", "bulk"), clients=2)


def second(number: int, *latencies_ms: float, warmup: bool = False, backlog: int = 0, errors: int = 0) -> Second:
    count = len(latencies_ms)
    tally = Tally(due=count, sent=count, requests=count + errors, units=count, waited=1, backlog=backlog)
    for latency_ms in latencies_ms:
        tally.latency.add(int(latency_ms * MS))
        tally.service_time.add(int(latency_ms * MS) - 60_000)
        tally.driver_lag.add(60_000)
        tally.client_wait.add(0)
        tally.schedule_lag.add(60_000)
    if errors:
        tally.errors.add("http 503", "it is busy", errors)
    return Second(number, warmup, tally)


@pytest.fixture
def race() -> RaceRecord:
    return golden_race(race_id="r-1", challenge="default")


@pytest.fixture
def following(race: RaceRecord) -> FollowedRace:
    following = FollowedRace()
    following.race_begins(race, [])
    following.step_begins(0, Step((PACED, CLOSED)))
    following.step_runs(0, {"paced": "ops", "closed": "docs"})
    return following


class Samples:
    """Families, as a scraper finds them."""

    def __init__(self, following: FollowedRace) -> None:
        self.families = families_of(following.seen(), BOUNDS)

    def collect(self) -> Iterable[Metric]:
        return self.families

    def value(self, name: str, **labels: str) -> float:
        (value,) = [
            sample.value
            for family in parse_openmetrics(as_openmetrics(self).decode())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return float(value)

    def names(self) -> set[str]:
        return {sample.name for family in self.families for sample in family.samples}


def test_there_is_nothing_before_the_race() -> None:
    assert Samples(FollowedRace()).families == []


def test_a_race_says_what_it_is(following: FollowedRace, race: RaceRecord) -> None:
    labels = {"race_id": "r-1", "track": race.track.name, "challenge": "default"}
    facts = {"version": race.esbench["version"], "distribution_version": race.clusters["default"].version}
    assert Samples(following).value("esbench_race_info", **labels, **facts) == 1


def test_seconds_are_added_up_by_phase(following: FollowedRace) -> None:
    following.second("paced", second(0, 0.5, warmup=True))
    following.second("paced", second(1, 0.5, 2, 20, errors=2))
    following.second("paced", second(2, 60, 0.7))
    samples = Samples(following)
    measured = {"task": "paced", "phase": "measurement", "race_id": "r-1"}
    assert samples.value("esbench_requests_total", task="paced", phase="warmup") == 1
    assert samples.value("esbench_requests_total", **measured) == 7
    assert samples.value("esbench_requests_sent_total", **measured) == 5
    assert samples.value("esbench_requests_due_total", **measured) == 5
    assert samples.value("esbench_requests_waited_total", **measured) == 2
    assert samples.value("esbench_units_total", unit="ops", **measured) == 5
    assert samples.value("esbench_errors_total", kind="http 503", **measured) == 2
    for bound, count in (("0.001", 2), ("0.01", 3), ("0.05", 4), ("+Inf", 5)):
        assert samples.value("esbench_latency_seconds_bucket", le=bound, **measured) == count
    assert samples.value("esbench_latency_seconds_count", **measured) == 5
    assert samples.value("esbench_latency_seconds_sum", **measured) == pytest.approx(0.0832)
    assert samples.value("esbench_service_time_seconds_sum", **measured) == pytest.approx(0.0832 - 5 * 6e-5)
    for lag in ("driver_lag", "schedule_lag"):
        assert samples.value(f"esbench_{lag}_seconds_bucket", le="5e-05", **measured) == 0
        assert samples.value(f"esbench_{lag}_seconds_bucket", le="0.0001", **measured) == 5
    assert samples.value("esbench_client_wait_seconds_bucket", le="5e-05", **measured) == 5


def test_requests_that_timed_out_are_counted_as_long_as_they_took_at_least(following: FollowedRace) -> None:
    counted = second(0, 2, 2, errors=1)
    counted.tally.latency_beyond.add(1_500 * MS)
    counted.tally.service_time_beyond.add(1_200 * MS)
    following.second("paced", counted)
    samples = Samples(following)
    labels = {"task": "paced", "phase": "measurement"}
    for measure, sum_s in (("latency", 1.504), ("service_time", 1.204 - 0.000_12)):
        assert samples.value(f"esbench_{measure}_seconds_bucket", le="0.05", **labels) == 2
        assert samples.value(f"esbench_{measure}_seconds_bucket", le="+Inf", **labels) == 3
        assert samples.value(f"esbench_{measure}_seconds_sum", **labels) == pytest.approx(sum_s)
    assert samples.value("esbench_client_wait_seconds_count", **labels) == 2


def test_what_a_closed_loop_does_not_have_is_not_there(following: FollowedRace) -> None:
    tally = Tally(sent=1, requests=1, units=100)
    tally.service_time.add(MS)
    following.second("closed", Second(0, False, tally))
    names = Samples(following).names()
    assert {"esbench_service_time_seconds_count", "esbench_units_total"} <= names
    for absent in ("latency", "driver_lag", "client_wait", "schedule_lag", "requests_due", "requests_waited", "errors"):
        assert not any(name.startswith(f"esbench_{absent}") for name in names)


def test_what_a_task_is_asked_is_told_while_it_runs(following: FollowedRace) -> None:
    following.second("paced", second(3, 1, backlog=17))
    samples = Samples(following)
    assert samples.value("esbench_clients", task="closed") == 2
    assert samples.value("esbench_backlog_requests", task="paced") == 17
    assert samples.value("esbench_target_units_per_second", task="paced", unit="ops") == 100
    following.step_begins(1, Step((CLOSED,)))
    names = Samples(following).names()
    assert "esbench_clients" in names
    assert names.isdisjoint({"esbench_backlog_requests", "esbench_target_units_per_second"})


def test_the_target_of_stages_is_that_of_the_time() -> None:
    rates = parse_rate("100"), parse_rate("1000 docs/s")
    staged = replace(PACED, schedule=Schedule(stages=(Stage(10, rates[0]), Stage(5, rates[1]))))
    assert Running(staged, second=8).target == rates[0]
    assert Running(staged, second=9).target == rates[1]
    assert Running(staged, second=14).target is None
    assert Running(CLOSED).target is None


def test_workers_tell_their_own_use(following: FollowedRace) -> None:
    following.worker_ticked(0, Usage(1_500_000_000, 20_000_000), 3 * MS)
    following.worker_ticked(0, Usage(2_500_000_000, 30_000_000), MS)
    samples = Samples(following)
    assert samples.value("esbench_driver_cpu_seconds_total", worker="0") == 2.5
    assert samples.value("esbench_driver_run_delay_seconds_total", worker="0") == 0.03
    assert samples.value("esbench_driver_loop_lag_seconds", worker="0") == 0.001


def test_telemetry_has_base_units_and_the_names_of_its_devices(following: FollowedRace) -> None:
    following.read("node-stats", Reading("node-0", "jvm", {"heap_used_percent": 40, "gone": None}, {"gc_ms": 1500}))
    following.read("node-stats", Reading("node-0", "jvm", {"heap_used_percent": 50, "gone": None}, {"gc_ms": 2500}))
    following.read("node-stats", Reading("node-1", "jvm", {"heap_used_percent": 60}))
    samples = Samples(following)
    node = {"device": "node-stats", "of": "node-0", "race_id": "r-1"}
    assert samples.value("esbench_telemetry_jvm_heap_used_ratio", **node) == 0.5
    assert samples.value("esbench_telemetry_jvm_gc_seconds_total", **node) == 2.5
    assert samples.value("esbench_telemetry_jvm_heap_used_ratio", device="node-stats", of="node-1") == 0.6
    assert not any("gone" in name for name in samples.names())


def test_what_a_device_reads_no_longer_is_not_told_any_more(race: RaceRecord) -> None:
    now_s = 100.0
    following = FollowedRace(clock=lambda: now_s)
    following.race_begins(race, [])
    for node in ("node-0", "node-1"):
        following.read("node-stats", Reading(node, "jvm", {"threads": 30}))
    following.read("disk-usage", Reading("orders", "fields", {"bytes": 5}))
    now_s = 115.0
    following.read("node-stats", Reading("node-0", "jvm", {"threads": 31}))
    samples = Samples(following)
    assert samples.value("esbench_telemetry_jvm_threads") == 31
    assert samples.value("esbench_telemetry_fields_bytes", of="orders") == 5


@pytest.mark.parametrize(
    ("group", "figure", "is_counter", "name", "factor"),
    [
        ("jvm", "heap_used_bytes", False, "jvm_heap_used_bytes", 1),
        ("load", "load_1m", False, "load_1m", 1),
        ("process", "cpu_core_percent", False, "process_cpu_core_ratio", 0.01),
        ("fs", "written_kb", True, "fs_written_bytes", 1024),
        ("cpu", "busy_s", True, "cpu_busy_seconds", 1),
        ("disk", "written_bytes_per_s", False, "disk_written_bytes_per_second", 1),
        ("thread_pool", "search.queue-size", False, "thread_pool_search_queue_size", 1),
        ("jvm", "mapped - 'non-volatile memory'_buffers_count", False, "jvm_mapped_non_volatile_memory_buffers", 1),
        ("merges", "merges_total", True, "merges", 1),
        ("gc", "old_count", True, "gc_old_count", 1),
        ("", "docs", False, "docs", 1),
    ],
)
def test_figures_are_named_by_prometheus_rules(
    group: str, figure: str, is_counter: bool, name: str, factor: float
) -> None:
    assert metric_name(group, figure, is_counter=is_counter) == (name, factor)


def test_every_sample_of_both_text_formats_is_read_back(following: FollowedRace) -> None:
    following.second("paced", second(0, 1, 5, 500, errors=1))
    following.worker_ticked(0, Usage(1, 1), 1)
    following.read("d", Reading('a "node"\\\n', "g", {"x": 1.5}, {"y": 2}))
    samples = Samples(following)
    expected = {(sample.name, tuple(sorted(sample.labels.items()))) for f in samples.families for sample in f.samples}
    for text, parse in ((as_text(samples), parse_text), (as_openmetrics(samples), parse_openmetrics)):
        found = {(s.name, tuple(sorted(s.labels.items()))) for f in parse(text.decode()) for s in f.samples}
        assert found == expected


def test_every_metric_is_documented(following: FollowedRace) -> None:
    counted = second(0, 1, errors=1)
    counted.tally.part("get").service_time.add(1_000_000)
    counted.tally.part("created").requests = 5  # documents
    following.second("paced", counted)
    following.worker_ticked(0, Usage(1, 1), 1)
    assert {s.labels["request"] for f in Samples(following).families for s in f.samples if "_named_" in s.name} == {
        "get"
    }
    page = (Path(__file__).parents[4] / "docs" / "reference" / "export.md").read_text()
    rows = dict(re.findall(r"^- `(esbench_\w+)` \((\w+)", page, re.MULTILINE))
    telemetry = [rows.pop(name) for name in list(rows) if "GROUP_FIGURE" in name]
    served = {
        family.name + {"counter": "_total", "info": "_info"}.get(family.type, ""): family.type.replace("info", "gauge")
        for family in Samples(following).families
    }
    assert rows == served
    assert telemetry == ["gauge", "counter"]


def test_a_state_that_was_seen_does_not_change_any_more(following: FollowedRace) -> None:
    following.second("paced", second(0, 1, errors=1))
    seen = following.seen()
    before = families_of(seen, BOUNDS)
    following.second("paced", second(1, 2, errors=1, backlog=3))
    following.worker_ticked(0, Usage(1, 1), 1)
    following.read("d", Reading("n", "g", {"x": 1}))
    assert families_of(seen, BOUNDS) == before


def test_sides_that_are_raced_at_once_are_told_apart_in_the_same_families(race: RaceRecord) -> None:
    sides = [FollowedRace(side=name) for name in ("baseline", "contender")]
    for number, side in enumerate(sides):
        side.race_begins(replace(race, race_id=f"r-{number}"), [])
        side.step_begins(0, Step((CLOSED,)))
        side.step_runs(0, {"closed": "docs"})
        side.second("closed", second(0, *[1.0] * (number + 1)))
    families = families_of_sides([side.seen() for side in sides], BOUNDS)
    assert len({family.name for family in families}) == len(families)
    (requests,) = (family for family in families if family.name == "esbench_requests")
    assert [(sample.labels["side"], sample.labels["race_id"], sample.value) for sample in requests.samples] == [
        ("baseline", "r-0", 1),
        ("contender", "r-1", 2),
    ]
    collected = Samples(sides[0])
    collected.families = families
    parsed = {family.name for family in parse_openmetrics(as_openmetrics(collected).decode())}
    assert parsed == {family.name for family in families}


def test_a_race_alone_has_no_label_of_a_side(following: FollowedRace) -> None:
    assert families_of_sides([following.seen()], BOUNDS) == families_of(following.seen(), BOUNDS)
