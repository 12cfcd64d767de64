"""`esbench race --rounds` and `esbench duel` against the null server: what is raced, kept and told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import NullServerFactory
from racing import Outcome, Races, press_ctrl_c, wait_until

from esbench.null_server import NullServer
from esbench.null_server.versions import parse_version
from esbench.record.sessions import RaceSession, SessionStore

SHORT = ("--include-tasks=type:delete-index,type:create-index,closed", "--workers=1", "--telemetry=none")


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path, deletes_first=True)
    yield races
    races.end()


def duel(races: Races, server: NullServer | str, *arguments: str) -> subprocess.Popen[str]:
    sides = ("--turns", "--baseline", "track-params=rate:50", "--contender", "track-params=rate:60 user-tags=which:new")
    return races.start(server, *SHORT, *sides, *arguments, command="duel")


def last(races: Races) -> RaceSession:
    return SessionStore(races.home).load("last")


def test_rounds_are_raced_one_after_the_other_and_have_one_table_and_one_page(
    races: Races, server: NullServer, tmp_path: Path
) -> None:
    page = tmp_path / "rounds.html"
    outcome = races.run(server, *SHORT, "--rounds=2", "--seed=3", f"--html={page}")
    assert outcome.code == 0, outcome.stderr
    session = last(races)
    assert (session.kind, session.seed, session.left) == ("rounds", 3, ())
    assert f"{session.id} (2 races)" in page.read_text()
    records = [races.record(str(race.race_id)) for race in session.plan]
    assert [record.session.round for record in records if record.session] == [1, 2]
    assert {record.status for record in records} == {"complete"}
    assert re.search(r"race 2 of 2 \(round 2\): about \d+ s left", outcome.stderr)
    assert re.search(r"^Mean throughput +closed .* ops/s +2", outcome.stdout, re.MULTILINE)


def test_a_duel_races_its_sides_in_turns(races: Races, server: NullServer, tmp_path: Path) -> None:
    said = tmp_path / "said"
    outcome = races.finish(
        duel(races, server, "--rounds=2", f"--before-round=echo $ESBENCH_SIDE$ESBENCH_ROUND >> {said}")
    )
    assert outcome.code == 0, outcome.stderr
    assert "Verdict" in outcome.stdout
    session = last(races)
    first, second = (race.side for race in session.plan[:2])
    assert [race.side for race in session.plan] == [first, second, second, first]
    assert said.read_text().split() == [f"{race.side}{race.round}" for race in session.plan]
    for race in session.plan:
        record = races.record(str(race.race_id))
        assert record.session == session.place(race)
        assert record.track_params == {"rate": 50 if race.side == "baseline" else 60}
        assert record.user_tags == ({} if race.side == "baseline" else {"which": "new"})
    assert server.counts().by_class["DELETE /*"] == 4  # the index is made anew in each round


def test_a_duel_that_is_interrupted_is_resumed(races: Races, null_server: NullServerFactory) -> None:
    server = null_server()
    process = duel(races, server, "--rounds=2")
    sessions = races.home / "sessions"
    wait_until(lambda: any('"complete"' in file.read_text() for file in sessions.glob("*.json")), process)
    press_ctrl_c(process)
    outcome = races.finish(process)
    session = last(races)
    assert outcome.code == 130
    assert f"esbench duel --resume {session.id} resumes it" in outcome.error
    done = [race for race in session.plan if race.status == "complete"]
    assert done
    assert len(session.left) == 4 - len(done)
    assert _resumed(races).code == 0
    assert last(races).plan[: len(done)] == tuple(done)
    assert last(races).left == ()
    with (races.track / "track.yml").open("a") as track:
        track.write("# changed\n")
    more = _resumed(races, "--rounds=3")
    assert more.code == 2
    assert "the track has changed since race" in more.error
    assert last(races).rounds == 2


def test_sides_on_one_cluster_without_a_prefix_are_refused_in_one_line(races: Races, server: NullServer) -> None:
    outcome = races.finish(races.start(server, *SHORT, "--baseline=", "--contender=user-tags=a:b", command="duel"))
    assert outcome.code == 2
    assert outcome.error == (
        'esbench: --contender: is raced on the same cluster as baseline, and track "shop" has no parameter '
        "index_prefix to keep their indices apart (--turns races one side after the other)"
    )
    assert not (races.home / "sessions").exists()


def another_cluster() -> dict[str, Any]:
    """The script of a null server that says it is another cluster than the others."""
    root = {**parse_version("7.17.29").root(), "cluster_uuid": "another"}
    return {"rules": [{"method": "GET", "path": "^/$", "reply": {"status": 200, "body": root}}]}


def test_a_dry_run_of_sides_at_once_tells_their_rounds(races: Races, null_server: NullServerFactory) -> None:
    other = f"--contender=target-hosts={null_server(another_cluster()).url}"
    process = races.start(null_server(), "--baseline=", other, "--rounds=3", "--dry-run", command="duel")
    outcome = races.finish(process)
    assert outcome.code == 0, outcome.stderr
    assert "At once  2 sides in slices of 1 s, gaps of 50 ms" in outcome.stdout
    assert "Rounds   3 of " in outcome.stdout


def duel_at_once(
    races: Races, null_server: NullServerFactory, *arguments: str, **contender: Any
) -> tuple[subprocess.Popen[str], NullServer]:
    """A duel of two rounds, and the server of its contender, with further rules."""
    script = another_cluster()
    script["rules"] += contender.get("rules", ())
    other = null_server(script)
    sides = ("--baseline=", f"--contender=target-hosts={other.url}", "--rounds=2", "--task-time=4s")
    return races.start(null_server(), *SHORT, *sides, *arguments, command="duel"), other


def test_a_duel_races_its_sides_at_once(races: Races, null_server: NullServerFactory, tmp_path: Path) -> None:
    said = tmp_path / "said"
    process, _ = duel_at_once(races, null_server, f"--before-round=echo $ESBENCH_ROUND >> {said}")
    outcome = races.finish(process, 60)
    assert outcome.code == 0, outcome.stderr
    assert "Verdict" in outcome.stdout
    assert re.search(r"^round 2 of 2: about \d+ s left$", outcome.stderr, re.MULTILINE)
    assert said.read_text().split() == ["1", "2"]
    session = last(races)
    first, second = (race.side for race in session.of_round(1))
    assert [race.side for race in session.plan] == [first, second, second, first]
    for race in session.plan:
        record = races.record(str(race.race_id))
        assert (record.status, record.session) == ("complete", session.place(race))
        (closed,) = [task for task in record.tasks if task.name == "closed"]
        assert closed.slices is not None
        assert not [warning for warning in record.warnings if "disturb" in warning]


def test_a_request_that_a_task_sends_once_is_sent_once_a_round(races: Races, null_server: NullServerFactory) -> None:
    track = races.track / "track.yml"
    once = (
        "- {name: delete-made, operation: {operation-type: delete-index, index: made}}",
        "- {name: once, operation: {operation-type: raw-request, method: PUT, path: /made}}",  # a second one fails
        "- {name: closed,",
    )
    track.write_text(track.read_text().replace("- {name: closed,", "\n      ".join(once)))
    process, other = duel_at_once(races, null_server, "--include-tasks=type:delete-index,type:create-index,once,closed")
    outcome = races.finish(process, 60)
    assert outcome.code == 0, outcome.stderr
    assert "Verdict" in outcome.stdout
    assert other.counts().by_class["PUT /*"] == 4  # create-index in each round, too
    for race in last(races).plan:
        tasks = {task.name: task for task in races.record(str(race.race_id)).tasks}
        assert (tasks["once"].requests, tasks["once"].slices) == (1, None)
        assert tasks["closed"].slices is not None


def test_a_round_that_is_interrupted_is_raced_again(races: Races, null_server: NullServerFactory) -> None:
    process, other = duel_at_once(races, null_server)
    wait_until(lambda: other.counts().by_class.get("DELETE /*", 0) == 2, process)
    press_ctrl_c(process)
    outcome = races.finish(process)
    session = last(races)
    assert outcome.code == 130, outcome.stderr
    assert f"esbench duel --resume {session.id} resumes it" in outcome.error
    assert [race.round for race in session.left] == [2, 2]
    assert _resumed(races).code == 0
    ended = last(races)
    assert (ended.left, ended.of_round(1)) == ((), session.of_round(1))


def test_a_side_that_prepares_its_documents_hears_an_interrupt(races: Races, null_server: NullServerFactory) -> None:
    track = races.track / "track.yml"
    many = "{document-count: 50000000, generate: {fields: {n: {type: range, from: 1, to: 9}}}}"
    track.write_text(track.read_text().replace("{document-count: 500, source-file: orders.json}", many))
    other = f"--contender=target-hosts={null_server(another_cluster()).url}"
    process = races.start(null_server(), "--baseline=", other, "--progress=lines", command="duel")
    wait_until(lambda: any(races.home.rglob("*.partial")), process)
    process.send_signal(signal.SIGTERM)
    outcome = races.finish(process)
    assert outcome.code == 130, outcome.stderr
    assert outcome.seconds < 5
    assert last(races).left == last(races).plan
    assert not any(races.home.rglob("*.partial"))


@pytest.mark.parametrize("planned", [(), ("--budget=5m",)], ids=["in a task", "in a pilot"])
def test_a_side_that_fails_ends_the_round_of_both(
    races: Races, null_server: NullServerFactory, planned: tuple[str, ...]
) -> None:
    failing = {"method": "GET", "path": "/_doc/", "first": 1000, "reply": {"status": 500, "body": {}}}
    process, _ = duel_at_once(races, null_server, *planned, rules=[failing])
    outcome = races.finish(process)
    assert outcome.code == 1
    assert "round 1 of 2: race " in outcome.error
    assert " (contender) failed: " in outcome.error
    assert "; baseline ended with it (esbench duel --resume " in outcome.error
    statuses = {race.side: race.status for race in last(races).of_round(1)}
    assert statuses == {"baseline": "cancelled", "contender": "failed"}


def _resumed(races: Races, *arguments: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", "esbench.cli.main", "duel", "--resume=last", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ESBENCH_HOME": str(races.home), "PATH": ""},
    )
    return Outcome(done.returncode, done.stdout, done.stderr, 0)


def test_what_is_wrong_with_any_side_is_said_before_the_first_race(races: Races, server: NullServer) -> None:
    process = races.start(server, *SHORT, "--turns", "--baseline=", "--contender=track-params=rte:1", command="duel")
    outcome = races.finish(process)
    assert outcome.code == 2
    assert '--contender: --track-params: track "shop" has no parameter "rte"' in outcome.error
    assert not (races.home / "races").exists()
    assert not (races.home / "sessions").exists()


def test_what_is_wrong_with_the_comparison_is_said_before_the_first_race(races: Races) -> None:
    outcome = races.finish(duel(races, "http://127.0.0.1:1", "--fail-on=slow"))
    assert outcome.code == 2
    assert "slow" in outcome.error


def test_rounds_that_begin_with_what_others_left_are_warned_of(races: Races, server: NullServer) -> None:
    outcome = races.run(server, "--include-tasks=bulk", "--workers=1", "--rounds=2")
    assert outcome.code == 0, outcome.stderr
    assert 'warning: challenge "default" has no create-index' in outcome.stderr


def test_an_index_that_the_race_before_has_made_is_thought_of_before_the_first_race(
    races: Races, server: NullServer
) -> None:
    outcome = races.run(server, "--include-tasks=create-index,closed", "--rounds=2")
    assert outcome.code == 2
    assert "has create-index without delete-index" in outcome.error
    assert not (races.home / "races").exists()


def test_the_secret_of_a_side_is_not_kept_and_is_given_again_to_go_on(races: Races, server: NullServer) -> None:
    secret = "client-options=basic_auth_user:'me',basic_auth_password:'swordfish'"
    sides = ("--turns", "--baseline=", "--contender", secret)
    process = races.start(server, *SHORT, *sides, "--before-round=exit 7", command="duel")
    outcome = races.finish(process)
    assert outcome.code == 1
    assert "--before-round=exit 7: failed with exit status 7" in outcome.error
    kept = [file.read_text() for file in (races.home / "sessions").iterdir()]
    assert "swordfish" not in "".join([*kept, outcome.stderr])
    again = "--before-round=exit 7"
    assert '--contender: secrets are not kept: give "client-options" once more' in _resumed(races, again).error
    assert "failed with exit status 7" in _resumed(races, again, "--contender", secret).error


def test_a_resumed_session_runs_a_command_only_if_it_is_given_again(
    races: Races, server: NullServer, tmp_path: Path
) -> None:
    """The session's file may come from others."""
    said = tmp_path / "said"
    command = f"echo ran >> {said}; exit 7"
    races.finish(races.start(server, *SHORT, "--rounds=2", f"--before-round={command}"))
    assert said.read_text() == "ran\n"
    session = last(races)
    refused = _resumed(races)
    assert refused.code == 2
    assert refused.error == (
        f"esbench: --resume={session.id}: the session runs a command before each round or race, which is not run "
        f"unless you give it again (--before-round='{command}')"
    )
    another = _resumed(races, "--before-round=exit 0")
    assert another.code == 2
    assert f"--before-round cannot be changed when a session is resumed (--before-round='{command}')" in another.error
    assert said.read_text() == "ran\n"
    assert "failed with exit status 7" in _resumed(races, f"--before-round={command}").error
    assert said.read_text() == "ran\nran\n"


