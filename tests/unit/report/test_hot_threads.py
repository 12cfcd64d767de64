"""What the hottest thread pools were in, beside the figures of a race."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from races import golden_race, task_of

from esbench.record.model import RaceRecord
from esbench.report.device_tables import hot_threads
from esbench.report.race_summary import summary
from esbench.report.text import render_text


def pool(name: str, percent: float, *frames: str) -> dict[str, Any]:
    told = [{"frame": frame, "share_percent": 60.2 - place} for place, frame in enumerate(frames)]
    return {
        "pool": name,
        "threads_percent": percent,
        "busiest_percent": percent,
        "snapshots": 40,
        "idle": 0,
        "frames": told,
    }


def race(*pools: dict[str, Any], kind: str = "cpu") -> RaceRecord:
    task = replace(task_of(golden_race(), "get-by-id"), telemetry={"hot-threads": {"samples": 2, "pools": list(pools)}})
    return golden_race(tasks=(task,), telemetry={"hot-threads": {"type": kind}})


def test_a_task_has_its_two_hottest_pools_with_their_first_frames() -> None:
    record = race(
        pool("transport_worker", 80.0),
        pool("get", 75.4, "InternalEngine.get > refreshIfNeeded", "B.b", "C.c", "D.d"),
        pool("write", 20.0, "E.e"),
        pool("merge", 10.0, "F.f"),
    )
    (section,) = hot_threads(record)
    assert section.table.rows == (
        ("get-by-id", "get", 75.4, 40, "60% InternalEngine.get > refreshIfNeeded, 59% B.b, 58% C.c"),
        ("get-by-id", "write", 20.0, 40, "60% E.e"),
    )
    assert "60% InternalEngine.get > refreshIfNeeded" in render_text(summary(record))


def test_percentages_are_named_by_what_threads_were_hot() -> None:
    (section,) = hot_threads(race(pool("get", 1.0, "A.a"), kind="block"))
    assert [column.title for column in section.table.columns][2] == "Block %"


def test_a_race_without_hot_threads_has_no_section() -> None:
    assert hot_threads(golden_race()) == ()
    assert hot_threads(race(pool("transport_worker", 80.0))) == ()
