"""Whole races against a cluster whose replies are changed: does one end in a traceback, or leave what cannot be read?

    python benchmarks/odd_replies.py [--replies 10000] [--seed 1] [--keep FOLDER]

Every telemetry device is on, and some replies of every API get other values: other types, huge and no numbers, control
characters, missing and double keys, broken JSON and HTTP. Each race is then shown, reported, exported and compared.
Prints the number of changed replies and races, and each fault with the seed of its race; exits 1 if there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from esbench.cli import main as command_line
from esbench.null_server.cluster import NullCluster
from esbench.null_server.versions import parse_version

RECORDED = Path(__file__).parents[1] / "tests" / "recorded" / "telemetry"
VERSION = "elasticsearch-8.19.4"
TRACK = """
version: 2
description: Some of each kind of request
indices: [{name: orders, body: {settings: {index.number_of_shards: 1}}}]
corpora:
  - name: made
    documents: [{target-index: orders, document-count: 300, generate: {fields: {n: {type: sequence}}}}]
schedule:
  - operation: {operation-type: delete-index, index: orders}
  - operation: {operation-type: create-index, index: orders}
  - operation: {operation-type: cluster-health, index: orders}
  - operation: {name: load, operation-type: bulk, bulk-size: 50, detailed-results: true}
  - operation: {operation-type: force-merge}
  - operation: {operation-type: assert-count, index: orders, expected: acknowledged}
  - operation:
      {name: find, operation-type: search, index: orders, detailed-results: true, body: {query: {match_all: {}}}}
    clients: 2
    target-throughput: 60
    warmup-time-period: 0
    time-period: 1
  - operation:
      {name: several, operation-type: msearch, index: orders,
       body: [{}, {query: {match_all: {}}}, {}, {query: {match_all: {}}}]}
    iterations: 5
  - operation:
      {name: pages, operation-type: paginated-search, index: orders, pages: 2, results-per-page: 10,
       body: {query: {match_all: {}}, sort: [n]}}
    iterations: 5
  - operation:
      {name: scroll, operation-type: scroll-search, index: orders, pages: 2, results-per-page: 10,
       body: {query: {match_all: {}}}}
    iterations: 5
"""
INTERVALS = ("node", "shard", "recovery", "master-node", "data-stream")
TELEMETRY = {
    **{f"{device}-stats-sample-interval": "0.02" for device in INTERVALS},
    "hot-threads-sample-interval": "0.1",
    "hot-threads-interval": "0.01",
    "node-stats-include-indices": "true",
    "node-stats-include-buffer-pools": "true",
}
READERS: tuple[Sequence[str], ...] = (
    ("show", "{race}", "--all"),
    ("show", "{race}", "--format=csv"),
    ("report", "{race}", "--html={home}/page.html"),
    ("export", "{race}", "--csv"),
    ("export", "{race}", "--json"),
    ("export", "{race}", "--prometheus"),
    ("compare", "{race}", "{race}"),
    ("list", "races"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, -(10**30), 10**30, 10**400, 2**63, 2**64, 1.5, 1e308, -1e308, float("inf"), float("nan")),
    *("", "x", "\x1b[31mANSI\x1b[0m", "\x07\x9b31m\u202e\u2028", "<script>alert(1)</script>", "=1+1", "a\nb\r\nc\td"),
    *("NaN", "9" * 400, "9" * 5000, "1.2.3", "-5", "99.0.0-SNAPSHOT", "0.0", "\ud83d\ude00", "\ud83d", "é" * 3000),
    *("A" * 200_000, "../../../etc/passwd", "%s%n{0}", "$[[x]]", "{{7*7}}"),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": {}}}, {"k" * 5000: 1}, {"\x1b[2J": {"\x1b]0;x\x07": 1}}),
    *(list(range(5000)), [{}] * 3),
)
KEYS = ("\x1b[31mk", "../x", "", "<b>", "=1+1", "a b\n", "__class__", "{0}", "\ud83d")
BYTES = (
    *(
        b"",
        b"\x00",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{",
        b"HTTP/2 garbage\r\n",
    ),
    b"HTTP/1.1 99999 X\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 302 F\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8bxxx",
    b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n" + b"[" * 4000,
    b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n" + b"[" * 300 + b"]" * 300,
)
STATUSES = (200, 201, 299, 400, 401, 403, 404, 405, 410, 429, 500, 503, 600)


class Odd:
    """Changes of replies, drawn from a seed. `is_changed`: which requests get them, by their paths and queries."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.share = 0.0
        self.is_changed: Callable[[str], bool] = lambda target: True

    def reply(self, target: str, status: int, body: bytes) -> tuple[int, bytes, bool] | bytes | None:
        """Return a changed reply, bytes that may be no HTTP at all, or None for the reply as it is."""
        draw = self.random
        if draw.random() >= self.share or not self.is_changed(target):
            return None
        if draw.random() < 0.05:
            return draw.choice(BYTES)
        try:
            tree = json.loads(body)
        except ValueError:
            body = self._with_other_bytes(body)
        else:
            for _ in range(draw.choice((1, 1, 1, 2, 5, 20))):
                tree = self._with_another_value(tree)
            body = json.dumps(tree).encode()
        return draw.choice(STATUSES) if draw.random() < 0.04 else status, body, True

    def _with_other_bytes(self, body: bytes) -> bytes:
        changed = bytearray(body)
        for _ in range(5 if changed else 0):
            changed[self.random.randrange(len(changed))] = self.random.randrange(256)
        return bytes(changed)

    def _with_another_value(self, tree: Any) -> Any:
        draw = self.random
        holders = list(_holders(tree))
        if not holders or draw.random() < 0.02:
            return self._value()
        holder, key = draw.choice(holders)
        match draw.choice(("set", "set", "set", "set", "number", "delete", "key", "twice")):
            case "set":
                holder[key] = self._value()
            case "number" if isinstance(holder[key], int | float):
                holder[key] = draw.choice((-holder[key], str(holder[key]), holder[key] * 10**25, [holder[key]], None))
            case "delete":
                del holder[key]
            case "key" if isinstance(holder, dict):
                holder[draw.choice(KEYS)] = holder.pop(key)
            case "twice" if isinstance(holder, list):
                holder.append(holder[key])
        return tree

    def _value(self) -> Any:
        return json.loads(json.dumps(self.random.choice(VALUES)))  # a copy


