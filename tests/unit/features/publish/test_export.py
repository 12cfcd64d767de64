"""A race in formats of other tools, read back with their own readers; the series are a golden folder of schema 2."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from prometheus_client.parser import text_string_to_metric_families
from races import GOLDEN, as_counted, golden_race, task_of, with_task

from esbench.cli.main import run
from esbench.errors import RecordError
from esbench.features.publish.files import document, interval_log, table
from esbench.features.publish.prometheus.folding import DEFAULT_BOUNDS, parse_bounds
from esbench.features.publish.prometheus.recorded import exposition
from esbench.measure.histogram import HIGHEST_NS, LOWEST_NS, Counts, decode, encode
from esbench.record.model import Check, RaceRecord, SlicePlan
from esbench.record.series import SecondLine, put_together, read_seconds, read_telemetry_lines
from esbench.record.store import RaceStore, decode_record

SERIES = GOLDEN.with_name("series-schema-2")
OPEN = "get-by-id-open"
SLICES = SlicePlan(length_s=1.0, gap_s=0.5, settle_s=0.1, sides=1, side=0, seed=1)


@pytest.fixture
def seconds() -> list[SecondLine]:
    return list(read_seconds(SERIES / "seconds.jsonl"))


def intervals(tmp_path: Path, text: str) -> list[HdrHistogram]:
    file = tmp_path / "race.hlog"
    file.write_text(text)
    reader = HistogramLogReader(str(file), HdrHistogram(LOWEST_NS, HIGHEST_NS, 3))
    found = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        found.append(histogram)
    reader.close()
    return found


# HdrHistogram's interval log


def test_hdrhistograms_own_reader_finds_every_interval(seconds: list[SecondLine], tmp_path: Path) -> None:
    found = intervals(tmp_path, interval_log(golden_race(), seconds))
    assert {each.get_tag() for each in found} == {
        "bulk/service_time",
        *(f"{OPEN}/{measure}" for measure in ("latency", "service_time", "driver_lag")),
        *(f"{OPEN}/{measure}/warmup" for measure in ("latency", "service_time", "driver_lag")),
    }
    latencies = [each for each in found if each.get_tag() == f"{OPEN}/latency"]
    assert [each.get_total_count() for each in latencies] == [200, 400, 390, 400]
    assert latencies[2].get_max_value() > 500e6  # nanoseconds


def test_intervals_are_in_the_order_of_time_since_1970(seconds: list[SecondLine], tmp_path: Path) -> None:
    found = intervals(tmp_path, interval_log(golden_race(), reversed(seconds)))
    starts = [each.get_start_time_stamp() for each in found]
    assert starts == sorted(starts)
    assert starts[0] == pytest.approx(1795256130_120 + 10_320)  # the race's start, and bulk's on its clock
    assert found[0].get_end_time_stamp() - starts[0] == pytest.approx(1000)


def test_a_second_in_slices_begins_where_it_was_on_the_clock(seconds: list[SecondLine], tmp_path: Path) -> None:
    record, third = with_task(golden_race(), "bulk", slices=SLICES), replace(seconds[0], second=2)
    (found,) = intervals(tmp_path, interval_log(record, [third]))
    assert found.get_start_time_stamp() == pytest.approx(1795256130_120 + 10_320 + 3_000)
    (row,) = csv.DictReader(io.StringIO(table(record, [third])))
    assert (row["second"], row["at"]) == ("2", "2026-11-21T10:15:43.440+00:00")


def test_a_tag_holds_no_delimiter(seconds: list[SecondLine], tmp_path: Path) -> None:
    line = SecondLine("search, then\nget", 0, "measurement", 0, 1, 1, 1.0, service_time=seconds[0].service_time)
    (found,) = intervals(tmp_path, interval_log(golden_race(), [line]))
    assert found.get_tag() == "search_then_get/service_time"


# CSV


def timed_out(seconds: list[SecondLine]) -> SecondLine:
    """A second of an open loop with a request that was given up after 2 s."""
    given_up = Counts()
    given_up.add(2_000_000_000)
    return replace(seconds[8], latency_beyond=encode(given_up), service_time_beyond=encode(given_up))


def test_requests_that_timed_out_are_exported_as_long_as_they_took_at_least(
    seconds: list[SecondLine], tmp_path: Path
) -> None:
    second = timed_out(seconds)
    (row,) = csv.DictReader(io.StringIO(table(golden_race(), [second])))
    assert float(row["latency_max_ms"]) == float(row["service_time_max_ms"]) == pytest.approx(2000, rel=0.001)
    assert float(row["driver_lag_max_ms"]) < 100
    latency, *_ = intervals(tmp_path, interval_log(golden_race(), [second]))
    assert latency.get_total_count() == seconds[8].counts("latency").count + 1
    assert latency.get_max_value() == pytest.approx(2_000_000_000, rel=0.001)
    buckets = exposed(golden_race(tasks=()), [second])["esbench_latency_seconds_bucket", OPEN, "measurement"]
    assert buckets["+Inf"] == buckets["1.0"] + 1


def test_a_row_for_each_second_of_a_task(seconds: list[SecondLine]) -> None:
    every = list(csv.DictReader(io.StringIO(table(golden_race(), seconds))))
    rows = [row for row in every if row["second"]]
    assert [(row["task"], row["phase"], row["second"]) for row in rows] == [
        (line.task, line.phase, str(line.second)) for line in seconds
    ]
    bulk, stalled = rows[0], rows[8]
    assert (bulk["at"], bulk["throughput_per_s"], bulk["unit"]) == ("2026-11-21T10:15:40.440+00:00", "20000.0", "docs")
    assert (stalled["due"], stalled["errors"], stalled["backlog"]) == ("392", "2", "8")
    assert float(stalled["latency_p99_ms"]) == pytest.approx(595, rel=0.02)
    assert float(stalled["service_time_p99_ms"]) < 3


def test_requests_of_a_sequence_have_a_row_and_an_interval_each(seconds: list[SecondLine], tmp_path: Path) -> None:
    seconds = [*seconds, replace(seconds[0], task="read-after-write")]
    rows = [row for row in csv.DictReader(io.StringIO(table(golden_race(), seconds))) if not row["second"]]
    (task,) = [each for each in golden_race().tasks if each.name == "read-after-write"]
    parts = {f"{task.name}/{part.name}": part for part in task.requests_by_name}
    assert [(row["task"], row["phase"], int(row["requests"]), int(row["errors"])) for row in rows] == [
        (name, "measurement", part.requests, part.errors) for name, part in parts.items()
    ]
    for row in rows:
        assert 0 < float(row["service_time_p50_ms"]) <= float(row["service_time_max_ms"])
        assert float(row["throughput_per_s"]) == pytest.approx(task.throughput.mean, rel=0.01)
    found = {each.get_tag(): each for each in intervals(tmp_path, interval_log(golden_race(), seconds))}
    for name in parts:
        assert found[f"{name}/service_time"].get_total_count() > 0


def test_what_was_not_measured_is_empty(seconds: list[SecondLine]) -> None:
    bulk = next(csv.DictReader(io.StringIO(table(golden_race(), seconds))))
    assert (bulk["latency_p50_ms"], bulk["latency_max_ms"]) == ("", "")  # a closed loop
    assert bulk["service_time_p90_ms"] != ""
    assert bulk["service_time_p99_ms"] == ""  # 40 bulks do not carry it


def test_a_task_that_the_record_does_not_know_is_exported_all_the_same(seconds: list[SecondLine]) -> None:
    """A race that died has the seconds of the task in which it did."""
    (row,) = csv.DictReader(io.StringIO(table(golden_race(tasks=()), seconds[:1])))
    assert (row["task"], row["unit"], row["at"]) == ("bulk", "", "2026-11-21T10:15:30.120+00:00")


# JSON


def test_one_document_holds_the_record_and_its_series(seconds: list[SecondLine]) -> None:
    telemetry = put_together(read_telemetry_lines(SERIES / "telemetry.jsonl"))
    read = json.loads(document(golden_race(), seconds, telemetry))
    assert decode_record(json.dumps(read["race"]).encode()) == golden_race()
    assert [json.dumps(line) for line in read["seconds"]] == [
        json.dumps(json.loads(line)) for line in (SERIES / "seconds.jsonl").read_text().splitlines()
    ]
    assert [(each["of"], each["group"], len(each["times_s"])) for each in read["telemetry"]] == [
        ("node-0", "process", 3),
        ("node-0", "jvm", 3),
    ]
    assert read["telemetry"][1]["gauges"] == {"heap_used_percent": [41.5, 58.0, None]}


def test_secrets_stay_hidden() -> None:
    text = document(golden_race(track_params={"secret_token": "hush-1"}), (), ())
    assert "hush-1" not in text
    assert json.loads(text)["seconds"] == []


# Prometheus


def samples(text: str) -> dict[tuple[str, str, str], dict[str, float]]:
    """(family's sample, task, phase) -> le -> value; le is "" where there is none."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sample.labels
            key = (sample.name, labels.get("task", ""), labels.get("phase", ""))
            found.setdefault(key, {})[labels.get("le", "")] = sample.value
    return found


def exposed(record: RaceRecord, seconds: list[SecondLine]) -> dict[tuple[str, str, str], dict[str, float]]:
    return samples(exposition(record, seconds, parse_bounds(DEFAULT_BOUNDS, "")))


def test_measurements_are_those_of_the_record(seconds: list[SecondLine]) -> None:
    found = exposed(golden_race(), seconds)
    task = task_of(golden_race(), OPEN)
    counted = decode(task.histograms["latency"]).count
    buckets = found["esbench_latency_seconds_bucket", OPEN, "measurement"]
    assert list(buckets) == [f"{ms / 1000}" for ms in (1, 2, 3, 4, 5, 10, 30, 50, 70, 100, 200, 300, 500, 1000)] + [
        "+Inf"
    ]
    assert list(buckets.values()) == sorted(buckets.values())
    assert buckets["+Inf"] == found["esbench_latency_seconds_count", OPEN, "measurement"][""] == counted
    assert found["esbench_requests_total", OPEN, "measurement"][""] == task.requests
    assert task.latency_ms is not None
    mean_s = task.latency_ms["mean"] / 1000
    assert found["esbench_latency_seconds_sum", OPEN, "measurement"][""] == pytest.approx(mean_s * counted)


def test_requests_that_timed_out_are_exported_with_the_least_that_they_took() -> None:
    task = task_of(golden_race(), OPEN)
    gave_up = Counts()
    gave_up.add(2_000_000_000)
    record = with_task(golden_race(), OPEN, histograms={**task.histograms, "latency_beyond": encode(gave_up)})
    buckets = exposed(record, [])["esbench_latency_seconds_bucket", OPEN, "measurement"]
    assert buckets["+Inf"] - buckets["1.0"] == 1


def test_warmups_and_unfinished_tasks_are_put_together_from_their_seconds(seconds: list[SecondLine]) -> None:
    found = exposed(golden_race(tasks=()), seconds)
    assert found["esbench_requests_total", OPEN, "warmup"][""] == 600
    assert found["esbench_latency_seconds_bucket", OPEN, "warmup"]["+Inf"] == 600
    assert found["esbench_errors_total", OPEN, "measurement"][""] == 2
    assert found["esbench_requests_total", OPEN, "measurement"][""] == 1392


def test_a_task_that_ended_inside_its_warmup_is_exported_as_a_warmup(seconds: list[SecondLine]) -> None:
    inside = (Check("inside-warmup", "warning", "the task ended inside its warmup"),)
    record = with_task(golden_race(), OPEN, checks=inside)
    found = exposed(record, [line for line in seconds if line.phase == "warmup"])
    assert found["esbench_requests_total", OPEN, "warmup"][""] == task_of(record, OPEN).requests
    assert ("esbench_requests_total", OPEN, "measurement") not in found


def test_the_buckets_of_a_published_table(seconds: list[SecondLine]) -> None:
    """9 of 10 within 5 ms: exactly what was counted, not a guess between two percentiles."""
    counts = Counts()
    for ms in (0.5, 1.5, 2.5, 3.5, 4.5, 4.6, 4.7, 4.8, 4.9, 60.0):
        counts.add(int(ms * 1e6))
    record = with_task(golden_race(), "bulk", histograms={"service_time": encode(counts)})
    buckets = exposed(record, seconds)["esbench_service_time_seconds_bucket", "bulk", "measurement"]
    assert list(buckets.values()) == [1, 2, 3, 4, 9, 9, 9, 9, 10, 10, 10, 10, 10, 10, 10]


def test_a_damaged_histogram_of_a_record_is_named() -> None:
    record = with_task(golden_race(), "bulk", histograms={"service_time": "HISTFAAA"})
    with pytest.raises(RecordError, match="service_time of the task bulk is not a HdrHistogram"):
        exposed(record, [])


# The command


@pytest.fixture
def race(esbench_home: Path) -> str:
    record = golden_race()
    folder = RaceStore(esbench_home).create(record.race_id)
    for file in SERIES.iterdir():
        shutil.copy(file, folder.path)
    folder.save(as_counted(record, SERIES / "seconds.jsonl"))
    return record.race_id


@pytest.mark.parametrize(
    ("option", "begins"),
    [
        ("--hlog", "#[Histogram log format version 1.3]\n"),
        ("--csv", "task,phase,second,at,"),
        ("--json", '{"export": 1,\n"race": {'),
        ("--prometheus", "# HELP esbench_race_info "),
    ],
)
def test_the_command_prints_the_format_and_nothing_else(
    option: str, begins: str, race: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", race[:12], option]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(begins)
    assert printed.err == ""


@pytest.mark.parametrize("option", ["--hlog", "--csv", "--json", "--prometheus"])
def test_a_race_of_the_first_schema_without_series_is_exported(
    option: str, esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = GOLDEN.with_name("race-schema-1.json").read_bytes()
    folder = RaceStore(esbench_home).create(decode_record(record).race_id)
    folder.record_file.write_bytes(record)
    assert run(["export", "last", option]) == 0
    assert capsys.readouterr().out.endswith("\n")


def test_a_file_says_its_format_by_its_suffix(race: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "last", f"--output={tmp_path / 'race.csv'}"]) == 0
    assert len((tmp_path / "race.csv").read_text().splitlines()) == 11
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no format is chosen (add one of --hlog, --csv, --json, --prometheus)"),
        (["--output=race.txt"], "no format is chosen"),
        (["--csv", "--json"], "--csv and --json: one format at a time"),
        (["--csv", "--metrics-buckets=1,2"], "--metrics-buckets: --csv has no buckets"),
        (["--prometheus", "--metrics-buckets=fast"], "--metrics-buckets"),
        (["--csv", "--output=/dev/null/folder/x.csv"], "--output=/dev/null/folder/x.csv: cannot be written"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], said: str, race: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "last", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1


def test_buckets_can_be_chosen(race: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", race, "--prometheus", "--metrics-buckets=7,2s"]) == 0
    assert set(samples(capsys.readouterr().out)["esbench_service_time_seconds_bucket", "bulk", "measurement"]) == {
        "0.007",
        "2.0",
        "+Inf",
    }
