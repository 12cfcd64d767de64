"""No secret of a race is seen by others: in command lines, files and output, whatever goes wrong."""

from __future__ import annotations

import base64
import json
import stat
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import psutil
import pytest
from metrics_store import Replies
from racing import TRACK, Outcome, Races, wait_until
from raw_server import INFO, RawServer, Request, reply, serve
from tunnels import TunnelProxy

from esbench.features.node.node import free_ports
from esbench.null_server import NullServer

SECRETS = {
    "password": "pass-word-9",
    "token": "hunter2-token",
    "in a URL": "x-in-url",
    "key": "k3y-of-api",
    "store": "st0re-word",
    "header": "h3ader-value",
    "parameter": "p4rameter-secret",
    "bearer": "b34rer.token-x",
    "aws": "aws/s3cret+key",
    "session": "s3ssion-token/of=aws",
    "proxy": "pr0xy-word",
}
ENCODED = [
    base64.b64encode(pair.encode()).decode()
    for pair in (*(f"joe:{SECRETS[name]}" for name in ("password", "store", "proxy")), f"id:{SECRETS['key']}")
]
OPTIONS = "--client-options=basic_auth_user:joe,basic_auth_password:env:RACE_PASSWORD"
PARAMS = {
    "secret_token": SECRETS["token"],
    "access_token": SECRETS["token"],
    "db_secret": SECRETS["parameter"],
    "base": f"http://joe:{SECRETS['in a URL']}@far/",
}
FIND = "operation-type: search, body: {query: {match_all: {}}}"
FIND_WITH_SECRETS = (
    f"operation-type: search, headers: {{x-my-token: {SECRETS['header']}}}, "
    'body: {query: {match: {a: "{{secret_token}} {{access_token}} {{db_secret}} {{base}}"}}}'
)


@pytest.fixture
def races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Races]:
    monkeypatch.setenv("RACE_PASSWORD", SECRETS["password"])
    monkeypatch.setenv("STORE_PASSWORD", SECRETS["store"])
    races = Races(tmp_path)
    yield races
    races.end()


def shown(races: Races, *outputs: str) -> str:
    """Everything that a race wrote."""
    files = (path for path in races.home.rglob("*") if path.is_file())
    return "".join((*outputs, *(path.read_bytes().decode(errors="replace") for path in files)))


def assert_none_in(text: str) -> None:
    for secret in (*SECRETS.values(), *ENCODED):
        at = text.find(secret)
        assert at < 0, f"{secret} in {text[max(0, at - 200) : at + 50]!r}"


def echo(request: Request) -> str:
    """Everything that a request has, its credentials also decoded, on their own and in a URL."""
    credentials = request.headers.get("Authorization", "") + request.headers.get("X-Amz-Security-Token", "")
    with suppress(ValueError):
        credentials += " " + base64.b64decode(credentials.partition(" ")[2]).decode()
    heads = request.head.decode() + json.dumps(dict(request.headers))
    return f"{credentials} http://{credentials.split()[-1:]}@h/ {heads} {request.body[:1000].decode()}"


def refusal(told: str) -> bytes:
    reason = {"type": f"security_exception {told}", "reason": told}
    body = json.dumps({"error": {**reason, "caused_by": reason}})
    return reply(body, "403 Forbidden", "Content-Type: application/json", "X-Elastic-Product: Elasticsearch")


def strange(told: str) -> bytes:
    return reply(json.dumps({"told": told, "nodes": told, "index": {"all_fields": told}}))


def page(told: str) -> bytes:
    return reply(f"<html>{told}</html>", "500 Internal Server Error", "Content-Type: text/html")


def echoing(answer: Callable[[str], bytes], beside: Callable[[], None] = lambda: None) -> RawServer:
    """A cluster that says in all its replies what it was sent; `beside` is called for each of them."""

    def answers(number: int, request: Request) -> Sequence[bytes]:
        beside()
        told = echo(request)
        path = request.target.partition("?")[0]
        if path == "/":
            version = {**INFO["version"], "build_hash": told}
            return [reply(json.dumps({**INFO, "cluster_name": told, "version": version}))]
        if path == "/_cluster/health":
            return [reply(json.dumps({"status": "green", "cluster_name": told}))]
        return [answer(told)]

    return RawServer(answers)


