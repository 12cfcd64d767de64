"""A real Elasticsearch node for benchmarks: esbench's own embedded engine, on CPUs of its choice, with its counters."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from esbench.features.node.embedded import EmbeddedEngine
from esbench.race.node_options import EmbeddedOptions, NodeOptions
from esbench.record.home import esbench_home

INDEX = "orders"


@dataclass(frozen=True)
class RealNode:
    """Its address and process, and what its index has counted since it was created; zero while there is none."""

    url: str
    pid: int

    def requests(self) -> int:
        """GETs of documents."""
        return int(self._statistics("get")["get"]["total"])

    def documents(self) -> int:
        """Documents that were indexed."""
        return int(self._statistics("indexing")["indexing"]["index_total"])

    def delete_index(self) -> None:
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{INDEX}", method="DELETE")):
            pass

    def _statistics(self, group: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"{self.url}/{INDEX}/_stats/{group}") as reply:
                statistics: dict[str, Any] = json.load(reply)["_all"]["primaries"]
                return statistics
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 404:
                    raise
            return {"get": {"total": 0}, "indexing": {"index_total": 0}}


@contextmanager
def real_node(folder: Path, distribution: str, cpus: set[int] | None = None) -> Iterator[RealNode]:
    """A node on some CPUs of the machine, or on all; its Java knows of no others. Its logs go into the folder."""
    options = EmbeddedOptions(
        home=esbench_home(), race_id=f"benchmark-{os.getpid()}", logs=folder / "logs", node=NodeOptions(distribution)
    )
    engine = EmbeddedEngine(options)
    all_cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or all_cpus)
    try:
        endpoint = engine.start()
    finally:
        os.sched_setaffinity(0, all_cpus)
    try:
        yield RealNode(endpoint.urls[0], endpoint.settings["pids"][0])
    finally:
        engine.stop()


def home_in(folder: Path) -> Path:
    """An ESBENCH_HOME of the benchmark's own that shares the machine's cache of corpora."""
    home = folder / "home"
    cache = esbench_home() / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    home.mkdir()
    (home / "cache").symlink_to(cache)
    return home
