"""`esbench load` against null servers: what is sent, what is kept, how it ends."""

from __future__ import annotations

import base64
import json
import os
import pty
import select
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from driver import NullServerFactory
from loadgen_files import PUBLISHED, write

from esbench.null_server import NullServer
from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore


@dataclass
class Loads:
    folder: Path

    def run(self, file: str, *words: str, code: int = 0, **environment: str) -> str:
        """What it prints, stderr first; without a terminal."""
        command = [sys.executable, "-m", "esbench.cli.main", "load", str(write(self.folder, file)), *words]
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "ESBENCH_HOME": str(self.folder / "home"), **environment},
        )
        assert ended.returncode == code, ended.stderr + ended.stdout
        assert "Traceback" not in ended.stderr
        return ended.stderr + ended.stdout

    @property
    def record(self) -> RaceRecord:
        return RaceStore(self.folder / "home").load("last")


@pytest.fixture
def loads(tmp_path: Path) -> Loads:
    return Loads(tmp_path)


def test_the_published_example_writes_each_document_once(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server({"store": True})
    said = loads.run(PUBLISHED, "-c", "2", "-l", "50", f"--target-hosts={server.url}", "--workers=2")
    assert server.counts().documents == 500
    assert server.counts().by_class == {"POST /_bulk": 50}
    (task,) = loads.record.tasks
    assert (task.name, task.requests, task.errors, task.status_codes) == ("post-bulk", 49, 0, {"200": 49})
    assert loads.record.clusters["default"].distribution == loads.record.clusters["default"].pipeline == "http"
    assert "try-out: POST http://127.0.0.1" in said
    assert "49 requests finished in " in said
    assert "Status 200:\t\t49" in said
    assert "[Estimated Server Metrics]" in said


def test_a_rate_is_met(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server()
    text = "requests: [{request: {url: 'http://a/a/_doc/1'}}, {request: {url: 'http://a/b/_doc/1'}}]"
    loads.run(text, "-c=4", "-d=2", "-r", "100", f"--target-hosts={server.url}")
    (task,) = loads.record.tasks
    assert (task.loop, task.requests, task.target_rate_per_s) == ("open", 200, 100)
    assert server.counts().requests == 202
    assert [(part.name, part.requests) for part in task.requests_by_name] == [
        ("get-1", 100),
        ("get-1-2", 100),
    ]


THREE = """
runner: {no_warm: true}
requests:
  - request: {url: http://a/x/_doc/1}
    sleep: {sleep_in_milli_seconds: 40}
  - request: {url: http://a/broken}
  - request: {url: http://a/y/_doc/1}
"""
BROKEN = {"rules": [{"path": "^/broken", "reply": {"status": 500}}]}


def exported(loads: Loads, form: str) -> str:
    command = [sys.executable, "-m", "esbench.cli.main", "export", "last", f"--{form}"]
    environment = {**os.environ, "ESBENCH_HOME": str(loads.folder / "home")}
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment).stdout


def test_each_of_several_requests_has_its_figures(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server(BROKEN)
    said = loads.run(THREE, "-c=4", "-l=60", "-r=60", f"--target-hosts={server.url}")
    (task,) = loads.record.tasks
    broken = next(part for part in task.requests_by_name if part.name == "get-broken").requests
    assert (task.requests, task.errors, task.target_rate_per_s) == (60, broken, 60)
    assert 16 <= broken <= 24  # each of four clients ends within a turn
    assert task.service_time_ms is not None and task.service_time_ms["max"] < 40  # a sleep is no service time
    lines = [line.split() for line in said.splitlines() if line.startswith("requests") and " ops " in line]
    figures = {name: (float(rate), float(errors)) for name, rate, _, _, *_, errors, _ in map(padded, lines)}
    assert figures["requests/get-1"] == (pytest.approx(20, rel=0.3), 0)
    assert figures["requests/get-broken"] == (0, 100)
    counted = [line for line in exported(loads, "prometheus").splitlines() if 'request="get-broken"' in line]
    assert [line.rpartition(" ")[2] for line in counted if "_total" in line] == 2 * [f"{broken}.0"]
    assert "Tag=requests/get-1-2/service_time," in exported(loads, "hlog")
    (row,) = [line for line in exported(loads, "csv").splitlines() if line.startswith("requests/get-1,")]
    assert row.split(",")[7] == "0"


def padded(words: list[str]) -> list[str]:
    """The words of a line of the table, with a mark for figures that must not be used."""
    return words if words[-1] == "!" else [*words, ""]


@pytest.mark.parametrize(
    ("limit", "paths"), [(1, ["/x/_doc/1"]), (4, ["/x/_doc/1", "/broken", "/y/_doc/1", "/x/_doc/1"])]
)
def test_a_limit_of_requests_may_lie_within_a_turn(
    null_server: NullServerFactory, loads: Loads, limit: int, paths: list[str]
) -> None:
    server = null_server(BROKEN, log=True)
    loads.run(THREE, f"-l={limit}", f"--target-hosts={server.url}")
    assert [line.path for line in server.log()] == paths


def test_the_try_out_alone_may_be_all_that_a_limit_leaves(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server()
    text = "requests: [{request: {url: 'http://a/x/_doc/1'}}, {request: {url: 'http://a/y/_doc/1'}}]"
    said = loads.run(text, "-l=1", f"--target-hosts={server.url}")
    assert "-l 1: no request is left to send after the 2 of the try-out" in said
    assert server.counts().requests == 2


def test_a_pause_does_not_hold_up_the_end(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server(log=True)
    text = """
runner: {no_warm: true}
requests:
  - request: {url: http://a/x/_doc/1}
    sleep: {sleep_in_milli_seconds: 300000}
"""
    for rate in ("-r=50", ""):
        loads.run(text, "-c=3", "-d=1", *filter(None, [rate]), f"--target-hosts={server.url}")
        (task,) = loads.record.tasks
        assert 1 <= task.duration_s < 5


def test_a_status_that_is_valid_is_no_failure(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server(BROKEN)
    text = THREE.replace("no_warm: true", "valid_status_codes_during_warmup: [500]")
    said = loads.run(text, "-l=9", f"--target-hosts={server.url}")
    assert loads.record.tasks[0].errors == 0
    assert "Status 500:\t\t2" in said


def test_values_of_replies_are_used_and_asserts_end_a_turn(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server(
        {
            "rules": [
                {"path": "^/first", "reply": {"status": 201, "body": {"id": "x7"}, "headers": {"x-kind": "new"}}},
                {"path": "^/second", "reply": {"status": 404, "body": {}}},
            ]
        },
        log=True,
    )
    text = """
runner: {total_rounds: 3, assert_invalid: true}
requests:
  - request: {url: http://a/first}
    assert: {equals: {_ctx.response.status: 201, _ctx.response.header.X-Kind: new}}
    register: [{id: _ctx.response.body_json.id}]
  - request: {url: "http://a/second/$[[id]]"}
    assert: {equals: {_ctx.response.status: 200}}
  - request: {url: http://a/third}
"""
    said = loads.run(text, f"--target-hosts={server.url}", "--yes", code=1)
    asked = [line.path for line in server.log()]
    assert asked == 4 * ["/first", "/second/x7"]  # the try-out and three rounds
    assert "Number of Invalid:\t3" in said
    (task,) = loads.record.tasks
    assert {name: kind.count for name, kind in task.error_kinds.items()} == {"invalid": 3}


def test_each_request_goes_to_its_host(null_server: NullServerFactory, loads: Loads) -> None:
    one, two = null_server(), null_server()
    text = f"""
runner: {{total_rounds: 5, no_warm: true}}
requests:
  - request: {{url: {one.url}/a/_doc/1}}
  - request: {{url: {two.url}/b/_doc/1}}
  - request: {{url: {two.url}/c/_doc/1}}
"""
    loads.run(text)
    assert (one.counts().requests, two.counts().requests) == (5, 10)
    assert loads.record.clusters["default"].hosts == (one.url, two.url)


def test_a_try_out_that_fails_ends_a_load_without_a_terminal(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server({"users": {"elastic": "right"}})
    text = "requests: [{request: {url: 'http://a/x/_doc/1', basic_auth: {username: elastic, password: wrong}}}]"
    said = loads.run(text, "-d", "1", f"--target-hosts={server.url}", code=1)
    assert "esbench: the try-out failed: GET http://127.0.0.1" in said
    assert "401" in said
    assert "wrong" not in said
    assert "(--yes continues anyway)" in said
    said = loads.run(text, "-d", "1", "-r", "5", "--yes", f"--target-hosts={server.url}")
    assert "Status 401:\t\t5" in said
    valid = "runner: {valid_status_codes_during_warmup: [401]}\n" + text
    loads.run(valid, "-d", "1", "-r", "5", f"--target-hosts={server.url}")


def asked(loads: Loads, file: Path, *words: str, question: bytes, answer: str, **environment: str) -> tuple[int, bytes]:
    """The exit code of a load that asks on the terminal, and what was shown until it had its answer."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "esbench.cli.main", "load", str(file), *words],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={
            **os.environ,
            "ESBENCH_HOME": str(loads.folder / "home"),
            "TERM": "xterm",
            "COLUMNS": "500",
            **environment,
        },
    )
    os.close(theirs)
    shown = b""
    while question not in shown:
        shown += os.read(ours, 65536)
    while select.select([ours], [], [], 0.5)[0]:  # what would be drawn over the question
        shown += os.read(ours, 65536)
    os.write(ours, answer.encode())
    process.communicate(timeout=60)
    os.close(ours)
    return process.returncode, shown


@pytest.mark.parametrize(
    ("answer", "code", "status"), [("n\n", 1, "failed"), ("y\n", 0, "complete"), ("\4", 130, "cancelled")]
)
def test_a_terminal_is_asked_whether_to_go_on(
    null_server: NullServerFactory, loads: Loads, answer: str, code: int, status: str
) -> None:
    server = null_server({"rules": [{"path": "/x", "reply": {"status": 500}}]})
    file = write(loads.folder, "requests: [{request: {url: 'http://a/x'}}]")
    words, question = ("-d=1", "-r=5", f"--target-hosts={server.url}"), b"continue anyway?"
    found, shown = asked(loads, file, *words, question=question, answer=answer)
    assert shown.rstrip().endswith(b"continue anyway? [y/N]:")
    assert shown.count(b"the try-out failed: GET ") == 1
    assert found == code, shown
    assert loads.record.status == status


@pytest.mark.parametrize(("answer", "path"), [("n\n", "/orders/_doc/1"), ("y\n", "/mine/_doc/1")])
def test_a_terminal_is_asked_which_variables_a_file_may_have(
    null_server: NullServerFactory, loads: Loads, answer: str, path: str
) -> None:
    server = null_server(log=True)
    url = f"{server.url}/$[[env.INDEX]]/_doc/1"
    file = write(loads.folder, f"env: {{INDEX: orders, OTHER: x}}\nrequests: [{{request: {{url: '{url}'}}}}]")
    words, question = ("-d=1", "-r=5"), b"may it have them?"
    code, shown = asked(loads, file, *words, question=question, answer=answer, INDEX="mine")
    assert code == 0
    said = f"asks for the environment variables INDEX, and sends its requests to {server.url}: may it have them? [y/N]:"
    assert shown.decode().rstrip().endswith(said)
    assert {line.path for line in server.log()} == {path}


def test_an_assert_that_fails_in_the_try_out_ends_a_load(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server()
    text = "requests: [{request: {url: 'http://a/x/_doc/1'}, assert: {equals: {_ctx.response.status: 418}}}]"
    said = loads.run(text, f"--target-hosts={server.url}", code=1)
    assert "the try-out failed: GET http://127.0.0.1" in said
    assert "invalid: _ctx.response.status should be 418, and is 200" in said


def test_a_request_that_is_repeated_is_tried_once(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server(log=True)
    text = "runner: {total_rounds: 1}\nrequests: [{request: {url: 'http://a/x/_doc/1', execute_repeat_times: 3}}]"
    said = loads.run(text, "-compress", f"--target-hosts={server.url}")
    assert said.count("try-out: GET") == 1
    assert len(server.log()) == 1 + 3


def test_two_requests_that_are_alike_are_tried_each(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server(log=True)
    alike = "{request: {url: 'http://a/x/_doc/1'}}"
    text = f"runner: {{total_rounds: 1}}\nrequests: [{alike}, {alike}]"
    said = loads.run(text, f"--target-hosts={server.url}")
    assert said.count("try-out: GET") == 2
    assert len(server.log()) == 2 + 2


def test_one_of_several_hosts_that_is_not_there_ends_a_load_with_a_line(
    null_server: NullServerFactory, loads: Loads
) -> None:
    server = null_server()
    text = f"requests: [{{request: {{url: {server.url}/a/_doc/1}}}}, {{request: {{url: 'http://127.0.0.1:1/x'}}}}]"
    said = loads.run(text, "--yes", code=1)
    assert "esbench: 127.0.0.1:1: connection refused" in said


def test_secrets_of_a_file_are_shown_nowhere(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server({"rules": [{"path": "/x", "reply": {"status": 500, "body": {"echo": "Bearer hush-hush"}}}]})
    text = "requests: [{request: {url: 'http://a/x', headers: [{Authorization: 'Bearer $[[env.JWT]]'}]}}]"
    said = loads.run(
        text, "-d=1", "-r=5", "--yes", "--all", f"--target-hosts={server.url}", "--env=JWT", JWT="hush-hush"
    )
    kept = "".join(file.read_text() for file in (loads.folder / "home").rglob("*") if file.is_file())
    assert "hush-hush" not in said + kept


def refuse_once_loaded(server: NullServer) -> threading.Thread:
    """Let a server refuse connections for a second, and cut those that are open, once it has had some requests."""

    def refuse() -> None:
        deadline = time.monotonic() + 30
        while server.counts().requests < 10 and time.monotonic() < deadline:
            time.sleep(0.02)
        server.use({"refuse": [{"at_s": 0.1, "for_s": 1, "cut": True}]})

    thread = threading.Thread(target=refuse)
    thread.start()
    return thread


def test_a_server_that_dies_is_counted_and_asked_nothing_else(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server()
    thread = refuse_once_loaded(server)
    text = "runner: {assert_error: true}\nrequests: [{request: {url: 'http://a/x/_doc/1'}}]"
    said = loads.run(text, "-d", "4", "-r", "20", f"--target-hosts={server.url}", code=2)
    thread.join()
    (task,) = loads.record.tasks
    assert {"connection lost", "connection refused"} & set(task.error_kinds)
    assert "Number of Errors:\t0" not in said
    assert set(server.counts().by_class) == {"GET /*/_doc/*"}  # those since it refused


def test_an_exported_track_is_raced_like_any_other(null_server: NullServerFactory, loads: Loads) -> None:
    server = null_server({"store": True})
    made = loads.folder / "made"
    loads.run(PUBLISHED, f"--export-track={made}")
    command = [
        sys.executable,
        "-m",
        "esbench.cli.main",
        "race",
        f"--track-path={made}",
        "--pipeline=http",
        "--format=json",
    ]
    ended = subprocess.run(
        [*command, f"--target-hosts={server.url}", "--track-params=requests:20", "--quiet"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "ESBENCH_HOME": str(loads.folder / "home")},
    )
    shown: Mapping[str, Any] = json.loads(ended.stdout)
    assert shown
    assert server.counts().documents == 200
    assert server.counts().by_class == {"POST /_bulk": 20}


def test_the_printed_command_of_an_exported_track_sends_what_the_environment_holds(
    null_server: NullServerFactory, loads: Loads
) -> None:
    server = null_server({"users": {"elastic": "right"}}, log=True)
    text = "requests: [{request: {url: 'http://a/$[[env.I]]', headers: [{Authorization: 'Basic $[[env.TOKEN]]'}]}}]"
    token = base64.b64encode(b"elastic:right").decode()
    words = ("-d=1", "-r=5", f"--target-hosts={server.url}", f"--export-track={loads.folder / 'made'}", "--env=all")
    said = loads.run(text, *words, I="x/_doc/1", TOKEN=token)
    command = [sys.executable, "-m", "esbench.cli.main", *shlex.split(said.splitlines()[-1])[1:], "--quiet"]
    environment = {"ESBENCH_HOME": str(loads.folder / "home"), "I": "x/_doc/1", "TOKEN": token}
    subprocess.run(command, capture_output=True, timeout=60, check=True, env={**os.environ, **environment})
    assert [(line.path, line.status) for line in server.log()] == 5 * [("/x/_doc/1", 200)]
    params = loads.record.track_params
    assert (params["env_I"], params["secret_TOKEN"]) == ("<hidden>", "<hidden>")
