"""Objectives of tasks against the null server: what a race says of them, keeps, and answers to `--fail-on`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from racing import Races

from esbench.null_server import NullServer

SHORT = ("--include-tasks=type:delete-index,type:create-index,closed", "--workers=1", "--telemetry=none")
HELD = "p50<{{ limit | default('5s') }}"


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path, deletes_first=True)
    track = races.track / "track.yml"
    of_closed = f'warmup-iterations: 10, objectives: ["{HELD}", {{{{ more | default("errors<=0%") | tojson }}}}]'
    track.write_text(track.read_text().replace("warmup-iterations: 10", of_closed, 1))
    yield races
    races.end()


def test_objectives_that_are_held_are_in_table_page_and_record(
    races: Races, server: NullServer, tmp_path: Path
) -> None:
    page = tmp_path / "race.html"
    outcome = races.run(server, *SHORT, "--fail-on=objectives", f"--html={page}")
    assert outcome.code == 0, outcome.stderr
    table = outcome.stdout.partition("Objectives")[2]
    assert [line.split()[-1] for line in table.splitlines() if line.startswith("closed")][:2] == ["yes", "yes"]
    (task,) = [task for task in races.record().tasks if task.name == "closed"]
    found = [(each.text, each.unit, each.holds, each.reason) for each in task.objectives]
    assert found == [("p50 < 5000 ms", "ms", True, ""), ("errors <= 0 %", "%", True, "")]
    assert task.within_ms == {"5000": 100.0}
    assert "All objectives were held." in page.read_text()
    assert "p50 &lt; 5000 ms" in page.read_text()


def test_an_objective_that_is_missed_is_a_warning_and_exit_status_3(races: Races, server: NullServer) -> None:
    outcome = races.run(server, *SHORT, "--track-params=limit:1us", "--fail-on=objectives")
    assert (outcome.code, outcome.error) == (3, "esbench: --fail-on=objectives: p50 < 0.001 ms of closed")
    assert "closed: p50 < 0.001 ms is not held: p50 is " in outcome.stdout
    assert races.record().status == "complete"
    assert races.run(server, *SHORT, "--track-params=limit:1us").code == 0


def test_an_objective_that_cannot_be_judged_is_exit_status_4(races: Races, server: NullServer) -> None:
    outcome = races.run(server, *SHORT, "--track-params=more:'p99<1s'", "--fail-on=objectives")
    said = "cannot be judged: p99 < 1000 ms of closed (100 requests are too few for p99)"
    assert (outcome.code, outcome.error) == (4, f"esbench: --fail-on=objectives: {said}")
    (task,) = [task for task in races.record().tasks if task.name == "closed"]
    assert [each.holds for each in task.objectives] == [True, None]


def test_any_round_may_miss_an_objective(races: Races, server: NullServer) -> None:
    outcome = races.run(server, *SHORT, "--track-params=limit:1us", "--rounds=2", "--fail-on=objectives")
    assert (outcome.code, outcome.error) == (3, "esbench: --fail-on=objectives: p50 < 0.001 ms of closed")


def test_a_duel_fails_on_the_objectives_of_the_contender(races: Races, server: NullServer) -> None:
    sides = ("--turns", "--rounds=1", "--baseline", "track-params=limit:1us", "--contender", "track-params=limit:5s")
    for words, code in ((sides, 0), ((*sides[:2], sides[2], sides[5], sides[4], sides[3]), 3)):
        process = races.start(server, *SHORT, *words, "--fail-on=objectives", command="duel")
        outcome = races.finish(process, 60)
        assert outcome.code == code, outcome.stderr
        missing = "contender" if code else "baseline"
        assert f"{missing}: closed: p50 < 0.001 ms is not held: p50 is " in outcome.stdout


def test_what_is_no_condition_of_a_race_is_refused(races: Races, server: NullServer) -> None:
    outcome = races.run(server, *SHORT, "--fail-on=slower")
    assert outcome.code == 2
    assert '--fail-on: there is no "slower" (one race has no verdicts; esbench duel races two sides' in outcome.error


def test_a_report_for_programs_has_the_objectives(races: Races, server: NullServer) -> None:
    outcome = races.run(server, *SHORT, "--format=json")
    (section,) = [each for each in json.loads(outcome.stdout)["sections"] if each["title"] == "Objectives"]
    assert [(row["objective"], row["held"], row["reason"]) for row in section["rows"]] == [
        ("p50 < 5000 ms", True, ""),
        ("errors <= 0 %", True, ""),
    ]
