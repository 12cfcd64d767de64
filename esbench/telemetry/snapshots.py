"""Snapshots of what a cluster counts: requests that may fail, the copies of shards in a reply, the growth of counters.

A race never fails for a snapshot: what the cluster does not report (permissions, missing APIs) becomes a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from esbench.cluster.replies import count, known_form, mapping
from esbench.errors import ClusterError

T = TypeVar("T")
Key = TypeVar("Key")


class Attempts:
    """Questions to a cluster; `notes` has a sentence about each without a usable reply."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def attempt(self, what: str, ask: Callable[[], T], default: T, *, where: str = "") -> T:
        """Return what `ask` returns, or `default` if it raises ClusterError or its reply has an unknown form.

        `what` (a noun: "no WHAT" begins the note) and `where` (a path) are for the note.
        """
        try:
            with known_form(where):  # what stands before the cluster may answer anything
                return ask()
        except ClusterError as error:
            self.notes.append(f"no {what}: {error}")
        return default


def copies(indices: Mapping[str, Any]) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Yield index, number and entry of each copy of a shard, from the `indices` of a reply that has shards."""
    for index, entry in indices.items():
        for number, shard in entry["shards"].items():
            for copy in shard:
                yield index, int(number), mapping(copy)


def count_at(tree: Any, path: str) -> int:
    """Return the count at a path (`total.get.total`) of nested mappings; 0 if it is not known.

    Raises WrongType for what is no count, or no mapping on the way.
    """
    for name in path.split("."):
        tree = mapping(tree).get(name)
    return count(tree) or 0


def increase(now: Mapping[Key, int], before: Mapping[Key, int]) -> dict[Key, int]:
    """Return name -> growth of the counters of one subject, say a shard or a node.

    One that `before` lacks counts in full; so do all if one of them has fallen: the subject has restarted.
    """
    if any(value < before.get(name, 0) for name, value in now.items()):
        before = {}
    return {name: value - before.get(name, 0) for name, value in now.items()}