def test_a_planned_duel_has_a_pilot_in_its_first_round_that_is_in_no_record(
    races: Races, null_server: NullServerFactory
) -> None:
    one, other = null_server(), null_server(another_cluster())
    sides = ("--baseline=", f"--contender=target-hosts={other.url}", "--task-time=8s", "--rounds=2", "--budget=5m")
    outcome = races.finish(races.start(one, *SHORT, *sides, command="duel"), 90)
    assert outcome.code == 0, outcome.stderr
    session = last(races)
    assert session.pacing is not None
    (found,) = session.pacing.tasks
    assert (found.task, found.own_s, session.rounds, session.effect_ratio) == ("closed", 4.0, 2, 0.1)
    assert re.findall(r"^\[(\S+)\] (?:pilot of )?closed$", outcome.stderr, re.MULTILINE) == ["3/4", "4/4", "3/3"]
    assert outcome.stderr.count("] pilot of closed") == 1
    assert re.search(r"^plan: 2 rounds of .* expected to settle 10 % for 0 of 1 tasks", outcome.stderr, re.MULTILINE)
    records = [races.record(str(race.race_id)) for race in session.plan]
    assert {task.name for record in records for task in record.tasks} == {"delete-index", "create-index", "closed"}
    assert {task.slices.gap_s for record in records for task in record.tasks if task.slices} == {found.gap_s}
    assert "2 of 6 rounds" in outcome.stdout