def race(races: Races, url: str, race_id: str, *arguments: str) -> Outcome:
    (races.track / "track.yml").write_text(TRACK.replace(FIND, FIND_WITH_SECRETS))
    outcome = races.run(
        url,
        *(f"--track-params={json.dumps(PARAMS)}", f"--race-id={race_id}", "--debug", "--on-error=continue"),
        *("--telemetry=all", "--include-tasks=found,create-index,bulk", *arguments),
    )
    assert outcome.code == 1
    assert outcome.stderr.splitlines()[-1].startswith("esbench: every request failed: bulk")
    return outcome


@pytest.mark.parametrize("answer", [refusal, strange, page])
def test_nothing_that_a_race_writes_holds_a_secret_that_its_server_repeats(
    races: Races, answer: Callable[[str], bytes]
) -> None:
    with echoing(answer) as server:
        outcome = race(races, server.url, "one", OPTIONS)
    assert "<hidden>" in shown(races)
    assert_none_in(shown(races, outcome.stdout, outcome.stderr))


@pytest.mark.parametrize("given", ["file", "url", "key", "pair", "bearer", "aws", "proxy"])
def test_no_way_to_give_credentials_shows_them(races: Races, tmp_path: Path, given: str) -> None:
    file = tmp_path / "options.json"
    file.write_text(json.dumps({"basic_auth_user": "joe", "basic_auth_password": SECRETS["password"]}))
    arguments = {
        "file": [f"--client-options={file}"],
        "url": [],
        "key": [f"--client-options=api_key:{SECRETS['key']}"],
        "pair": [f"--client-options=api_key:id:{SECRETS['key']}"],
        "bearer": [f"--client-options=bearer_auth:{SECRETS['bearer']}"],
        "aws": [
            f"--client-options=aws_access_key_id:AKID,aws_secret_access_key:{SECRETS['aws']},"
            f"aws_session_token:{SECRETS['session']},region:eu-west-1"
        ],
        "proxy": [],
    }
    with echoing(refusal) as server, TunnelProxy(f"joe:{SECRETS['proxy']}") as proxy:
        if given == "proxy":
            arguments["proxy"] = [f"--client-options=proxy:'http://joe:{SECRETS['proxy']}@127.0.0.1:{proxy.port}'"]
        user = f"//joe:{SECRETS['password']}@" if given == "url" else "//"
        outcome = race(races, server.url.replace("//", user), "one", *arguments[given])
    assert "<hidden>" in shown(races)
    assert_none_in(shown(races, outcome.stdout, outcome.stderr))


def test_nothing_that_is_made_of_a_race_holds_a_secret(races: Races, tmp_path: Path) -> None:
    """Tables, pages, exports, what Prometheus reads while it runs, and the metrics store."""
    metrics: list[str] = []
    (port,) = free_ports(1)

    def read_metrics() -> None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as found:
            metrics.append(found.read().decode())

    replies, files = Replies(), [tmp_path / "page.html", tmp_path / "report.md"]
    with (
        echoing(refusal, read_metrics) as server,
        serve(replies) as replies.server,
    ):
        outcomes = [
            race(
                *(races, server.url, race_id, OPTIONS, f"--html={files[0]}", f"--report-file={files[1]}"),
                *(f"--metrics-port={port}", f"--store-hosts={replies.server.url}"),
                "--store-options=basic_auth_user:joe,basic_auth_password:env:STORE_PASSWORD",
            )
            for race_id in ("one", "two")
        ]
    assert any("security_exception" in text for text in metrics)
    stored = [request.body.decode() for request in replies.server.requests]
    assert any("security_exception" in body for body in stored)
    asked = [
        *(["export", "one", f"--{form}"] for form in ("json", "csv", "hlog", "prometheus")),
        *(["show", "one", f"--format={form}"] for form in ("text", "json", "csv", "markdown")),
        *(["compare", "one", "two", f"--format={form}"] for form in ("text", "json", "csv", "markdown", "junit")),
        ["list", "races"],
    ]
    answers = [races.ask(*command) for command in asked]
    told = chain.from_iterable((outcome.stdout, outcome.stderr) for outcome in outcomes)
    written = [file.read_text() for file in files]
    assert_none_in(shown(races, *told, *metrics, *stored, *answers, *written))


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
        ["--target-hosts=http://joe:pass-word-9,more@127.0.0.1:1"],
        ["--target-hosts=http://joe:pass-word-9/more@127.0.0.1:1"],
        ["--store-hosts=http://joe:pass-word-9,mo:re@127.0.0.1:1"],
        ["--target-hosts=http://joe:pass-word-9,12@127.0.0.1:1"],
        ["--target-hosts=http://joe:12,pass-word-9@127.0.0.1:1"],
        ["--store-hosts=http://joe:pass-word-9,12@127.0.0.1:1"],
    ],
)
def test_no_error_and_no_traceback_repeats_a_secret(races: Races, unused_url: str, arguments: list[str]) -> None:
    outcome = races.run(unused_url, *arguments, "--debug")
    assert outcome.code != 0
    assert "Traceback" in outcome.stderr
    assert_none_in(shown(races, outcome.stdout, outcome.stderr))


