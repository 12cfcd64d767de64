"""`esbench race --rounds` and `esbench duel` against the null server: what is raced, kept and told."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Outcome, Races, press_ctrl_c, wait_until

from esbench.null_server import NullServer
from esbench.record.sessions import RaceSession, SessionStore

SHORT = ("--include-tasks=type:delete-index,type:create-index,closed", "--workers=1", "--telemetry=none")


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path)
    track = races.track / "track.yml"
    anew = "- operation: {operation-type: delete-index}\n      - operation: {operation-type: create-index}"
    track.write_text(track.read_text().replace("- operation: {operation-type: create-index}", anew))
    yield races
    races.end()


def duel(races: Races, server: NullServer | str, *arguments: str) -> subprocess.Popen[str]:
    sides = ("--baseline", "track-params=rate:50", "--contender", "track-params=rate:60 user-tags=which:new")
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
    wait_until(lambda: server.counts().by_class.get("GET /*/_doc/*", 0) >= 150, process)
    press_ctrl_c(process)
    outcome = races.finish(process)
    session = last(races)
    assert outcome.code == 130
    assert f"esbench duel --resume {session.id} goes on" in outcome.error
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


def _resumed(races: Races, *arguments: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", "esbench.cli.main", "duel", "--resume=last", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"ESBENCH_HOME": str(races.home), "PATH": ""},
    )
    return Outcome(done.returncode, done.stdout, done.stderr, 0)


def test_what_is_wrong_with_any_side_is_said_before_the_first_race(races: Races, server: NullServer) -> None:
    process = races.start(server, *SHORT, "--baseline=", "--contender=track-params=rte:1", command="duel")
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
    outcome = races.run(server, "--include-tasks=closed", "--workers=1", "--rounds=2")
    assert outcome.code == 0
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
    process = races.start(server, *SHORT, "--baseline=", "--contender", secret, "--before-round=exit 7", command="duel")
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
        f"esbench: --resume={session.id}: the session runs a command before each race, which is not run unless you "
        f"give it again (--before-round='{command}')"
    )
    another = _resumed(races, "--before-round=exit 0")
    assert another.code == 2
    assert f"--before-round is as the session began with it (--before-round='{command}')" in another.error
    assert said.read_text() == "ran\n"
    assert "failed with exit status 7" in _resumed(races, f"--before-round={command}").error
    assert said.read_text() == "ran\nran\n"
