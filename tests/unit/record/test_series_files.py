"""Series that are read back: what a line means, what a crash may leave behind, and what is damaged."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from races import golden_race, task_of

from esbench.errors import RecordError
from esbench.measure.histogram import Counts
from esbench.measure.measures import HISTOGRAMS, MEASURES, Measure, with_beyond
from esbench.measure.tally import Second, Tally
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import (
    BY_SECOND,
    Columns,
    SecondLine,
    Series,
    TelemetryWriter,
    encode_second,
    percentiles_ms,
    put_together,
    read_seconds,
    read_telemetry_lines,
    seconds_of,
    telemetry_of,
)
from esbench.record.store import RaceFolder

HEADER = '{"series":0,"device":"nodes","of":"node-0","group":"os","gauges":["load"],"counters":["cpu_ms"]}\n'


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def counted(*durations_ms: float) -> Counts:
    counts = Counts()
    for ms in durations_ms:
        counts.add(int(ms * 1_000_000))
    return counts


def test_a_second_is_read_as_it_was_written(tmp_path: Path) -> None:
    tally = Tally(due=3, sent=3, requests=2, units=200.0, backlog=1)
    tally.errors.counts["timeout"] = 1
    for number, name in enumerate(HISTOGRAMS):
        setattr(tally, name, counted(1, 2 + number))
    tally.service_time_beyond = Counts()
    folder = RaceFolder(tmp_path)
    written_line = SecondLine.of("bulk", Second(4, True, tally))
    folder.append_seconds(encode_second(written_line))
    (line,) = read_seconds(folder.seconds_file)
    assert line == written_line
    assert (line.phase, line.failed, line.service_time_beyond) == ("warmup", 1, None)
    for name in (*BY_SECOND, "latency_beyond"):
        assert line.counts(name).buckets == getattr(tally, name).buckets != {}


def test_the_bytes_of_a_second(tmp_path: Path) -> None:
    """Files of before are read, and those who read the files need not look twice."""
    line = SecondLine("bulk", 4, "measurement", 0, 1, 1, 5, {"not found": 1}, driver_lag="H")
    assert encode_second(line) == (
        b'{"task": "bulk", "second": 4, "phase": "measurement", "due": 0, "sent": 1, "requests": 1, "units": 5, '
        b'"errors": {"not found": 1}, "backlog": 0, "driver_lag": "H"}\n'
    )


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_a_measure_is_counted_and_kept(measure: Measure) -> None:
    """Its name is that of a counter, of a distribution of the result and, if it is kept by second, of a line's."""
    assert hasattr(Tally(), measure.name)
    assert measure.figures in {each.name for each in fields(TaskResult)}
    in_lines = {each.name for each in fields(SecondLine)} & {*with_beyond(measure.name)}
    assert in_lines == (set() if not measure.by_second else {*with_beyond(measure.name)[: 1 if measure.is_lag else 2]})


def test_every_histogram_of_a_task_is_listed() -> None:
    """One that is not would not be merged over workers. `punctual` is counted under others before that.
    `completed_at` has no durations."""
    counted_in = {each.name for each in fields(Tally) if isinstance(getattr(Tally(), each.name), Counts)}
    assert counted_in == {*HISTOGRAMS, "punctual", "completed_at"}


@pytest.mark.parametrize(
    ("changes", "figure"),
    [({}, "x"), ({}, [1]), ({}, 10**400), ({"of": 1.5}, 1), ({"group": None}, 1), ({"gauges": ("load", 2)}, 1)],
)
def test_a_reading_that_could_not_be_read_again_is_not_written(
    changes: dict[str, Any], figure: Any, tmp_path: Path
) -> None:
    folder = RaceFolder(tmp_path)
    writer = TelemetryWriter(folder.append_telemetry)
    node = Columns("nodes", "node-0", "os", ("load",), ("cpu_ms",))
    with pytest.raises((ValueError, TypeError)):
        writer.add(replace(node, **changes), 1.5, (figure, *((1, 2) if "gauges" in changes else (1,))))
    writer.add(node, 2.5, (0.25, 340))
    assert put_together(read_telemetry_lines(folder.telemetry_file)) == (
        Series("nodes", "node-0", "os", (2.5,), {"load": (0.25,)}, {"cpu_ms": (340.0,)}),
    )


def test_readings_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder = RaceFolder(tmp_path)
    writer = TelemetryWriter(folder.append_telemetry)
    node = Columns("nodes", "node-0", "os", ("load",), ("cpu_ms",))
    writer.add(node, 1.5, (0.25, 0))
    writer.add(replace(node, of="node-1"), 1.5, (1.0, None))
    writer.add(node, 2.5, (None, 340))
    writer.add(replace(node, gauges=("load", "threads")), 3.5, (0.5, 7, 350))
    assert put_together(read_telemetry_lines(folder.telemetry_file)) == (
        Series("nodes", "node-0", "os", (1.5, 2.5), {"load": (0.25, None)}, {"cpu_ms": (0.0, 340.0)}),
        Series("nodes", "node-1", "os", (1.5,), {"load": (1.0,)}, {"cpu_ms": (None,)}),
        Series("nodes", "node-0", "os", (3.5,), {"load": (0.5,), "threads": (7.0,)}, {"cpu_ms": (350.0,)}),
    )


def test_percentiles_are_those_that_the_samples_carry() -> None:
    counts = Counts()
    for ms in range(1, 101):
        counts.add(ms * 1_000_000)
    assert percentiles_ms(counts, (50.0, 90.0, 99.0)) == pytest.approx({50.0: 50.0, 90.0: 90.0}, rel=1e-3)


