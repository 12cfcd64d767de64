"""`esbench duel --capacity` against null servers with queues. In test mode: its figures mean nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import NullServerFactory
from racing import Outcome, Races, press_ctrl_c, wait_until

from esbench.features.capacity import parts
from esbench.null_server import NullServer
from esbench.null_server.versions import parse_version
from esbench.record.model import RaceRecord
from esbench.record.sessions import RaceSession, SessionStore

SEARCH = ("--capacity", "--task=paced", "--objective=p99<100ms")
OPTIONS = ("--test-mode", "--telemetry=none", "--workers=1", "--search-budget=4s")


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path, deletes_first=True)
    yield races
    races.end()


Sides = tuple[NullServer, NullServer]


@pytest.fixture
def servers(null_server: NullServerFactory) -> Sides:
    """Two clusters whose reads take 5 ms and 10 ms, one after the other: their capacities are near 200/s and 100/s."""
    root = {**parse_version("7.17.29").root(), "cluster_uuid": "another"}
    another = {"method": "GET", "path": "^/$", "reply": {"status": 200, "body": root}}
    queues = [{"slots": 1, "service": {"type": "constant", "ms": ms}} for ms in (5, 10)]
    rules = [[{"path": "/_doc/", "queue": queue}] for queue in queues]
    return null_server({"rules": rules[0]}), null_server({"rules": [*rules[1], another]})


def start(races: Races, servers: Sides, *arguments: str) -> subprocess.Popen[str]:
    sides = ("--baseline=", f"--contender=target-hosts={servers[1].url}")
    return races.start(servers[0], *OPTIONS, *sides, *arguments, command="duel")


def last(races: Races) -> RaceSession:
    return SessionStore(races.home).load("last")


def records(races: Races) -> list[RaceRecord]:
    return [races.record(str(race.race_id)) for race in sorted(last(races).plan, key=lambda race: race.side)]


def capacity_row(outcome: Outcome) -> dict[str, Any]:
    rows: list[dict[str, Any]] = json.loads(outcome.stdout)["rows"]
    return next(row for row in rows if row["metric"] == "Capacity")


def test_a_round_is_one_search_over_both_sides(races: Races, servers: Sides) -> None:
    outcome = races.finish(start(races, servers, *SEARCH, "--rounds=1", "--format=json"), within_s=120)
    assert outcome.code == 0, outcome.stderr
    assert last(races).search == ("task=paced", "search-budget=4s", "objective=p99<100ms")
    found = [parts.SEARCH.kept_in(record) for record in records(races)]
    probes = [search.probes for search in found if search is not None]
    assert [each.probe.rate_per_s for each in probes[0]] == [each.probe.rate_per_s for each in probes[1]]
    assert [each.task for each in probes[0]] == [each.task for each in probes[1]]
    for ours, theirs in zip(*probes, strict=True):
        assert (ours.probe.stage == "other") != (theirs.probe.stage == "other")
    assert all(search is not None and search.found is not None for search in found)
    assert all(task.slices is not None for record in records(races) for task in record.tasks if "@" in task.name)
    row = capacity_row(outcome)
    assert (row["task"], row["primary"], row["verdict_v1"] in ("few rounds", "!")) == ("paced", True, True)
    assert not any("@" in each["task"] for each in json.loads(outcome.stdout)["rows"])


def test_a_search_that_is_interrupted_is_raced_again(races: Races, servers: Sides) -> None:
    process = start(races, servers, *SEARCH, "--rounds=1")

    def probed() -> bool:
        return any("paced@closed" in file.read_text() for file in (races.home / "races").glob("*/race.json"))

    wait_until(probed, process, within_s=60)
    press_ctrl_c(process)
    assert races.finish(process).code == 130
    search = last(races).search
    line = [sys.executable, "-m", "esbench.cli.main", "duel", "--resume=last", "--format=json"]
    home = {**os.environ, "ESBENCH_HOME": str(races.home)}
    resumed = subprocess.run(line, env=home, capture_output=True, text=True, check=False, timeout=120)
    assert resumed.returncode == 0, resumed.stderr
    assert (last(races).search, last(races).left) == (search, ())
    found = [parts.SEARCH.kept_in(record) for record in records(races)]
    assert all(search is not None and search.found is not None for search in found)


def test_a_dry_run_has_the_closed_loop_and_says_that_races_search(races: Races, servers: Sides) -> None:
    outcome = races.finish(start(races, servers, *SEARCH, "--dry-run"))
    assert outcome.code == 0, outcome.stderr
    assert re.findall(r"^baseline +\d +(\S+)", outcome.stdout, re.MULTILINE) == [
        "delete-index",
        "create-index",
        "bulk",
        "paced@closed",
    ]
    assert "what starting nodes, searches and tasks without a time take" in outcome.stdout


def test_in_turns_each_race_is_a_search_of_one_side(races: Races, servers: Sides) -> None:
    process = start(races, servers, *SEARCH, "--turns", "--rounds=1", "--format=json")
    outcome = races.finish(process, within_s=120)
    assert outcome.code == 0, outcome.stderr
    found = [parts.SEARCH.kept_in(record) for record in records(races)]
    assert all(search and search.found and search.terms and not search.terms.sustain_s for search in found)
    assert capacity_row(outcome)["task"] == "paced"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--task=paced",), "--task belongs to a search for a capacity (add --capacity)"),
        (("--objective=p99<50ms",), "--objective belongs to a search for a capacity (add --capacity)"),
        (("--capacity", "--objective=p99<50ms"), "--capacity: --task is missing (say --task=get-by-id"),
        (("--capacity", "--task=paced"), '--baseline: task "paced": it has no objectives'),
        (("--capacity", "--task=pacd", "--objective=p99<50ms"), 'has no task "pacd" (did you mean "paced"?'),
        ((*SEARCH, "--objective=p99 50ms"), '"p99 50ms" is not an objective'),
        ((*SEARCH, "--task-time=8s"), "--capacity cannot be combined with --task-time"),
        ((*SEARCH, "--warmup=cut"), "--capacity cannot be combined with --warmup"),
        ((*SEARCH, "--search-budget=soon"), '--search-budget: "soon" is not a duration'),
        (("--capacity=last", "--task=paced"), "--task belongs to a search for a capacity (say --capacity alone)"),
        (
            (*SEARCH, "--resume=last"),
            "--resume=last: --capacity cannot be changed when a session is resumed (leave it out)",
        ),
    ],
)
def test_bad_input_is_one_line_before_anything_starts(
    races: Races, servers: Sides, arguments: tuple[str, ...], error: str
) -> None:
    outcome = races.finish(start(races, servers, *arguments))
    assert outcome.code == 2
    assert error in outcome.error
    assert not (races.home / "sessions").exists()
