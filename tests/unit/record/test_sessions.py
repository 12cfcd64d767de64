"""Sessions as files."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from esbench.errors import RecordError, UsageError
from esbench.record.model import Session
from esbench.record.sessions import (
    Pacing,
    RaceSession,
    SeenLuck,
    SessionRace,
    SessionSide,
    SessionStore,
    TaskPacing,
)
from esbench.record.sums import UNSEALED, sealed
from esbench.report.lists import session_list

GOLDEN_5, NAME_5 = Path(__file__).parents[2] / "golden" / "session-schema-5.json", "20261128t100000-4f2a"
STARTED = "2026-11-21T10:15:30Z"


def session(session_id: str = "20261121t101530-4f2a", **changes: object) -> RaceSession:
    plan = (SessionRace("contender", 1, 1), SessionRace("baseline", 1, 2))
    sides = (SessionSide("baseline", ("heap=1g",)), SessionSide("contender"))
    created = RaceSession(session_id, "duel", "2026-11-21T10:15:30.000Z", 7, ("track=orders",), sides, plan)
    return replace(created, **changes)  # type: ignore[arg-type]


def written(**changes: object) -> str:
    return json.dumps({**msgspec.to_builtins(session()), **changes})


def test_a_session_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    written = session(discarded=(SessionRace("baseline"),), before_round="sync", restart_node=True, looks=2)
    store.save(written)
    assert store.load(written.id) == written
    assert [file.name for file in store.folder.iterdir()] == [f"{written.id}.json"]


def test_a_session_of_the_schema_before_is_one_in_turns(tmp_path: Path) -> None:
    store, document = SessionStore(tmp_path), json.loads(written(schema=1))
    store.folder.mkdir()
    for key in ("pacing", "budget_s", "auto"):
        del document[key]
    (store.folder / f"{document['id']}.json").write_text(json.dumps(document))
    assert store.load(document["id"]) == session()


def test_a_planned_session_of_schema_5_is_read_and_saved_as_it_is(tmp_path: Path) -> None:
    store, golden = SessionStore(tmp_path), GOLDEN_5.read_bytes()
    store.folder.mkdir()
    (store.folder / f"{NAME_5}.json").write_bytes(golden)
    read = store.load(NAME_5)
    assert (read.damage, read.rounds, read.rounds_done, len(read.left), read.next_round_s) == ("", 7, 6, 2, 121.5)
    assert (read.effect_ratio, read.look_at, read.looks, read.pilots_s) == (0.1, (6, 7), 2, 26.25)
    assert read.luck == SeenLuck(0.013, fresh_nodes=False)
    tasks = (TaskPacing("get-by-id", 1.0, 0.1, 30.0), TaskPacing("search", 2.0, 0.1, 40.0))
    assert read.pacing == Pacing(gap_s=0.1, tasks=tasks, settled=("get-by-id",))
    store.save(read)
    assert (store.folder / f"{NAME_5}.json").read_bytes() == golden


@pytest.mark.parametrize("schema", [2, 3, 4])
def test_a_session_at_once_before_schema_5_is_not_planned(tmp_path: Path, schema: int) -> None:
    store, document = SessionStore(tmp_path), json.loads(GOLDEN_5.read_text())
    document["schema"] = schema
    for key in ("effect_ratio", "look_at", "luck", "pilots_s", "sums"):
        del document[key]
    for key in ("tasks", "settled", "least_s"):
        del document["pacing"][key]
    if schema == 4:
        document["sums"] = {f"{NAME_5}.json": UNSEALED}
    text = json.dumps(document).encode()
    store.folder.mkdir()
    (store.folder / f"{NAME_5}.json").write_bytes(sealed(text) if schema == 4 else text)
    read = store.load(NAME_5)
    assert (read.damage, read.effect_ratio, read.look_at, read.luck, read.pilots_s) == ("", None, (), None, 0.0)
    assert read.pacing == Pacing(gap_s=0.1)
    assert (read.budget_s, read.looks, len(read.left)) == (900.0, 2, 2)


def test_the_documented_keys_are_those_of_the_file(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.save(session(pacing=Pacing()))
    document = json.loads((store.folder / f"{session().id}.json").read_text())
    document |= document["pacing"]
    page = (Path(__file__).parents[3] / "docs/reference/sessions.md").read_text()
    keys = {*document, *document["plan"][0], *document["sides"][0]}
    assert [key for key in keys if f"`{key}`" not in page] == []


def test_a_race_is_replaced_where_it_stands() -> None:
    raced = SessionRace("baseline", 1, 2, "some-id", "complete", 3.5)
    changed = session(discarded=(SessionRace("baseline"),)).with_race(raced)
    assert changed.plan == (SessionRace("contender", 1, 1), raced)
    assert changed.discarded == (SessionRace("baseline"),)
    assert changed.left == (SessionRace("baseline"), SessionRace("contender", 1, 1))


def test_a_record_says_where_its_race_stands() -> None:
    assert session().place(session().plan[1]) == Session(session().id, "duel", "baseline", 1, 1, 2)
    assert session().place(SessionRace("baseline")) == Session(session().id, "duel", "baseline", 0, 0, 0)


def test_sessions_are_found_by_id_by_its_beginning_and_as_the_last_one(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    for name in ("b-1", "a-2", "a-3"):
        store.save(session(name))
    assert [store.resolve(name) for name in ("b-1", "B", "a-3", "last")] == ["b-1", "b-1", "a-3", "b-1"]
    assert [one.id for one in store.newest(2)[0]] == ["b-1", "a-3"]
    with pytest.raises(UsageError, match="beginning of 2 sessions"):
        store.resolve("a")
    with pytest.raises(UsageError, match=r'there is no session "c-1".*did you mean "b-1"'):
        store.resolve("c-1")


def test_no_sessions_is_no_fault(tmp_path: Path) -> None:
    assert SessionStore(tmp_path).newest(10) == ([], [])
    with pytest.raises(UsageError, match='there is no session "last"'):
        SessionStore(tmp_path).load("last")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": 6, "plan": 7}', "newer esbench"),
        ("", "truncated"),
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ('{"schema": 1, "id": "x"}', "missing required field"),
        (written(plan=[]), "no race is planned"),
        (written(sides=[]), 'a race is of "contender", which is not a side'),
        (written(plan=[{"side": "baseline", "status": "complete"}]), "a complete race has no id"),
        (written(pacing={"slice_s": 0}), "a slice has whole seconds"),
        (written(pacing={"warmup": "x"}), "not a kind of warmup"),
        (
            written(pacing={}, plan=[{"side": "baseline", "round": 1}]),
            "a round lacks a side",
        ),
        (written(), "it belongs to session 20261121t101530-4f2a"),
    ],
)
def test_a_damaged_session_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    store = SessionStore(tmp_path)
    store.folder.mkdir()
    (store.folder / "x.json").write_text(text)
    with pytest.raises(RecordError, match=rf"x\.json: .*{message}"):
        store.load("x")


def test_damaged_sessions_are_left_out_of_a_list_and_told(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    for name in ("a", "c"):
        store.save(session(name))
    (store.folder / "b.json").write_text("{")
    found, damaged = store.newest(10)
    assert [one.id for one in found] == ["c", "a"]
    assert store.load("last").id == "c"
    (notice,) = session_list(found, (), damaged).notices
    assert re.search(r"left out: .*b\.json: Input data was truncated", notice.text)


def test_a_list_says_whether_a_session_runs_was_interrupted_or_has_failed(tmp_path: Path) -> None:
    begun = session()
    first, second = begun.plan
    ended = replace(begun, plan=tuple(replace(race, status="complete", race_id="x") for race in begun.plan))
    failed = begun.with_race(replace(first, status="failed", race_id="x"))
    for each, running, status in (
        (begun, {begun.id}, "running"),
        (begun, set(), "interrupted"),
        (begun.with_race(replace(second, status="running", race_id="x")), set(), "interrupted"),
        (failed, set(), "failed"),
        (ended, set(), "complete"),
    ):
        table = session_list([each], running).table
        column = [column.key for column in table.columns].index("status")
        assert table.rows[0][column] == status


def test_a_list_says_how_far_each_session_is_and_what_its_sides_are() -> None:
    begun = session()
    rounds = session("r", kind="rounds", sides=(SessionSide("race"),), plan=(SessionRace("race", 1, 1),))
    raced = begun.with_race(SessionRace("baseline", 1, 2, "some-id", "complete"))
    rows = session_list([raced, rounds]).table.rows
    assert rows == (
        (
            begun.id,
            STARTED,
            "duel",
            "in turns",
            "interrupted",
            0,
            1,
            1,
            2,
            "track=orders",
            "baseline heap=1g; contender",
        ),
        ("r", STARTED, "rounds", "", "interrupted", 0, 1, 0, 1, "track=orders", ""),
    )
