"""What a user types for a side, and the races that it means."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compared_sides import TURNS, docs_per_s, scaled, side
from races import golden_race, keep

from esbench.cli.main import run
from esbench.comparison.resolve import SideResolver
from esbench.errors import UsageError
from esbench.record.model import Session
from esbench.record.sessions import RaceSession, SessionRace, SessionSide, SessionStore
from esbench.record.store import RaceStore


@pytest.fixture
def home(esbench_home: Path) -> Path:
    """A session of two sides that took turns, one race of the contender's still to come; and three other races."""
    plan = []
    for name, factor in (("baseline", 1.0), ("contender", 1.2)):
        for record in side(name, "bulk", docs_per_s(scaled(20000 * factor)), TURNS[name]).records:
            keep(esbench_home, record)
            assert record.session is not None
            place = record.session
            plan.append(SessionRace(name, place.round, place.position, record.race_id, "complete", 1.0))
    plan.append(SessionRace("contender", 5, 10))
    sides = (SessionSide("baseline"), SessionSide("contender"))
    session = RaceSession("s", "duel", "2026-11-21T09:00:00Z", 1, (), sides, tuple(plan), looks=2)
    SessionStore(esbench_home).save(session)
    for number in (1, 2, 3):
        tags = {"build": "nightly" if number < 3 else "release"}
        keep(esbench_home, golden_race(race_id=f"x{number}", started_at=f"2026-11-0{number}T10:00:00Z", user_tags=tags))
    return esbench_home


def races(home: Path, text: str) -> list[str]:
    return [record.race_id for record in sides(home).baseline(text).records]


