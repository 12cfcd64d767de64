"""Races two kept nodes as two clusters: reindex from remote, and searches across clusters.

    python benchmarks/two_clusters.py [--distribution elasticsearch-7.10.2] [--documents 20000]

Two nodes are started and kept, the first with reindex.remote.whitelist. One race loads orders into the second, copies
them into the first by a reindex from remote, connects the first to the second, and searches here, there and across
both. Printed are the race's table, how many documents each has, and what a search across clusters costs beside the
other two; it exits with 1 if something is missing. Races are kept in $ESBENCH_HOME.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from programs import ESBENCH

from esbench.record.home import esbench_home
from esbench.record.store import RaceStore

TRACK = """
version: 2
description: Orders of one cluster, read by another one
indices: [{name: orders, body: index.json}]
corpora:
  - name: orders
    documents:
      - {document-count: {{ documents }}, source-file: orders.json}
challenges:
  - name: default
    default: true
    schedule:
      - {name: delete-there, operation: delete-index, cluster: remote}
      - {name: create-there, operation: create-index, cluster: remote}
      - {name: load-there, operation: {operation-type: bulk, bulk-size: 500}, cluster: remote, clients: 2}
      - {name: refresh-there, operation: refresh, cluster: remote}
      - {name: count-there, operation: {operation-type: assert-count, expected: acknowledged}, cluster: remote}
      - {name: delete-here, operation: delete-index}
      - {name: create-here, operation: create-index}
      - name: copy
        operation:
          operation-type: reindex
          body: {source: {remote: {host: "{{ remote }}"}, index: orders, size: 1000}, dest: {index: orders}}
      - name: connect
        operation:
          operation-type: put-settings
          body: {persistent: {cluster.remote.there.seeds: ["{{ seeds }}"]}}
      - {name: count-here, operation: {operation-type: assert-count, expected: {{ documents }}}}
      - name: here
        operation: {operation-type: search, index: orders, body: *query}
        clients: 2
        {{ length | indent(8) }}
      - name: there
        operation: {operation-type: search, index: orders, body: *query}
        cluster: remote
        clients: 2
        {{ length | indent(8) }}
      - name: across
        operation: {operation-type: search, index: "orders,there:orders", body: *query}
        clients: 2
        {{ length | indent(8) }}
"""
QUERY = '{query: {term: {user: "u17"}}}'


def esbench(*words: str) -> str:
    """Run a command of esbench and return what it prints."""
    done = subprocess.run([*ESBENCH, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"esbench {words[0]} failed: {done.stderr}")
    return done.stdout


def kept(race_id: str, distribution: str, *options: str) -> str:
    """Start a node that is kept, and return its URL."""
    esbench(
        *("race", "--track=orders", "--test-mode", "--include-tasks=tag:setup", f"--race-id={race_id}", "--quiet"),
        *(f"--distribution={distribution}", "--keep-node", *options),
    )
    return RaceStore(esbench_home()).load(race_id).clusters["default"].hosts[0]


def asked(url: str) -> Any:
    """Return the JSON that is at a URL."""
    with urllib.request.urlopen(url) as reply:
        return json.load(reply)


def write_track(folder: Path, documents: int) -> None:
    """Write the track with its documents."""
    text = TRACK.replace("*query", QUERY)
    (folder / "track.yml").write_text(text)
    mappings = {"properties": {"user": {"type": "keyword"}, "n": {"type": "integer"}}}
    (folder / "index.json").write_text(json.dumps({"settings": {"index.number_of_shards": 2}, "mappings": mappings}))
    lines = (f'{{"n": {number}, "user": "u{number % 1000}"}}\n' for number in range(documents))
    (folder / "orders.json").write_text("".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--distribution", default="elasticsearch-7.10.2")
    parser.add_argument("--documents", type=int, default=20_000)
    arguments = parser.parse_args()
    names = [f"{side}-{os.getpid()}" for side in ("here", "there")]
    try:
        here = kept(names[0], arguments.distribution, "--node-settings=reindex.remote.whitelist:'127.0.0.1:*'")
        there = kept(names[1], arguments.distribution)
        (node,) = asked(f"{there}/_nodes/_local/transport")["nodes"].values()
        params = {
            "documents": arguments.documents,
            "remote": there,
            "seeds": node["transport_address"],
            "length": "warmup-time-period: 3\ntime-period: 8",
        }
        with tempfile.TemporaryDirectory() as name:
            write_track(Path(name), arguments.documents)
            table = esbench(
                *("race", f"--track-path={name}", f"--race-id=two-{os.getpid()}", "--replace-indices"),
                f"--target-hosts={json.dumps({'default': [here], 'remote': [there]})}",
                f"--track-params={json.dumps(params)}",
            )
        counts = [asked(f"{url}/orders/_count")["count"] for url in (here, there)]
    finally:
        for race_id in names:
            subprocess.run([*ESBENCH, "stop", race_id], capture_output=True, check=False)
    print(table)
    print(f"documents here {counts[0]:,}, there {counts[1]:,}")
    record = RaceStore(esbench_home()).load(f"two-{os.getpid()}")
    times = {task.name: task.service_time_ms for task in record.tasks if task.name in ("here", "there", "across")}
    print(", ".join(f"{name}: p50 {found['p50']:.2f} ms" for name, found in times.items() if found))
    print({name: sorted(facts.statistics)[:3] for name, facts in record.clusters.items()})
    sys.exit(int(counts != [arguments.documents] * 2))


if __name__ == "__main__":
    main()
