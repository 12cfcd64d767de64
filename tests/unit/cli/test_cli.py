"""The esbench command as a user meets it: exit codes, one-line errors, formats, files, terminals."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from races import golden_race, keep, task_of, with_task

from esbench import __version__
from esbench.cli.command import RALLY_OPTIONS
from esbench.cli.main import COMMANDS, run
from esbench.record.host import usable_cores
from esbench.record.locks import RaceLock

BASE, CONTENDER = "20261121t101530-4f2a", "20261121t111530-77aa"


@pytest.fixture
def races(esbench_home: Path) -> Path:
    """Two races: the contender's bulk is 10 % faster."""
    bulk = task_of(golden_race(), "bulk")
    faster = replace(bulk.throughput, mean=22000.0)
    keep(esbench_home, golden_race(race_id=BASE))
    contender = golden_race(race_id=CONTENDER, started_at="2026-11-21T11:15:30Z")
    keep(esbench_home, with_task(contender, "bulk", throughput=faster))
    return esbench_home


def esbench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real command in a process of its own, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "esbench", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What the command prints when stdout is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "esbench.cli.main", *arguments],
        stdout=theirs,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment},
    )
    os.close(theirs)
    printed = b""
    try:
        while chunk := os.read(ours, 65536):
            printed += chunk
    except OSError:  # Linux says EIO when the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return printed.decode()


def test_the_version_is_printed() -> None:
    assert esbench("--version").stdout == f"esbench {__version__}\n"


def test_help_names_every_command_and_imports_none_of_them() -> None:
    code = "import sys; from esbench.cli.main import run; run(['--help']); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    help_text, modules = done.stdout.rstrip().rsplit("\n", 1)
    assert all(f"\n  {name} " in help_text for name in COMMANDS)
    loaded = set(modules.split())
    assert not loaded & {"elasticsearch", "numpy", "jinja2", "rich", "tabulate", "msgspec", "esbench.record.store"}
    assert not {name for name in loaded if name.startswith("esbench.cli.")} - {
        "esbench.cli.main",
        "esbench.cli.command",
        "esbench.cli.help",
        "esbench.cli.option",
        "esbench.cli.streams",
    }


def test_listing_races_imports_nothing_heavy(races: Path) -> None:
    code = "import sys; from esbench.cli.main import run; run(['list', 'races']); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rstrip().rsplit("\n", 1)[1].split())
    assert "esbench.record.store" in loaded
    assert not loaded & {"elasticsearch", "numpy", "jinja2", "rich", "psutil", "yaml", "hdrh", "asyncio"}


