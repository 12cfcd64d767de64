"""Several load hosts: the real `esbench race` with hosts that run on this one, over a stand-in for ssh."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

import psutil
import pytest
from driver import NullServerFactory
from local_ssh import LocalSsh
from races import task_of
from racing import DOCUMENTS, Outcome, Races, press_ctrl_c, wait_until
from recorded import arrivals_file, requests_file

from esbench.null_server import NullServer

ROOT = Path(__file__).parents[2]
NAMES = ("127.0.0.1:2201", "127.0.0.1:2202")
HOSTS = f"--load-hosts={','.join(NAMES)}"


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSsh]:
    ssh = LocalSsh(tmp_path / "ssh")
    monkeypatch.setenv("PATH", ssh.path)
    yield ssh
    ssh.wait_for_nothing()


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path / "races")
    yield races
    races.end()


def test_two_hosts_share_a_race(ssh: LocalSsh, races: Races, null_server: NullServerFactory) -> None:
    server = null_server(log=True)
    outcome = races.run(server, HOSTS, "--workers=1", "--race-id=one", "--track-params=period:2,rate:200")
    assert outcome.code == 0, outcome.stderr
    assert "By load host" in outcome.stdout
    record = races.record("one")
    assert [host["name"] for host in record.load_hosts] == list(NAMES)
    assert record.host_class.startswith("2 x ")
    assert [driver.host for driver in record.drivers] == list(NAMES)
    assert all(0 < driver.clock_uncertainty_ms < 50 for driver in record.drivers)
    paced = task_of(record, "paced")
    assert paced.workers == 2
    assert sum(share.requests for share in paced.host_shares) == paced.requests
    assert {share.host for share in paced.host_shares} == set(NAMES)
    assert paced.due == paced.sent
    assert task_of(record, "found").host_shares == (), "of one client"
    assert task_of(record, "bulk").units == DOCUMENTS
    for name in NAMES:
        assert (ssh.home(name) / "cache" / "corpora").is_dir()
        assert not list((ssh.home(name) / "load-host").iterdir()), "what a race alone needed is removed"
    assert "By load host" in races.ask("show", "one")


def test_arrivals_are_those_of_one_host(ssh: LocalSsh, races: Races, null_server: NullServerFactory) -> None:
    """One schedule for any number of hosts: the same number of arrivals, from the same seed."""
    server = null_server()
    arguments = ("--include-tasks=paced", "--track-params=period:1,rate:300", "--workers=1", "--seed=3")
    assert races.run(server, *arguments, "--race-id=alone").code == 0
    assert races.run(server, *arguments, HOSTS, "--race-id=shared").code == 0
    alone, shared = task_of(races.record("alone"), "paced"), task_of(races.record("shared"), "paced")
    assert (shared.due, shared.requests) == (alone.due, alone.requests)


def test_recorded_requests_are_sent_once_by_two_hosts(
    ssh: LocalSsh, races: Races, null_server: NullServerFactory, tmp_path: Path
) -> None:
    """Files of arrivals and requests are copied to each host, which sends its clients' lines of them."""
    server = null_server(log=True)
    urlopen(Request(f"{server.url}/orders", method="PUT")).close()
    arrivals_file(tmp_path, [number / 200 for number in range(300)])
    requests_file(tmp_path, 300)
    operation = {"operation-type": "recorded-requests", "file": "searches.requests"}
    task = {"name": "searches", "clients": 4, "arrivals": "searches.arrivals", "operation": operation}
    (tmp_path / "track.json").write_text(json.dumps({"schedule": [task]}))
    outcome = races.run(server, HOSTS, f"--track-path={tmp_path / 'track.json'}", "--workers=1", "--no-answers")
    assert outcome.code == 0, outcome.stderr
    sent = [line.path for line in server.log() if "_search?n=" in line.path]
    assert sorted(sent) == sorted(f"/orders/_search?n={number}" for number in range(300))
    searches = task_of(races.record(), "searches")
    assert {share.host: share.requests for share in searches.host_shares} == dict.fromkeys(NAMES, 150)


def test_what_is_there_already_is_not_sent_again(ssh: LocalSsh, races: Races, null_server: NullServerFactory) -> None:
    server = null_server()
    arguments = ("--include-tasks=bulk", HOSTS)
    assert races.run(server, *arguments).code == 0
    files = {path: path.stat().st_ino for path in ssh.home(NAMES[0]).rglob("*.bulk")}
    assert files
    assert races.run(server, *arguments).code == 0
    assert {path: path.stat().st_ino for path in files} == files


GENERATED = """
version: 2
indices: [{name: orders}]
corpora:
  - name: made
    documents: [{document-count: 300, generate: {id: id, fields: {id: {type: sequence}}}}]
challenges:
  - name: default
    schedule: [{operation: {operation-type: bulk, bulk-size: 50}, clients: 4}]
"""


