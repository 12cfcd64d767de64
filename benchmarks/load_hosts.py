"""Four load hosts, each a network namespace with sshd and a clock that is half a second off, against null servers.

    python benchmarks/load_hosts.py [--seconds 20] [--no-cpu]

Needs root and openssh-server. Printed are, with their bounds: how far apart the hosts' first requests were, service
times of the merged histogram beside the servers' own logs, arrivals of four hosts beside those of one, documents of a
bulk, ports that answer without the race's certificate, and CPU per request on a load host beside esbench's own host.
It exits with 1 if a bound does not hold.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from namespaces import OURS, Namespace, missing, namespaces
from programs import ESBENCH
from tabulate import tabulate

from esbench.null_server import NullServer
from esbench.null_server.log import LogLine
from esbench.record.model import TaskResult
from esbench.record.store import RaceStore

SKEWS_NS = (500_000_000, -500_000_000, 250_000_000, -250_000_000)
DOCUMENTS = 20_000
TRACK = """
version: 2
indices: [{{name: orders}}]
corpora:
  - name: made
    documents: [{{document-count: {documents}, generate: {{id: id, fields: {{id: {{type: sequence}}}}}}}}]
variables: [{{name: any_id, type: range, from: 1, to: 1000}}]
operations: [{{name: read, operation-type: get, id: "$[[any_id]]"}}]
challenges:
  - name: reads
    default: true
    schedule:
      - {{name: closed, operation: read, clients: 8, time-period: {seconds}}}
      - {{name: poisson, operation: read, clients: 32, target-throughput: 400, schedule: poisson,
          time-period: {seconds}}}
  - name: bulk
    schedule: [{{operation: {{operation-type: bulk, bulk-size: 100}}, clients: 8}}]
  - name: cpu
    schedule: [{{name: closed, operation: read, clients: 8, time-period: {seconds}}}]
"""
DELAY = {"rules": [{"path": "/_doc/", "delay": {"type": "bimodal", "low_ms": 5, "high_ms": 20, "high_ratio": 0.05}}]}


@dataclass
class Findings:
    """What was found, as rows of a table."""

    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    def add(self, what: str, found: str, bound: str, holds: bool) -> None:
        self.rows.append((what, found, bound, "yes" if holds else "NO"))

    @property
    def hold(self) -> bool:
        return all(row[-1] == "yes" for row in self.rows)


def race(
    home: Path, track: Path, servers: Sequence[str], *arguments: str, prefix: Sequence[str] = ()
) -> Sequence[TaskResult]:
    """Race the track, and return the results of its tasks. `prefix` starts the command."""
    words = [*prefix, *ESBENCH, "race", f"--track-path={track}", "--no-answers", "--quiet"]
    words.append(f"--target-hosts={','.join(servers)}")
    environment = {**os.environ, "ESBENCH_HOME": str(home)}
    done = subprocess.run([*words, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return RaceStore(home).load("last").tasks


def of_reads(servers: Sequence[NullServer]) -> list[list[LogLine]]:
    return [[line for line in server.log() if "/_doc/" in line.path] for server in servers]


def measured(home: Path, track: Path, task: str, hosts: Sequence[Namespace]) -> tuple[TaskResult, list[list[LogLine]]]:
    """Race one task on load hosts, or here without any; return its result and the logs of four servers.

    Client n of the task has server n and load host n, each of four.
    """
    words = [f"--include-tasks={task}", "--workers=1", "--seed=5"]
    words += [f"--load-hosts={','.join(host.address for host in hosts)}"] if hosts else []
    with servers(len(SKEWS_NS)) as found:
        (result,) = race(home, track, [server.url for server in found], *words)
        return result, of_reads(found)


def reads(findings: Findings, home: Path, track: Path, hosts: Sequence[Namespace]) -> None:
    """Race four hosts and one, and compare with the servers' logs."""
    closed, logs = measured(home, track, "closed", hosts)
    begins_ns = [lines[0].received_ns for lines in logs]
    apart_ms = (max(begins_ns) - min(begins_ns)) / 1e6
    findings.add("first requests of the hosts apart", f"{apart_ms:.2f} ms", "5 ms", apart_ms <= 5)
    bound_ms = max(share.clock_uncertainty_ms for share in closed.host_shares)
    findings.add("clocks known to", f"{bound_ms:.2f} ms", "5 ms", bound_ms <= 5)
    _compare_times(findings, closed, logs)
    _, of_one = measured(home, track, "poisson", ())
    poisson, of_four = measured(home, track, "poisson", hosts)
    _compare_times(findings, poisson, of_four)
    alone, shared = _arrivals(of_one), _arrivals(of_four)
    same = len(alone) == len(shared)
    findings.add("Poisson arrivals, of one host and of four", f"{len(alone)} and {len(shared)}", "equal", same)
    off_ms = statistics.median(abs(a - b) for a, b in zip(alone, shared, strict=False)) / 1e6
    findings.add("their times differ by, in the median", f"{off_ms:.2f} ms", "1 ms", off_ms <= 1)


