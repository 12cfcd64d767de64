"""Traits: properties of operation types that a race depends on, besides their compilation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Target = Literal["index", "data-stream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties of an operation type, stated once where it is declared. None has a default.

    administrative: hidden from the summary unless it failed.
    in_composite: may be a request of a composite.
    sends_corpora: sends documents of the track's corpora: those that `corpora` or `corpus` names, else all; none if it
    has a `body`. They are prepared before the race.
    in_file_order: sends each of these files once, from its first document on, unless `conflicts` or `looped` is set;
    the file may be read as a stream (`--corpus-cache`).
    creates, deletes: the kind of target that it creates, or deletes with all of its documents.
    compares_counts: needs the number of documents that an index had before the race.
    waits_for_status: may wait for a cluster status: `wait_for_status` in `request-params`.
    node_features: the features that it needs of a node that esbench starts.
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
