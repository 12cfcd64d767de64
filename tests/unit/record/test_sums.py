"""What was changed in a race's folder since it was recorded is said in a line, and the race is still shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from races import GOLDEN, golden_race, keep, keep_seconds, search_of

from esbench.cli.main import run
from esbench.errors import RecordError, UsageError
from esbench.features.capacity.percent_rates import known_capacity
from esbench.record.answers import answers_of
from esbench.record.model import RaceRecord
from esbench.record.sessions import RaceSession, SessionRace, SessionSide, SessionStore
from esbench.record.store import RaceFolder, RaceStore
from esbench.record.sums import UNSEALED, is_as_sealed, sealed

ENDED = golden_race(race_id="a")
SHOWN = "since race a was recorded: what is shown may not be what was measured"


@pytest.fixture
def store(esbench_home: Path) -> RaceStore:
    keep(esbench_home, ENDED)
    return RaceStore(esbench_home)


def edit(file: Path, change: Callable[[bytes], bytes]) -> None:
    content = file.read_bytes()
    assert change(content) != content
    file.write_bytes(change(content))


def test_every_changed_byte_of_a_sealed_document_is_seen() -> None:
    document = sealed(b'{"a": 1, "sums": {"a.json": "%s"}}\n' % UNSEALED.encode())
    own = json.loads(document)["sums"]["a.json"]
    assert is_as_sealed(document, own)
    for place in range(len(document)):
        changed = document[:place] + bytes([document[place] ^ 1]) + document[place + 1 :]
        assert not is_as_sealed(changed, own)
    assert not is_as_sealed(document, "")
    assert not is_as_sealed(document, UNSEALED)


def test_a_race_as_it_was_recorded_says_nothing(store: RaceStore) -> None:
    assert store.load("a").damage == ""
    assert [entry.damage for entry in store.entries()[0]] == [""]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("race.json", lambda content: content.replace(b'"requests": 5', b'"requests": 6', 1)),
        ("race.json", lambda content: content.replace(b'"sums"', b'"sumt"')),
        ("race.json", lambda content: content.replace(b'"complete"', b'"running"')),
        ("seconds.jsonl", lambda content: content.replace(b'"backlog": 0', b'"backlog": 1', 1)),
        ("seconds.jsonl", lambda content: content + content.splitlines(keepends=True)[-1]),
    ],
)
def test_what_was_changed_is_named_and_the_race_is_shown(
    store: RaceStore, capsys: pytest.CaptureFixture[str], name: str, change: Callable[[bytes], bytes]
) -> None:
    edit(store.folder("a").path / name, change)
    assert f"{name} was changed" in store.load("a").damage
    assert run(["show", "a"]) == 0
    assert capsys.readouterr().out.count(SHOWN) == 1


@pytest.mark.parametrize("command", [["export", "a", f"--{form}"] for form in ("csv", "json", "hlog", "prometheus")])
def test_an_export_of_a_changed_race_says_so_beside_it(
    store: RaceStore, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    edit(store.folder("a").seconds_file, lambda content: content.replace(b'"backlog": 0', b'"backlog": 1'))
    store.folder("a").telemetry_file.touch()
    assert run(command) == 0
    assert f"warning: seconds.jsonl was changed, telemetry.jsonl was added {SHOWN}\n" == capsys.readouterr().err


def test_lists_comparisons_and_pages_say_it(
    store: RaceStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(store.home, replace(ENDED, race_id="b"))
    edit(store.folder("a").record_file, lambda content: content.replace(b'"seed": ', b'"seed": 1'))
    for command in (["list", "races"], ["compare", "b", "a"], ["compare", "b", "a", "--value=p50"]):
        assert run(command) == 0
        assert "race.json was changed since race a" in " ".join(capsys.readouterr().out.split())
    assert run(["report", "a", f"--html={tmp_path / 'page.html'}"]) == 0
    assert SHOWN in (tmp_path / "page.html").read_text()


def test_a_file_that_is_gone_is_missing(store: RaceStore) -> None:
    store.folder("a").seconds_file.unlink()
    assert store.load("a").damage == f"seconds.jsonl is missing {SHOWN}"


def test_a_moved_part_is_checked(store: RaceStore) -> None:
    task = replace(ENDED.tasks[0], histograms={"latency": "H" * 5000})
    folder = store.create("long")
    folder.save(replace(ENDED, race_id="long", tasks=tuple(replace(task, name=f"t{n}") for n in range(400))))
    assert store.load("long").damage == ""
    edit(folder.path / "race.tasks.json", lambda content: content.replace(b'"requests":', b'"requests": ', 1))
    assert "race.tasks.json was changed" in store.load("long").damage


@pytest.mark.parametrize("status", ["complete", "failed", "cancelled"])
def test_a_race_that_is_saved_while_it_grows_and_after_its_end_is_as_it_was_recorded(
    tmp_path: Path, status: str
) -> None:
    store = RaceStore(tmp_path)
    running, ended = replace(ENDED, status="running"), replace(ENDED, status=status)
    folder = store.create("a", running)
    assert store.load("a").damage == ""
    keep_seconds(folder, running)  # after the record that is there
    assert store.load("a").damage == ""
    for record in (running, ended, replace(ended, warnings=("late",))):
        folder.save(record)
        assert store.load("a").damage == ""


def test_what_comes_after_the_end_of_a_race_is_not_in_its_series(store: RaceStore, tmp_path: Path) -> None:
    folder = RaceStore(tmp_path / "other").create("a")
    folder.save(ENDED)
    folder.append_telemetry(b"[0, 1.0]\n")
    assert not folder.telemetry_file.exists()
    assert RaceStore(tmp_path / "other").load("a").damage == ""


def test_a_number_beyond_floats_is_no_figure(store: RaceStore) -> None:
    file = store.folder("a").record_file
    document = json.loads(file.read_text())
    document["tasks"][0]["due"] = 10**400
    file.write_text(json.dumps(document))
    with pytest.raises(RecordError, match=r"race\.json: int too large to convert to float"):
        store.load("a")


def test_an_older_record_without_sums_says_nothing(store: RaceStore) -> None:
    store.folder("a").record_file.write_bytes(GOLDEN.with_name("race-schema-8.json").read_bytes())
    assert store.load("a").damage == ""


def test_a_capacity_of_a_changed_race_is_not_taken(store: RaceStore) -> None:
    store.folder("a").save(search_of(ENDED))
    assert known_capacity(store, "a").rate_per_s == 100
    edit(store.folder("a").record_file, lambda content: content.replace(b'"seed": ', b'"seed": 1'))
    with pytest.raises(UsageError, match=r"--capacity=a: race.json was changed"):
        known_capacity(store, "a")


def test_a_changed_session_says_so_and_is_shown(esbench_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sessions = SessionStore(esbench_home)
    plan = (SessionRace("race", 1, 1, "a", "complete", 30.0),)
    session = RaceSession("s", "rounds", "2026-11-21T10:00:00Z", 1, (), (SessionSide("race"),), plan)
    sessions.save(session)
    assert sessions.load("s") == session
    edit(sessions.folder / "s.json", lambda content: content.replace(b'"seed": 1', b'"seed": 2'))
    assert run(["list", "sessions"]) == 0
    assert capsys.readouterr().out.count("s.json was changed since session s was recorded") == 1
    sessions.save(sessions.load("s"))
    assert sessions.load("s").damage == ""
    edit(sessions.folder / "s.json", lambda content: content.replace(b'"schema": 5', b'"schema": 3'))
    assert sessions.load("s").damage != ""


def test_an_older_session_without_a_sum_says_nothing(esbench_home: Path) -> None:
    sessions = SessionStore(esbench_home)
    plan = (SessionRace("race", 1, 1, "a", "complete", 30.0),)
    sessions.save(RaceSession("s", "rounds", "2026-11-21T10:00:00Z", 1, (), (SessionSide("race"),), plan))
    document = json.loads((sessions.folder / "s.json").read_text()) | {"schema": 3}
    del document["sums"]
    (sessions.folder / "s.json").write_text(json.dumps(document))
    assert sessions.load("s").damage == ""


@pytest.mark.parametrize(
    "answer",
    [
        {"search": {"hits": 7}},
        {"search": {"aggregations": ["digest"]}},
        {"search": {"aggregations": {"a": {"~": "x"}}}},
        {"search": {"aggregations": {"a": {"~": 10**400}}}},
        {"search": {"last": [10**400]}},
        {"search": {"total": 10**400}},
        {"search": {"aggregations": {"a": {"top": {"~hits": 3}}}}},
        {"search": {"aggregations": {"a": {"doc_count_error_upper_bound": "x", "buckets": []}}}},
        {"search": {"aggregations": {"a": {"doc_count_error_upper_bound": 1, "buckets": [{"key": 1}]}}}},
        {"search": {"aggregations": {"a": {"buckets": [1]}}}},
        {"search": {"rows": [1]}},
        {"document": 3},
        {"document": {"rows": [[]]}},
        {"count": "x"},
        {"error": []},
        {"rows": [7]},
        {"rows": [{"a": {"~": []}}]},
        {"unknown": 1},
        {"count": 1, "error": "x"},
        {},
        7,
        [{"count": 1}, 7],
    ],
)
def test_an_answer_that_cannot_be_compared_is_damaged(tmp_path: Path, answer: object) -> None:
    line = {"kind": "answer", "task": "find", "number": 0, "values": None, "request": "GET /", "answer": answer}
    (tmp_path / "answers.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(RecordError, match=r"answers.jsonl:1: is damaged"):
        answers_of(tmp_path / "answers.jsonl")


def test_an_answer_that_is_no_text_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_bytes(b'{"\xa2kind": "answer"}\n')
    with pytest.raises(RecordError, match=r"answers.jsonl:1: is damaged"):
        answers_of(tmp_path / "answers.jsonl")


def folder_of(home: Path, record: RaceRecord) -> RaceFolder:
    return RaceStore(home).create(record.race_id, record)


def test_a_race_folder_is_never_there_without_a_record(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, replace(ENDED, status="running"))
    assert sorted(path.name for path in folder.path.iterdir()) == ["logs", "race.json"]
    with pytest.raises(UsageError, match="there is a race"):
        folder_of(tmp_path, ENDED)
    assert [path.name for path in folder.path.parent.iterdir()] == ["a"]
    assert not folder.is_kept  # until the race begins
