"""The figures of a load in the words in which Loadgen prints them at its end."""

from __future__ import annotations

from math import isinf

from esbench.operations.http_requests import INVALID
from esbench.record.figures import known
from esbench.record.model import TaskResult
from esbench.units import format_bytes


def transport_errors(task: TaskResult) -> int:
    """Return the number of requests without a reply, which Loadgen calls errors."""
    return task.requests - sum((task.status_codes or {}).values())


def invalid(task: TaskResult) -> int:
    """Return the number of requests whose assert did not hold; a request without a reply is invalid, too."""
    failed = task.error_kinds.get(INVALID)
    return (failed.count if failed else 0) + transport_errors(task)


def loadgen_summary(task: TaskResult) -> str:
    """Return Loadgen's summary of a task, as its documentation shows it. The figures are those of the record.

    "Estimated Server Metrics" are what the clients would reach if they sent without a pause: Little's law.
    """
    times, requests, seconds = task.service_time_ms or {}, task.requests, max(task.duration_s, 1e-9)
    sent, received, mean_ms = task.bytes_sent or 0, task.bytes_received or 0, times.get("mean", 0.0)
    lines = [
        f"{requests} requests finished in {seconds:.2f}s, {format_bytes(sent)} sent, {format_bytes(received)} received",
        "",
        "[Loadgen Client Metrics]",
        f"Requests/sec:\t\t{requests / seconds:.2f}",
        f"Request Traffic/sec:\t{format_bytes(sent / seconds)}",
        f"Total Transfer/sec:\t{format_bytes((sent + received) / seconds)}",
    ]
    if "min" in times:  # without a good reply only bounds of timeouts are known
        lines.append(f"Fastest Request:\t{times['min']:.3f}ms")
    if times:
        above = "> " if isinf(times["max"]) else ""
        lines.append(f"Slowest Request:\t{above}{known(times, 'max'):.3f}ms")
    lines += [f"Number of Errors:\t{transport_errors(task)}", f"Number of Invalid:\t{invalid(task)}"]
    lines += [f"Status {status}:\t\t{count}" for status, count in sorted((task.status_codes or {}).items())]
    if mean_ms:
        per_s = 1000 * task.clients / mean_ms
        lines += [
            "",
            "[Estimated Server Metrics]",
            f"Requests/sec:\t\t{per_s:.2f}",
            f"Avg Req Time:\t\t{mean_ms:.3f}ms",
            f"Transfer/sec:\t\t{format_bytes((sent + received) / max(1, requests) * per_s)}",
        ]
    return "\n".join(lines)
