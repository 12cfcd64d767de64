"""The options of `esbench load`, Loadgen's own among them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from loadgen_files import write

from esbench.cli.main import run

FILE = "requests: [{request: {url: 'http://127.0.0.1:1/x'}}]\n"


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
        (("loadgen.yml", "-config", "other.yml"), "FILE and -config name two files"),
        (("-run", "bulk.dsl"), "-run is not supported (esbench reads YAML"),
        (("-mixed",), "-mixed is not supported"),
        (("-c=0",), "-c"),
        (("-compress=yes",), '-compress: "yes" is neither true nor false'),
        (("-d", "soon"), '--duration: "soon" is not a duration'),
        (("-l", "1"), "-l 1: leaves nothing after the try-out, which sends 1 (runner: {no_warm: true}"),
        (("two.yml", "-l", "3"), "-l 3: leaves 1 after the try-out, which sends 2; a turn has 3 (runner: {no_warm"),
        (("--target-hosts=a,b",), "--target-hosts=a,b: takes one host"),
        (("--rates=5",), 'unknown option "--rates" of esbench load (did you mean "--rate"?'),
        (("--track=orders",), 'unknown option "--track"'),
        (("a.yml", "b.yml"), 'unexpected "b.yml" after esbench load'),
        (("--html=/nope/x.html",), "--html=/nope/x.html: its folder does not exist"),
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


def test_the_track_is_written_with_the_command_that_races_it(
    folder: Path, capsys: pytest.CaptureFixture[str], esbench_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "env: {I: orders}\n" + FILE.replace("/x'", "/$[[env.I]]', basic_auth: {username: u, password: p}"))
    text = said(capsys, "--export-track=made", code=0)
    monkeypatch.setenv("I", "x")
    assert "--track-params=env_I:env:I" in said(capsys, "--export-track=made", code=0)
    assert (folder / "made" / "track.yml").read_text().startswith("# loadgen.yml, a file of Loadgen")
    assert text == (
        "the track is in made; race it with\n"
        "esbench race --track-path=made --pipeline=http --target-hosts=http://127.0.0.1:1 "
        "--client-options=basic_auth_user:u,basic_auth_password:env:PASSWORD\n"
    )


def test_the_command_of_a_written_track_races_it_as_the_flags_say(
    folder: Path, capsys: pytest.CaptureFixture[str], esbench_home: Path
) -> None:
    write(folder, FILE.replace("/x'", "/x', basic_auth: {username: 'a,b $x', password: p}"))
    words = ("--export-track=made of it", "-c=8", "-d=1m", "-r=100", "-l=50", "-compress", "--timeout=5")
    text = said(capsys, *words, "--client-options=verify_certs:false", code=0)
    *_, path, _, _, params, own, given = shlex.split(text.splitlines()[1])
    assert path == "--track-path=made of it"
    assert params == "--track-params=clients:8,duration:60.0,rate:100.0,requests:49"
    assert given == "--client-options=verify_certs:false"
    assert json.loads(own.partition("=")[2]) == {
        "basic_auth_user": "a,b $x",
        "basic_auth_password": "env:PASSWORD",
        "http_compress": True,
        "timeout": 5.0,
    }
