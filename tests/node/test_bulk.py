"""Bulks of every kind on a real node, raced as a user races them; each ends with a count of what is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from esbench.record.model import TaskResult
from esbench.record.store import RaceStore

pytestmark = pytest.mark.node

ESBENCH = str(Path(sys.executable).parent / "esbench")
COUNT = 3_000
TRACK = """
indices: [{name: plain}, {name: conflicting}, {name: part-0}, {name: part-1}]
corpora:
  - name: plain
    target-index: plain
    documents: [{source-file: a.json, document-count: 3000}, {source-file: b.json, document-count: 100}]
  - {name: conflicting, target-index: conflicting, documents: [{source-file: a.json, document-count: 3000}]}
  - name: own
    includes-action-and-meta-data: true
    documents: [{source-file: own.json, document-count: 300}]
schedule:
  - operation: {operation-type: create-index}
  - {name: both-files, clients: 3, operation: {operation-type: bulk, bulk-size: 250, corpora: plain}}
  - operation: {name: count-both-files, operation-type: assert-count, index: plain}
  - name: again
    clients: 2
    iterations: 10
    operation: {operation-type: bulk, bulk-size: 200, corpora: plain, indices: plain, looped: true}
  - operation: {name: count-again, operation-type: assert-count, index: plain}
  - name: conflicts
    clients: 2
    operation:
      operation-type: bulk
      bulk-size: 250
      corpora: conflicting
      conflicts: random
      conflict-probability: 50
      on-conflict: update
      recency: 0.4
      detailed-results: true
      retries_on_429: 3
  - operation: {name: count-conflicts, operation-type: assert-count, index: conflicting}
  - {name: own-actions, operation: {operation-type: bulk, bulk-size: 70, corpora: own, detailed-results: true}}
  - operation: {name: count-part-0, operation-type: assert-count, index: part-0, expected: 150}
  - operation: {name: count-part-1, operation-type: assert-count, index: part-1}
  - name: single
    iterations: 50
    operation: {operation-type: index, index: plain, corpus: plain}
  - operation: {name: count-single, operation-type: assert-count, index: plain}
"""


@pytest.fixture
def track(tmp_path: Path) -> Path:
    folder = tmp_path / "track"
    folder.mkdir()
    (folder / "track.yml").write_text(TRACK)
    for name, first, count in (("a", 0, COUNT), ("b", COUNT, 100)):
        rows = (json.dumps({"n": n, "text": f"document {n}"}) for n in range(first, first + count))
        (folder / f"{name}.json").write_text("\n".join(rows) + "\n")
    own = (f'{{"index":{{"_index":"part-{n % 2}","_id":"{n}"}}}}\n{{"n":{n}}}\n' for n in range(300))
    (folder / "own.json").write_text("".join(own))
    return folder


def test_what_bulks_acknowledge_is_there(url: str, home: Path, track: Path) -> None:
    hosts = f"--target-hosts={url.removeprefix('http://')}"
    done = subprocess.run(
        [ESBENCH, "race", f"--track-path={track}", hosts], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    tasks = {task.name: task for task in RaceStore(home).load("last").tasks}
    assert {name: task.errors for name, task in tasks.items() if task.errors} == {}
    assert (tasks["both-files"].units, tasks["again"].requests) == (3_100, 20)
    parts = results(tasks["conflicts"])
    assert parts["created"] + parts["updated"] + parts.get("noop", 0) == tasks["conflicts"].units == COUNT
    assert 1_250 < parts["created"] < 1_750  # binomial: 1,500, standard deviation 27
    assert results(tasks["own-actions"])["created"] == 300
    assert parts["took"] == tasks["conflicts"].requests


def results(task: TaskResult) -> dict[str, int]:
    return {part.name: part.requests for part in task.requests_by_name}
