"""Series that are read back: what a line means, what a crash may leave behind, and what is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from esbench.errors import RecordError
from esbench.load.measurements import seconds_line
from esbench.measure.histogram import Counts, encode
from esbench.measure.tally import Second, Tally
from esbench.record.series import SecondLine, Series, percentiles_ms, read_seconds, read_telemetry
from esbench.record.store import RaceFolder

HEADER = '{"series":0,"device":"nodes","of":"node-0","group":"os","gauges":["load"],"counters":["cpu_ms"]}\n'


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_second_is_read_as_it_was_written(tmp_path: Path) -> None:
    tally = Tally(due=3, sent=3, requests=2, units=200.0, backlog=1)
    tally.errors.counts["timeout"] = 1
    for ms in (1, 2):
        tally.latency.add(ms * 1_000_000)
    folder = RaceFolder(tmp_path)
    folder.append_seconds([seconds_line("bulk", Second(4, True, tally))])
    (line,) = read_seconds(folder.seconds_file)
    assert line == SecondLine("bulk", 4, "warmup", 3, 3, 2, 200.0, {"timeout": 1}, 1, encode(tally.latency))
    assert line.failed == 1
    assert line.counts("latency").buckets == tally.latency.buckets
    assert line.counts("service_time").count == 0


def test_percentiles_are_those_that_the_samples_carry() -> None:
    counts = Counts()
    for ms in range(1, 101):
        counts.add(ms * 1_000_000)
    assert percentiles_ms(counts, (50.0, 90.0, 99.0)) == pytest.approx({50.0: 50.0, 90.0: 90.0}, rel=1e-3)


def test_readings_are_put_together_by_series(tmp_path: Path) -> None:
    other = '{"series":1,"device":"nodes","of":"node-1","group":"os","gauges":[],"counters":["cpu_ms"]}\n'
    file = written(tmp_path / "t.jsonl", f"{HEADER}[0,1.5,0.25,0]\n{other}[1,1.5,0]\n[0,2.5,null,340]\n")
    assert read_telemetry(file) == (
        Series("nodes", "node-0", "os", (1.5, 2.5), {"load": (0.25, None)}, {"cpu_ms": (0.0, 340.0)}),
        Series("nodes", "node-1", "os", (1.5,), {}, {"cpu_ms": (0.0,)}),
    )


def test_files_that_are_not_there_have_no_lines(tmp_path: Path) -> None:
    assert list(read_seconds(tmp_path / "seconds.jsonl")) == []
    assert read_telemetry(tmp_path / "telemetry.jsonl") == ()


def test_a_last_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path / "t.jsonl", f"{HEADER}[0,1.5,0.25,0]\n[0,2.5,0.")
    (series,) = read_telemetry(file)
    assert series.times_s == (1.5,)


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
        read_telemetry(file)
    assert said in str(caught.value)


def test_a_damaged_second_is_named_with_its_line(tmp_path: Path) -> None:
    file = written(tmp_path / "seconds.jsonl", '{"task":"bulk","second":"four"}\n')
    with pytest.raises(RecordError, match=r"seconds\.jsonl:1: .*\$\.second"):
        list(read_seconds(file))


def test_a_damaged_histogram_is_named_with_its_second() -> None:
    line = SecondLine("bulk", 4, "measurement", 0, 1, 1, 1.0, latency="HISTFAAA")
    with pytest.raises(RecordError, match="second 4 of bulk: latency is no HdrHistogram"):
        line.counts("latency")
