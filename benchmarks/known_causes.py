"""Duels of a contender that is slower for a known reason: is it the first that the comparison names?

    python benchmarks/known_causes.py [REASON]...      ten duels; about 35 min

Reasons: refreshes (each 100 ms), caches (off), heap (too small), took (2 ms more, of a null server). It exits with 1 if
the reason is named first in fewer than nine of ten.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import ESBENCH

from esbench.null_server import NullServer
from esbench.null_server.versions import parse_version

FEWEST = 0.9
TOOK_MS, MORE_MS = 5, 2
TRACK = """
version: 2
indices: [{name: "{{ index_prefix | default('') }}texts", body: index.json}]
corpora:
  - name: texts
    documents:
      - document-count: 40000
        generate:
          id: number
          fields:
            number: {type: sequence}
            title: {type: words, count: [5, 40]}
            tag: {type: zipf, from: 1, to: 5000, format: "t%d"}
operations:
  - {name: insert, operation-type: index}
  - name: tags
    operation-type: search
    cache: {{ cache | default(true) | tojson }}
    body: {size: 0, aggs: {tags: {terms: {field: tag, size: 100}}}}
  - name: numbers
    operation-type: search
    cache: {{ cache | default(true) | tojson }}
    body: {size: 0, query: {match: {title: "the of"}}, aggs: {mean: {avg: {field: number}}}}
  - name: many
    operation-type: search
    cache: false
    body: {size: 500, query: {match: {title: "the of and"}}}
schedule:
  - {operation: {operation-type: delete-index}}
  - {operation: {operation-type: create-index}}
  - {operation: {operation-type: bulk, bulk-size: 500}}
  - {operation: refresh}
  - {operation: force-merge}
  - {name: TASK, operation: TASK, clients: CLIENTS, time-period: 8}
"""
INDEX = """
{"settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0,
  "index.refresh_interval": "{{ refresh_interval | default('30s') }}"},
 "mappings": {"properties": {
  "tag": {"type": "keyword"}, "title": {"type": "text"}, "number": {"type": "long"}}}}
"""
SEARCH = """
version: 2
indices: [{name: documents}]
schedule:
  - {operation: delete-index}
  - {operation: create-index}
  - {name: search, operation: {operation-type: search, index: documents}, clients: 8, time-period: 8}
"""
AT_ONCE = ("--rounds=6", "--task-time=24s")
FRESH_NODES = ("--rounds=6", "--task-time=16s", "--own-nodes")


@dataclass(frozen=True)
class Known:
    """A duel whose answer is known: the words of its sides, and the figures that may be named first."""

    reason: str
    named: tuple[str, ...]
    task: str
    clients: int
    sides: tuple[str, str]
    options: Sequence[str] = AT_ONCE


REFRESH = "track-params=refresh_interval:100ms"
UNCACHED = "track-params=cache:false"
EMBEDDED = (
    Known("refreshes", ("refreshes",), "insert", 8, ("", REFRESH)),
    Known("refreshes", ("refreshes",), "insert", 2, ("", REFRESH)),
    Known("refreshes", ("refreshes",), "insert", 32, ("", REFRESH)),
    Known("caches", ("request cache hits",), "tags", 4, ("", UNCACHED)),
    Known("caches", ("request cache hits",), "numbers", 4, ("", UNCACHED)),
    Known("heap", ("GC", "heap"), "many", 4, ("heap=1g", "heap=80m"), FRESH_NODES),
    Known("heap", ("GC", "heap"), "many", 8, ("heap=1g", "heap=80m"), FRESH_NODES),
)
DELAYS: tuple[dict[str, Any], ...] = (
    {"type": "constant", "ms": 5},
    {"type": "exponential", "mean_ms": 5},
    {"type": "bimodal", "low_ms": 3, "high_ms": 20, "high_ratio": 0.1},
)


def duel(folder: Path, *arguments: str) -> dict[str, Any]:
    """Race a duel; return its comparison as JSON."""
    file = folder / "comparison.json"
    command = [*ESBENCH, "duel", f"--track-path={folder}", f"--report-file={file}", "--quiet", *arguments]
    print(f"\nesbench {' '.join(command[len(ESBENCH) :])}".replace(f"{folder}/", ""), flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    comparison: dict[str, Any] = json.loads(file.read_text())
    return comparison


def is_named(comparison: dict[str, Any], task: str, named: Sequence[str]) -> bool:
    """Print what moved with each task; True if one of the names is the first of the task that was made slower."""
    causes = comparison["overview"]["contenders"][0]["causes"]
    begin = tuple(f"{each['task']}: {each['metric']}" for each in causes)
    for warning in comparison["warnings"]:
        if begin and warning["text"].startswith(begin):
            print(f"   {warning['text']}", flush=True)
    first = [each["causes"][0]["name"] for each in causes if each["task"] == task and each["causes"]]
    print(f"   first: {', '.join(first) or 'nothing'}; the reason is {' or '.join(named)}", flush=True)
    return bool(first) and first[0] in named


def of_nodes(folder: Path, known: Known) -> bool:
    """Race a duel of embedded nodes; True if its reason is named first."""
    text = TRACK.replace("TASK", known.task).replace("CLIENTS", str(known.clients))
    (folder / "track.yml").write_text(text)
    (folder / "index.json").write_text(INDEX)
    sides = (f"--{name}={words}" for name, words in zip(("baseline", "contender"), known.sides, strict=True))
    return is_named(duel(folder, *known.options, *sides), known.task, known.named)


def script(delay: dict[str, Any], more_ms: int) -> dict[str, Any]:
    """Return what a null server does whose searches take `more_ms` longer, and say so."""
    root = {**parse_version("7.17.29").root(), "cluster_uuid": f"takes {more_ms} ms more"}  # two clusters
    longer = [{"type": "constant", "ms": more_ms}] if more_ms else []
    return {
        "rules": [
            *({"path": "_search", "delay": each} for each in (delay, *longer)),
            {"path": "_search", "merge": {"took": TOOK_MS + more_ms}},
            {"method": "GET", "path": "^/$", "reply": {"status": 200, "body": root}},
        ],
    }


def of_null_servers(folder: Path, delay: dict[str, Any]) -> bool:
    """Race a duel of null servers, in turns; True if `took` is named first."""
    (folder / "track.yml").write_text(SEARCH)
    with ExitStack() as stack:
        servers = [stack.enter_context(NullServer(script(delay, more_ms))) for more_ms in (0, MORE_MS)]
        hosts = [server.url.removeprefix("http://") for server in servers]
        sides = (f"--baseline=target-hosts={hosts[0]}", f"--contender=target-hosts={hosts[1]}")
        return is_named(duel(folder, "--turns", "--rounds=4", *sides), "search", ("took",))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known_reasons = dict.fromkeys([*(known.reason for known in EMBEDDED), "took"])
    parser.add_argument("reasons", nargs="*", metavar="REASON", help=", ".join(known_reasons))
    reasons = parser.parse_args().reasons
    if unknown := set(reasons) - known_reasons.keys():
        parser.error(f"{', '.join(sorted(unknown))}: known are {', '.join(known_reasons)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = [of_nodes(folder, known) for known in EMBEDDED if not reasons or known.reason in reasons]
        found += [of_null_servers(folder, delay) for delay in DELAYS if not reasons or "took" in reasons]
    print(f"\nnamed first: {sum(found)} of {len(found)}")
    sys.exit(sum(found) < FEWEST * len(found))


if __name__ == "__main__":
    main()
