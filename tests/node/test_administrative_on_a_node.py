"""Administrative operations on a real node: templates, snapshots, shrinking, and what this node has not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from esbench.cluster.client import Cluster
from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore

pytestmark = pytest.mark.node

ESBENCH = str(Path(sys.executable).parent / "esbench")
DOCUMENTS = 40
TRACK = """
component-templates:
  - {name: common, template: {template: {settings: {number_of_replicas: 0}}}}
composable-templates:
  - name: logs
    index-pattern: logs-*
    template: {index_patterns: [logs-*], composed_of: [common], template: {settings: {index: {number_of_shards: 1}}}}
templates:
  - {name: old, index-pattern: old-*, template: {index_patterns: [old-*], settings: {number_of_replicas: 0}}}
indices:
  - {name: source, body: {settings: {number_of_shards: 2, number_of_replicas: 0}}}
challenges:
  - name: everything
    default: true
    schedule:
      - {name: clean up composable, operation: delete-composable-template}
      - {name: clean up component, operation: delete-component-template}
      - {name: clean up legacy, operation: delete-index-template}
      - {name: clean up indices, operation: {operation-type: delete-index, index: "source*,shrunk*"}}
      - {operation: create-component-template}
      - {operation: {operation-type: create-composable-template, settings: {index.number_of_shards: 3}}}
      - {operation: create-index-template}
      - {name: matching, operation: {operation-type: create-index, index: logs-1, body: {}}}
      - {name: matching too, operation: {operation-type: create-index, index: old-1, body: {}}}
      - operation:
          operation-type: run-until
          path: /logs-1/_settings
          json-path: logs-1.settings.index.number_of_shards
          criterion: {operator: eq, value: "3"}
          retry-wait-interval: 100ms
      - {operation: create-index}
      - {operation: {operation-type: index, body: {n: 1}}, requests: 40}
      - {operation: refresh}
      - operation: {operation-type: cluster-health, request-params: {wait_for_status: green}, retry-until-success: true}
      - operation: {operation-type: put-settings, body: {transient: {indices.recovery.max_bytes_per_sec: 100mb}}}
      - {operation: node-stats}
      - {operation: {operation-type: sleep, duration: 100ms}}
      - operation:
          {operation-type: create-snapshot-repository, repository: r, body: {type: fs, settings: {location: r}}}
      - operation: {operation-type: create-snapshot, repository: r, snapshot: "{{ snapshot }}", body: {indices: source}}
      - operation:
          {operation-type: wait-for-snapshot-create, repository: r, snapshot: "{{ snapshot }}",
           completion-recheck-wait-period: 100ms}
      - {operation: {operation-type: wait-for-current-snapshots-create, repository: r}}
      - {name: before it is restored, operation: delete-index}
      - operation: {operation-type: restore-snapshot, repository: r, snapshot: "{{ snapshot }}"}
      - operation: {operation-type: wait-for-recovery, index: source, completion-recheck-wait-period: 100ms}
      - {operation: {operation-type: delete-snapshot-repository, repository: r}}
      - operation:
          {operation-type: shrink-index, source-index: "sou*", target-index: shrunk-,
           target-body: {settings: {index.number_of_shards: 1, index.number_of_replicas: 0}}}
      - {operation: {operation-type: assert-count, index: shrunk-rce, expected: 40}}
      - {operation: delete-composable-template}
      - {operation: delete-component-template}
      - {operation: {operation-type: delete-index-template, delete-matching-indices: false}}
  - name: missing
    schedule:
      - {operation: {operation-type: create-ilm-policy, policy-name: p, body: {policy: {phases: {}}}}}
      - {operation: {operation-type: create-data-stream, data-stream: logs-app}}
      - {operation: {operation-type: create-transform, transform-id: t, body: {}}}
      - {operation: {operation-type: open-ml-job, job-id: j}}
      - {operation: {operation-type: enrich-policy, policies: {p: {}}}}
  - name: too-new
    schedule:
      - {operation: refresh}
      - {operation: {operation-type: downsample, source-index: a, target-index: b}}
"""


def race(home: Path, url: str, folder: Path, *options: str) -> tuple[RaceRecord, str]:
    """The record of a race of the track, and what it said on stderr."""
    said = said_of_a_race(url, folder, *options)
    return RaceStore(home).load("last"), said


def said_of_a_race(url: str, folder: Path, *options: str) -> str:
    """What a race of the track said on stderr."""
    (folder / "track.yml").write_text(TRACK)
    command = [ESBENCH, "race", f"--track-path={folder}", f"--target-hosts={url.removeprefix('http://')}"]
    given = ["--track-params", json.dumps({"snapshot": folder.name.lower()}), *options]
    return subprocess.run([*command, *given], capture_output=True, text=True, timeout=120, check=False).stderr


def test_templates_snapshots_and_shrinking_work_on_a_real_node(home: Path, url: str, tmp_path: Path) -> None:
    folder = tmp_path / f"track-{tmp_path.parent.name}"
    folder.mkdir()
    record, said = race(home, url, folder)
    assert record.status == "complete", said
    assert [task.name for task in record.tasks if task.errors] == []
    units = {task.name: task.units for task in record.tasks}
    assert units["wait-for-snapshot-create"] > 1_000
    assert units["wait-for-recovery"] > 1_000
    with Cluster([url]) as cluster:
        left = set(cluster.indices_facts())
        assert "logs-1" not in left
        assert {"old-1", "source", "shrunk-rce"} <= left
        cluster.request("DELETE", "/old-1,source,shrunk-rce")


def test_what_a_distribution_leaves_out_is_named(home: Path, url: str, tmp_path: Path) -> None:
    record, _ = race(home, url, tmp_path, "--challenge=missing", "--on-error=continue")
    assert {task.name: list(task.error_kinds) for task in record.tasks} == {
        name: ["not supported"]
        for name in ("create-ilm-policy", "create-data-stream", "create-transform", "open-ml-job", "enrich-policy")
    }


def test_what_a_version_lacks_is_said_before_anything_runs(home: Path, url: str, tmp_path: Path) -> None:
    said = said_of_a_race(url, tmp_path, "--challenge=too-new")
    assert 'task "downsample": Elasticsearch 7.10 has no downsampling (that needs Elasticsearch 8.5 or later' in said
    assert list(RaceStore(home).races_folder.glob("*")) == []