def sides(home: Path) -> SideResolver:
    return SideResolver(RaceStore(home), SessionStore(home))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x1", ["x1"]),
        ("x3, x1", ["x1", "x3"]),
        ("contender-2", ["contender-2"]),
        ("last", ["contender-4"]),
        ("s", [f"baseline-{number}" for number in (1, 2, 3, 4)]),
        ("s:contender", [f"contender-{number}" for number in (1, 2, 3, 4)]),
        ("last:contender", [f"contender-{number}" for number in (1, 2, 3, 4)]),
        ("tag:build:nightly", ["x1", "x2"]),
    ],
)
def test_a_side_is_named_by_races_sessions_and_tags(home: Path, text: str, found: list[str]) -> None:
    assert races(home, text) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x1,x1", "x1 is named twice"),
        ("nix", 'there is no race "nix"'),
        ("", "no race is named"),
        ("s:contendr", 'did you mean "contender"?'),
        ("t:contender", 'there is no session "t"'),
        ("tag:build", "is not tag:NAME:VALUE"),
        ("tag:build:nightli", 'did you mean "build:nightly"?'),
    ],
)
def test_what_names_no_side_is_one_clear_line(home: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        races(home, text)
    assert message in str(error.value)


def test_the_beginning_of_races_and_a_session_is_refused(home: Path) -> None:
    """As it is by the commands that take a race alone: a session must not be taken for one of its races."""
    keep(home, golden_race(race_id="20261127t1000-aaaa"))
    plan = (SessionRace("race", 1, 1, "20261127t1000-aaaa", "complete", 1.0),)
    session = RaceSession("20261127t1000-bbbb", "rounds", "2026-11-27T10:00:00Z", 1, (), (SessionSide("race"),), plan)
    SessionStore(home).save(session)
    with pytest.raises(UsageError) as caught:
        races(home, "20261127")
    assert str(caught.value) == (
        '"20261127" is the beginning of 2 races and sessions (session 20261127t1000-bbbb, 20261127t1000-aaaa)'
    )
    keep(home, golden_race(race_id="20261127t1000-cccc"))
    with pytest.raises(UsageError, match="beginning of 3 races and sessions"):
        races(home, "20261127t1000")
    assert races(home, "20261127t1000-b") == ["20261127t1000-aaaa"]
    assert races(home, "20261127t1000-cccc") == ["20261127t1000-cccc"]


def test_the_contender_of_a_session_is_its_other_side(home: Path) -> None:
    baseline = sides(home).baseline("s")
    for texts in ((), ("s",), ("s:contender",)):
        (contender,) = sides(home).contenders(texts, baseline)
        assert contender.records[0].race_id == "contender-1"
    (mirrored,) = sides(home).contenders(("s:baseline",), sides(home).baseline("s:contender"))
    assert mirrored.records[0].race_id == "baseline-1"
    with pytest.raises(UsageError, match="--contender is missing"):
        sides(home).contenders((), sides(home).baseline("x1"))


def test_sides_of_the_same_name_in_two_sessions_are_two_sides(home: Path) -> None:
    for name in ("r1", "r2"):
        keep(home, golden_race(race_id=f"{name}-1", session=Session(name, "rounds", "race", 1, 1, 1)))
        plan = (SessionRace("race", 1, 1, f"{name}-1", "complete", 1.0),)
        session = RaceSession(name, "rounds", "2026-11-01T09:00:00Z", 1, (), (SessionSide("race"),), plan)
        SessionStore(home).save(session)
    (contender,) = sides(home).contenders(("r2",), sides(home).baseline("r1"))
    assert [record.race_id for record in contender.records] == ["r2-1"]
    with pytest.raises(UsageError, match="session r1 has no other side"):
        sides(home).contenders(("r1",), sides(home).baseline("r1"))


def test_the_looks_are_those_of_the_session(home: Path) -> None:
    assert sides(home).looks([sides(home).baseline("s")]) == 2
    assert sides(home).looks([sides(home).baseline("x1")]) == 1
    assert sides(home).looks([sides(home).baseline("x1,contender-2")]) == 2  # whoever picks races has looked, too


def test_a_race_that_was_discarded_has_no_tag_and_no_history(home: Path) -> None:
    warmed = golden_race(
        race_id="w",
        started_at="2026-11-02T12:00:00Z",
        user_tags={"build": "nightly"},
        session=Session("t", "duel", "a"),
    )
    keep(home, warmed)
    assert races(home, "tag:build:nightly") == ["x1", "x2"]
    baseline = sides(home).baseline("x3")
    assert [record.race_id for record in sides(home).history(baseline, [baseline])[0]] == ["x1", "x2"]


def test_history_has_one_race_of_each_session_and_none_that_came_later(home: Path) -> None:
    for number in range(1, 5):
        place = Session("t", "rounds", "race", number, number, number)
        keep(home, golden_race(race_id=f"t{number}", started_at=f"2026-11-02T1{number}:00:00Z", session=place))
    baseline = sides(home).baseline("x3")
    assert [record.race_id for record in sides(home).history(baseline, [baseline])[0]] == ["x1", "x2", "t4"]
    baseline = sides(home).baseline("t2")
    assert [record.race_id for record in sides(home).history(baseline, [baseline])[0]] == ["x1", "x2", "t1"]


def test_history_is_earlier_races_of_the_same_setup(home: Path) -> None:
    keep(home, golden_race(race_id="y1", started_at="2026-11-04T10:00:00Z", seed=2))
    keep(home, golden_race(race_id="y2", started_at="2026-11-05T10:00:00Z", status="cancelled"))
    keep(home, golden_race(race_id="y0", started_at="2026-11-02T11:00:00Z", host_class="4 cores"))
    keep(home, golden_race(race_id="y3", started_at="2026-11-06T10:00:00Z", host_class="4 cores"))
    baseline = sides(home).baseline("x3")
    assert [record.race_id for record in sides(home).history(baseline, [baseline])[0]] == ["x1", "x2"]
    allowed, _ = sides(home).history(baseline, [baseline], ("host",))
    assert [record.race_id for record in allowed] == ["x1", "x2", "y0"]
    compared = (baseline, sides(home).baseline("x2"))
    assert [record.race_id for record in sides(home).history(baseline, compared)[0]] == ["x1"]
    session = sides(home).baseline("s")
    assert [record.race_id for record in sides(home).history(session, [session])[0]] == ["x1", "x2", "x3"]


def test_history_has_races_of_the_same_track_from_another_folder_or_commit(home: Path) -> None:
    moved = replace(golden_race().track, path="/elsewhere/orders", revision="0123456789ab")
    keep(home, golden_race(race_id="moved", started_at="2026-11-02T11:00:00Z", track=moved))
    baseline = sides(home).baseline("x3")
    assert [record.race_id for record in sides(home).history(baseline, [baseline])[0]] == ["x1", "x2", "moved"]


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("track", {"track": replace(golden_race().track, name="other")}),
        ("track digest", {"track": replace(golden_race().track, digest="0" * 64)}),
        ("challenge", {"challenge": "other"}),
        ("test mode", {"test_mode": True}),
    ],
)
def test_history_has_races_that_differ_in_what_is_allowed(home: Path, key: str, change: dict[str, Any]) -> None:
    keep(home, golden_race(race_id="y", started_at="2026-11-02T11:00:00Z", **change))
    baseline = sides(home).baseline("x3")
    for allow, found in (((), ["x1", "x2"]), ((key,), ["x1", "x2", "y"])):
        races, _ = sides(home).history(baseline, [baseline], allow)
        assert [record.race_id for record in races] == found


