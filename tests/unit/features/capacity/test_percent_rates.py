"""Target rates in percent of a capacity: which race it is taken from, which rates they become, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from races import golden_race, keep, kept_search, search_of, with_search

from esbench.errors import UsageError
from esbench.features.capacity.percent_rates import (
    at_capacity,
    capacity_missing,
    in_percent,
    known_capacity,
    objections,
)
from esbench.features.capacity.record import FoundCapacity, KnownCapacity
from esbench.model import Challenge, Operation, Schedule, Stage, Step, Task
from esbench.race.options import RaceOptions
from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore
from esbench.track.library import find_track
from esbench.units import PERCENT, Rate


def keep_search(home: Path, race_id: str, day: int = 1, **search: object) -> RaceRecord:
    record = search_of(golden_race(race_id=race_id, started_at=f"2026-11-{day:02}T00:00:00Z"), **search)  # type: ignore[arg-type]
    keep(home, record)
    return record


def paced(name: str, rate: str | float, operation: str = "read") -> Task:
    unit = PERCENT if isinstance(rate, str) else "ops"
    value = float(str(rate).removesuffix("%"))
    return Task(name, Operation(operation, "get"), schedule=Schedule(rate=Rate(value, unit)))


def challenge(*tasks: Task) -> Challenge:
    return Challenge("default", (Step(tasks),))


# which race


def test_a_race_that_has_found_a_capacity_is_named_as_any_race(tmp_path: Path) -> None:
    record = keep_search(tmp_path, "20261121t101530-4f2a", rate_per_s=250.0)
    operation = record.tasks[0].operation
    known = KnownCapacity(record.race_id, record.track.name, operation, operation, 250.0, "precise")
    store = RaceStore(tmp_path)
    assert [known_capacity(store, name) for name in (record.race_id, "2026", "last")] == [known] * 3


def test_last_is_the_newest_race_that_has_found_a_rate(tmp_path: Path) -> None:
    keep_search(tmp_path, "old", 1)
    keep_search(tmp_path, "newer", 2)
    keep_search(tmp_path, "none", 3, rate_per_s=0.0, why="no rate")
    keep(tmp_path, with_search(replace(keep_search(tmp_path, "running", 4), race_id="begun"), None))
    found = kept_search(RaceStore(tmp_path).load("running"))
    running = golden_race(race_id="running", started_at="2026-11-04T00:00:00Z")
    RaceStore(tmp_path).folder("running").save(with_search(running, replace(found, found=None)))
    assert known_capacity(RaceStore(tmp_path), "last").race_id == "newer"


@pytest.mark.parametrize(
    ("race", "message"),
    [
        ("last", "--capacity=last: no race has found a capacity (find it with: esbench capacity --track=orders"),
        ("plian", '--capacity=plian: there is no race "plian" (did you mean "plain"? known: hopeless, plain, unended)'),
        ("plain", "--capacity=plain: race plain has searched for no capacity (find it with: esbench capacity"),
        ("unended", "--capacity=unended: the search of race unended has not ended: its status is cancelled (name"),
        ("hopeless", 'race hopeless has found no rate at which task "bulk-load" holds p99 < 50 ms (name another race)'),
    ],
)
def test_a_race_without_a_capacity_is_refused_in_one_line(tmp_path: Path, race: str, message: str) -> None:
    keep(tmp_path, golden_race(race_id="plain"))
    hopeless = keep_search(tmp_path, "hopeless", rate_per_s=0.0, why="no rate", task="bulk-load")
    unended = replace(kept_search(hopeless), found=None)
    keep(tmp_path, with_search(replace(hopeless, race_id="unended", status="cancelled"), unended))
    with pytest.raises(UsageError) as caught:
        known_capacity(RaceStore(tmp_path), race)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("high_per_s", "why"), [(550.0, "out of time"), (977.0, "at least"), (math.inf, "at least")])
def test_of_a_search_without_an_estimate_the_rate_that_held_is_the_least(
    tmp_path: Path, high_per_s: float, why: str
) -> None:
    record = keep_search(tmp_path, "bounds")
    found = FoundCapacity("out of time", 500.0, 500.0, high_per_s)
    RaceStore(tmp_path).folder("bounds").save(with_search(record, replace(kept_search(record), found=found)))
    known = known_capacity(RaceStore(tmp_path), "bounds")
    assert (known.rate_per_s, known.why) == (500.0, why)


# which rates


def test_percents_become_requests_per_second_and_other_rates_stay() -> None:
    stages = Schedule(stages=(Stage(1.0, Rate(50.0, PERCENT)), Stage(2.0, Rate(9.0, "docs"))))
    tasks = (paced("a", "70%"), paced("b", "150%"), paced("c", 5.0), Task("d", Operation("d", "get"), schedule=stages))
    before = challenge(*tasks, Task("closed", Operation("read", "get")))
    after = at_capacity(before, 200.0)
    assert [task.schedule.rate for task in after.tasks[:3]] == [
        Rate(140.0, "ops"),
        Rate(300.0, "ops"),
        Rate(5.0, "ops"),
    ]
    assert after.tasks[3].schedule.stages == (Stage(1.0, Rate(100.0, "ops")), Stage(2.0, Rate(9.0, "docs")))
    assert after.tasks[4] == before.tasks[4]
    assert [task.name for task in in_percent(before)] == ["a", "b", "d"]
    assert in_percent(after) == []


# what is said


def test_a_rate_of_no_capacity_names_the_command_that_finds_it() -> None:
    options = RaceOptions(Path("home"), "race", find_track("orders", None))
    closed = Task("get-by-id", Operation("read", "get"))
    whole = challenge(closed, paced("x", "70%"))
    assert str(capacity_missing(whole.tasks[1], whole, options)) == (
        'task "x" has target-throughput 70 %: of which capacity? (find it with: esbench capacity --track=orders '
        '--task=get-by-id --objective "p99<50ms", then add --capacity=last)'
    )


def test_the_command_is_of_the_same_track_challenge_and_parameters() -> None:
    given = RaceOptions(Path("home"), "race", Path("/my tracks/t.yml"), challenge="a b", track_params={"rates": "70%"})
    whole = challenge(paced("x y", "12.5%"), paced("z", 5.0, "other"))
    command = "esbench capacity --track-path='/my tracks/t.yml' --challenge='a b' --task='x y' --objective \"p99<50ms\""
    error = capacity_missing(whole.tasks[0], whole, given)
    assert error.what == 'task "x y" has target-throughput 12.5 %: of which capacity?'
    assert error.hint == f"find it with: {command} and the same --track-params, then add --capacity=last"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"task": "read-at-70", "operation": "gone"}, ["the capacity was found for task read-at-70, not find-at-70"]),
        ({"task": "get", "operation": "read"}, ["the capacity was found for task get, not find-at-70"]),
        ({"task": "get"}, ["the capacity was found for task get, not read-at-70, find-at-70"]),
        ({"track": "keyword"}, ["the capacity was found for track keyword, not orders"]),
        ({"why": "at least"}, ["the capacity is 763.0/s at least: how much more is not known"]),
        ({"why": "flat"}, ["the capacity is 763.0/s or so: its search had not found it when it ended"]),
    ],
)
def test_a_capacity_of_something_else_is_a_warning(changes: dict[str, str], said: list[str]) -> None:
    known = replace(KnownCapacity("x", "orders", "any", "any", 763.0, "precise"), **changes)  # type: ignore[arg-type]
    tasks = [paced("read-at-70", "70%"), paced("find-at-70", "70%", "find")]
    if not changes or "why" in changes or "track" in changes:
        tasks = [paced("any", "70%")]
    assert list(objections(known, "orders", tasks)) == said
