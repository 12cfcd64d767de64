"""The options of `esbench load`, Loadgen's own among them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from loadgen_files import write

from esbench.cli.main import run
from esbench.cli.race_flags import parser
from esbench.cli.race_options import race_options
from esbench.race.options import RaceOptions

FILE = "requests: [{request: {url: 'http://127.0.0.1:1/x'}}]\n"
WITH_USER = FILE.replace("/x'", "/x', basic_auth: {username: u, password: p}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path, FILE)
    two = "{request: {url: 'http://a/x'}}, {request: {url: 'http://a/y', execute_repeat_times: 2}}"
    write(tmp_path, f"requests: [{two}]", "two.yml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    assert run(["load", *words]) == code
    captured = capsys.readouterr()
    return captured.err + captured.out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("nowhere.yml",), 'esbench: "nowhere.yml" cannot be read: No such file or directory'),
        (("-config=nowhere.yml",), '"nowhere.yml" cannot be read'),
        (("loadgen.yml", "-config", "other.yml"), "FILE, -run and -config name several files"),
        (("-run", "bulk.dsl"), '"bulk.dsl" cannot be read: No such file or directory'),
        (("-mixed",), "-mixed is not supported"),
        (("-c=0",), "-c"),
        (("-compress=yes",), '-compress: "yes" is neither true nor false'),
        (("-d", "soon"), '--duration: "soon" is not a duration'),
        (("--target-hosts=a,b",), "--target-hosts=a,b: takes one host"),
        (("--rates=5",), 'unknown option "--rates" of esbench load (did you mean "--rate"?'),
        (("--track=orders",), 'unknown option "--track"'),
        (("a.yml", "b.yml"), 'unexpected "b.yml" after esbench load'),
        (("--html=/dev/null/x.html",), "--html=/dev/null/x.html: "),
    ],
)
def test_wrong_usage_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], esbench_home: Path, words: tuple[str, ...], line: str
) -> None:
    text = said(capsys, *words)
    assert line in text
    assert "Traceback" not in text


def test_a_host_that_refuses_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], esbench_home: Path) -> None:
    text = said(capsys, "-d", "1", "--quiet", code=1)
    assert "127.0.0.1:1: connection refused" in text
    assert "Traceback" not in text


def test_the_user_of_a_file_gives_way_to_any_of_the_flags(
    folder: Path, capsys: pytest.CaptureFixture[str], esbench_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, WITH_USER)
    monkeypatch.setenv("T", "a-token")
    for text in ("bearer_auth:env:T", "api_key:env:T", "amazon_aws_log_in:session,region:x"):
        options = raced(said(capsys, "--export-track=made", f"--client-options={text}", code=0)).client_options
        assert options.basic_auth_user is None
    assert "connection refused" in said(capsys, "-d=1", "--quiet", "--client-options=bearer_auth:env:T", code=1)
    assert "basic_auth_user is missing" in said(capsys, "--client-options=basic_auth_password:x")


def raced(text: str) -> RaceOptions:
    """The options of the race that a printed command begins."""
    return race_options(parser.make_context("race", shlex.split(text.splitlines()[-1])[2:]).params)


def test_the_track_is_written_with_the_command_that_races_it(
    folder: Path, capsys: pytest.CaptureFixture[str], esbench_home: Path
) -> None:
    write(folder, WITH_USER)
    text = said(capsys, "--export-track=made", code=0)
    assert (folder / "made" / "track.yml").read_text().startswith("# loadgen.yml, a file of Loadgen")
    assert text == (
        "the track is in made; race it with\n"
        "esbench race --track-path=made --pipeline=http --target-hosts=http://127.0.0.1:1 "
        "--client-options=basic_auth_user:u,basic_auth_password:env:PASSWORD --on-error=continue --seed=1\n"
    )


def test_the_command_of_a_written_track_takes_values_from_the_environment(
    folder: Path, capsys: pytest.CaptureFixture[str], esbench_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = "headers: [{X-Token: '$[[env.TOKEN]]'}]"
    write(folder, "env: {I: orders}\n" + FILE.replace("/x'", f"/$[[env.I]]', {header}"))
    monkeypatch.setenv("I", "x")
    monkeypatch.setenv("TOKEN", "hush-hush")
    text = said(capsys, "--export-track=made", "--env=I", "--env=TOKEN", code=0)
    assert "hush-hush" not in text
    assert raced(text).track_params == {"env_I": "x", "secret_TOKEN": "hush-hush"}


ASKS = (
    "env: {I: orders, GREETING: ''}\nrequests: [{request: {url: 'http://a:1/$[[env.I]]', body: '$[[env.GREETING]]'}}]"
)


@pytest.mark.parametrize(
    ("words", "sent", "line"),
    [
        (
            (),
            {},
            "warning: not taken from the environment: I, GREETING (--env=I --env=GREETING lets the file have them)",
        ),
        (("--env=I",), {"env_I": "mine"}, "not taken from the environment: GREETING (--env=GREETING lets the file"),
        (("--env=GREETING", "--env=I"), {"env_I": "mine", "env_GREETING": "hush"}, "the track is in"),
        (("--env=all",), {"env_I": "mine", "env_GREETING": "hush"}, "the track is in"),
    ],
)
def test_a_file_gets_no_variable_of_the_environment_without_permission(
    words: tuple[str, ...],
    sent: dict[str, str],
    line: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    esbench_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(folder, ASKS)
    monkeypatch.setenv("I", "mine")
    monkeypatch.setenv("GREETING", "hush")
    text = said(capsys, "--export-track=made", *words, code=0)
    assert line in text
    assert raced(text).track_params == sent


@pytest.mark.parametrize("name", ["NOWHERE", "", "A=B", "\0"])
def test_a_variable_that_is_named_is_set(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ": is not set in the environment" in said(capsys, f"--env={name}")


def test_the_command_of_a_written_track_races_it_as_the_flags_say(
    folder: Path, capsys: pytest.CaptureFixture[str], esbench_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, WITH_USER.replace("username: u", "username: 'a,b $x'"))
    monkeypatch.setenv("PASSWORD", "p")
    words = ("--export-track=made of it", "-c=8", "-d=1m", "-r=100", "-compress", "--timeout=5", "--user-tags=a:b")
    text = said(capsys, *words, "--client-options=verify_certs:false", "--workers=3", "--seed=7", code=0)
    options = raced(text)
    assert options.track_path == Path("made of it/track.yml")
    assert options.track_params == {"clients": 8, "duration": 60.0, "rate": 100.0}
    assert (options.user_tags, options.workers, options.seed) == ({"a": "b"}, 3, 7)
    assert not options.abort_on_error
    client = options.client_options
    assert (client.basic_auth_user, client.basic_auth_password) == ("a,b $x", "p")
    assert (client.http_compress, client.timeout_s, client.verify_certs) == (True, 5.0, False)


def test_a_written_track_sends_all_requests_of_l_and_has_no_other_end(
    folder: Path, capsys: pytest.CaptureFixture[str], esbench_home: Path
) -> None:
    text = said(capsys, "--export-track=made", "-d=600", "-l=50", code=0)
    assert raced(text).track_params == {"requests": 50}
    assert "warning: the track ends after its requests, however long they take: -d has no effect on it" in text
    text = said(capsys, "two.yml", "--export-track=made", "-l=2", code=0)
    assert raced(text).track_params == {"requests": 2}