def _arrivals(logs: Sequence[Sequence[LogLine]]) -> list[int]:
    """Return the times at which requests arrived, in ns since the first one."""
    found = sorted(line.received_ns for lines in logs for line in lines)
    return [at_ns - found[0] for at_ns in found]


def _compare_times(findings: Findings, task: TaskResult, logs: Sequence[Sequence[LogLine]]) -> None:
    taken_ms = sorted(
        (line.answered_ns - line.received_ns) / 1e6 for lines in logs for line in lines if line.answered_ns
    )
    for rank in (50, 90):
        theirs = taken_ms[round(rank / 100 * len(taken_ms)) - 1]
        ours = (task.service_time_ms or {})[f"p{rank}"]
        allowed = max(0.5, 0.05 * theirs)  # for the way there and back, and both loops' turns
        text = f"{ours:.2f} ms, by the logs {theirs:.2f} ms"
        findings.add(f"{task.name}: service time p{rank}", text, f"{allowed:.2f} ms", abs(ours - theirs) <= allowed)


@contextmanager
def servers(count: int) -> Iterator[list[NullServer]]:
    started = [NullServer(DELAY, log=True, host=OURS) for _ in range(count)]
    try:
        for server in started:
            server.__enter__()
        yield started
    finally:
        for server in started:
            server.__exit__(None, None, None)