def test_generated_documents_are_made_on_each_host(ssh: LocalSsh, races: Races, null_server: NullServerFactory) -> None:
    (races.track / "track.yml").write_text(GENERATED)
    outcome = races.run(null_server(), HOSTS, "--race-id=made")
    assert outcome.code == 0, outcome.stderr
    assert task_of(races.record("made"), "bulk").units == 300
    homes = [races.home, *map(ssh.home, NAMES)]
    contents = {path.read_bytes() for home in homes for path in home.rglob("300-index.bulk")}
    assert len(contents) == 1


PYTHON_TRACK = """
from helper import ANSWER

class Source:
    def __init__(self, track, params, **kwargs):
        self.infinite = True
        with open(__file__.replace("track.py", "words.txt")) as words:
            self.word = words.read().strip()

    def partition(self, index, total):
        return self

    def params(self):
        print("drawn")
        return {"index": self.word + ANSWER, "body": {"query": {"match_all": {}}}, "cache": False}

def register(registry):
    registry.register_param_source("words", Source)
"""


def test_the_python_of_a_track_comes_with_its_modules_and_files(
    ssh: LocalSsh, races: Races, null_server: NullServerFactory
) -> None:
    (races.track / "track.py").write_text(PYTHON_TRACK.replace("from helper", "from shop.helper"))
    (races.track / "helper.py").write_text('ANSWER = "42"\n')
    (races.track / "words.txt").write_text("fish\n")
    (races.track / "track.yml").write_text("""
version: 2
indices: [{name: orders}]
challenges:
  - name: default
    schedule:
      - {operation: {name: find, operation-type: search, param-source: words}, clients: 2, iterations: 5}
""")
    server = null_server(log=True)
    outcome = races.run(server, HOSTS, "--no-answers", "--race-id=one")
    assert outcome.code == 0, outcome.stderr
    log = (races.home / "races" / "one" / "logs" / "worker.log").read_text()
    assert all(f"load host {name}:\ndrawn" in log for name in NAMES), "output comes back with the race"
    asked = [line.path for line in server.log() if "_search" in line.path]
    assert [path.partition("?")[0] for path in asked] == ["/fish42/_search"] * 10


def test_a_dry_run_starts_nothing_on_load_hosts(ssh: LocalSsh, races: Races, null_server: NullServerFactory) -> None:
    outcome = races.run(null_server(), HOSTS, "--dry-run")
    assert outcome.code == 0, outcome.stderr
    assert f"Load from  {', '.join(NAMES)}, over ssh" in outcome.stdout
    assert not ssh.home(NAMES[0]).parent.exists()


def test_a_host_that_refuses_is_one_line(ssh: LocalSsh, races: Races, null_server: NullServerFactory) -> None:
    ssh.refuse(NAMES[1])
    outcome = races.run(null_server(), HOSTS)
    assert (outcome.code, outcome.seconds < 15) == (1, True)
    assert f"load host {NAMES[1]}: ssh: connect to host 127.0.0.1 port 2202: Connection refused" in outcome.error
    assert list(races.home.glob("races/*/race.json")) == []


