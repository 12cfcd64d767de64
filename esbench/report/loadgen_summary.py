"""The figures of a load in the words in which Loadgen prints them at its end."""

from __future__ import annotations

from esbench.measure.verdict import CONNECTION_ERRORS, TIMEOUT
from esbench.operations.http_requests import INVALID
from esbench.record.model import TaskResult
from esbench.units import format_bytes


def transport_errors(task: TaskResult) -> int:
    """Return the number of requests without a reply, which Loadgen calls errors."""
    return sum(kind.count for name, kind in task.error_kinds.items() if name in (*CONNECTION_ERRORS, TIMEOUT))


def invalid(task: TaskResult) -> int:
    """Return the number of turns with an assert that did not hold; a request without a reply is invalid, too."""
    failed = task.error_kinds.get(INVALID)
    return (failed.count if failed else 0) + transport_errors(task)


def loadgen_summary(task: TaskResult) -> str:
    """Return Loadgen's summary of a task, as its documentation shows it. The figures are those of the record.

    "Estimated Server Metrics" are what the clients would reach if they sent without a pause: Little's law.
    """
    parts = task.requests_by_name
    times = [part.service_time_ms for part in parts] if parts else [task.service_time_ms]
    known = [each for each in times if each]
    replies = sum((task.status_codes or {}).values())
    requests = replies + transport_errors(task)
    seconds = max(task.duration_s, 1e-9)
    sent, received = task.bytes_sent or 0, task.bytes_received or 0
    counts = [part.requests for part, each in zip(parts, times, strict=True) if each] if parts else [task.requests]
    spent_ms = sum(each["mean"] * count for each, count in zip(known, counts, strict=True))
    mean_ms = spent_ms / max(1, sum(counts))
    lines = [
        f"{requests} requests finished in {seconds:.2f}s, {format_bytes(sent)} sent, {format_bytes(received)} received",
        "",
        "[Loadgen Client Metrics]",
        f"Requests/sec:\t\t{requests / seconds:.2f}",
        f"Request Traffic/sec:\t{format_bytes(sent / seconds)}",
        f"Total Transfer/sec:\t{format_bytes((sent + received) / seconds)}",
    ]
    if known:
        lines += [
            f"Fastest Request:\t{min(each['min'] for each in known):.3f}ms",
            f"Slowest Request:\t{max(each['max'] for each in known):.3f}ms",
        ]
    lines += [f"Number of Errors:\t{transport_errors(task)}", f"Number of Invalid:\t{invalid(task)}"]
    lines += [f"Status {status}:\t\t{count}" for status, count in sorted((task.status_codes or {}).items())]
    if known:
        per_s = 1000 * task.clients / mean_ms if mean_ms else 0.0
        lines += [
            "",
            "[Estimated Server Metrics]",
            f"Requests/sec:\t\t{per_s:.2f}",
            f"Avg Req Time:\t\t{mean_ms:.3f}ms",
            f"Transfer/sec:\t\t{format_bytes((sent + received) / max(1, requests) * per_s)}",
        ]
    return "\n".join(lines)
