"""Races at percents of a capacity, against the null server: where it comes from, what is sent, kept and refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from driver import NullServerFactory
from races import golden_race, keep, search_of, with_task
from racing import Races

from esbench.features.capacity.record import KnownCapacity
from esbench.null_server import NullServer
from esbench.record.model import TrackFacts

AT_70 = ("--include-tasks=paced", "--workers=1", "--telemetry=none", "--track-params=rate:70%")


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    """Races in a home with a race that found 200/s, and a later one that searched for nothing."""
    races = Races(tmp_path)
    first = golden_race(race_id="searched", started_at="2026-11-01T00:00:00Z")
    first = replace(first, track=TrackFacts("shop", "track.yml", "digest"))
    keep(races.home, search_of(with_task(first, first.tasks[0].name, operation="read"), 200.0, task="closed"))
    keep(races.home, golden_race(race_id="other", started_at="2026-11-02T00:00:00Z"))
    yield races
    races.end()


def test_a_task_is_raced_at_its_percentage_of_the_capacity(races: Races, server: NullServer) -> None:
    outcome = races.run(server, *AT_70, "--capacity=last")
    assert outcome.code == 0, outcome.stderr
    record = races.record()
    (task,) = record.tasks
    assert (task.target_rate_per_s, task.target_unit, task.due) == (140.0, "ops", 70)
    assert record.parts["capacity_of"] == KnownCapacity("searched", "shop", "closed", "read", 200.0, "precise")
    assert (record.track_params, "capacity" in record.parts) == ({"rate": "70%"}, False)
    assert not any("the capacity was found for" in warning for warning in record.warnings)


def test_a_dry_run_shows_the_rate_that_the_percentage_is(races: Races, server: NullServer) -> None:
    outcome = races.run(server, *AT_70, "--capacity=searched", "--dry-run")
    assert outcome.code == 0, outcome.stderr
    assert "140 ops/s" in outcome.stdout
    assert "200.0/s of task closed, found by race searched" in outcome.stdout


def test_a_percentage_of_no_capacity_is_refused_before_anything_starts(
    races: Races, null_server: NullServerFactory
) -> None:
    outcome = races.run(null_server(), *AT_70)
    assert outcome.code == 2
    assert outcome.error.startswith(
        'esbench: task "paced" has target-throughput 70 %: of which capacity? (find it with'
    )
    assert f"--track-path={races.track / 'track.yml'} --task=closed " in outcome.error
    assert len(list((races.home / "races").iterdir())) == 2


def test_a_capacity_that_no_rate_needs_is_refused(races: Races, server: NullServer) -> None:
    outcome = races.run(server, *AT_70[:-1], "--capacity=last")
    assert outcome.code == 2
    assert (
        '--capacity: no task of challenge "default" that is raced has a target-throughput in percent' in outcome.error
    )


def test_a_capacity_of_another_task_is_a_warning(races: Races, server: NullServer) -> None:
    keep(races.home, search_of(golden_race(race_id="elsewhere"), task="load"))
    outcome = races.run(server, *AT_70, "--capacity=elsewhere")
    assert outcome.code == 0, outcome.stderr
    (said,) = [warning for warning in races.record().warnings if "the capacity" in warning]
    assert said == f"the capacity was found for track {golden_race().track.name}, not shop"
    assert said in outcome.stdout


def test_the_rounds_of_a_session_keep_to_one_capacity(races: Races, null_server: NullServerFactory) -> None:
    sides = ("--turns", "--rounds=1", "--baseline=workers=1", f"--contender=target-hosts={null_server().url}")
    outcome = races.run(null_server(), *AT_70, "--capacity=last", *sides, command="duel")
    assert outcome.code == 0, outcome.stderr
    (session,) = (races.home / "sessions").glob("*.json")
    assert '"capacity=searched"' in session.read_text()
    raced = [races.record(folder.name) for folder in (races.home / "races").iterdir()]
    of_session = [record for record in raced if record.session is not None and record.session.id == session.stem]
    assert [record.tasks[0].target_rate_per_s for record in of_session] == [140.0, 140.0]