def test_a_list_says_how_many_there_are_and_shows_all_that_are_asked_for(
    esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, status in enumerate(["complete", "failed", "running"] * 4):
        tags = {"why": "heap"} if number < 3 else {}
        started_at = f"2026-11-21T10:{number:02}:00Z"
        record = golden_race(race_id=f"r{number}", status=status, started_at=started_at, user_tags=tags)
        keep(esbench_home, record)

    def listed(*arguments: str) -> tuple[list[str], str]:
        assert run(["list", "races", "--format=json", *arguments]) == 0
        out, err = capsys.readouterr()
        return [row["race_id"] for row in json.loads(out)], err

    assert listed() == ([f"r{number}" for number in range(11, 1, -1)], "10 of 12 races; --all shows the others, too\n")
    assert listed("--all") == ([f"r{number}" for number in range(11, -1, -1)], "")
    assert listed("--status=failed", "--limit=1")[0] == ["r10"]
    assert listed("--status=failed", "--limit=1")[1].startswith("1 of 4 races;")
    with RaceLock(esbench_home, "r11"):
        assert listed("--status=running") == (["r11"], "")
        assert listed("--status=died") == (["r8", "r5", "r2"], "")
    assert listed("--tag=why:heap", "--status=complete") == (["r0"], "")
    assert listed("--tag=why:heap", "--tag=a:b")[0] == []
    assert "there are no races like that in" in listed("--tag=why:none")[1]


def test_the_help_of_list_has_no_line_that_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    run(["list", "--help"])
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shwo"], 'unknown command "esbench shwo" (did you mean "show"?'),
        (["list", "raecs"], 'unknown command "esbench list raecs" (did you mean "races"?'),
        (["show", "last", "--formt=json"], 'unknown option "--formt" of esbench show (did you mean "--format"?'),
        (["show"], "Missing argument 'RACE' (esbench show --help says more)"),
        (["race", "--track"], "Option '--track' requires an argument (esbench race --help says more)"),
        (["show", "last", "--format", "xml"], "'xml' is not one of"),
        (["show", "a", "b"], 'unexpected "b" after esbench show (esbench show --help lists its options)'),
        (
            ["race", "--report=a.md"],
            '"--report" is the beginning of several options of esbench race (--report-file, --rep',
        ),
        (["race", "--laps=3"], 'unknown option "--laps" of esbench race (use --rounds=N'),
        (["race", "--zaps=3"], 'unknown option "--zaps" of esbench race (esbench race --help lists them)'),
        (["race", "--logging=console"], '"--logging" of esbench race (leave it out: '),
        (["race", "--cluster-health=skip"], '"--cluster-health" of esbench race (use --track-params=cluster_health:'),
        (["race", "--multi-cluster"], '"--multi-cluster" of esbench race (say `cluster` in each task'),
        (["race", "-track=orders"], 'unknown option "-track" of esbench race (did you mean "--track"?)'),
        (["race", "-track", "orders"], 'unknown option "-track" of esbench race (did you mean "--track"?)'),
        (["race", "-x"], 'unknown option "-x" of esbench race (esbench race --help lists them)'),
        (["race", "\u2013dry-run"], "(a text processor wrote this dash: type --dry-run)"),
        (["help"], 'unknown command "esbench help" (esbench --help)'),
        (["help", "race"], 'unknown command "esbench help" (esbench race --help)'),
        (["race", "--track=orders", "--distribution=8"], '"8" (did you mean "elasticsearch-8.19.4"?;'),
        (["race", "--track=orders", "--distribution=opensearch-2"], '(did you mean "opensearch-2.19.6"?;'),
        (["configure"], 'unknown command "esbench configure" (every setting is an option of esbench race'),
        (["list", "challenges"], 'unknown command "esbench list challenges" (esbench info --track=NAME lists'),
        (["--track=orders"], 'unknown option "--track" of esbench (a command comes first: esbench race --track...)'),
        (["--target-host=a"], "(a command comes first: esbench race --target-host...)"),
        (["race", "--track=orders", "--distribution=9.0.0"], 'unknown distribution "9.0.0" (known: '),
        (["race", "--track=orders", "--distribution=7.10.3"], '(did you mean "elasticsearch-7.10.2"?'),
        (["race", "--track=orders", "--html=~nosuchuser/a.html"], '--html: there is no user "nosuchuser"'),
        (["race", "#", "once"], 'unexpected "#" after esbench race (a comment of a script: this shell passes it on'),
        (["race", "orders"], 'unexpected "orders" after esbench race (say --track=orders)'),
        (["race", "--pipeline=from-sources"], '--pipeline: there is no "from-sources" (use --distribution=ARCHIVE'),
        (["race", "--pipeline=docker"], '--pipeline: there is no "docker" (start the container'),
        (["race", "--on-error=continue-on-network"], 'there is no "continue-on-network" (use --on-error=continue'),
        (["race", "--track=orders", "--race-id="], '"" cannot be a race id'),
        (["race", "--track=orders", "--race-id=" + 101 * "x"], "digits, . _ and -, at most 100)"),
        (["info", "--track-path=" + 300 * "x"], 'no file can have the name "' + 60 * "x" + '...": it is too long'),
        (["info", "--track=" + 300 * "x"], 'no file can have the name "'),
        (
            ["list", "races", "--from-date=20260101"],
            'unknown option "--from-date" of esbench list races (use --limit=N',
        ),
        (["compare", "--contender", "last"], "--baseline is missing"),
        (["list", "races", "--limit", "0"], "0 is not in the range"),
        (["list", "races", "--tag=why"], '--tag: "why" is not NAME:VALUE (as given to --user-tags)'),
        (["list", "races", "--status=finished"], "'finished' is not one of"),
        (
            ["compare", "--report-numbers-align=left"],
            'unknown option "--report-numbers-align" of esbench compare (leave it out:',
        ),
        (["--cluster-name", "list"], 'unknown option "--cluster-name" of esbench (leave it out:'),
        (["info"], "no track was named (say --track=NAME or --track-path=FOLDER)"),
        (["show", "last"], "there are no races in"),
        (["compare", "--baseline=a", "--contender=b"], 'there is no race "a"'),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("esbench: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    "option",
    [
        "--user-tag=intention:baseline",
        "--pipeline=benchmark-only",
        "--no-quiet",
        "--report-format=csv",
        "--include-tasks=type:search, get-by-id",
        '--target-hosts={"default": ["127.0.0.1:1"]}',
        '--client-options={"default": {"timeout": 60}}',
        "--client-options=timeout:60, use_ssl:false, max_connections:512, enable_cleanup_closed:true",
        "--kill-running-processes",
        "--offline",
        "--distribution-version=7.10.2",
        "--track-param=documents:10",
        "--client-opt=timeout:60",
        "--report-form=csv",
    ],
)
def test_what_rallys_users_type_is_understood(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["race", "--track=orders", "--target-hosts=127.0.0.1:1", option]) == 1
    assert capsys.readouterr().err.startswith("esbench: 127.0.0.1:1: connection refused")


def test_a_home_folder_and_folders_that_are_missing(
    races: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell leaves the ~ of --option=~/file as it is, and Rally makes the folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["show", BASE, "--report-file=~/new/deep/a.md"]) == 0
    assert run(["report", BASE, "--html=~/pages/a.html"]) == 0
    assert run(["export", BASE, "--output=~/csv/a.csv"]) == 0
    files = ("new/deep/a.md", "pages/a.html", "csv/a.csv")
    assert [(tmp_path / file).stat().st_size > 0 for file in files] == [True, True, True]


def test_every_option_of_rallys_that_is_missing_names_its_replacement() -> None:
    for option, hint in RALLY_OPTIONS.items():
        assert option.startswith("--")
        assert len(hint) > 10


def test_a_damaged_record_is_exit_1_and_a_traceback_comes_with_debug_alone(
    races: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (races / "races" / BASE / "race.json").write_text("{")
    assert run(["show", BASE]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert run(["show", BASE, "--debug"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith(f"esbench: {races}/races/{BASE}/race.json: ")


def test_a_damaged_record_is_named_on_stderr_and_the_others_are_listed(
    races: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (races / "races" / BASE / "race.json").write_text("{")
    assert run(["list", "races", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert [race["race_id"] for race in json.loads(out)] == [CONTENDER]
    assert f"race {BASE} is left out" in err


def test_races_are_listed_with_a_limit_a_track_and_a_challenge(races: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*arguments: str) -> list[str]:
        assert run(["list", "races", "--format", "json", *arguments]) == 0
        return [race["race_id"] for race in json.loads(capsys.readouterr().out)]

    assert listed() == [CONTENDER, BASE]
    assert listed("--limit=1") == [CONTENDER]
    assert listed("--track=orders", "--challenge=default") == [CONTENDER, BASE]
    assert listed("--track=percolator") == []


def test_no_races_are_said_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "races"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("esbench: there are no races in ")


def test_a_race_is_shown_by_last_and_by_a_unique_beginning(races: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("last", CONTENDER, "20261121t11"):
        assert run(["show", name, "--format=json"]) == 0
        assert json.loads(capsys.readouterr().out)["facts"]["Race ID"] == CONTENDER


def test_a_race_whose_process_is_gone_has_died(esbench_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(esbench_home, golden_race(race_id="killed", status="running"))
    with RaceLock(esbench_home, "alive"):
        keep(esbench_home, golden_race(race_id="alive", status="running"))
        assert run(["list", "races", "--format=json"]) == 0
        listed = {race["race_id"]: race["status"] for race in json.loads(capsys.readouterr().out)}
    assert listed == {"alive": "running", "killed": "died"}
    assert run(["show", "killed"]) == 0
    assert "the race is not complete (died)" in capsys.readouterr().out


def test_a_report_file_is_overwritten_in_the_format_of_its_suffix(
    races: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.csv"
    file.write_text("old " * 10000)
    assert run(["compare", f"--baseline={BASE}", "--contender=last", f"--report-file={file}"]) == 0
    assert file.read_text().startswith(
        "metric,task,baseline,contender,diff,unit,diff_percent,interval_percent,verdict,note,"
    )
    assert "old" not in file.read_text()
    assert "\nVerdict " in capsys.readouterr().out  # the terminal still gets text


def test_a_report_file_without_a_suffix_is_markdown_and_report_format_wins(
    races: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", "last", f"--report-file={tmp_path / 'report'}"]) == 0
    assert (tmp_path / "report").read_text().startswith("|")
    file = tmp_path / "report.md"
    assert run(["show", "last", f"--report-file={file}", "--report-format=json"]) == 0
    assert json.loads(file.read_text())["rows"]


@pytest.mark.parametrize("name", ["report.pdf", "file/report.md", "file/deep/report.md", "."])
def test_a_report_file_that_cannot_be_written_is_wrong_usage(
    name: str, races: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run(["show", "last", f"--report-file={tmp_path / name}"]) == 2
    assert "--report-file=" in capsys.readouterr().err


def test_a_comparison_is_coloured_on_a_terminal(races: Path) -> None:
    for day, docs_per_s in enumerate((20000.0, 20100.0, 19900.0, 20050.0, 19950.0, 20000.0), 1):  # a history
        earlier = golden_race(race_id=f"earlier-{day}", started_at=f"2026-11-{day:02}T10:15:30Z")
        throughput = replace(task_of(earlier, "bulk").throughput, mean=docs_per_s)
        keep(races, with_task(earlier, "bulk", throughput=throughput))
    arguments = ("compare", f"--baseline={BASE}", f"--contender={CONTENDER}")
    assert "\x1b[32m+10.0%" in on_a_terminal(*arguments)
    assert "\x1b" not in on_a_terminal(*arguments, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(*arguments, TERM="dumb")
    assert "\x1b" not in esbench(*arguments).stdout


def test_bars_over_time_are_shown_on_a_terminal_alone(races: Path, tmp_path: Path) -> None:
    report_file = tmp_path / "report.txt"
    assert "Over time" in on_a_terminal("show", "last", f"--report-file={report_file}")
    assert "Over time" not in on_a_terminal("show", "last", "--format=markdown")
    assert "Over time" not in esbench("show", "last").stdout
    assert "Over time" not in report_file.read_text()


def test_a_race_is_shown_though_its_seconds_are_damaged(races: Path) -> None:
    (races / "races" / CONTENDER / "seconds.jsonl").write_text("{]\n")
    printed = on_a_terminal("show", "last")
    assert "Per second" in printed
    assert "Over time" not in printed


def test_the_screen_has_a_line_for_each_task_and_files_and_programs_all_figures(races: Path, tmp_path: Path) -> None:
    def shown(*arguments: str) -> str:
        return esbench("show", "last", *arguments).stdout

    file = tmp_path / "race.txt"
    assert "Per second" in shown(f"--report-file={file}")
    assert "Per second" in shown("--format=markdown")
    for text in (file.read_text(), shown("--all"), shown("--all", "--format=markdown")):
        assert "Median throughput" in text
        assert "Per second" not in text
    for form in ("csv", "json"):
        assert "Median throughput" in shown(f"--format={form}")
        assert shown(f"--format={form}") == shown(f"--format={form}", "--all")


def test_names_are_cut_on_a_terminal_alone(esbench_home: Path) -> None:
    name = "reads-of-orders-by-their-id-of-a-thousand-each-second"
    renamed = replace(task_of(golden_race(), "get-by-id"), name=name)
    keep(esbench_home, golden_race(tasks=(renamed,)))
    narrow, wide = (on_a_terminal("show", "last", COLUMNS=columns) for columns in ("80", "200"))
    (cut,) = [line for line in narrow.splitlines() if "5199 ops" in line]
    assert len(cut) == 80
    assert f"{name}    5199 ops" in wide
    assert f"{name}    5199 ops" in esbench("show", "last", COLUMNS="80").stdout


@pytest.mark.parametrize(
    "command",
    ["list races", "list telemetry", "list distributions", "list tracks", "info --track=orders", "show last --all"],
)
def test_tables_fit_their_terminal_unless_they_are_asked_for_whole(command: str, races: Path) -> None:
    words = command.split()
    fitted, wide = (on_a_terminal(*words, *more, COLUMNS="80").splitlines() for more in ((), ("--wide",)))
    assert max(map(len, fitted)) <= 80
    assert set(map(str.rstrip, esbench(*words, COLUMNS="80").stdout.splitlines())) <= set(map(str.rstrip, wide))
    assert max(map(len, wide)) > 80


# A shell that runs these tests in the background has interrupts ignored.
HEARING_INTERRUPTS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from esbench.cli.main import main
main()
"""


def test_an_interrupt_is_exit_130_and_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # who asks it waits for a reply that does not come
        silent.settimeout(120)
        command = ["create-track", "--track=x", "--indices=a", f"--target-hosts=127.0.0.1:{silent.getsockname()[1]}"]
        arguments = [sys.executable, "-c", HEARING_INTERRUPTS, *command, f"--output-path={tmp_path}", "--quiet"]
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        asking, _ = silent.accept()
        with asking:
            for _ in range(6):  # a signal between a bytecode and the read is heard only with the next one
                process.send_signal(signal.SIGINT)
                try:
                    errors = process.communicate(timeout=10)[1]
                except subprocess.TimeoutExpired:
                    continue
                break
            else:
                process.kill()
                pytest.fail("it was not interrupted")
    assert errors.strip() == "esbench: cancelled"  # below the terminal's ^C
    assert process.returncode == 130


def test_the_shipped_tracks_and_distributions_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "tracks", "--format=json"]) == 0
    assert "orders" in [track["track"] for track in json.loads(capsys.readouterr().out)]
    assert run(["list", "distributions", "--format=json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["distribution"] for row in rows if row["default"]] == ["elasticsearch-7.10.2"]
    (default,) = (row for row in rows if row["default"])
    assert default["percolator"] and default["painless"] and default["language-analyzers"]
    assert {row["downloaded"] for row in rows} <= {True, False}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--value=p50", "--format=junit"), "--format=junit: a matrix has no verdicts"),
        (("--rows=task", "--report-format=junit"), "--report-format=junit: a matrix has no verdicts"),
        (("--rows=task", "--report-file=m.xml"), "--report-file=m.xml: a matrix has no verdicts (leave it out"),
    ],
)
def test_a_matrix_is_no_junit(
    options: tuple[str, ...], line: str, races: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", BASE, BASE, *options]) == 2
    assert capsys.readouterr().err.startswith(f"esbench: {line}")


def test_a_traceback_is_json_where_all_is(capsys: pytest.CaptureFixture[str]) -> None:
    race = ["race", "--track=none-such", "--progress=json"]
    assert run(race) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["text"].startswith('--track: unknown track "none-such"')
    assert run([*race, "--debug"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    assert (said["event"], said["level"]) == ("message", "error")
    assert said["text"].startswith("Traceback")
    assert 'unknown track "none-such"' in said["text"].splitlines()[-1]


def test_notices_of_a_bare_table_are_json_where_all_is(capsys: pytest.CaptureFixture[str]) -> None:
    workers = f"--workers={usable_cores() + 1}"
    race = ["race", "--track=orders", workers, "--dry-run", "--format=csv", "--progress=json"]
    assert run(race) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any("load workers share" in json.loads(line)["text"] for line in lines)
