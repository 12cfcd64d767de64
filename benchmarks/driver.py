"""What a request costs the driver, beside wrk in the same run: GET by id, closed loop, a null server.

    python benchmarks/driver.py [--seconds 6] [--rounds 3] [--clients 64]

Needs wrk, nginx and two cores: nginx answers on CPU 1 with a canned reply, esbench and wrk take turns on CPU 0.
Prints requests per second, CPU of the client per request, and esbench's rate over wrk's (medians of the rounds).
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from esbench.store import RaceStore

REPLY = '{"_index":"orders","_type":"_doc","_id":"42","_version":1,"found":true,"_source":{"note":"%s"}}' % ("x" * 400)
ROOT = '{"name":"null","cluster_name":"null","version":{"number":"7.17.29"},"tagline":"You Know, for Search"}'
NGINX = """
worker_processes 1; worker_cpu_affinity 10; daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; default_type application/json; types {{ }}
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location = / {{ return 200 '{root}'; }}
    location ~ ^/[^/]+/_doc/ {{ return 200 '{reply}'; }}
    location / {{ return 200 '{{"acknowledged":true,"status":"green","nodes":{{}},"indices":{{}}}}'; }}
  }}
}}
"""
TRACK = """
variables: [{{name: n, type: range, from: 1, to: 100000}}]
schedule:
  - operation: {{operation-type: get, index: orders, id: "$[[n]]"}}
    name: get
    clients: {clients}
    warmup-time-period: 1
    time-period: {seconds}
"""


@contextmanager
def null_server(folder: Path) -> Iterator[int]:
    """nginx on a free port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, root=ROOT, reply=REPLY))
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 5
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if time.monotonic() > deadline:
                sys.exit(f"nginx did not start: {(folder / 'error.log').read_text()}")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def cpu_s(command: list[str], **settings: object) -> tuple[float, str]:
    """CPU seconds of a command and its children, pinned to CPU 0; and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["taskset", "-c", "0", *command], capture_output=True, text=True, check=True, **settings)  # type: ignore[call-overload]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def wrk(port: int, clients: int, seconds: int) -> tuple[float, float]:
    """Requests/s, and CPU microseconds per request."""
    url = f"http://127.0.0.1:{port}/orders/_doc/42"
    used_s, printed = cpu_s(["wrk", "-t1", f"-c{clients}", f"-d{seconds}", url])
    requests = int(re.search(r"(\d+) requests in", printed)[1])  # type: ignore[index]
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", printed)[1])  # type: ignore[index]
    return rate, used_s / requests * 1e6


def esbench(port: int, track: Path, home: Path) -> tuple[float, float]:
    """Requests/s in the window; CPU microseconds of the worker per request, all recording on."""
    command = [sys.executable, "-m", "esbench.cli.main", "race", f"--track-path={track}", "--quiet"]
    cpu_s([*command, f"--target-hosts=127.0.0.1:{port}"], env=os.environ | {"ESBENCH_HOME": str(home)})
    record = RaceStore(home).load("last")
    (task,) = record.tasks
    requests = task.requests + task.warmup.requests
    return task.throughput.mean or 0.0, sum(driver.cpu_s for driver in record.drivers) / requests * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    arguments = parser.parse_args()
    for tool in ("wrk", "nginx", "taskset"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is missing (Debian: wrk, nginx-light, util-linux)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        track = folder / "track.yml"
        track.write_text(TRACK.format(clients=arguments.clients, seconds=arguments.seconds))
        with null_server(folder) as port:
            rounds = [
                (wrk(port, arguments.clients, arguments.seconds), esbench(port, track, folder / "home"))
                for _ in range(arguments.rounds)
            ]
    for which, tool in enumerate(("wrk", "esbench")):
        rate = statistics.median(pair[which][0] for pair in rounds)
        cost = statistics.median(pair[which][1] for pair in rounds)
        print(f"{tool:8} {rate:9,.0f} requests/s   {cost:5.1f} us of CPU per request")
    ratios = [ours[0] / theirs[0] for theirs, ours in rounds]
    print(
        f"esbench / wrk, requests/s: {statistics.median(ratios):.2f} (rounds: {', '.join(f'{r:.2f}' for r in ratios)})"
    )


if __name__ == "__main__":
    main()
