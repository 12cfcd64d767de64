"""Waiting until a cluster can be used: a few plain requests over http.client, before any client exists."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from esbench.cluster.replies import counted, text
from esbench.errors import EngineError
from esbench.errors.reasons import form_fault, reason_of

POLL_S = 0.05
REFUSALS_S = 15.0  # how long a cluster may go on refusing to create an index
PROBE_INDEX = "esbench-ready-probe"


@dataclass(frozen=True)
class NodeProcess:
    """A node's version, process id and Java version, as the node reports them."""

    version: str
    pid: int
    java: str


def wait_until_ready(ports: list[int], died: Callable[[], str | None], timeout_s: float) -> None:
    """Wait until all nodes (their HTTP ports on loopback) have joined and an index could be created and deleted.

    `died` returns the reason why a node has ended, or None. That reason, a timeout or a lasting refusal is an
    EngineError.
    """
    deadline = time.monotonic() + timeout_s
    for port in ports:
        while not _has_joined(port, len(ports)):
            _check(died, deadline, f"the node on port {port} did not answer within {timeout_s:.0f} s")
            time.sleep(POLL_S)
    refused_until = time.monotonic() + REFUSALS_S
    body = {"settings": {"number_of_shards": 1, "number_of_replicas": 0}}
    while True:
        status, answer = ask(ports[0], "PUT", f"/{PROBE_INDEX}", body)
        if status == 200:
            status, answer = ask(ports[0], "DELETE", f"/{PROBE_INDEX}")
            if status == 200:
                return
        if time.monotonic() > refused_until:
            raise EngineError(f"the node refuses to create an index: {_reason(status, answer)}")
        _check(died, deadline, "no index could be created in time")
        time.sleep(POLL_S)


def describe_nodes(port: int, names: Sequence[str]) -> list[NodeProcess]:
    """Return the nodes of a cluster, in the order of `names`, with the pids of their Java processes.

    `port` is one node's on loopback. EngineError if it does not answer, or if a node has left the cluster.
    """
    status, answer = ask(port, "GET", "/_nodes/process,jvm")
    if status != 200:
        raise EngineError(f"the node does not describe itself: {_reason(status, answer)}")
    try:
        found = {
            text(node["name"]): NodeProcess(
                text(node["version"]), counted(node["process"]["id"]), text(node["jvm"]["version"])
            )
            for node in answer["nodes"].values()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EngineError(f"the node does not describe itself: {form_fault(error)}") from error
    if gone := [name for name in names if name not in found]:
        raise EngineError(f"the cluster has lost {', '.join(gone)}")
    return [found[name] for name in names]


def ask(port: int, method: str, path: str, body: object = None, timeout_s: float = 30.0) -> tuple[int, Any]:
    """Send one request to loopback. Returns status and decoded answer; status 0 and the reason if no answer came.

    `body` is sent as JSON unless it is None. An answer that is not JSON is returned as text.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        content = reply.read()
    except (OSError, http.client.HTTPException) as error:
        return 0, reason_of(error)
    finally:
        connection.close()
    try:
        return reply.status, json.loads(content)
    except ValueError:
        return reply.status, content.decode("utf-8", errors="replace")


def _has_joined(port: int, nodes: int) -> bool:
    status, answer = ask(port, "GET", f"/_cluster/health?wait_for_nodes=%3E%3D{nodes}&timeout=1s", timeout_s=5)
    return status == 200 and isinstance(answer, dict) and answer.get("timed_out") is False


def _check(died: Callable[[], str | None], deadline: float, too_late: str) -> None:
    reason = died()
    if reason is not None:
        raise EngineError(reason)
    if time.monotonic() > deadline:
        raise EngineError(too_late)


def _reason(status: int, answer: Any) -> str:
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        causes = error.get("root_cause")
        cause = causes[0] if isinstance(causes, list) and causes and isinstance(causes[0], dict) else error
        error = cause.get("reason") or error
    return f"{status or 'no answer'}: {str(error)[:300]}"
