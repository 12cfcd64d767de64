"""`esbench duel` and sessions on the command line: what is refused before the first race, in one line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from races import golden_race, keep

from esbench.cli.main import run
from esbench.cli.output import check_file
from esbench.record.locks import SessionLock
from esbench.record.sessions import Pacing, RaceSession, SessionRace, SessionSide, SessionStore


def duel_of_two(session_id: str = "20261121t101530-4f2a") -> RaceSession:
    plan = (SessionRace("contender", 1, 1), SessionRace("baseline", 1, 2))
    sides = (SessionSide("baseline"), SessionSide("contender", ("heap=1g",)))
    return RaceSession(session_id, "duel", "2026-11-21T10:15:30.000Z", 7, ("track=orders",), sides, plan)


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line that wrong usage ends with."""
    assert run(list(arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_session_that_another_process_races_is_left_alone(
    esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = duel_of_two()
    SessionStore(esbench_home).save(session)
    with SessionLock(esbench_home, session.id):
        assert run(["list", "sessions"]) == 0
        assert f"{session.id}  2026-11-21T10:15:30Z  duel  in turns  running" in capsys.readouterr().out
        assert f'session "{session.id}" is running already (its process is ' in failing(capsys, "duel", "--resume=last")


def test_a_session_that_goes_on_with_another_esbench_is_warned_of(
    esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(esbench_home, golden_race(race_id="x", esbench={"version": "0.0.9"}))
    session = duel_of_two()
    SessionStore(esbench_home).save(session.with_race(SessionRace("contender", 1, 1, "x", "complete", 1.0)))
    assert run(["duel", "--resume=last", "--track=keyword"]) == 2  # which is no option that it began with
    assert "warning: the session began with esbench 0.0.9, and this is 0." in capsys.readouterr().err


def test_a_session_whose_races_are_gone_does_not_go_on(esbench_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = duel_of_two()
    SessionStore(esbench_home).save(session.with_race(SessionRace("contender", 1, 1, "x", "complete", 1.0)))
    assert f"--resume={session.id}: x is not there any more" in failing(capsys, "duel", "--resume=last")


DUEL = ("duel", "--track=orders", "--baseline=", "--contender=heap=1g")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--fail-on=p99 latancy>5%",), '--fail-on=p99 latancy>5%: "p99 latancy" is not judged'),
        (("--allow=host,trak",), '--allow: "trak" is not a key of a workload (did you mean "track"?'),
        (("--html=/proc/x.html",), "--html=/proc/x.html: cannot be written: "),
        (("--html=/dev/null/x.html",), "--html=/dev/null/x.html: "),
        (("--html=/proc/no/x.html",), "no folder can be made in /proc: "),
        (("--report-file=/proc/no/more/x.md",), "no folder can be made in /proc: "),
        (("--report-file=/proc/x.md",), "--report-file=/proc/x.md: cannot be written: "),
        (("--report-file=/proc/x.xml",), "--report-file=/proc/x.xml: cannot be written: "),
        (("--report-file=" + 300 * "x" + ".md",), "cannot be written: File name too long"),
        (
            ("--report-file=x.foo",),
            'no format is known for ".foo" (end it in .md, .csv, .json, .txt or .xml, or add --report-format)',
        ),
        (("--report-file=x.md", "--format=junit"), "--format: is junit where --report-file is not"),
        (("--baseline=heap=2g",), "--baseline: is given twice (a duel has one; several contenders are allowed)"),
        (("nodes=2",), "(a side is one word for the shell, in quotes: --baseline '... nodes=2')"),
        (("--metrics-port=x",), "--metrics-port"),
        (("--metrics-buckets=1",), "--metrics-buckets describes metrics that are not served"),
        (
            ("--capacity", "--task=get-by-id", "--fail-on= Answers"),
            "--fail-on=answers: a search for a capacity compares no answers (say --fail-on=slower)",
        ),
        (
            ("--capacity", "--task=get-by-id", "--fail-on=objectives"),
            "--fail-on=objectives: a search for a capacity finds the rate at which they hold (say --fail-on=slower)",
        ),
        (
            ("--capacity", "--task=get-by-id", "--objective=p99<50"),
            'esbench: --objective: "p99<50" has a time without a unit (say "p99<50ms")',
        ),
        (("--capacity", "--task=get-by-id", "--while=insert"), "esbench: --while=insert: names no task and rate"),
        (
            ("--capacity", "--task=get-by-id", "--search-budget=soon"),
            'esbench: --search-budget: "soon" is not a duration (say 30m)',
        ),
        (("--keep-node",), "(leave it out: the nodes of a session end with it)"),
        (
            ("--contender=a=1",),
            '"a" is not an option of a race (esbench duel --help lists them; write a parameter of the track ',
        ),
        (("--contender=rounds=3",), '"rounds" is not an option of a race (--rounds applies to all sides'),
        (("--contender=my_heap=3",), '"my_heap" is not an option'),
        (
            ("--turns", "--slice=2s"),
            "--slice cannot be combined with --turns: it is for sides that are raced at once (leave one of them out)",
        ),
        (("--turns", "--slice-gap=0"), "--slice-gap cannot be combined with --turns"),
        (("--turns", "--warmup=track"), "--warmup cannot be combined with --turns"),
        (("--slice=1.5",), '--slice: "1.5" is not whole seconds (say 2s)'),
        (("--slice=soon",), '--slice: "soon" is not a duration (say 2s)'),
        (("--task-time=0",), '--task-time: "0" is not whole seconds'),
        (("--budget=soon",), '--budget: "soon" is not a duration (say 15m)'),
        (("--budget=5",), "--budget: 5 s is shorter than a round, which takes 40 s (say 5m)"),
        (("--budget=5s", "--task-time=8s"), "--budget: 5 s is shorter than a round, which takes 8 s (say 15m)"),
        (("--heap=2",), "--heap: 2 B is too small: it must be at least 64m (say 2g)"),
        (("--heap=512",), "--heap: 512 B is too small: it must be at least 64m (say 512m)"),
        (
            ("--capacity", "--task=get-by-id", "--search-budget=5"),
            "--search-budget: 5 s is shorter than a probe, which takes 30 s (say 5m)",
        ),
        (("--rounds=0",), "--rounds"),
        (("--rounds=auto",), "--rounds"),
        (("--plan",), "--plan"),
        (("--dry-run", "--format=junit"), "--format=junit: a dry run has no verdicts"),
        (("--dry-run", "--report-format=junit"), "--report-format=junit: a dry run has no verdicts"),
        (("--dry-run", "--report-file=x.xml"), "--report-file=x.xml: a dry run has no verdicts (leave it out"),
        (("--dry-run", "--report-file=x.foo"), 'no format is known for ".foo"'),
        (("--contender=exclude-tasks=get-by-id",), "--contender-2: its steps are not those of baseline: get-by-id"),
    ],
)
def test_what_is_wrong_is_said_before_the_first_race(
    words: tuple[str, ...], line: str, esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert line in failing(capsys, *DUEL, *words)
    assert not (esbench_home / "sessions").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--turns",), "the session races its sides at once, and --turns does not"),
        (("--slice=1s",), "--slice cannot be changed when a session is resumed (leave it out)"),
        (("--warmup=track",), "--warmup cannot be changed when a session is resumed"),
        (("--budget=20m",), "--budget cannot be changed when a session is resumed"),
        (("--slice=2s", "--slice-gap=50ms", "--warmup=cut", "--budget=15m"), "x is not there any more"),
        (("--rounds=10", "--budget=15m"), "x is not there any more"),
    ],
)
def test_a_session_goes_on_at_the_pace_that_it_began_with(
    words: tuple[str, ...], line: str, esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = replace(duel_of_two(), pacing=Pacing(slice_s=2.0, gap_s=0.05), budget_s=900.0)
    SessionStore(esbench_home).save(session.with_race(SessionRace("contender", 1, 1, "x", "complete", 1.0)))
    assert line in failing(capsys, "duel", "--resume=last", *words)


def test_a_dry_run_tells_the_rounds_of_both_sides(esbench_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*DUEL, "--dry-run", "--rounds=6", "--task-time=1m"]) == 0
    printed = capsys.readouterr().out
    slices = "slices of 1 s, gaps of 50 ms; insert, read-after-write: 2 s, 50 ms; bulk-load: 2 s, 1 s"
    assert f"At once  2 sides in {slices}\n" in printed
    assert "Rounds   6 of " in printed
    assert re.search(r"Length a side +Rate", printed), "rounds that were asked for have no pilot"
    assert "Plan" not in printed
    assert not (esbench_home / "sessions").exists()


def test_a_dry_run_shows_the_plan_and_what_would_settle_the_rest(
    esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("duel", "--track=orders", "--baseline=", "--contender=heap=1g", "--include-tasks=term-query", "--dry-run")
    assert run([*words]) == 0
    printed = capsys.readouterr().out
    plan = r"^Plan +(\d+) rounds of .* at least: expected to settle 10 % for 1 of 1 tasks, if rounds differ by 5 %; "
    assert re.search(plan, printed, re.MULTILINE)
    assert "Length a side, before the pilot" in printed
    assert run([*words, "--budget=2m"]) == 0
    printed = capsys.readouterr().out
    assert "expected to settle 10 % for 0 of 1 tasks" in printed
    assert re.search(r"^For the rest +term-query: about \d+ rounds, --budget=\d+m$", printed, re.MULTILINE)
    assert not (esbench_home / "sessions").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--turns",), "none, as the pilots of a plan race all sides at once"),
        (("--test-mode",), "none, as --test-mode only shows that the duel can be raced"),
        (
            ("--capacity", "--task=insert", "--objective=p99<50ms"),
            "none, as each race searches on its own for as long as that takes",
        ),
    ],
)
def test_a_dry_run_says_why_a_duel_has_no_plan(
    words: tuple[str, ...], why: str, esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*DUEL, "--dry-run", *words]) == 0
    assert re.search(rf"^Plan +{re.escape(why)}$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("contender", "length"), [("distribution=7.17.29", "40 s"), ("track-params=codec:best_compression", "20 s")]
)
def test_tasks_on_fresh_nodes_last_longer(
    esbench_home: Path, capsys: pytest.CaptureFixture[str], contender: str, length: str
) -> None:
    words = ("duel", "--track=orders", "--baseline=", f"--contender={contender}", "--include-tasks=term-query")
    assert run([*words, "--dry-run"]) == 0
    assert re.findall(r"^\w+ +1 +term-query +8 +(\d+ s)", capsys.readouterr().out, re.MULTILINE) == [length, length]


