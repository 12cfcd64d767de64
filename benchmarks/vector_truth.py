"""Whether the recall of vector searches is true, and what scoring costs.

    python benchmarks/vector_truth.py replies [--clients 1 64] [--requests 600]
    python benchmarks/vector_truth.py cpu [--requests 40000] [--pairs 3]
    python benchmarks/vector_truth.py nodes [--documents 5000]

`replies`: a server that drops neighbours by chance notes each reply. Its recall, by a sort of all distances, is
compared with the printed one.

`cpu`: CPU seconds of the load workers a request, with scores over without, in turns; the server does nothing.

`nodes`: the track vectors on a node: `flat`, with filters of 1, 10 and 50 %, finds all; a graph of few links finds less
than one of many.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np

from esbench.null_server import NullServer
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.store import RaceStore

SPEC = {"count": 2000, "queries": 100, "dimensions": 16}
K = 10


def race(home: Path, track: str, *arguments: str) -> RaceRecord:
    """Run a race, and return its record."""
    line = [sys.executable, "-m", "esbench", "race", track, "--quiet", *arguments]
    subprocess.run(line, env={**os.environ, "ESBENCH_HOME": str(home)}, check=True, stdout=subprocess.DEVNULL)
    return RaceStore(home).load("last")


def task(record: RaceRecord, name: str) -> TaskResult:
    return next(each for each in record.tasks if each.name == name)


class Half:
    """The answers of a server: the nearest documents of those that chance lets through, and how many were right."""

    def __init__(self, documents: Path) -> None:
        lines = documents.read_bytes().splitlines()[1::2]
        rows = np.array([json.loads(line)["v"] for line in lines])
        self._rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self._draw = np.random.default_rng(3)
        self._lock = threading.Lock()
        self.recalls: list[float] = []

    def answer(self, query: list[float]) -> list[int]:
        order = np.argsort(-(self._rows @ np.array(query)))
        with self._lock:
            kept = order[self._draw.random(len(order)) < 0.8][:K]
            self.recalls.append(len(set(kept) & set(order[:K])) / K)
        return [int(each) for each in kept]


@contextmanager
def answering(behind: str) -> Iterator[tuple[str, list[Half]]]:
    """Serve searches with what stands in the list that is yielded, and pass all else to the server behind."""
    answers: list[Half] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path.endswith("/_search") and b"query_vector" in body:
                ids = answers[0].answer(json.loads(body)["knn"]["query_vector"])
                hits = [{"_id": str(each), "_score": 1.0} for each in ids]
                shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
                status, content = 200, {"took": 1, "timed_out": False, "_shards": shards, "hits": {"hits": hits}}
                data, kind = json.dumps(content, separators=(",", ":")).encode(), "application/json"
            else:
                headers = {"Content-Type": self.headers.get("Content-Type", "application/json")}
                request = Request(behind + self.path, data=body or None, headers=headers, method=self.command)
                try:
                    with urlopen(request) as reply:
                        status, data, kind = reply.status, reply.read(), reply.headers["Content-Type"]
                except HTTPError as error:
                    status, data, kind = error.code, error.read(), error.headers["Content-Type"]
            self.send_response(status)
            self.send_header("Content-Type", kind or "application/json")
            self.send_header("X-Elastic-Product", "Elasticsearch")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _reply  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", answers
    finally:
        server.shutdown()


def write_track(folder: Path, *tasks: dict[str, Any]) -> str:
    index = {"mappings": {"properties": {"v": {"type": "dense_vector", "dims": 16, "similarity": "cosine"}}}}
    (folder / "index.json").write_text(json.dumps(index))
    load = {"operation": {"operation-type": "bulk-vector-data-set", "field": "v", "data": {"generate": SPEC}}}
    setup = [{"operation": {"operation-type": each}} for each in ("delete-index", "create-index")]
    schedule = [*setup, load, *tasks]
    track = {"version": 2, "description": "truth", "indices": [{"name": "a", "body": "index.json"}]}
    (folder / "track.json").write_text(json.dumps({**track, "schedule": schedule}))
    return f"--track-path={folder / 'track.json'}"


def replies(clients: list[int], requests: int) -> None:
    for count in clients:
        with tempfile.TemporaryDirectory() as name, NullServer({"version": "8.19.4"}) as behind:
            folder = Path(name)
            operation = {"operation-type": "knn-search", "field": "v", "k": K, "data": {"generate": SPEC}}
            near = {"name": "near", "operation": operation, "clients": count, "requests": requests}
            track = write_track(folder, near)
            with answering(behind.url) as (url, answers):
                race(folder / "home", track, f"--target-hosts={url}", "--exclude-tasks=near")
                (documents,) = (folder / "home" / "cache" / "vectors").glob("*/documents-*.json")
                answers.append(Half(documents))
                record = race(folder / "home", track, f"--target-hosts={url}", "--include-tasks=near")
            scores = task(record, "near").scores
            assert scores is not None
            exact = statistics.fmean(answers[0].recalls[:requests])
            share = 100 * scores.share_ratio
            print(
                f"{count} clients: printed {scores.mean:.4f} of {share:.0f} % of the replies "
                f"({scores.low:.4f} to {scores.high:.4f}), counted {exact:.4f} of all"
            )


def cpu(requests: int, pairs: int) -> None:
    with tempfile.TemporaryDirectory() as name, NullServer({"version": "8.19.4"}) as server:
        folder = Path(name)
        (folder / "q.tsv").write_text("".join(f"{number}\t[{number}.5]\n" for number in range(1000)))
        (folder / "j.txt").write_text("".join(f"{number} 0 {number} 1\n" for number in range(1000)))
        body = {"knn": {"field": "v", "query_vector": "$[[query]]", "k": K, "num_candidates": 100}}
        plain = {"operation-type": "search", "index": "a", "body": body, "queries": "q.tsv"}
        scored = {**plain, "judgements": "j.txt", "score": "recall@10"}
        ratios = []
        for number in range(pairs):
            spent = {}
            for kind, operation in sorted({"plain": plain, "scored": scored}.items(), reverse=bool(number % 2)):
                near = {"name": "near", "operation": operation, "clients": 8, "requests": requests}
                server.reset()
                record = race(folder / "home", write_track(folder, near), f"--target-hosts={server.url}")
                spent[kind] = sum(each.cpu_s for each in record.drivers)
                found = task(record, "near").scores
                if found is not None:
                    share = found.share_ratio
            ratios.append(spent["scored"] / spent["plain"])
            per_request_us = 1e6 * spent["plain"] / requests
            print(f"{per_request_us:.0f} us a request, with scores of {100 * share:.1f} %: x {ratios[-1]:.3f}")
        print(f"median x {statistics.median(ratios):.3f}")


def nodes(documents: int) -> None:
    rows = [
        ("flat", "index_type:flat"),
        *((f"flat, filter of {percent} %", f"index_type:flat,selectivity:{percent}") for percent in (1, 10, 50)),
        ("hnsw, m 4, ef_construction 4", "m:4,ef_construction:4"),
        ("hnsw, m 16, ef_construction 200", "m:16,ef_construction:200"),
    ]
    with tempfile.TemporaryDirectory() as name:
        for what, params in rows:
            given = f"--track-params={params},documents:{documents},candidates:10,time_period:5,warmup_time_period:1"
            record = race(Path(name), "--track=vectors", given)
            found = task(record, "candidates-10")
            assert found.scores is not None
            speed = found.throughput.mean or 0
            print(f"{what}: recall@10 {found.scores.mean:.4f} of {found.scores.scored} replies, {speed:.0f}/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("replies", "cpu", "nodes"))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--requests", type=int)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--documents", type=int, default=5000)
    given = parser.parse_args()
    if given.what == "replies":
        replies(given.clients, given.requests or 600)
    elif given.what == "cpu":
        cpu(given.requests or 40_000, given.pairs)
    else:
        nodes(given.documents)


if __name__ == "__main__":
    main()
