"""Records that somebody sent: whatever they say, they lead nowhere, cost bounded memory, and damage is one line."""

from __future__ import annotations

import base64
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from races import GOLDEN, golden_race, keep_seconds

from esbench.cli.main import run
from esbench.errors import RecordError
from esbench.measure.histogram import decode
from esbench.record.store import RaceStore

WITHOUT_SUMS = GOLDEN.with_name("race-schema-8.json")
COMMANDS = [
    ["show", "sent"],
    ["export", "sent", "--json"],
    ["export", "sent", "--csv"],
    ["export", "sent", "--hlog"],
    ["export", "sent", "--prometheus"],
    ["compare", "sent", "--contender=sent"],
    ["report", "sent", "--html=page.html"],
    ["list", "races"],
]


@pytest.fixture
def sent(esbench_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a race that somebody sent."""
    monkeypatch.chdir(tmp_path)
    folder = esbench_home / "races" / "sent"
    folder.mkdir(parents=True)
    return folder


def write(folder: Path, **changes: Any) -> None:
    (folder / "race.json").write_text(json.dumps(json.loads(WITHOUT_SUMS.read_text()) | changes))


@pytest.mark.parametrize("command", [["list", "races"], ["show", "sent"]])
def test_an_id_that_is_a_path_removes_no_lock_file_elsewhere(sent: Path, command: list[str]) -> None:
    victim = sent.parents[2] / "poetry.lock"
    victim.write_text("x")
    (sent.parents[1] / "running").mkdir()
    write(sent, race_id="../../poetry", status="running")
    assert run(command) == 0
    assert victim.read_text() == "x"


def test_a_race_is_called_as_its_folder_is(sent: Path, esbench_home: Path) -> None:
    store = RaceStore(esbench_home)
    store.create("other").save(golden_race(race_id="other"))
    write(sent, race_id="other")
    assert store.load("sent").race_id == "sent"
    assert {entry.race_id for entry in store.entries()[0]} == {"sent", "other"}


@pytest.mark.parametrize("levels", [201, 600, 100_000])
@pytest.mark.parametrize("key", ["track_params", "unknown"])
@pytest.mark.parametrize("command", COMMANDS[:3])
def test_nesting_is_bounded(
    sent: Path, capsys: pytest.CaptureFixture[str], command: list[str], key: str, levels: int
) -> None:
    write(sent)
    content = (sent / "race.json").read_text()
    deep = '{"a":' * levels + "1" + "}" * levels
    (sent / "race.json").write_text(f'{content[:-1]}, "{key}": {deep}}}')
    assert run(command) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "race.json: it is nested " in line


@pytest.mark.parametrize("line", ['{"x": ' + "[" * 100_000, "[" * 100_000])
@pytest.mark.parametrize("name", ["seconds", "telemetry"])
def test_nesting_of_a_line_is_bounded(sent: Path, capsys: pytest.CaptureFixture[str], name: str, line: str) -> None:
    write(sent)
    (sent / f"{name}.jsonl").write_text(f"{line}\n")
    assert run(["export", "sent", "--json"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{name}.jsonl:1: cannot be read" in line


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["race.json", "seconds.jsonl", "telemetry.jsonl"])
def test_a_pipe_is_not_waited_for(
    sent: Path, capsys: pytest.CaptureFixture[str], name: str, command: list[str]
) -> None:
    if name != "race.json":
        write(sent)
    os.mkfifo(sent / name)
    assert run(command) in (0, 1, 2)
    assert all("Traceback" not in text for text in capsys.readouterr())


@pytest.mark.parametrize("name", ["race.json", "seconds.jsonl", "telemetry.jsonl"])
def test_a_device_is_no_record(sent: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    if name != "race.json":
        write(sent)
    (sent / name).symlink_to("/dev/zero")
    assert run(["export", "sent", "--json"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{name}: cannot be read: it is not a file" in line


def test_a_huge_record_is_refused(sent: Path, esbench_home: Path) -> None:
    with (sent / "race.json").open("wb") as file:
        file.truncate(101_000_000)
    with pytest.raises(RecordError, match="it is larger than 100 MB"):
        RaceStore(esbench_home).load("sent")


@pytest.mark.parametrize("name", ["seconds", "telemetry"])
def test_a_huge_line_is_refused(sent: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    write(sent)
    with (sent / f"{name}.jsonl").open("wb") as file:
        file.truncate(11_000_000)
    assert run(["export", "sent", "--json"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{name}.jsonl:1: a line is longer than 10 MB" in line


@pytest.mark.parametrize("time", ["x", "9999-99-99", "0001-01-01T00:00:00+14:00", ""])
@pytest.mark.parametrize("command", COMMANDS[1:4])
def test_a_damaged_time_is_one_line(
    sent: Path, capsys: pytest.CaptureFixture[str], command: list[str], time: str
) -> None:
    write(sent, started_at=time)
    assert run(command) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "race.json: " in line


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("clusters", "default", "statistics", "merge_count"), "x"),
        (("clusters", "default", "statistics", "merge_count", "value"), None),
        (("clusters", "default", "statistics", "merge_count", "value"), "nan"),
        (("clusters", "default", "statistics", "merge_count", "label"), [1]),
        (("clusters", "default", "indices", "orders"), 1),
        (("clusters", "default", "indices", "orders", "settings"), "x"),
        (("clusters", "default", "settings", "node_options"), "x"),
        (("telemetry",), {"nodes": [1]}),
        (("telemetry",), {"ingest-pipeline-stats": {"pipelines": [{}]}}),
        (("telemetry",), {"disk-usage": {"indices": [{"index": "a", "total_bytes": "8"}]}}),
        (("telemetry",), {"disk-usage": {"other_fields": {"count": "2"}}}),
        (("tasks", 0, "telemetry"), {"cluster": None}),
        (("tasks", 0, "telemetry"), {"nodes": None}),
        (("telemetry",), {"hot-threads": None}),
        (("tasks", 0, "telemetry"), {"nodes": {"nodes": "three"}}),
        (("tasks", 0, "telemetry"), {"driver": {"process_core_percent": {"worker-0": "many"}}}),
        (("tasks", 0, "telemetry"), {"hot-threads": {"pools": [{"pool": "write"}]}}),
        (("tasks", 0, "returned"), {"recall": {"max": 1.0}}),
        (("tasks", 0, "loop"), "round"),
        (("tasks", 0, "window", "end_s"), "inf"),
        (("tasks", 0, "window", "end_s"), 1e308),
        (("tasks", 0, "waited_ratio"), "nan"),
        (("tasks", 0, "service_time_ms"), {"mean": "nan"}),
        (("tasks", 0, "service_time_ms"), {"mean": 1e308}),
    ],
)
@pytest.mark.parametrize("command", COMMANDS[:6:5])
def test_a_damaged_value_is_one_line(
    sent: Path, capsys: pytest.CaptureFixture[str], command: list[str], path: tuple[Any, ...], value: object
) -> None:
    document = json.loads(GOLDEN.read_text())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    write(sent, **document)
    assert run(command) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "race.json: " in line


@pytest.mark.parametrize(
    "changes",
    [
        {"objectives": ["p99 << 50"]},
        {"found": {"binding": 3}},
        {"found": {"binding": -1}},
        {"found": {"curves": [None] * 2}},
    ],
)
def test_a_damaged_search_leaves_its_race_out_of_the_list(
    sent: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    found = {"why": "no rate", "rate_per_s": 0, "low_per_s": 0, "high_per_s": "inf"} | changes.get("found", {})
    write(sent, capacity={"task": "get-by-id", "objectives": ["p99 < 50 ms"]} | changes | {"found": found})
    assert run(["list", "races"]) == 0
    assert "race sent is left out: " in "".join(capsys.readouterr())


def test_disk_usage_without_names_is_shown(sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usage = {"indices": [{"store_bytes": 9}], "fields": [{"total_bytes": 8}, {}], "other_fields": {}}
    write(sent, telemetry={"disk-usage": usage})
    assert run(["show", "sent"]) == 0
    assert "Disk usage" in capsys.readouterr().out


@pytest.mark.parametrize("second", [-1, 10**12])
def test_a_second_far_from_the_race_is_one_line(sent: Path, capsys: pytest.CaptureFixture[str], second: int) -> None:
    write(sent)
    line = {"task": "a", "second": second, "phase": "measurement", "due": 1, "sent": 1, "requests": 1, "units": 1}
    (sent / "seconds.jsonl").write_text(json.dumps(line) + "\n")
    assert run(["report", "sent", "--html=page.html"]) == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert f"seconds.jsonl:1: cannot be read: {second} is not a second of a race" in told


def histogram(digits: int = 3, lowest: int = 1000, highest: int = 86_400 * 10**9, zeros: int = 0) -> str:
    head = struct.pack(">iiiiqqd", 0x1C849303 | 0x10, zeros, 0, digits, lowest, highest, 1.0)
    packed = zlib.compress(head + bytes(zeros), 9)
    return base64.b64encode(struct.pack(">ii", 0x1C849304 | 0x10, len(packed)) + packed).decode()


@pytest.mark.parametrize(
    "text",
    [
        histogram(zeros=64 << 20),
        histogram(digits=5, highest=2**62),
        histogram(lowest=0),
        histogram(digits=-1),
        base64.b64encode(bytes(8)).decode(),
        "ä",
        "",
    ],
)
def test_a_histogram_that_is_a_bomb_or_of_another_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a HdrHistogram"):
        decode(text)


@pytest.mark.parametrize("command", [COMMANDS[4], COMMANDS[6]])
def test_a_damaged_histogram_is_one_line(sent: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    document = json.loads(WITHOUT_SUMS.read_text())
    task = next(task for task in document["tasks"] if "latency" in task["histograms"])
    task["histograms"]["latency"] = "AAAAA"
    write(sent, **document)
    keep_seconds(RaceStore(sent.parents[1]).folder("sent"), golden_race())
    assert run(command) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"race.json: latency of the task {task['name']} is not a HdrHistogram" in line


def test_an_empty_histogram_is_read() -> None:
    assert decode(histogram()).count == 0
