"""Disk usage by field and ingest pipelines in the summary."""

from __future__ import annotations

from typing import Any

from races import golden_race
from recorded_cluster import recorded

from esbench.features.devices.disk_usage import usage
from esbench.record.model import RaceRecord
from esbench.report.device_tables import disk_usage, ingest_pipelines
from esbench.report.race_summary import summary

MB = 1 << 20


def race(device: str, told: dict[str, Any]) -> RaceRecord:
    return golden_race(telemetry={device: told})


def field(name: str, size_mb: int) -> dict[str, Any]:
    size = size_mb * MB
    return {"index": "orders", "field": name, "total_bytes": size, "doc_values_bytes": size}


def test_the_largest_fields_are_shown_with_the_parts_that_there_are() -> None:
    replies = recorded("elasticsearch-8")["disk_usage"]
    (section,) = disk_usage(race("disk-usage", usage({"orders": replies["orders"]})))
    titles = [column.title for column in section.table.columns]
    assert titles == ["Index", "Field", "Total", "Inverted index", "Stored fields", "Doc values", "Points"]
    whole, first = section.table.rows[:2]
    assert whole[:2] == ("orders", "(all fields)")
    assert whole[2] == replies["orders"]["all_fields"]["total_in_bytes"] / MB
    assert first[1] == "_source"
    assert first[5] is None


def test_of_many_fields_the_rest_is_summed() -> None:
    told = {
        "indices": [
            {"index": "orders", "store_bytes": 999 * MB, "total_bytes": 900 * MB, "doc_values_bytes": 900 * MB}
        ],
        "fields": [field(f"f{number}", 30) for number in range(25)],
        "other_fields": {"count": 50, "total_bytes": 50 * MB, "points_bytes": 50 * MB},
    }
    (section,) = disk_usage(race("disk-usage", told))
    assert len(section.table.rows) == 1 + 20 + 1
    assert section.table.rows[-1] == ("", "(55 others)", 200.0, 150.0)


def test_of_many_indices_the_rest_is_summed() -> None:
    def index(number: int) -> dict[str, Any]:
        return {"index": f"i{number}", "store_bytes": 2 * MB, "total_bytes": MB, "points_bytes": MB}

    told = {
        "indices": [index(number) for number in range(12)],
        "other_indices": {"count": 3, "store_bytes": 9 * MB, "total_bytes": 3 * MB, "points_bytes": 3 * MB},
        "fields": [],
    }
    (section,) = disk_usage(race("disk-usage", told))
    assert len(section.table.rows) == 11
    assert section.table.rows[-1] == ("(5 others)", "(all fields)", 5.0, 5.0)


def test_the_sections_are_in_the_summary_of_races_that_have_them_alone() -> None:
    told = {"indices": [{"index": "orders", "store_bytes": 1, "total_bytes": 1}], "fields": [field("f", 1)]}
    titles = [section.title for section in summary(race("disk-usage", told)).sections]
    assert "Disk usage by field, in MB" in titles
    assert not {"Disk usage by field, in MB", "Ingest pipelines, over all nodes"} & {
        section.title for section in summary(golden_race()).sections
    }
    assert disk_usage(race("disk-usage", {"notes": ["cannot be seen"]})) == ()


def test_pipelines_are_shown_with_their_processors() -> None:
    work = {"count": 10, "time_ms": 4, "failed": 1}
    processors = [{"processor": "set", "count": 10, "time_ms": 3, "failed": 1}]
    told = {**work, "pipelines": [{"pipeline": "clean", **work, "processors": processors}, {"pipeline": "old", **work}]}
    (section,) = ingest_pipelines(race("ingest-pipeline-stats", told))
    assert section.table.rows == (
        ("clean", "(all)", 10, 4, 1),
        ("clean", "set", 10, 3, 1),
        ("old", "(all)", 10, 4, 1),
    )
    assert ingest_pipelines(golden_race()) == ()
