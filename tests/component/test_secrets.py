"""No secret of a race is seen by others: in command lines, files and output, whatever goes wrong."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from metrics_store import Replies
from racing import TRACK, Races, wait_until
from raw_server import serve

from esbench.null_server import NullServer

SECRETS = {"password": "pass-word-9", "token": "hunter2-token", "in a URL": "x-in-url"}
ENCODED = "am9lOnBhc3Mtd29yZC05"  # joe:pass-word-9
OPTIONS = "--client-options=basic_auth_user:joe,basic_auth_password:env:RACE_PASSWORD"
TRACK_PARAMS = f"--track-params=secret_token:{SECRETS['token']}"


@pytest.fixture
def races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Races]:
    monkeypatch.setenv("RACE_PASSWORD", SECRETS["password"])
    races = Races(tmp_path)
    yield races
    races.end()


def shown(races: Races, *outputs: str) -> str:
    """Everything that a race wrote."""
    files = (path for path in races.home.rglob("*") if path.is_file())
    return "".join((*outputs, *(path.read_bytes().decode(errors="replace") for path in files)))


def assert_none_in(text: str) -> None:
    for secret in (*SECRETS.values(), ENCODED):
        assert secret not in text


def test_nothing_that_a_race_writes_holds_a_secret(
    null_server: NullServerFactory, races: Races, tmp_path: Path
) -> None:
    """Records, logs, page, report, exports and the metrics store, of a race whose server repeats what it was sent."""
    told = f"joe:pass-word-9 {ENCODED} hunter2-token https://joe:x-in-url@h/ Authorization: Basic {ENCODED}"
    refusal = {"status": 403, "body": {"error": {"type": "security_exception", "reason": told}}}
    server = null_server({"rules": [{"path": "_search", "reply": refusal}]})
    searching = TRACK.replace("match_all: {}", 'match: {token: "{{ secret_token }}"}')
    (races.track / "track.yml").write_text(searching)
    replies = Replies()
    page, report = tmp_path / "page.html", tmp_path / "report.md"
    with serve(replies) as replies.server:
        outcome = races.run(
            server,
            *(OPTIONS, TRACK_PARAMS, "--race-id=one", "--debug", "--on-error=continue", "--telemetry=all"),
            *(f"--html={page}", f"--report-file={report}", f"--store-hosts={replies.server.url}"),
            "--store-options=basic_auth_user:joe,basic_auth_password:env:RACE_PASSWORD",
            "--include-tasks=found,create-index",
        )
    assert "security_exception" in shown(races), outcome.stderr
    exports = [races.ask("export", "one", f"--{form}") for form in ("json", "csv", "hlog", "prometheus")]
    others = [races.ask("show", "one"), races.ask("list", "races"), page.read_text(), report.read_text()]
    stored = [request.body.decode() for request in replies.server.requests]
    assert any("security_exception" in body for body in stored)
    assert_none_in(shown(races, outcome.stdout, outcome.stderr, *exports, *others, *stored))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--target-hosts=https://joe:pass-word-9@127.0.0.1:1/path"],
        ["--target-hosts=http://joe:pass-word-9@127.0.0.1:1"],
        ["--target-hosts=ftp://joe:pass-word-9@127.0.0.1:1"],
        ["--client-options=basic_auth_password:pass-word-9"],
        ["--client-options=basic_auth_password:a,pass-word-9"],
        ["--client-options=basic_auth_password:'pass-word-9"],
        ["--client-options=basic_auth_user:joe,basic_auth_password:pass-word-9,api_key:hunter2-token"],
        ["--client-options=basic_auth_user:joe,basic_auth_password:pass-word-9"],
        ["--store-hosts=http://joe:pass-word-9@127.0.0.1:1"],
        ["--target-hosts=http://joe:pass-word-9,12@127.0.0.1:1"],
        ["--target-hosts=http://joe:12,pass-word-9@127.0.0.1:1"],
        ["--store-hosts=http://joe:pass-word-9,12@127.0.0.1:1"],
        ["--annotate=http://joe:12/pass-word-9@127.0.0.1:1"],
    ],
)
def test_no_error_and_no_traceback_repeats_a_secret(races: Races, unused_url: str, arguments: list[str]) -> None:
    outcome = races.run(unused_url, *arguments, "--debug")
    assert outcome.code != 0
    assert "Traceback" in outcome.stderr
    assert_none_in(shown(races, outcome.stdout, outcome.stderr))


def test_no_command_line_shows_a_password(server: NullServer, races: Races) -> None:
    process = races.start(server, OPTIONS, "--challenge=endless", "--workers=2")
    wait_until(lambda: list(races.home.rglob("seconds.jsonl")), process)
    lines = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert lines.count("esbench.worker.process") >= 2
    assert "RACE_PASSWORD" in lines
    assert_none_in(lines)


def test_no_other_user_reads_what_a_race_keeps(server: NullServer, races: Races) -> None:
    """With a umask that takes no rights away."""
    outcome = races.run(server, "--include-tasks=create-index,bulk", prefix=["sh", "-c", 'umask 000; exec "$@"', "sh"])
    assert outcome.code == 0
    kept = [races.home, *races.home.rglob("*")]
    assert len(kept) > 10
    assert [path for path in kept if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
