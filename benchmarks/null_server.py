"""What the null server costs beside a bare uvloop protocol that writes one constant reply.

    python benchmarks/null_server.py [--seconds 3] [--rounds 3]

Needs wrk and two cores: wrk on CPU 0, the servers on CPU 1, 64 connections, one round of each in turn.
Prints requests per second, server CPU per request, and the ratio of the CPU (medians of the rounds).
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys

import psutil

from esbench.null_server import NullServer

BARE = """
import asyncio, gc, uvloop
REPLY = b"HTTP/1.1 200 OK\\r\\ncontent-length: 560\\r\\n\\r\\n" + b"x" * 560
class Bare(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(REPLY)
async def main():
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    gc.freeze(); gc.disable()
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.sleep(3600)
uvloop.run(main())
"""


def measure(pid: int, port: int, seconds: int) -> tuple[float, float]:
    """Requests per second, and microseconds of the server's CPU per request."""
    process = psutil.Process(pid)
    before = process.cpu_times()
    url = f"http://127.0.0.1:{port}/orders/_doc/42"
    command = ["taskset", "-c", "0", "wrk", "-t1", "-c64", f"-d{seconds}s", url]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = process.cpu_times()
    match = re.search(r"(\d+) requests in ([\d.]+)s", output)
    if match is None:
        sys.exit(f"wrk said:\n{output}")
    requests = int(match[1])
    cpu_s = after.user + after.system - before.user - before.system
    return requests / float(match[2]), cpu_s / requests * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    bare = subprocess.Popen([sys.executable, "-c", BARE], stdout=subprocess.PIPE, text=True)
    try:
        assert bare.stdout is not None
        bare_port = int(bare.stdout.readline())
        with NullServer() as server:
            sides = {"bare protocol": (bare.pid, bare_port), "null server": (server.pid, server.port)}
            for pid, _ in sides.values():
                os.sched_setaffinity(pid, {1})
            results: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
            for _ in range(options.rounds):
                for name, (pid, port) in sides.items():
                    results[name].append(measure(pid, port, options.seconds))
    finally:
        bare.kill()
        bare.wait()
    cpu_us = {}
    for name, rounds in results.items():
        cpu_us[name] = statistics.median(cpu for _, cpu in rounds)
        rate = statistics.median(rate for rate, _ in rounds)
        print(f"{name:14} {rate:9.0f} requests/s {cpu_us[name]:6.1f} us CPU/request")
    print(f"ratio of CPU per request: {cpu_us['null server'] / cpu_us['bare protocol']:.2f}")


if __name__ == "__main__":
    main()
