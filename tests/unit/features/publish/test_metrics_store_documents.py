"""A record as documents: what each kind holds, when it happened, and that every field has a mapping."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from races import as_counted, golden_race, task_of, with_task

from esbench.errors import RecordError
from esbench.features.publish.elasticsearch.documents import RaceDocuments, StoreDocument
from esbench.features.publish.elasticsearch.templates import mappings
from esbench.measure.histogram import Counts, encode
from esbench.record.model import ObjectiveResult, RaceRecord, SlicePlan
from esbench.record.series import SecondLine, encode_second
from esbench.record.store import RaceFolder, RaceStore

RACE = "20261121t101530-4f2a"
TELEMETRY = [
    {"series": 0, "device": "nodes", "of": "node-0", "group": "os", "gauges": ["load.1m"], "counters": ["cpu_ms"]},
    [0, 1.5, 0.25, 0],
    [0, 2.5, None, 340],
]


@pytest.fixture
def folder(esbench_home: Path) -> RaceFolder:
    return RaceStore(esbench_home).create(RACE)


def documents(folder: RaceFolder, record: RaceRecord | None = None) -> RaceDocuments:
    return RaceDocuments(as_counted(record or golden_race(), folder.seconds_file), folder)


def second_of(task: str, second: int, service_times_ms: Iterable[float]) -> bytes:
    counts = Counts()
    for ms in service_times_ms:
        counts.add(int(ms * 1e6))
    errors = {"timeout": 2, "not found": 1}
    return encode_second(SecondLine(task, second, "measurement", 0, 1, 1, 1.0, errors, service_time=encode(counts)))


def keep_telemetry(folder: RaceFolder) -> None:
    folder.append_telemetry(b"".join(json.dumps(line).encode() + b"\n" for line in TELEMETRY))


def fields(documents: Iterable[StoreDocument], **wanted: Any) -> Mapping[str, Any]:
    (found,) = [
        each.fields for each in documents if all(each.fields.get(name) == value for name, value in wanted.items())
    ]
    return found


def test_the_race_with_what_it_is_selected_by(folder: RaceFolder) -> None:
    document = documents(folder).race()
    assert document.id == RACE
    race = document.fields
    assert (race["@timestamp"], race["status"], race["track"]) == (
        "2026-11-21T10:15:30.120000+00:00",
        "complete",
        "orders",
    )
    assert (race["distribution"], race["version"], race["node_count"]) == ("elasticsearch", "7.10.2", 1)
    assert race["user_tags"] == ["intention:baseline"]
    assert race["statistics"]["merge_count"] == 3
    assert "failure" not in race


def test_objectives_are_found_by_what_became_of_them(folder: RaceFolder) -> None:
    record = golden_race()
    outcomes = {"p99 < 50 ms": True, "errors < 0.1 %": False, "mean < 9 ms": None}
    objectives = tuple(ObjectiveResult(text, 1.0, "ms", holds) for text, holds in outcomes.items())
    record = replace(record, tasks=(replace(record.tasks[0], objectives=objectives), *record.tasks[1:]))
    name = record.tasks[0].name
    task = next(documents(folder, record).tasks()).fields
    race = documents(folder, record).race().fields
    for outcome, text in zip(("held", "missed", "not_judged"), outcomes, strict=True):
        assert task[f"objectives_{outcome}"] == [text]
        assert f"{text} of {name}" in race[f"objectives_{outcome}"]


def test_secrets_stay_hidden(folder: RaceFolder) -> None:
    """Those of a record that was kept: storing reads what is on disk."""
    folder.save(golden_race(track_params={"secret_token": "hush", "number_of_shards": 24}))
    race = documents(folder, RaceStore(folder.path.parents[1]).load(RACE)).race()
    assert race.fields["track_params"] == ["secret_token:<hidden>", "number_of_shards:24"]


def test_a_task_happened_when_it_began(folder: RaceFolder) -> None:
    bulk = fields(documents(folder).tasks(), task="bulk")
    assert task_of(golden_race(), "bulk").begun_s == 10.32
    assert bulk["@timestamp"] == "2026-11-21T10:15:40.440+00:00"
    assert (bulk["throughput"]["mean"], bulk["units"], bulk["service_time_ms"]["p99"]) == (20000.0, 200000.0, 388.0)
    assert "latency_ms" not in bulk  # a closed loop has none


def test_a_percentile_beyond_what_was_measured_has_no_number(folder: RaceFolder) -> None:
    task = fields(documents(folder).tasks(), task="get-by-id-open")
    assert (task["latency_ms"]["p99_9"], task["beyond"]) == (640.0, ["latency_ms.p99_99"])
    assert "p99_99" not in task["latency_ms"]
    assert (task["checks"], task["unusable"]) == (["backlog"], True)


def test_the_parts_of_a_sequence_are_documents_of_their_own(folder: RaceFolder) -> None:
    parts = [each for each in documents(folder).tasks() if "part_of" in each.fields]
    assert [part.fields["task"] for part in parts] == ["read-after-write/index", "read-after-write/get"]
    assert {part.fields["part_of"] for part in parts} == {"read-after-write"}
    assert all("p50" in part.fields["service_time_ms"] for part in parts)


def test_numbers_of_devices_and_runners_are_flat_and_those_of_single_nodes_left_out(folder: RaceFolder) -> None:
    telemetry = {"nodes": {"nodes": 1, "cpu_core_percent": {"mean": 50.5, "peak": 90}, "by_node": {"n": {"x": 1}}}}
    record = with_task(golden_race(), "bulk", telemetry=telemetry, returned={"recall.10": {"mean": 0.5}})
    bulk = fields(documents(folder, record).tasks(), task="bulk")
    assert bulk["telemetry"]["nodes"] == {"nodes": 1, "cpu_core_percent_mean": 50.5, "cpu_core_percent_peak": 90}
    assert bulk["returned"] == {"recall_10": {"mean": 0.5}}


def test_a_second_happened_so_long_after_its_task_began(folder: RaceFolder) -> None:
    folder.append_seconds(second_of("bulk", 3, [1.0] * 300 + [8.0] * 100))
    second = fields(documents(folder).seconds(), task="bulk")
    assert (second["@timestamp"], second["second"]) == ("2026-11-21T10:15:43.440+00:00", 3)
    assert (second["errors"], second["error_kinds"]) == (3, ["timeout", "not found"])
    assert second["service_time_ms"]["p50"] == pytest.approx(1.0, rel=1e-3)
    assert second["service_time_ms"]["p99"] == pytest.approx(8.0, rel=1e-3)
    assert "p99_9" not in second["service_time_ms"]  # 400 samples do not carry it


def test_a_second_in_slices_happened_where_it_was_on_the_clock(folder: RaceFolder) -> None:
    folder.append_seconds(second_of("bulk", 2, [1.0]))
    slices = SlicePlan(length_s=1.0, gap_s=0.5, settle_s=0.1, sides=1, side=0, seed=1)
    record = with_task(golden_race(), "bulk", slices=slices)
    assert fields(documents(folder, record).seconds())["@timestamp"] == "2026-11-21T10:15:43.440+00:00"


def test_tasks_of_a_record_without_their_times_begin_with_the_race(folder: RaceFolder) -> None:
    folder.append_seconds(second_of("bulk", 3, [1.0]))
    record = with_task(golden_race(), "bulk", begun_s=None)
    assert fields(documents(folder, record).seconds())["@timestamp"] == "2026-11-21T10:15:33.120+00:00"


def test_readings_have_the_names_of_their_series(folder: RaceFolder) -> None:
    keep_telemetry(folder)
    first, second = documents(folder).telemetry()
    assert (first.fields["@timestamp"], first.fields["time_s"]) == ("2026-11-21T10:15:31.620+00:00", 1.5)
    assert (first.fields["device"], first.fields["of"], first.fields["group"]) == ("nodes", "node-0", "os")
    assert (first.fields["gauges"], first.fields["counters"]) == ({"load_1m": 0.25}, {"cpu_ms": 0})
    assert "gauges" not in second.fields  # it was missing this time


def test_a_document_has_the_same_id_each_time(folder: RaceFolder) -> None:
    folder.append_seconds(b"".join(second_of("bulk", n, [1.0]) for n in range(3)))
    keep_telemetry(folder)
    race = documents(folder)
    for kind in (race.tasks, race.seconds, race.telemetry):
        ids = [each.id for each in kind()]
        assert len(set(ids)) == len(ids) > 0
        assert ids == [each.id for each in kind()]


def test_the_digest_changes_with_anything_of_the_race(folder: RaceFolder) -> None:
    digests = [documents(folder).digest(), documents(folder, golden_race(status="cancelled")).digest()]
    folder.append_seconds(second_of("bulk", 0, [1.0]))
    digests.append(documents(folder).digest())
    keep_telemetry(folder)
    digests.append(documents(folder).digest())
    assert len(set(digests)) == 4
    assert documents(folder).digest() == digests[-1]


def test_a_line_that_a_crash_cut_off_is_left_out(folder: RaceFolder) -> None:
    folder.append_seconds(second_of("bulk", 0, [1.0]))
    folder.append_seconds(b'{"task": "bulk", "sec')
    assert len(list(documents(folder, golden_race(status="failed")).seconds())) == 1
    with pytest.raises(RecordError, match=r"seconds.jsonl:2: the end of the last line is missing"):
        list(documents(folder).seconds())


def test_a_damaged_line_is_named(folder: RaceFolder) -> None:
    folder.append_seconds(second_of("bulk", 0, [1.0]))
    folder.append_seconds(b"{}}\n")
    with pytest.raises(RecordError, match=r"seconds.jsonl:2: cannot be read: "):
        list(documents(folder).seconds())


def test_a_record_that_is_all_defaults_has_documents(folder: RaceFolder) -> None:
    bare = replace(golden_race(), clusters={}, tasks=(), finished_at=None, user_tags={}, track_params={})
    race = documents(folder, bare)
    assert (race.race().fields["task_count"], list(race.tasks())) == (0, [])
    assert "version" not in race.race().fields


def test_every_field_has_a_mapping_of_its_kind(folder: RaceFolder) -> None:
    """What is not mapped by name is an object, whose values are numbers or histograms."""
    folder.append_seconds(second_of("bulk", 0, [1.0]))
    keep_telemetry(folder)
    race = documents(folder)
    kinds = {"races": [race.race()], "tasks": race.tasks(), "seconds": race.seconds(), "telemetry": race.telemetry()}
    for kind, found in kinds.items():
        mapped = mappings(kind)["properties"]
        for document in found:
            for name, value in document.fields.items():
                if isinstance(value, dict):
                    assert name not in mapped
                    leaves = value.values() if name == "histograms" else _leaves(value)
                    assert all(isinstance(leaf, str if name == "histograms" else int | float) for leaf in leaves), name
                else:
                    assert _fits(value, mapped[name]["type"]), (kind, name, value)


def _leaves(value: Any) -> Iterable[Any]:
    if not isinstance(value, dict):
        return [value]
    return [leaf for inner in value.values() for leaf in _leaves(inner)]


def _fits(value: Any, field_type: str) -> bool:
    if isinstance(value, list | tuple):
        return all(_fits(each, field_type) for each in value)
    allowed: dict[str, tuple[type, ...]] = {"long": (int,), "double": (int, float), "boolean": (bool,)}
    return isinstance(value, allowed.get(field_type, (str,))) and (isinstance(value, bool) == (field_type == "boolean"))
