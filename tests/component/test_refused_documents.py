"""Documents that a server refuses: their number and share beside the failed requests; a `took` of 0 is 0."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from driver import NullServerFactory

from esbench.null_server import NullServer
from esbench.record.figures import refused_documents, refused_percent
from esbench.record.store import RaceStore

REFUSING = {"rules": [{"path": "_bulk", "bulk_errors": {"share": 0.01, "status": 400}}]}
NOTHING_FOUND = {"took": 0, "hits": {"total": 0, "hits": []}}
BULK = {
    "version": 2,
    "indices": [{"name": "a"}],
    "corpora": [
        {
            "name": "a",
            "documents": [
                {"document-count": 1000, "target-index": "a", "generate": {"fields": {"n": {"type": "sequence"}}}}
            ],
        }
    ],
}


def raced(folder: Path, server: NullServer, *tasks: dict[str, Any]) -> str:
    """What a race says."""
    file = folder / "track.json"
    file.write_text(
        json.dumps({**BULK, "schedule": [{"operation": "delete-index"}, {"operation": "create-index"}, *tasks]})
    )
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "esbench.cli.main", "race", f"--track-path={file}", "--on-error=continue"),
            *(f"--target-hosts={server.url}", "--replace-indices"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "ESBENCH_HOME": str(folder / "home")},
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return ended.stdout


def test_refused_documents_have_a_column_beside_the_failed_requests(
    null_server: NullServerFactory, tmp_path: Path
) -> None:
    operation = {"operation-type": "bulk", "bulk-size": 100}
    said = raced(
        tmp_path,
        null_server(REFUSING),
        {"name": "b", "operation": operation},
        {"name": "c", "operation": {**operation, "detailed-results": True}},
    )
    for task in RaceStore(tmp_path / "home").load("last").tasks[-2:]:
        refused = refused_documents(task)
        assert refused == 1000 - task.units > 0
        assert refused_percent(task) == refused / 10
        (line,) = [line for line in said.splitlines() if line.startswith(f"{task.name} ") and " docs " in line]
        assert line.endswith(f"{refused} ({refused / 10:g} %)") or f"{refused} (" in line
    assert "Err %" in said and "Refused" in said


def test_a_took_of_zero_is_zero(null_server: NullServerFactory, tmp_path: Path) -> None:
    server = null_server(
        {
            "rules": [
                {"path": "_search", "reply": {"status": 200, "body": {"took": 0, "hits": {"total": 0, "hits": []}}}}
            ]
        }
    )
    operation = {"operation-type": "search", "index": "a", "detailed-results": True, "body": {"size": 0}}
    raced(tmp_path, server, {"name": "q", "iterations": 20, "operation": operation})
    (task,) = [task for task in RaceStore(tmp_path / "home").load("last").tasks if task.name == "q"]
    (took,) = [part for part in task.requests_by_name if part.name == "took"]
    assert took.service_time_ms is not None
    assert {name: ms for name, ms in took.service_time_ms.items() if ms} == {}
