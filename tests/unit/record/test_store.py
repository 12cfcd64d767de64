"""Race records on disk: atomic, found by id, prefix and `last`; damage is named and hides nothing else."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from races import golden_race, keep

from esbench.errors import RecordError, UsageError
from esbench.record.locks import RaceLock
from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore, check_race_id, new_race_id


@pytest.fixture
def store(esbench_home: Path) -> RaceStore:
    return RaceStore(esbench_home)


@contextmanager
def no_file_longer_than(size_bytes: int) -> Iterator[None]:
    """What a full disk does to a writer: the write stops in the middle of the file."""
    earlier = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, earlier[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, earlier)


def test_a_race_id_sorts_by_time_and_can_name_a_folder() -> None:
    earlier = new_race_id(datetime(2026, 11, 21, 10, 15, 30, tzinfo=UTC))
    later = new_race_id(datetime(2026, 11, 21, 10, 15, 31, tzinfo=UTC))
    assert re.fullmatch(r"20261121t101530-[0-9a-f]{4}", earlier)
    assert earlier < later
    assert check_race_id(earlier) == earlier


@pytest.mark.parametrize("race_id", ["", "..", "a/b", "A", "-a", "a b", "last", "x" * 101, "ä"])
def test_an_id_that_cannot_name_a_folder_is_refused(race_id: str, store: RaceStore) -> None:
    with pytest.raises(UsageError):
        store.create(race_id)
    assert not store.races_folder.exists()


def test_a_refused_id_comes_with_one_that_would_do() -> None:
    with pytest.raises(UsageError, match='say "my-race"'):
        check_race_id("My Race!")


def test_a_record_is_read_as_it_was_saved(store: RaceStore) -> None:
    record = golden_race(race_id="a")
    store.create("a").save(record)
    assert store.load("a") == record


def test_a_taken_id_is_refused_and_the_race_stays(store: RaceStore) -> None:
    keep(store.home, golden_race(race_id="a"))
    with pytest.raises(UsageError, match='there is a race "a" already'):
        store.create("a")
    assert store.load("a").race_id == "a"


def test_saving_again_replaces_the_record_and_leaves_no_other_file(store: RaceStore) -> None:
    folder = store.create("a")
    folder.save(golden_race(race_id="a", status="running"))
    folder.save(golden_race(race_id="a", status="complete"))
    assert store.load("a").status == "complete"
    assert sorted(path.name for path in folder.path.iterdir()) == ["logs", "race.json"]


def long_race(tasks: int = 400) -> RaceRecord:
    """A race of many tasks with wide histograms."""
    record = golden_race(race_id="a")
    histograms = dict.fromkeys(("latency", "service_time", "driver_lag"), "H" * 5000)
    task = replace(record.tasks[0], histograms=histograms)
    return replace(record, tasks=tuple(replace(task, name=f"task-{number}") for number in range(tasks)))


def test_a_long_record_keeps_race_json_below_a_megabyte(store: RaceStore) -> None:
    record = long_race()
    folder = store.create("a")
    folder.save(record)
    assert folder.record_file.stat().st_size < 1_000_000
    assert json.loads(folder.record_file.read_text())["elsewhere"] == ["tasks"]
    assert len(json.loads((folder.path / "race.tasks.json").read_text())) == 400
    assert store.load("a") == record
    ((entry,), damaged) = store.entries()
    assert (entry.race_id, entry.track, damaged) == ("a", record.track, [])


def test_parameters_of_any_length_move_without_their_secrets(store: RaceStore) -> None:
    params = {"body": "x" * 1_500_000, "secret_of_mine": "hush"}
    folder = store.create("a")
    folder.save(golden_race(race_id="a", track_params=params))
    assert folder.record_file.stat().st_size < 1_000_000
    assert store.load("a").track_params == {**params, "secret_of_mine": "<hidden>"}
    assert not any(b"hush" in path.read_bytes() for path in folder.path.glob("*.json"))


def test_a_record_may_be_read_while_it_grows(store: RaceStore) -> None:
    folder = store.create("a")
    for record in (golden_race(race_id="a"), long_race(), long_race(500)):
        folder.save(record)
        assert store.load("a") == record


def test_a_part_of_a_record_that_is_gone_is_named(store: RaceStore) -> None:
    folder = store.create("a")
    folder.save(long_race())
    (folder.path / "race.tasks.json").unlink()
    with pytest.raises(RecordError, match=r"race\.tasks\.json: cannot be read: No such file"):
        store.load("a")
    (folder.path / "race.tasks.json").write_text("[{")
    with pytest.raises(RecordError, match=r"race\.tasks\.json"):
        store.load("a")


def test_a_full_disk_is_one_clear_line_and_keeps_the_earlier_record(store: RaceStore) -> None:
    folder = store.create("a")
    folder.save(golden_race(race_id="a", status="running"))
    with no_file_longer_than(1000), pytest.raises(RecordError, match=r"race\.json\.part: cannot be written: .+"):
        folder.save(golden_race(race_id="a", status="complete"))
    assert store.load("a").status == "running"
    assert sorted(path.name for path in folder.path.iterdir()) == ["logs", "race.json"]


def test_a_home_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"cannot be written: Not a directory.*ESBENCH_HOME"):
        RaceStore(tmp_path / "file" / "home").create("a")


def test_seconds_are_appended_line_by_line(store: RaceStore) -> None:
    folder = store.create("a")
    folder.append_seconds(b'{"task":"get","second":0}\n{"task":"put","second":0}\n')
    folder.append_seconds(b'{"task":"get","second":1}\n')
    lines = [json.loads(line) for line in folder.seconds_file.read_text().splitlines()]
    assert [(line["task"], line["second"]) for line in lines] == [("get", 0), ("put", 0), ("get", 1)]


def test_a_race_is_found_by_its_id_a_unique_beginning_and_last(store: RaceStore) -> None:
    keep(store.home, golden_race(race_id="new", started_at="2026-11-21T12:00:00Z"))
    keep(store.home, golden_race(race_id="old", started_at="2026-11-21T11:00:00Z"))
    keep(store.home, golden_race(race_id="older", started_at="2026-11-21T10:00:00Z"))
    assert store.resolve("old") == "old"  # an id wins over the longer one that begins with it
    assert store.resolve("olde") == "older"
    assert store.resolve("N") == "new"
    assert store.resolve("last") == "new"


def test_an_ambiguous_beginning_is_refused_with_its_candidates(store: RaceStore) -> None:
    for race_id in ("2026-a", "2026-b"):
        keep(store.home, golden_race(race_id=race_id))
    with pytest.raises(UsageError, match=r"beginning of 2 races \(2026-b, 2026-a\)"):
        store.resolve("2026")


def test_an_unknown_race_gets_a_did_you_mean(store: RaceStore) -> None:
    keep(store.home, golden_race(race_id="baseline"))
    with pytest.raises(UsageError, match=r'there is no race "baselin3" .did you mean "baseline"'):
        store.resolve("baselin3")
    with pytest.raises(UsageError, match='there is no race ""'):
        store.resolve("")


def test_the_names_of_many_races_are_not_poured_out(store: RaceStore) -> None:
    for number in range(30):
        keep(store.home, golden_race(race_id=f"race-{number:02}"))
    with pytest.raises(UsageError) as caught:
        store.resolve("x")
    assert "list races --all shows all 30" in str(caught.value)
    with pytest.raises(UsageError) as caught:
        store.resolve("race")
    assert str(caught.value).endswith("and 25 more)")


def test_last_without_races_says_how_to_make_one(store: RaceStore) -> None:
    with pytest.raises(UsageError, match=r"there are no races in .* .esbench race"):
        store.resolve("last")


def test_races_are_listed_newest_first_by_track_and_challenge(store: RaceStore) -> None:
    for number, challenge in enumerate(["default", "other", "default"]):
        keep(
            store.home,
            golden_race(race_id=f"r{number}", challenge=challenge, started_at=f"2026-11-21T1{number}:00:00Z"),
        )
    assert [entry.race_id for entry in store.entries()[0]] == ["r2", "r1", "r0"]
    assert [entry.race_id for entry in store.entries(challenge="default")[0]] == ["r2", "r0"]
    assert store.entries(track="percolator") == ([], [])


@pytest.mark.parametrize("content", ["", "{", '{"schema": 1}', "[]", '{"schema": 99}', "\x00\xff"])
def test_a_damaged_record_is_named_and_the_others_are_listed(content: str, store: RaceStore) -> None:
    keep(store.home, golden_race(race_id="good"))
    folder = store.create("bad")
    folder.record_file.write_text(content)
    entries, damaged = store.entries()
    assert [entry.race_id for entry in entries] == ["good"]
    assert [race.race_id for race in damaged] == ["bad"]
    assert str(folder.record_file) in damaged[0].reason
    with pytest.raises(RecordError, match=re.escape(str(folder.record_file))):
        store.load("bad")


def test_a_race_folder_without_a_record_is_named(store: RaceStore) -> None:
    store.create("empty")
    assert "No such file" in store.entries()[1][0].reason


def test_last_is_never_an_older_race_because_the_newest_is_damaged(store: RaceStore) -> None:
    keep(store.home, golden_race(race_id="good", started_at="2020-01-01T00:00:00Z"))
    store.create("bad").record_file.write_text("{")
    with pytest.raises(RecordError, match="bad"):
        store.load("last")


def test_last_passes_over_races_that_are_running_and_names_them(store: RaceStore) -> None:
    said: list[str] = []
    store = RaceStore(store.home, said.append)
    for number, (race_id, status) in enumerate([("good", "complete"), ("died", "running"), ("runs", "running")]):
        keep(store.home, golden_race(race_id=race_id, status=status, started_at=f"2026-11-21T1{number}:00:00Z"))
    with RaceLock(store.home, "runs"):
        assert store.resolve("last") == "died"  # its process is gone: it has ended
        assert said == ['"last" is race died: runs is running']
    assert store.resolve("last") == "runs"
    assert len(said) == 1


def test_last_while_the_only_race_is_running_says_so(store: RaceStore) -> None:
    keep(store.home, golden_race(race_id="runs", status="running"))
    with RaceLock(store.home, "runs"), pytest.raises(UsageError) as caught:
        store.resolve("last")
    assert str(caught.value).endswith("has ended yet (name one that runs: runs)")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_says_what_helps(store: RaceStore) -> None:
    folder = store.create("a")
    folder.seconds_file.symlink_to("/dev/full")
    with pytest.raises(RecordError, match="free some space, or set ESBENCH_HOME to another disk"):
        folder.append_seconds(b"{}\n" * 10_000)
