"""What a bulk costs the driver, beside wrk and bare Python in the same run: closed loop, a null server.

    python benchmarks/bulk.py [--seconds 5] [--rounds 3] [--clients 8]

Bulks of 1,000 documents of 407 bytes (action lines included). wrk and the bare client send one body again and again;
esbench reads a prepared corpus file of 200 MB, as often as it takes. Needs wrk, nginx, openssl and two cores: nginx
answers on CPU 1, the programs take turns on CPU 0. Prints documents per second, CPU per bulk (of the program and all
its children), and ratios (medians of the rounds); with --http-compress also what compressing each body costs.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml
from null_nginx import NullNginx, null_nginx
from programs import Cost, bare_client_command, measure, median, need, race_command, wrk_command
from tabulate import tabulate

BULK_SIZE = 1000
DOCUMENTS = 500_000
MOST_DOCS_PER_S = 10_000_000  # the corpus is long enough for a driver as fast as this
BAR_DOCS_PER_S = 5_000_000
WORDS = (
    "please",
    "leave",
    "at",
    "front",
    "door",
    "gift",
    "fragile",
    "call",
    "before",
    "ring",
    "twice",
    "the",
    "neighbour",
    "has",
    "keys",
    "thank",
    "you",
)
LUA = """
local file = io.open("{body}", "rb")
wrk.method, wrk.body = "POST", file:read("*a")
wrk.headers["Content-Type"] = "application/x-ndjson"
"""


def write_corpus(path: Path, count: int = DOCUMENTS) -> None:
    """Documents of 393 bytes, a line each, without two alike."""
    draw = random.Random(1)
    notes = [" ".join(draw.choices(WORDS, k=90))[:340] for _ in range(1000)]
    with path.open("w") as file:
        for number in range(count):
            line = f'{{"order":"{number:09d}","user":"{draw.randrange(10**6):06d}","note":"{notes[number % 1000]}"}}'
            file.write(line[:-2] + "x" * (393 - len(line)) + line[-2:] + "\n")


def write_body(corpus: Path, path: Path) -> None:
    """The first bulk of a corpus."""
    with corpus.open("rb") as lines, path.open("wb") as body:
        for _ in range(BULK_SIZE):
            body.write(b'{"index":{}}\n' + lines.readline())


def write_track(folder: Path, corpus: Path, clients: int, seconds: int) -> Path:
    parts = seconds * MOST_DOCS_PER_S // DOCUMENTS
    part = {"source-file": str(corpus), "document-count": DOCUMENTS}
    bulk = {"operation-type": "bulk", "bulk-size": BULK_SIZE, "index": "orders"}
    track = {
        "indices": [{"name": "orders"}],
        "corpora": [{"name": "orders", "documents": [part] * parts}],
        "schedule": [{"name": "bulk", "operation": bulk, "clients": clients, "time-period": seconds}],
    }
    path = folder / "track.yml"
    path.write_text(yaml.safe_dump(track))
    return path


class Programs:
    """The programs that take turns, with the same connections and seconds."""

    def __init__(self, server: NullNginx, clients: int, seconds: int) -> None:
        self._server = server
        self._clients = clients
        self._seconds = seconds
        folder = server.folder
        self._corpus, self._body, self._script = folder / "orders.json", folder / "body", folder / "bulk.lua"
        write_corpus(self._corpus)
        write_body(self._corpus, self._body)
        self._script.write_text(LUA.format(body=self._body))

    def wrk(self) -> Cost:
        url = f"http://127.0.0.1:{self._server.port}/orders/_bulk"
        return measure(wrk_command(url, self._clients, self._seconds, "-s", str(self._script)), self._server)

    def bare_python(self) -> Cost:
        return measure(bare_client_command(self._server.port, self._clients, self._seconds, self._body), self._server)

    def esbench(self, compress: bool = False) -> Cost:
        track = write_track(self._server.folder, self._corpus, self._clients, self._seconds)
        options = ["--client-options=http_compress:true"] if compress else []
        command = race_command(track, f"127.0.0.1:{self._server.port}", *options)
        return measure(command, self._server, {"ESBENCH_HOME": str(self._server.folder / "home")})


def table(costs: Mapping[str, list[Cost]]) -> str:
    lines = []
    for name, rounds in costs.items():
        cost = median(rounds)
        ratios = [
            sorted(our.requests_per_s / their.requests_per_s for our, their in zip(rounds, costs[peer], strict=True))
            for peer in ("wrk", "bare python")
        ]
        over_wrk, over_bare = (found[len(found) // 2] for found in ratios)
        docs_per_s = cost.requests_per_s * BULK_SIZE
        bar = f">= {BAR_DOCS_PER_S:,}" if name == "esbench" else ""
        lines.append([name, f"{docs_per_s:,.0f}", f"{cost.cpu_us:.0f}", f"{over_wrk:.2f}", f"{over_bare:.2f}", bar])
    heads = ["", "docs/s", "CPU us per bulk", "rate / wrk's", "rate / bare's", "bar"]
    return tabulate(lines, heads, disable_numparse=True, stralign="right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--http-compress", action="store_true")
    arguments = parser.parse_args()
    need("wrk", "nginx", "openssl", "taskset")
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as name, null_nginx(Path(name)) as server:
        programs = Programs(server, arguments.clients, arguments.seconds)
        for _ in range(arguments.rounds):
            costs.setdefault("wrk", []).append(programs.wrk())
            costs.setdefault("bare python", []).append(programs.bare_python())
            costs.setdefault("esbench", []).append(programs.esbench())
            if arguments.http_compress:
                costs.setdefault("esbench, gzip", []).append(programs.esbench(compress=True))
    print(table(costs))


if __name__ == "__main__":
    main()
