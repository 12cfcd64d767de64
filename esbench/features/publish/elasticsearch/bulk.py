"""Bulk requests to a metrics store: sent in chunks, retried when the cluster is too busy; errors give one reason."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from esbench.cluster.client import Cluster
from esbench.cluster.failures import explain_http_error
from esbench.errors import ClusterError

CHUNK_BYTES = 5_000_000
_CHUNK_ACTIONS = 5_000
_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_TOO_BUSY = 429

Pause = Callable[[float], None]


def send(
    cluster: Cluster, path: str, actions: Iterable[bytes], *, fine: Collection[int], pause: Pause = time.sleep
) -> Counter[int]:
    """Send bulk actions and return the count of each HTTP status, all of them in `fine`.

    An action is its lines, newlines included. Any other status is a ClusterError with the reason of the first one; what
    was stored before stays. Actions that the cluster is too busy for (429) are sent again a few times, each time after
    a longer pause: `pause` is given its seconds.
    """
    statuses: Counter[int] = Counter()
    for chunk in _chunks(actions):
        statuses += _send_chunk(cluster, path, chunk, fine, pause)
    return statuses


def _send_chunk(cluster: Cluster, path: str, actions: list[bytes], fine: Collection[int], pause: Pause) -> Counter[int]:
    statuses: Counter[int] = Counter()
    for pause_s in (*_PAUSES_S, None):
        items = _items(cluster, path, actions)
        statuses.update(status for status, _ in items if status in fine)
        wrong = [item for item in items if item[0] not in fine]
        final = [item for item in wrong if item[0] != _TOO_BUSY]
        if not wrong:
            break
        if final or pause_s is None:
            raise _first_of(final or wrong, len(items), path, cluster)
        actions = [action for action, (status, _) in zip(actions, items, strict=True) if status == _TOO_BUSY]
        pause(pause_s)
    return statuses


def _chunks(actions: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for action in actions:
        if len(chunk) == _CHUNK_ACTIONS or (chunk and size + len(action) > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(action)
        size += len(action)
    if chunk:
        yield chunk


def _items(cluster: Cluster, path: str, actions: list[bytes]) -> list[tuple[int, Any]]:
    """Send actions; return status and error of each.

    A request refused as a whole counts as a refusal of each action.
    """
    reply = cluster.request("POST", path, body=b"".join(actions), ignore=(_TOO_BUSY,))
    if isinstance(reply, Mapping) and "items" in reply:
        results = [next(iter(item.values())) for item in reply["items"]]
        return [(int(result["status"]), result.get("error")) for result in results]
    error = reply.get("error") if isinstance(reply, Mapping) else reply  # a proxy's is text
    return [(_TOO_BUSY, error)] * len(actions)


def _first_of(failed: list[tuple[int, Any]], sent: int, path: str, cluster: Cluster) -> ClusterError:
    status, error = failed[0]
    reason = explain_http_error(f"POST {path}", status, {"error": error}, cluster.options)
    return ClusterError(f"{len(failed)} of {sent} documents were refused: {reason.what}", where=reason.where)