def test_no_command_line_shows_a_secret(server: NullServer, races: Races, tmp_path: Path) -> None:
    (races.track / "track.yml").write_text(TRACK.replace(FIND, FIND_WITH_SECRETS))
    params = tmp_path / "params.json"
    params.write_text(json.dumps(PARAMS))
    arguments = ("--challenge=endless", "--workers=2", f"--track-params={params}")
    process = races.start(server, OPTIONS, *arguments)
    wait_until(lambda: list(races.home.rglob("seconds.jsonl")), process)
    parent = psutil.Process(process.pid)
    lines = "\n".join(" ".join(each.cmdline()) for each in (parent, *parent.children(recursive=True)))
    assert lines.count("esbench.worker.process") >= 2
    assert "RACE_PASSWORD" in lines
    assert_none_in(lines)


def test_no_other_user_reads_what_a_race_keeps(server: NullServer, races: Races) -> None:
    """With a umask that takes no rights away."""
    arguments = ("--include-tasks=create-index,bulk", "--telemetry=all")
    outcome = races.run(server, *arguments, prefix=["sh", "-c", 'umask 000; exec "$@"', "sh"])
    assert outcome.code == 0
    kept = [races.home, *races.home.rglob("*")]
    assert len(kept) > 10
    assert [path for path in kept if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


TRACK_BY_NAME = """
version: 2
indices: [{name: "shop-{{who}}", body: {}}]
schedule:
  - operation: {operation-type: create-index}
  - name: "find {{who}}"
    operation: {operation-type: search, index: "shop-{{who}}", body: {query: {match: {a: "{{who}}"}}}}
    tags: ["of {{who}}"]
    iterations: 20
"""


def test_what_came_from_the_environment_is_hidden_wherever_it_turns_up(
    races: Races, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHO", "4lice-of-env")
    (races.track / "track.yml").write_text(TRACK_BY_NAME)
    with NullServer() as server:
        page, table = tmp_path / "page.html", tmp_path / "table.md"
        files = (f"--html={page}", f"--report-file={table}")
        tags = "--user-tags=gh_pat:t4gged-word,license:t4gged-word,team:search"
        outcome = races.run(server, "--track-params=who:env:WHO", tags, "--race-id=hidden", *files)
    assert outcome.code == 0, outcome.stderr
    assert "find <hidden>" in outcome.stdout
    shown = [outcome.stdout, outcome.stderr, page.read_text(), table.read_text()]
    shown += [races.ask("export", "hidden", f"--{form}") for form in ("csv", "json", "hlog", "prometheus")]
    shown += [races.ask("show", "hidden", "--all"), races.ask("list", "races")]
    shown += [path.read_text() for path in (races.home / "races" / "hidden").glob("*.json*")]
    for secret in ("4lice-of-env", "t4gged-word"):
        assert [text[max(0, text.find(secret) - 200) :][:300] for text in shown if secret in text] == []
    record = races.record("hidden")
    assert (record.track_params, record.damage) == ({"who": "<hidden>"}, "")
    assert record.user_tags == {"gh_pat": "<hidden>", "license": "<hidden>", "team": "search"}
    assert {line["task"] for line in races.series("hidden")} >= {"find <hidden>"}