def _holders(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each object or array of a tree of JSON with each of its keys or places."""
    for key, value in list(
        tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    ):
        yield tree, key
        yield from _holders(value)


def recorded_replies() -> list[tuple[str, Any]]:
    """Return replies of a node as they were recorded: a part of the request's path and query, and its reply."""
    of = {
        kind: json.loads((RECORDED / f"{kind}-{VERSION}.json").read_text()) for kind in ("indices", "nodes", "cluster")
    }
    numbers = json.loads((RECORDED / f"statistics-{VERSION}.json").read_text())["after"]
    threads = (RECORDED / f"hot-threads-{VERSION}.txt").read_text()
    (node,) = of["cluster"]["nodes"]["nodes"]
    stream = {"data_stream": "logs", "backing_indices": 2, "store_size_bytes": 12, "maximum_timestamp": 1795288362792}
    hits = {"total": {"value": 20, "relation": "eq"}, "max_score": 1.0, "hits": [{"_index": "orders", "_id": "1"}] * 10}
    page = {"_scroll_id": "c2Nyb2xs", "took": 1, "timed_out": False, "_shards": {"total": 1, "failed": 0}, "hits": hits}
    return [
        ("/_nodes/hot_threads", threads),
        ("scroll", page),
        ("/_msearch", {"took": 1, "responses": [{**page, "status": 200}] * 2}),
        ("/_nodes/os,jvm,plugins", of["cluster"]["nodes"]),
        ("/_nodes/http", of["indices"]["nodes"]),
        ("/_nodes/stats/ingest", of["indices"]["ingest"]),
        ("/_nodes/stats/os,fs", of["cluster"]["machines"]),
        ("/_nodes/stats/jvm,thread_pool", numbers["nodes"]),
        ("/_nodes/stats", of["nodes"]["full"][-1]),
        ("/_cluster/settings", of["cluster"]["settings"]),
        ("/_cluster/health", of["cluster"]["health"]),
        ("/_cluster/state/master_node", {"master_node": node}),
        ("/_data_stream/", {"_shards": {"total": 1, "failed": 0}, "data_streams": [stream]}),
        ("/_segments", of["indices"]["segments"]),
        ("/_recovery", of["indices"]["recovery"]),
        ("/_disk_usage", of["indices"]["disk_usage"]),
        ("/_stats/indexing,merge", numbers["stats"]),
        ("/_stats/indexing,search,get,merge", of["cluster"]["use"][-1]),
        ("/_stats/docs,store?level", of["cluster"]["shards"]),
        ("/_stats/docs,deleted", of["indices"]["shard_stats"]),
        ("level=shards", of["indices"]["shard_stats"]),
    ]


class OddCluster:
    """A cluster on a port of its own, in a thread, whose replies `odd` changes. A context manager.

    `changed` counts changed replies by path.
    """

    def __init__(self, odd: Odd) -> None:
        self.odd = odd
        self.url = ""
        self.changed: Counter[str] = Counter()
        self._recorded = [
            (part, json.dumps(reply) if not isinstance(reply, str) else reply) for part, reply in recorded_replies()
        ]
        self._null = NullCluster(parse_version(VERSION.rpartition("-")[2]), store=True)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result()
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = head.lower().split("\r\n")
                length = next((int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")), 0)
                method, target, _ = head.split("\r\n")[0].split(" ")
                reply = self._reply(method, target, await reader.readexactly(length))
                writer.write(reply)
                await writer.drain()
                if not reply or reply in BYTES:
                    break
        writer.close()

    def _reply(self, method: str, target: str, content: bytes) -> bytes:
        path, _, query = target.partition("?")
        status, body = self._answer(method, target, path, query, content)
        changed = self.odd.reply(target, status, body)
        if changed is not None:
            self.changed[path] += 1
        if isinstance(changed, bytes):
            return changed
        status, body = (status, body) if changed is None else changed[:2]
        head = f"HTTP/1.1 {status} X\r\nX-Elastic-Product: Elasticsearch\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + (b"" if method == "HEAD" else body)

    def _answer(self, method: str, target: str, path: str, query: str, content: bytes) -> tuple[int, bytes]:
        for part, recorded in self._recorded if method in ("GET", "POST") else ():
            if part in target.replace("%2C", ","):
                return 200, recorded.encode()
        answer = self._null.answer(self._null.route(method, path, query, content))
        return answer[0], answer[1]


@dataclass
class OddRaces:
    """Races against one cluster, each with replies changed by a seed of its own; faults are kept as text."""

    folder: Path
    seed: int
    races: int = 0
    unreadable: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    tracebacks: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)  # of what reads a record

    @property
    def faults(self) -> list[str]:
        """What must not be, each with the name of its race, which has its seed."""
        return [*self.tracebacks, *self.refusals]

    def run(self) -> None:
        """Run one race, and read it in every way; then its files are removed unless something was wrong."""
        self.races += 1
        odd = Odd(self.seed * 100_000 + self.races)
        odd.share, odd.is_changed = odd.random.choice(
            (
                (0.1, lambda target: True),
                (0.5, lambda target: "_stats" in target or "/_nodes" in target or "/_cluster" in target),
                (0.5, lambda target: "stats" in target or "/_nodes" in target or "hot_threads" in target),
                (0.3, lambda target: target.startswith("/orders") or "_search" in target or "_bulk" in target),
                (0.3, lambda target: target == "/" or "/_cluster/health" in target or target.startswith("/_nodes/os")),
            )
        )
        name = f"seed-{self.seed}-{self.races}"
        faults = len(self.faults)
        with OddCluster(odd) as cluster:
            self._command(name, self._race_command(name, cluster.url), may_fail=True)
        self.changed += cluster.changed
        if (self.folder / "races" / name / "race.json").exists():
            done = [self._command(name, self._reader(words, name)) for words in READERS]
            self.unreadable += not all(done)
        if faults == len(self.faults):
            shutil.rmtree(self.folder / "races" / name, ignore_errors=True)

    def _race_command(self, name: str, url: str) -> list[str]:
        track = self.folder / "track"
        if not track.exists():
            track.mkdir()
            (track / "track.yml").write_text(TRACK)
        params = ",".join(f"{param}:{value}" for param, value in TELEMETRY.items())
        options = ["--telemetry=all", f"--telemetry-params={params}", "--client-options=timeout:2", "--replace-indices"]
        return [
            "race",
            f"--track-path={track}",
            f"--target-hosts={url}",
            f"--race-id={name}",
            "--on-error=continue",
            "--quiet",
            *options,
        ]

    def _reader(self, words: Sequence[str], name: str) -> list[str]:
        return [word.format(race=name, home=self.folder) for word in words]

    def _command(self, name: str, command: list[str], *, may_fail: bool = False) -> bool:
        """Run a command of esbench here. Returns whether it did what it should."""
        told = io.StringIO()
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
                code = command_line.run(command)
        except BaseException:  # noqa: BLE001 - that is what is looked for
            self.tracebacks.append(f"{name}: esbench {' '.join(command)}\n{traceback.format_exc()}")
            return False
        if "Traceback" in told.getvalue():
            self.tracebacks.append(f"{name}: esbench {' '.join(command)}\n{told.getvalue()}")
            return False
        if code and not may_fail:
            self.refusals.append(f"{name}: esbench {' '.join(command)}: {told.getvalue().strip()[-500:]}")
            return False
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where races with a fault stay")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = (arguments.keep or Path(scratch)).absolute()
        home.mkdir(parents=True, exist_ok=True)
        os.environ["ESBENCH_HOME"] = str(home)
        races = OddRaces(home, arguments.seed)
        while races.changed.total() < arguments.replies:
            races.run()
            print(f"{races.races} races, {races.changed.total():,} changed replies", end="\r", file=sys.stderr)
    for fault in races.faults:
        print(fault)
    print(f"{races.changed.total():,} changed replies of {len(races.changed)} paths in {races.races} races:", end=" ")
    print(f"{len(races.tracebacks)} tracebacks, {races.unreadable} races that cannot be read")
    sys.exit(bool(races.faults))


if __name__ == "__main__":
    main()
