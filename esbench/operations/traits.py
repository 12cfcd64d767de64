"""Facts of operation types that a race depends on beside how they compile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Target = Literal["index", "data-stream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts of an operation type, stated once where it is declared. None has a default.

    administrative: hidden from the summary unless it failed.
    in_composite: it may be a request of a composite.
    sends_corpora: it sends documents of the track's corpora: those that `corpora` or `corpus` names or all of them, and
    none where it has a `body`. They are prepared before the race.
    in_file_order: it sends each file of these once, from its first document on, unless `conflicts` or `looped` says
    otherwise; the file may be a stream (`--corpus-cache`).
    creates, deletes: what it makes, and what it removes with all of its documents.
    compares_counts: it needs to know how many documents an index had before the race.
    waits_for_status: it may wait for a health of the cluster: `wait_for_status` in `request-params`.
    node_features: what a node of esbench's own must be able to do for it.
    """

    administrative: bool
    in_composite: bool
    sends_corpora: bool
    in_file_order: bool
    creates: Target | None
    deletes: Target | None
    compares_counts: bool
    waits_for_status: bool
    node_features: frozenset[str]


MEASURED = Traits(
    administrative=False,
    in_composite=False,
    sends_corpora=False,
    in_file_order=False,
    creates=None,
    deletes=None,
    compares_counts=False,
    waits_for_status=False,
    node_features=frozenset(),
)
REQUEST = replace(MEASURED, in_composite=True)
ADMINISTRATIVE = replace(MEASURED, administrative=True)
