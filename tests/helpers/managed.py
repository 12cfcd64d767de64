"""Null servers in the role of managed services: what each refuses, and how, as its documentation and reports say.

Elastic's serverless: docs-content, "Differences from other Elasticsearch offerings"; the body of a refusal as in
elasticsearch-specification 2277. Amazon's domains: "Supported operations" of its guide, refusals as in opentargets
532. Amazon's serverless: "Supported operations and plugins"; all else, `/` included, is 404 without a body.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

KEYS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalr+/EXAMPLE", "region": "eu-west-1"}
LOG_IN = {"aws_access_key_id": KEYS["access_key_id"], "aws_secret_access_key": KEYS["secret_access_key"]}


def _error(kind: str, reason: str, status: int) -> dict[str, Any]:
    error = {"type": kind, "reason": reason}
    return {"status": status, "body": {"error": {"root_cause": [error], **error}, "status": status}}


_GONE = _error("api_not_available_exception", "exists but is not available when running in serverless mode", 410)
_CLUSTERS = r"^/(_nodes|_cluster|_snapshot|_tasks|_segments|_stats|_recovery|_template|_forcemerge|_flush)(/|\?|$)"
_INDICES = r"^/[^/?]+/(_stats|_segments|_forcemerge|_flush|_close|_open|_recovery|_cache|_shrink)(/|\?|$)"
ELASTIC_SERVERLESS: dict[str, Any] = {
    "version": "8.11.0",
    "rules": [
        {"path": r"^/$", "merge": {"version": {"build_flavor": "serverless", "build_hash": "00000000"}}},
        {"path": _CLUSTERS, "reply": _GONE},
        {"path": _INDICES, "reply": _GONE},
    ],
}
_NOT_ALLOWED = {"status": 401, "body": {"Message": "Your request: '/_cluster/settings' payload is not allowed."}}
AWS_DOMAIN: dict[str, Any] = {
    "version": "opensearch-2.19.6",
    "aws": KEYS,
    "rules": [
        {"path": r"^/(_cluster/settings|_cluster/state|_settings|_snapshot|_ilm|_sql)(/|\?|$)", "reply": _NOT_ALLOWED},
        {"path": r"^/_nodes/hot_threads", "reply": _NOT_ALLOWED},
    ],
}
_NOWHERE = {"status": 404, "body": ""}
AWS_SERVERLESS: dict[str, Any] = {
    "version": "opensearch-2.19.6",
    "aws": {**KEYS, "service": "aoss"},
    "rules": [
        {"path": r"^/_cat/indices", "reply": {"status": 200, "body": []}},
        {"path": r"^/$", "reply": _NOWHERE},
        {"path": r"^/(_nodes|_cluster|_stats|_segments|_snapshot|_tasks|_refresh|_forcemerge)", "reply": _NOWHERE},
        {"path": r"^/[^/?]+/(_stats|_segments|_forcemerge|_flush|_close|_open|_refresh|_cache)", "reply": _NOWHERE},
        {"path": r"[?&]scroll=", "reply": _NOWHERE},
    ],
}
SERVICES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "Elastic's serverless": ({**ELASTIC_SERVERLESS, "tokens": ["ApiKey aWQ6a2V5"]}, {"api_key": "id:key"}),
    "Amazon's domains": (AWS_DOMAIN, {**LOG_IN, "region": "eu-west-1"}),
    "Amazon's serverless": (AWS_SERVERLESS, {**LOG_IN, "region": "eu-west-1", "service": "aoss"}),
}


def raced(track: str, service: str, url: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Race one of esbench's own tracks in test mode on the server that plays a service."""
    params = ["--track-params=corpus:generated"] if track == "percolator" else []
    command = [sys.executable, "-m", "esbench.cli.main", "race", f"--track={track}", "--test-mode", *params]
    command += [f"--target-hosts={url}", f"--client-options={json.dumps(SERVICES[service][1])}", "--telemetry=all"]
    env = {**os.environ, "ESBENCH_HOME": str(home)}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)
