"""Tasks of one operation over clients or rates, as one table."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from races import golden_race, task_of

from esbench.record.model import Check, RaceRecord, RateStage
from esbench.report.race_summary import summary
from esbench.report.render import render
from esbench.report.task_tables import sweeps


def with_tasks_like(name: str, *changes: dict[str, Any]) -> RaceRecord:
    """The golden race, with a variant of one of its tasks for each of `changes` in place of its tasks."""
    record = golden_race()
    task = task_of(record, name)
    tasks = (replace(task, **{"name": f"{name}-{n}", "step": n, **change}) for n, change in enumerate(changes))
    return replace(record, tasks=tuple(tasks))


def over_clients(*clients: int) -> RaceRecord:
    return with_tasks_like("get-by-id", *({"clients": number} for number in clients))


def over_rates(*shares: dict[str, float]) -> RaceRecord:
    changes = ({"target_rate_per_s": 1000.0 * n, "within_ms": share} for n, share in enumerate(shares, 1))
    return with_tasks_like("get-by-id-open", *changes)


def test_a_race_without_a_sweep_has_no_such_table() -> None:
    assert sweeps(golden_race()) == ()
    assert sweeps(over_clients(8, 8)) == ()


def test_more_and_more_clients_of_one_operation_are_a_line_each() -> None:
    (section,) = sweeps(over_clients(8, 16))
    assert section.title == "get-by-id, closed loop"
    assert [column.title for column in section.table.columns[:6]] == [
        "Clients", "Requests", "ops/s", "Mean ms", "p99 ms", "Errors",
    ]  # fmt: skip
    assert section.table.rows == ((8, 52000, 5199.0, 1.52, 4.1, 10, False), (16, 52000, 5199.0, 1.52, 4.1, 10, False))


def test_tasks_that_ran_beside_others_are_no_part_of_it() -> None:
    beside: list[dict[str, Any]] = [{"clients": 16, "step": 7}, {"clients": 1, "step": 7, "operation": "bulk"}]
    assert sweeps(with_tasks_like("get-by-id", {"clients": 8}, *beside)) == ()


def test_higher_and_higher_rates_show_the_shares_within_their_thresholds() -> None:
    (section,) = sweeps(over_rates({"3": 99.2, "50": 99.9}, {"3": 97.9, "50": 99.5}))
    assert section.title == "get-by-id, open loop: latency in ms, percent of requests within"
    shown = [dict(zip((column.key for column in section.table.columns), row)) for row in section.table.rows]  # noqa: B905
    assert [(row["target_rate_per_s"], row["within_ms_3"], row["within_ms_50"]) for row in shown] == [
        (1000, 99.2, 99.9),
        (2000, 97.9, 99.5),
    ]


def test_all_thresholds_that_were_asked_for_are_there() -> None:
    (section,) = sweeps(over_rates({"3": 100.0, "5": 100.0, "50": 100.0}, {"3": 100.0, "5": 100.0, "50": 100.0}))
    titles = [column.title for column in section.table.columns]
    assert [title for title in titles if title.startswith("<=")] == ["<= 3", "<= 5", "<= 50"]


def test_rates_without_thresholds_have_percentiles_only() -> None:
    (section,) = sweeps(over_rates({}, {}))
    assert section.title == "get-by-id, open loop: latency in ms"
    assert not [column for column in section.table.columns if column.title.startswith("<=")]


def test_a_rate_that_changes_within_a_task_is_no_step_of_a_sweep() -> None:
    stages = (RateStage(10.0, 100.0, "ops"),)
    changes: list[dict[str, Any]] = [{"target_rate_per_s": rate, "stages": stages} for rate in (1.0, 2.0)]
    assert sweeps(with_tasks_like("get-by-id-open", *changes)) == ()


def test_what_must_not_be_used_or_is_only_known_to_be_longer_is_marked() -> None:
    bad = Check("unsent", "unusable", "half of the requests were not sent")
    latency = {"mean": inf, "max": 412.5, "p50": 1.0, "p99": inf}
    record = with_tasks_like(
        "get-by-id-open",
        {"target_rate_per_s": 10.0, "checks": ()},
        {"target_rate_per_s": 20.0, "checks": (bad,), "latency_ms": latency},
    )
    lines = render(summary(record), "text").splitlines()
    table = lines[next(n for n, line in enumerate(lines) if line.startswith("get-by-id, open loop")) :]
    assert "> 412.5" in table[4]
    assert table[4].endswith("!")
    assert not table[3].endswith("!")


def test_every_format_but_csv_has_them_beside_the_summary() -> None:
    document = summary(over_clients(8, 16))
    assert "\nget-by-id, closed loop\n" in render(document, "text")
    assert "\nget-by-id, closed loop\n\n|" in render(document, "markdown")
    (section,) = json.loads(render(document, "json"))["sections"]
    assert [row["clients"] for row in section["rows"]] == [8, 16]
    assert section["title"] == "get-by-id, closed loop"
    assert "Clients" not in render(document, "csv")


@pytest.mark.parametrize(
    "other",
    [
        {"params_digest": "another"},
        {"operation_type": "search"},
        {"cluster": "another"},
        {"think_time_s": 1.0},
        {"schedule": "poisson"},
        {"ramp_up_s": 5.0},
    ],
)
def test_tasks_that_differ_in_more_than_their_clients_are_no_sweep(other: dict[str, Any]) -> None:
    assert sweeps(with_tasks_like("get-by-id", {"clients": 8}, {"clients": 16, **other})) == ()


@pytest.mark.parametrize("other", [{"params_digest": "another"}, {"clients": 3}, {"target_unit": "docs"}])
def test_tasks_that_differ_in_more_than_their_rates_are_no_sweep(other: dict[str, Any]) -> None:
    rates = [{"target_rate_per_s": 1000.0, "clients": 2}, {"target_rate_per_s": 2000.0, "clients": 2, **other}]
    assert sweeps(with_tasks_like("get-by-id-open", *rates)) == ()