def test_a_session_of_one_side_has_nothing_to_compare(esbench_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = (SessionRace("race", 1, 1),)
    SessionStore(esbench_home).save(
        RaceSession("r", "rounds", "2026-11-21T10:15:30.000Z", 7, ("track=orders",), (SessionSide("race"),), plan)
    )
    for option in ("--fail-on=slower", "--min-effect=5%", "--format=junit"):
        line = failing(capsys, "duel", "--resume=r", option)
        assert line == f"esbench: {option.partition('=')[0]}{'=junit' if 'junit' in option else ''}: {ONE_SIDE}"


def test_a_session_of_one_side_may_fail_on_objectives(esbench_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(esbench_home, golden_race(race_id="x"))
    plan = (SessionRace("race", 1, 1, "x", "complete", 1.0),)
    SessionStore(esbench_home).save(
        RaceSession("r", "rounds", "2026-11-21T10:15:30.000Z", 7, ("track=orders",), (SessionSide("race"),), plan)
    )
    assert run(["duel", "--resume=r", "--fail-on=objectives"]) == 4
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "esbench: --fail-on=objectives: cannot be judged: no task has an objective"


@pytest.mark.parametrize("option", ["--rows=task", "--columns=side", "--value=p50"])
def test_a_duel_has_no_matrix(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(capsys, *DUEL, option).startswith(f'esbench: unknown option "{option.partition("=")[0]}"')


ONE_SIDE = "there is nothing to compare: the session has one side"


def test_a_file_that_is_there_is_only_looked_at(tmp_path: Path) -> None:
    kept, new = tmp_path / "kept.md", tmp_path / "new.md"
    kept.write_text("kept")
    for file in (kept, new, Path("/dev/null")):
        check_file(file, "--report-file")
    assert kept.read_text() == "kept"
    assert not new.exists()


@pytest.mark.parametrize(
    ("option", "hint"), [("--resume=last", "esbench duel --resume SESSION"), ("--baseline=x", "esbench duel")]
)
def test_what_a_race_has_not_and_a_duel_has_is_told(option: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hint in failing(capsys, "race", option)


@pytest.mark.parametrize("command", [("race",), ("duel", "--turns", "--baseline=", "--contender=user-tags=a:b")])
def test_a_shared_node_has_the_indices_of_the_races_before(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--track=orders", "--exclude-tasks=type:delete-index", "--rounds=1")
    assert run([*command, *options]) == 2
    assert "has create-index without delete-index: the second race would find" in capsys.readouterr().err
