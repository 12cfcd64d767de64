"""What the servers did during each task, beside the figures of a race."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from races import golden_race, task_of

from esbench.record.model import RaceRecord, TaskResult
from esbench.report.race_summary import summary
from esbench.report.task_tables import load_notice, servers, sweeps
from esbench.report.text import render_text

NODES: dict[str, Any] = {
    "nodes": 1,
    "cpu_core_percent": {"mean": 151.5, "peak": 190.0},
    "load_1m": {"last": 1.25, "peak": 1.5},
    "gc_time_ms": 12,
}


def seen(task: TaskResult, **telemetry: Any) -> TaskResult:
    return replace(task, telemetry=telemetry)


def race(*tasks: TaskResult) -> RaceRecord:
    return golden_race(tasks=tasks)


def test_a_line_for_each_task_with_what_is_known_of_it() -> None:
    task = task_of(golden_race(), "get-by-id")
    driver = {"process_core_percent": {"esbench": 2.0, "worker-0": 30.0, "worker-1": 20.5}}
    record = race(seen(task, nodes=NODES, cluster={"refresh_count": 4}, driver=driver))
    (section,) = servers(record)
    assert [column.key for column in section.table.columns] == [
        "task",
        "cpu_core_percent_mean",
        "cpu_core_percent_peak",
        "load_1m",
        "gc_time_ms",
        "refresh_count",
        "workers_cpu_core_percent",
    ]
    assert section.table.rows == (("get-by-id", 151.5, 190.0, 1.25, 12, 4, 50.5),)


def test_tasks_without_telemetry_have_no_section() -> None:
    assert servers(golden_race()) == ()
    assert load_notice(golden_race()) == ()


def test_figures_that_one_task_lacks_are_not_measured() -> None:
    task = task_of(golden_race(), "get-by-id")
    others = replace(seen(task, nodes={"nodes": 1, "gc_time_ms": 0}), name="other")
    (section,) = servers(race(seen(task, nodes=NODES), others))
    assert section.table.rows[1] == ("other", None, None, None, 0)


def test_a_sweep_has_cpu_and_load() -> None:
    task = task_of(golden_race(), "get-by-id")
    tasks = [
        replace(seen(task, nodes=NODES), name=f"get-{clients}", step=clients, clients=clients) for clients in (8, 16)
    ]
    (section,) = sweeps(race(*tasks))
    keys = [column.key for column in section.table.columns]
    assert keys[keys.index("service_time_ms_p99") + 1 :] == ["cpu_core_percent_mean", "load_1m", "errors", "unusable"]
    assert section.table.rows[0][5:7] == (151.5, 1.25)


def test_a_sweep_has_them_though_its_steps_were_too_short_for_a_reading() -> None:
    task = task_of(golden_race(), "get-by-id")
    short = [replace(task, name=f"get-{clients}", step=clients, clients=clients) for clients in (8, 16)]
    (section,) = sweeps(race(seen(task_of(golden_race(), "bulk"), nodes=NODES), *short))
    keys = [column.key for column in section.table.columns]
    assert keys[-4:] == ["cpu_core_percent_mean", "load_1m", "errors", "unusable"]
    assert section.table.rows[0][5:7] == (None, None)


def test_a_sweep_without_telemetry_has_neither() -> None:
    task = task_of(golden_race(), "get-by-id")
    (section,) = sweeps(race(*(replace(task, step=clients, clients=clients) for clients in (8, 16))))
    assert "load_1m" not in [column.key for column in section.table.columns]


def test_a_load_average_of_a_short_task_is_explained() -> None:
    task = replace(seen(task_of(golden_race(), "get-by-id"), nodes=NODES), duration_s=10.0)
    text = render_text(summary(race(task)))
    assert "note: load 1m is an average of the last minute" in text
    assert load_notice(race(replace(task, duration_s=61.0))) == ()