class _Counting(BaseHTTPRequestHandler):
    """Passes requests on to a null server, and counts each document of bulk requests by its id."""

    protocol_version = "HTTP/1.1"
    received: Counter[str] = Counter()
    lock = threading.Lock()
    server_url = ""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "_bulk" in self.path:
            with self.lock:
                self.received.update(json.loads(line)["index"]["_id"] for line in body.splitlines()[::2])
        to = http.client.HTTPConnection(urlsplit(self.server_url).netloc)
        to.request(self.command, self.path, body, {"Content-Type": self.headers.get("Content-Type", "")})
        reply = to.getresponse()
        content = reply.read()
        to.close()
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.getheader("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else content)

    do_POST = do_PUT = do_DELETE = do_HEAD = do_GET  # noqa: N815 - names of http.server

    def log_message(self, *args: object) -> None:
        pass


def bulk(findings: Findings, home: Path, track: Path, hosts: Sequence[Namespace]) -> None:
    """Send documents from all hosts, and count each of them where they arrive."""
    with NullServer() as null, ThreadingHTTPServer((OURS, 0), _Counting) as server:
        _Counting.server_url = null.url
        threading.Thread(target=server.serve_forever, daemon=True).start()
        load_hosts = ",".join(host.address for host in hosts)
        url = f"http://{OURS}:{server.server_address[1]}"
        race(home, track, [url], "--challenge=bulk", f"--load-hosts={load_hosts}")
        server.shutdown()
    received = _Counting.received
    once = len(received) == DOCUMENTS and set(received.values()) == {1}
    text = f"{len(received):,} of {DOCUMENTS:,}, {sum(received.values()):,} in all"
    findings.add("documents of a bulk that arrived", text, "each once", once)


def ports(findings: Findings, home: Path, track: Path, hosts: Sequence[Namespace]) -> None:
    """Look for a port of the hosts, and of this one, that answers somebody without the race's certificate."""
    with servers(1) as (server,):
        load_hosts = ",".join(host.address for host in hosts)
        words = [
            "race",
            f"--track-path={track}",
            f"--target-hosts={server.url}",
            f"--load-hosts={load_hosts}",
            "--quiet",
        ]
        process = subprocess.Popen(
            [*ESBENCH, *words], env={**os.environ, "ESBENCH_HOME": str(home)}, stdout=subprocess.DEVNULL
        )
        try:
            deadline_s = time.monotonic() + 60
            while not of_reads([server])[0] and time.monotonic() < deadline_s:
                time.sleep(0.2)
            found = [(host.address, address, port) for host in hosts for address, port in host.listening()]
            found += [(OURS, OURS, port) for port in _ports_of(process.pid)]
            reached = [(host, port) for host, address, port in found if not address.startswith("127.")]
            answered = [f"{host}:{port}" for host, port in reached if _answers(host, port)]
        finally:
            process.kill()
            process.wait()
    text = f"{len(answered)} of {len(reached)} that are reached from outside"
    findings.add("ports that answer without the certificate", text, "0", not answered and len(reached) > len(hosts))
    deadline_s = time.monotonic() + 10
    while any(host.listening() for host in hosts) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    left = sum(len(host.listening()) for host in hosts)
    findings.add("ports open 10 s after a SIGKILL of the race", str(left), "0", left == 0)


def _ports_of(pid: int) -> list[int]:
    import psutil

    found = psutil.Process(pid).net_connections("tcp")
    return [each.laddr.port for each in found if each.status == psutil.CONN_LISTEN and each.laddr.ip == OURS]


def _answers(host: str, port: int) -> bool:
    """True if a port answers HTTP, or TLS without a certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for secure in (False, True):
        try:
            with socket.create_connection((host, port), 3) as plain:
                plain.settimeout(3)
                connection = context.wrap_socket(plain) if secure else plain
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                if connection.recv(100):
                    return True
        except OSError:
            continue
    return False


def cpu(findings: Findings, home: Path, track: Path, hosts: Sequence[Namespace]) -> None:
    """Compare the CPU time of a request of a load host's worker with that of a race begun there, in turns.

    Both send through the same network.
    """
    per_request_us: dict[str, list[float]] = {"alone": [], "load host": []}
    there = ("ip", "netns", "exec", hosts[0].name)
    with NullServer(host=OURS) as server:
        for _ in range(5):
            for words, prefix, values in (
                ((), there, per_request_us["alone"]),
                ((f"--load-hosts={hosts[0].address}",), (), per_request_us["load host"]),
            ):
                (task,) = race(home, track, [server.url], "--challenge=cpu", "--workers=1", *words, prefix=prefix)
                (driver,) = RaceStore(home).load("last").drivers
                values.append(driver.cpu_s / task.requests * 1e6)
    ratios = [ours / alone for alone, ours in zip(*per_request_us.values(), strict=True)]
    alone_us, ours_us = (statistics.median(values) for values in per_request_us.values())
    ratio = statistics.median(ratios)
    text = f"{ours_us:.1f} us, alone {alone_us:.1f} us: {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    findings.add("CPU of a request on a load host", text, "1.10", ratio <= 1.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="of each task")
    parser.add_argument("--no-cpu", action="store_true", help="leave out the CPU of a request")
    args = parser.parse_args()
    if lacking := missing():
        raise SystemExit(f"this needs {lacking}")
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="esbench-") as name:
        folder = Path(name)
        track = folder / "track.yml"
        track.write_text(TRACK.format(seconds=args.seconds, documents=DOCUMENTS))
        with namespaces(folder, SKEWS_NS) as hosts:
            for measure in (reads, bulk, ports, *(() if args.no_cpu else (cpu,))):
                measure(findings, folder / "home", track, hosts)
    print(tabulate(findings.rows, headers=("", "found", "bound", "holds"), disable_numparse=True))
    sys.exit(not findings.hold)


if __name__ == "__main__":
    main()