def test_an_earlier_race_that_cannot_be_read_is_left_out_of_the_history(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "races" / "x1" / "race.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "tasks": 5}))
    assert run(["compare", "x2", "x3", "--format=json"]) == 0
    texts = [warning["text"] for warning in json.loads(capsys.readouterr().out)["warnings"]]
    assert [text for text in texts if text.startswith(f"the earlier race x1 is left out: {file}")] != []


def test_a_session_is_compared_by_its_name_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "s", "--format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["overview"]["looks"] == 2
    row = next(row for row in found["rows"] if (row["metric"], row["task"]) == ("Mean throughput", "bulk"))
    assert (row["verdict"], row["method"]) == ("faster", "interleaved")


def test_what_is_printed_for_programs_has_the_documented_keys(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs/reference/comparison.md").read_text()
    printed = []
    for form in ("json", "csv"):
        assert run(["compare", "s:baseline", "s", "x1", "--allow=esbench", "--all", f"--format={form}"]) == 0
        printed.append(capsys.readouterr().out)
    found, rows = json.loads(printed[0]), list(csv.DictReader(printed[1].splitlines()))
    overview = found["overview"]
    keys = {*found, *overview, *overview["baseline"], *overview["contenders"][0], *found["rows"][0]}
    keys |= {*found["warnings"][0], *overview["contenders"][0]["speed_ratio"]}
    assert [key for key in keys if f"`{key}`" not in page] == []
    assert [list(row) for row in rows] == [list(row) for row in found["rows"]]
    for row, cells in zip(found["rows"], rows, strict=True):
        for key in ("interval_percent", "contender_rounds"):
            assert cells[key] == ("" if row[key] is None else ", ".join(map(str, row[key])))
        assert cells["diff"] == ("" if row["diff"] is None else str(row["diff"]))


@pytest.mark.parametrize(
    ("condition", "code"), [("throughput>10%", 3), ("slower", 4), ("throughput<-10%", 0), ("fast", 2)]
)
def test_a_condition_decides_the_exit_code(
    home: Path, condition: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", "s", f"--fail-on={condition}"]) == code
    assert (f"--fail-on={condition}: " in capsys.readouterr().err) == (code in (3, 4))


def test_a_condition_that_holds_outdoes_one_that_cannot_be_told(home: Path) -> None:
    for conditions in (("slower", "throughput>10%"), ("throughput>10%", "slower")):
        assert run(["compare", "s", *(f"--fail-on={condition}" for condition in conditions)]) == 3


def test_a_report_file_that_ends_in_xml_is_junit(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "compared.xml"
    assert run(["compare", "s", f"--report-file={file}"]) == 0
    assert "<testsuites" in file.read_text()
    assert "esbench compare s --all" in capsys.readouterr().out
    assert run(["compare", "s", "--format=junit"]) == 0
    assert capsys.readouterr().out == file.read_text()


def test_files_are_written_though_nobody_reads_what_is_printed(home: Path, tmp_path: Path) -> None:
    files = [f"--html={tmp_path / 'page.html'}", f"--report-file={tmp_path / 'table.md'}"]
    command = [sys.executable, "-m", "esbench", "compare", "s", *files]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(command, stdout=full, stderr=subprocess.DEVNULL, check=False).returncode == 1
    assert [(tmp_path / name).exists() for name in ("page.html", "table.md")] == [True, True]


def test_a_key_that_is_none_of_a_workload_is_wrong_usage(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "s", "--allow=hoste"]) == 2
    assert 'did you mean "host"?' in capsys.readouterr().err


def test_a_race_of_a_session_that_is_gone_is_named_with_those_that_are_not(home: Path) -> None:
    shutil.rmtree(home / "races" / "contender-2")
    with pytest.raises(UsageError) as error:
        sides(home).contenders((), sides(home).baseline("s"))
    assert 'side "contender" of session s: contender-2 is not there any more' in str(error.value)
    assert races(home, error.value.hint.partition(": ")[2]) == ["contender-1", "contender-3", "contender-4"]


def test_a_session_that_is_not_complete_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "s", "--format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    texts = [warning["text"] for warning in found["warnings"]]
    assert "1 of the 9 races of session s are not complete, and not compared" in texts


def test_a_race_of_a_session_stands_for_itself_alone(home: Path) -> None:
    with pytest.raises(UsageError, match=r"--contender is missing \(esbench compare s compares its session\)"):
        sides(home).contenders((), sides(home).baseline("baseline-1"))


@pytest.mark.parametrize("command", [["show"], ["export", "--csv"]])
def test_a_session_in_place_of_a_race_is_told(
    home: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "s"]) == 2
    assert 'there is no race "s" (it is a session: esbench compare s, or ' in capsys.readouterr().err


def test_seconds_that_are_missing_are_told_with_their_file(home: Path) -> None:
    found = sides(home)
    (home / "races" / "x2" / "seconds.jsonl").unlink()
    (notice,) = found.notices([found.baseline("x1,x2")])
    assert notice.text.startswith(f"race x2: {home / 'races' / 'x2' / 'seconds.jsonl'} is missing, ")


def test_several_contenders_have_the_names_that_tell_them_apart(home: Path) -> None:
    baseline = sides(home).baseline("x1")
    for texts, names in (
        (("s:baseline", "s:contender"), ["s:baseline", "contender"]),
        (("s:contender", "contender-1"), ["s:contender", "contender-1"]),
        (("x2", "s"), ["x2", "contender"]),
    ):
        assert [side.name for side in sides(home).contenders(texts, baseline)] == names


def test_a_contender_is_named_once(home: Path) -> None:
    with pytest.raises(UsageError, match="--contender: s:contender is named twice"):
        sides(home).contenders(("s", "s:contender"), sides(home).baseline("x1"))


def test_a_race_on_both_sides_decides_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "s:baseline", "s:baseline", "--fail-on=throughput<-5%"]) == 4
    assert "a race is on both sides" in capsys.readouterr().err
