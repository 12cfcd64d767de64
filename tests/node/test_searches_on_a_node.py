"""Searches of several pages and composites on a real node: every document and every bucket is read once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from esbench.record.model import TaskResult
from esbench.record.store import RaceStore

pytestmark = pytest.mark.node

ESBENCH = str(Path(sys.executable).parent / "esbench")
INDEX = {
    "settings": {"number_of_shards": 1, "number_of_replicas": 0},
    "mappings": {"properties": {"user": {"type": "integer"}, "n": {"type": "integer"}}},
}
TRACK = """
version: 2
indices: [{name: orders, body: index.json}]
corpora:
  - name: orders
    documents: [{source-file: documents.json, document-count: 1000}]
schedule:
  - operation: delete-index
  - operation: create-index
  - operation: {operation-type: bulk, bulk-size: 500, refresh: true}
  - name: plain
    operation:
      operation-type: search
      detailed-results: true
      body: {query: {match_all: {}}}
      assertions:
        - {property: hits, condition: "==", value: 1000}
        - {property: hits_relation, condition: "==", value: eq}
  - {name: scroll, operation: {operation-type: search, pages: 3, results-per-page: 100}}
  - {name: scroll-all, operation: {operation-type: scroll-search, pages: all, results-per-page: 400}}
  - {name: after, operation: {operation-type: paginated-search, pages: all, results-per-page: 300, body: {sort: [n]}}}
  - name: buckets
    operation:
      operation-type: composite-agg
      results-per-page: 20
      body: {size: 0, aggs: {by: {composite: {sources: [{u: {terms: {field: user}}}]}}}}
  - {name: fields, operation: field-caps}
  - name: composite
    clients: 2
    iterations: 3
    operation:
      operation-type: composite
      requests:
        - {operation-type: field-caps, index: orders}
        - stream:
            - name: list
              operation-type: paginated-search
              pages: 3
              body: {size: 50, sort: [n]}
        - stream: [{operation-type: search, body: {query: {match_all: {}}}}, {operation-type: sleep, duration: 10ms}]
        - {name: last, operation-type: raw-request, path: /_cluster/health}
"""


@pytest.fixture
def track(tmp_path: Path) -> Path:
    documents = ({"user": number % 50, "n": number} for number in range(1000))
    (tmp_path / "documents.json").write_text("".join(f"{json.dumps(document)}\n" for document in documents))
    (tmp_path / "index.json").write_text(json.dumps(INDEX))
    (tmp_path / "track.yml").write_text(TRACK)
    return tmp_path / "track.yml"


def race(track: Path, url: str, home: Path, *flags: str) -> tuple[int, str, dict[str, TaskResult]]:
    command = [ESBENCH, "race", f"--track-path={track}", f"--target-hosts={url.removeprefix('http://')}", "--quiet"]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=120, check=False)
    assert (home / "races").is_dir(), done.stderr
    return done.returncode, done.stderr, {task.name: task for task in RaceStore(home).load("last").tasks}


def test_every_page_is_read(track: Path, url: str, home: Path) -> None:
    status, error, tasks = race(track, url, home, "--enable-assertions")
    assert status == 0, error
    assert {task.name: task.errors for task in tasks.values() if task.errors} == {}
    pages = {name: tasks[name].units for name in ("scroll", "scroll-all", "after", "buckets")}
    assert pages == {
        "scroll": 3,
        "scroll-all": 4,
        "after": 4,
        "buckets": 4,
    }  # an empty page ends scroll-all and buckets
    assert {part.name: part.requests for part in tasks["plain"].requests_by_name} == {"hits": 1000, "took": 1}
    counted = {part.name: part.requests for part in tasks["composite"].requests_by_name}
    assert counted == {"field-caps": 6, "list": 6, "list/first-page": 6, "list/next-page": 12, "search": 6, "last": 6}


def test_an_assertion_ends_the_race_only_where_assertions_are_enabled(track: Path, url: str, home: Path) -> None:
    changed = yaml.safe_load(TRACK)
    changed["schedule"][3]["operation"]["assertions"][0]["value"] = 999
    track.write_text(yaml.safe_dump(changed))
    status, error, _ = race(track, url, home, "--enable-assertions", "--on-error=continue")
    assert status == 1
    assert "assertion for GET /orders/_search (HTTP 200): hits should be == 999, and is 1000" in error
    status, error, tasks = race(track, url, home, "--include-tasks=delete-index,create-index,bulk,plain")
    assert (status, tasks["plain"].errors) == (0, 0), error


def test_a_node_without_points_in_time_is_told_in_words(track: Path, url: str, home: Path) -> None:
    changed = yaml.safe_load(TRACK)
    changed["schedule"][-1]["operation"]["requests"].insert(0, {"operation-type": "open-point-in-time"})
    track.write_text(yaml.safe_dump(changed))
    status, error, _ = race(track, url, home, "--include-tasks=delete-index,create-index,composite")
    assert status == 1
    assert "not supported for POST /orders/_pit" in error
    assert "this Elasticsearch 7.10 has no points in time: its distribution or license leaves them out" in error