def test_readings_are_put_together_by_series(tmp_path: Path) -> None:
    other = '{"series":1,"device":"nodes","of":"node-1","group":"os","gauges":[],"counters":["cpu_ms"]}\n'
    file = written(tmp_path / "t.jsonl", f"{HEADER}[0,1.5,0.25,0]\n{other}[1,1.5,0]\n[0,2.5,null,340]\n")
    assert put_together(read_telemetry_lines(file)) == (
        Series("nodes", "node-0", "os", (1.5, 2.5), {"load": (0.25, None)}, {"cpu_ms": (0.0, 340.0)}),
        Series("nodes", "node-1", "os", (1.5,), {}, {"cpu_ms": (0.0,)}),
    )


def test_files_that_are_not_there_have_no_lines(tmp_path: Path) -> None:
    assert list(read_seconds(tmp_path / "seconds.jsonl")) == []
    assert put_together(read_telemetry_lines(tmp_path / "telemetry.jsonl")) == ()


def test_a_last_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path / "t.jsonl", f"{HEADER}[0,1.5,0.25,0]\n[0,2.5,0.")
    (series,) = put_together(read_telemetry_lines(file))
    assert series.times_s == (1.5,)


def second(task: str, number: int, requests: int) -> str:
    return encode_second(SecondLine(task, number, "measurement", 0, requests, requests, 1.0)).decode()


def race(status: str = "complete") -> RaceRecord:
    """A race that counted 12 requests of a task, 2 of them in its warmup, and two readings of a device."""
    record = golden_race(status=status, telemetry={"nodes": {"samples": 2, "readings": 2}})
    bulk = task_of(record, "bulk")
    return replace(record, tasks=(replace(bulk, requests=10, warmup=replace(bulk.warmup, requests=2)),))


WHOLE_SECONDS = second("bulk", 0, 7) + second("bulk", 1, 5)
WHOLE_TELEMETRY = f"{HEADER}[0,1.5,0.25,0]\n[0,2.5,0.25,0]\n"


def test_the_series_of_a_complete_race_hold_what_it_counted(tmp_path: Path) -> None:
    assert len(list(seconds_of(race(), written(tmp_path / "s.jsonl", WHOLE_SECONDS)))) == 2
    assert len(telemetry_of(race(), written(tmp_path / "t.jsonl", WHOLE_TELEMETRY))) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\x00\x01 no line", "s.jsonl:1: the end of the last line is missing"),
        (WHOLE_SECONDS[:-1], "s.jsonl:2: the end of the last line is missing"),
        ("", "s.jsonl: it holds 0 of the 12 requests of bulk: the file was damaged or cut"),
        (second("bulk", 0, 7), "s.jsonl: it holds 7 of the 12 requests of bulk: the file was damaged or cut"),
        (None, "s.jsonl: it is missing, though its race is complete"),
    ],
)
def test_seconds_that_a_complete_race_lacks_are_an_error(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    if text is not None:
        written(file, text)
    with pytest.raises(RecordError) as caught:
        list(seconds_of(race(), file))
    assert said in str(caught.value)
    assert list(seconds_of(race("cancelled"), file)) == list(seconds_of(race("running"), file))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WHOLE_TELEMETRY[:-1], "t.jsonl:3: the end of the last line is missing"),
        (f"{HEADER}[0,1.5,0.25,0]\n", "t.jsonl: it holds 1 of the 2 readings of nodes: the file was damaged or cut"),
        (None, "t.jsonl: it is missing, though its race is complete"),
    ],
)
def test_readings_that_a_complete_race_lacks_are_an_error(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    if text is not None:
        written(file, text)
    with pytest.raises(RecordError) as caught:
        telemetry_of(race(), file)
    assert said in str(caught.value)
    assert len(telemetry_of(race("failed"), file)) == (text is not None)


def test_readings_are_not_missed_where_a_record_does_not_count_them(tmp_path: Path) -> None:
    record = replace(race(), telemetry={"nodes": {"samples": 2}})
    assert telemetry_of(record, tmp_path / "t.jsonl") == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{]", "JSON is malformed"),
        ("[3,1.5,0.25,0]", "no line before it names the columns of series 3"),
        ("[0,1.5,0.25]", "1 figures for 2 columns"),
        ("[0]", "begins with the number of its series and a time"),
        ('[0,"x",1,2]', "Expected `float | null`"),
        ('{"series":1}', "missing required field `device`"),
    ],
)
def test_what_is_damaged_is_named_with_its_line(line: str, said: str, tmp_path: Path) -> None:
    file = written(tmp_path / "telemetry.jsonl", f"{HEADER}{line}\n")
    with pytest.raises(RecordError, match=r"telemetry\.jsonl:2: cannot be read") as caught:
        put_together(read_telemetry_lines(file))
    assert said in str(caught.value)


def test_a_damaged_second_is_named_with_its_line(tmp_path: Path) -> None:
    file = written(tmp_path / "seconds.jsonl", '{"task":"bulk","second":"four"}\n')
    with pytest.raises(RecordError, match=r"seconds\.jsonl:1: .*\$\.second"):
        list(read_seconds(file))


def test_a_damaged_histogram_is_named_with_its_second() -> None:
    line = SecondLine("bulk", 4, "measurement", 0, 1, 1, 1.0, latency="HISTFAAA")
    with pytest.raises(RecordError, match="second 4 of bulk: latency is not a HdrHistogram"):
        line.counts("latency")
