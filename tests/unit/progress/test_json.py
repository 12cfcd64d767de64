"""Progress as JSON: what docs/reference/progress.md promises."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from followed import Clock, second, task
from races import golden_race

from esbench.model import Step
from esbench.progress.json_lines import JsonProgress
from esbench.record.model import HostEvent
from esbench.telemetry.device import Reading

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "progress.md"


def documented() -> dict[str, set[str]]:
    """Event -> its keys, as the page lists them."""
    keys: dict[str, set[str]] = {}
    event = ""
    for line in PAGE.read_text().partition("## JSON")[2].splitlines():
        if found := re.match(r"`(\w+)`: ", line):
            event = found[1]
            keys[event] = set()
        elif line.startswith("- `"):
            keys[event] |= set(re.findall(r"`(\w+)`", line.partition(":")[0]))
    return keys


def estimates_of_sides() -> list[str]:
    """The estimate after ten seconds of two sides that are raced at once."""
    lines: list[str] = []
    progress = JsonProgress(lines.append, Clock())
    for side in progress.of_sides(("baseline", "contender")):
        side.step_begins(0, Step((task("get"),)))
        side.step_runs(0, {"get": "ops"}, 2.1)
        for number in range(10):
            side.second("get", second(number, 100))
    progress.tick()
    return [line for line in lines if json.loads(line)["event"] == "estimate"]


@pytest.fixture
def told() -> list[dict[str, Any]]:
    """Every event of a short race."""
    lines: list[str] = []
    clock = Clock()
    progress = JsonProgress(lines.append, clock)
    record = golden_race()
    step = Step((task("get", rate=200.0, warmup_time_s=1.0, time_period_s=9.0), task("merge", kind="force-merge")))
    with progress.job("generating orders", 1000, "documents") as job:
        clock.now_s += 1
        job.reach(400)
        progress.tick()
        job.reach(1000)
    progress.race_begins(record, [step])
    progress.step_begins(0, step)
    progress.totals_known({})
    progress.step_runs(0, {"get": "ops", "merge": "ops"})
    progress.second("get", second(0, 200, ms=2.0, warmup=True))
    progress.read("nodes", Reading("node-0", "process", counters={"cpu_ms": 1000.0}))
    clock.now_s += 2
    progress.read("nodes", Reading("node-0", "process", counters={"cpu_ms": 4000.0}))
    progress.read("nodes", Reading("node-0", "jvm", {"heap_used_percent": 41.0}))
    progress.read("driver", Reading("driver", "process", counters={"cpu_ms": 1.0}))
    progress.tick()
    for result in record.tasks[:1]:
        progress.task_ended(replace(result, latency_ms={"p50": 1.0, "p99": float("inf")}))
    progress.host_changed(HostEvent("2026-11-21T10:15:10Z", 1, ("get",), "10.0.0.1:9200", "lost", "refused"))
    progress.say("a word")
    progress.warn("careful")
    progress.insist("a folder is left behind")
    progress.race_ended(replace(record, status="failed", failure="it fell", warnings=("one",)))
    assert progress.fail("esbench could not") is True
    lines += estimates_of_sides()
    return [json.loads(line) for line in lines]


def of(told: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [each for each in told if each["event"] == event]


def test_every_event_has_the_keys_of_the_reference(told: list[dict[str, Any]]) -> None:
    promised = documented()
    assert {each["event"] for each in told} == promised.keys()
    for each in told:
        assert each.keys() - {"event", "at", "side"} == promised[each["event"]], each["event"]
        assert each["at"].endswith("Z")


def test_what_the_events_say(told: list[dict[str, Any]]) -> None:
    begin, run, end = of(told, "job")
    assert [(job["state"], job["done"], job["total"]) for job in (begin, run, end)] == [
        ("begin", 0, 1000),
        ("run", 400, 1000),
        ("end", 1000, 1000),
    ]
    (race,) = of(told, "race")
    assert race["steps"] == [["get", "merge"]]
    assert [step["phase"] for step in of(told, "step")] == ["prepare", "run"]
    (of_second,) = of(told, "second")
    assert (of_second["phase"], of_second["requests"], of_second["target_per_s"]) == ("warmup", 200, 200)
    assert (of_second["p50_ms"], of_second["p99_ms"]) == (pytest.approx(2.0, rel=1e-3), None)
    get, merge = of(told, "progress")
    assert (get["phase"], get["done_ratio"], get["left_s"]) == ("measurement", 0.2, 8.0)
    assert (get["cpu_core_percent"], get["heap_percent"]) == (150.0, 41.0)
    assert (merge["done_ratio"], merge["left_s"], merge["elapsed_s"]) == (None, None, 2.0)
    (result,) = of(told, "task")
    assert result["latency_ms"] == {"p50": 1.0, "p99": "inf"}
    assert [(message["level"], message["text"]) for message in of(told, "message")] == [
        ("info", "a word"),
        ("warning", "careful"),
        ("warning", "a folder is left behind"),
        ("error", "esbench could not"),
    ]
    (over,) = of(told, "end")
    assert (over["status"], over["failure"], over["warnings"]) == ("failed", "it fell", ["one"])
