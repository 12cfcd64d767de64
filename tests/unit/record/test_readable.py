"""What servers said is kept only if it can be read again, and a warning says what was not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from races import golden_race

from esbench.record.model import ErrorKind, RaceRecord
from esbench.record.readable import readable
from esbench.record.store import decode_record, encode_record

CLUSTER = "default"
UNREADABLE = "not kept, since it cannot be read again: "


def test_a_record_that_can_be_read_stays_the_same() -> None:
    record = golden_race()
    assert readable(record) is record


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("nodes", ({"name": "a", "version": ["8"]},), "nodes"),
        ("health", {"before": [1]}, "health"),
        ("indices", {"a": {"settings": 1}}, "indices"),
        ("shards", ({"index": "a"},), "shards"),
        ("statistics", {"a": {"label": "A", "value": "x", "unit": ""}}, "statistics.a"),
        ("statistics", {"a": {"label": "A", "value": 2**64, "unit": ""}}, "statistics.a"),
    ],
)
def test_a_fact_about_a_cluster_that_cannot_be_read_is_left_out(key: str, value: Any, place: str) -> None:
    record = golden_race()
    facts = record.clusters[CLUSTER]
    kept = {**facts.statistics, **value} if key == "statistics" else value
    odd = replace(record, clusters={CLUSTER: replace(facts, **{key: kept})})  # type: ignore[arg-type]
    found = readable(odd)
    assert found.warnings == (*record.warnings, f"{UNREADABLE}clusters.{CLUSTER}.{place}")
    assert read_again(found).tasks == record.tasks
    if key == "statistics":
        assert found.clusters[CLUSTER].statistics == facts.statistics


def test_telemetry_that_cannot_be_read_is_left_out_device_by_device() -> None:
    record = golden_race()
    tasks = (replace(record.tasks[0], telemetry={"good": {"a": 1}, "driver": [1]}), *record.tasks[1:])
    odd = replace(record, tasks=tasks, telemetry={"good": {"readings": 1}, "bad": {"readings": "x"}})
    found = read_again(readable(odd))
    assert found.telemetry == {"good": {"readings": 1}}
    assert found.tasks[0].telemetry == {"good": {"a": 1}}
    assert [warning for warning in found.warnings if warning not in record.warnings] == [
        f"{UNREADABLE}telemetry.bad",
        f"{UNREADABLE}tasks.0.telemetry.driver",
    ]


def test_half_characters_become_question_marks() -> None:
    record = golden_race()
    kinds = {"HTTP 400": ErrorKind(1, "\ud83d and the rest")}
    odd = replace(record, tasks=(replace(record.tasks[0], error_kinds=kinds), *record.tasks[1:]))
    found = read_again(readable(odd))
    assert found.tasks[0].error_kinds["HTTP 400"].example == "? and the rest"
    assert found.warnings == record.warnings


def read_again(record: RaceRecord) -> RaceRecord:
    return decode_record(encode_record(record))