def test_another_esbench_on_a_host_is_refused(
    ssh: LocalSsh, races: Races, null_server: NullServerFactory, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import esbench\nesbench.__version__ = '0.0.9'\n")
    program = ssh.folder / "bin" / "ssh"
    program.write_text(program.read_text().replace("ESBENCH_HOME=", f"PYTHONPATH={other} ESBENCH_HOME="))
    outcome = races.run(null_server(), HOSTS)
    assert outcome.code == 1
    assert "it has esbench version 0.0.9, and this host" in outcome.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--load-hosts=10.0.0.5", "--target-hosts=127.0.0.1:9200"], "on a load host, 127.0.0.1 is that host itself"),
        (["--load-hosts=-oProxyCommand=x", "--target-hosts=10.0.0.1:9200"], "is not a host"),
        (["--load-hosts=10.0.0.5:99999", "--target-hosts=10.0.0.1:9200"], "'10.0.0.5:99999' is not a host"),
        (["--load-hosts=", "--target-hosts=10.0.0.1:9200"], "--load-hosts is empty"),
        (["--load-cluster=", "--target-hosts=10.0.0.1:9200"], "is not the address of a scheduler with TLS"),
        (["--load-hosts=a,a", "--target-hosts=10.0.0.1:9200"], "a is there twice"),
        (["--load-hosts=a", "--load-cluster=tls://b:1", "--target-hosts=10.0.0.1:9200"], "exclude each other"),
        (["--load-cluster=tcp://b:1", "--target-hosts=10.0.0.1:9200"], "is not the address of a scheduler with TLS"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(races: Races, arguments: list[str], message: str) -> None:
    *others, target = arguments
    outcome = races.run(target.removeprefix("--target-hosts="), *others)
    assert outcome.code == 2
    assert message in outcome.error


def test_an_embedded_node_is_refused() -> None:
    words = [sys.executable, "-m", "esbench.cli.main", "race", "--track=orders", "--load-hosts=10.0.0.5"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--load-hosts needs --target-hosts" in done.stderr


def endless(races: Races, server: NullServer, *arguments: str) -> subprocess.Popen[str]:
    process = races.start(server, HOSTS, "--challenge=endless", "--race-id=one", *arguments)
    wait_until(lambda: _paced(races), process)
    return process


def _paced(races: Races) -> bool:
    file = races.home / "races" / "one" / "seconds.jsonl"
    return file.exists() and file.read_text().count('"paced"') >= 2


def test_a_host_that_is_lost_ends_the_race_with_what_it_had_reported(
    ssh: LocalSsh, races: Races, null_server: NullServerFactory
) -> None:
    process = endless(races, null_server())
    lost = ssh.lose(NAMES[1])
    outcome = races.finish(process)
    for each in lost:
        with suppress(psutil.NoSuchProcess):  # its worker's socket is closed
            each.kill()
    assert outcome.code == 1
    assert f"load host {NAMES[1]} was lost: no word from it for 3 s" in outcome.stderr
    paced = task_of(races.record("one"), "paced")
    assert "incomplete" in {check.name for check in paced.checks}
    assert all(share.requests > 0 for share in paced.host_shares)


def test_a_load_worker_that_dies_is_named(ssh: LocalSsh, races: Races, null_server: NullServerFactory) -> None:
    process = endless(races, null_server(), "--workers=1")
    workers = [each for each in ssh.processes() if "esbench.worker.process" in each.cmdline()]
    max(workers, key=lambda each: int(each.cmdline()[-1])).kill()
    outcome = races.finish(process)
    assert outcome.code == 1
    assert "load worker 1 ended unexpectedly (killed by SIGKILL)" in outcome.stderr


def test_the_others_go_on_if_errors_do_not_end_the_race(
    ssh: LocalSsh, races: Races, null_server: NullServerFactory
) -> None:
    text = (
        (races.track / "track.yml")
        .read_text()
        .replace("time-period: 60}\n      - {name: never", "time-period: 9}\n      - {name: never")
    )
    (races.track / "track.yml").write_text(text)
    process = endless(races, null_server(), "--on-error=continue")
    ssh.kill(NAMES[1])
    outcome = races.finish(process)
    assert outcome.code == 0, outcome.stderr
    record = races.record("one")
    assert "incomplete" in {check.name for check in task_of(record, "paced").checks}
    assert task_of(record, "never").host_shares == ()
    assert task_of(record, "never").requests > 0


@pytest.mark.parametrize("how", ["ctrl-c", "kill"])
def test_nothing_is_left_on_any_host(ssh: LocalSsh, races: Races, null_server: NullServerFactory, how: str) -> None:
    process = endless(races, null_server())
    assert len(ssh.processes()) >= 4
    if how == "ctrl-c":
        press_ctrl_c(process)
    else:
        os.kill(process.pid, signal.SIGKILL)
    ssh.wait_for_nothing(10)
    process.communicate()


def test_no_port_answers_without_the_certificate(ssh: LocalSsh, races: Races, null_server: NullServerFactory) -> None:
    server = null_server()
    process = endless(races, server)
    ours = psutil.Process(process.pid)
    pids = {ours.pid, *(each.pid for each in ssh.processes())}
    listening = [
        (found.laddr.ip, found.laddr.port)
        for found in psutil.net_connections("tcp")
        if found.status == psutil.CONN_LISTEN and found.pid in pids
    ]
    assert len(listening) >= 3
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for ip, port in listening:
        # TLS 1.3 says at the first read that it wants a certificate
        with (
            pytest.raises(OSError, match=r"(?i)ssl|tls|reset"),
            socket.create_connection((ip, port), 5) as plain,
            context.wrap_socket(plain) as secure,
        ):
            secure.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert secure.recv(100)
    press_ctrl_c(process)
    outcome: Outcome = races.finish(process)
    assert outcome.code == 130


def test_what_one_host_has_loaded_another_may_draw(ssh: LocalSsh, races: Races, null_server: NullServerFactory) -> None:
    """The track orders draws ids of documents that its bulks have sent, and adds new ones."""
    races.track = ROOT / "tracks" / "orders"
    outcome = races.run(null_server(), HOSTS, "--test-mode", "--include-tasks=bulk-load,get-by-id", "--race-id=one")
    assert outcome.code == 0, outcome.stderr
    assert all(task.errors == 0 for task in races.record("one").tasks)
