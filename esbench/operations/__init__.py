"""Operation types by the name that tracks use."""

from __future__ import annotations

from esbench.errors import UsageError
from esbench.operations.base import OperationType
from esbench.operations.traits import Traits
from esbench.registry import Registry


def builtin_operations() -> Registry[OperationType]:
    """Every operation type of esbench, and those that installed packages offer as `esbench.operations`."""
    from esbench.operations import (
        admin,
        bulk,
        clusters,
        composite,
        documents,
        handles,
        indices,
        queries,
        resizing,
        run_until,
        search,
        snapshots,
        templates,
        transforms,
    )

    registry: Registry[OperationType] = Registry("operation type")
    for kind in (
        bulk.Bulk(),
        composite.Composite(),
        run_until.RUN_UNTIL,
        *admin.TYPES,
        *clusters.TYPES,
        *documents.TYPES,
        *handles.TYPES,
        *indices.TYPES,
        *queries.TYPES,
        *resizing.TYPES,
        *search.TYPES,
        *snapshots.TYPES,
        *templates.TYPES,
        *transforms.TYPES,
    ):
        registry.add(kind.name, kind)
    registry.add_entry_points("esbench.operations")
    for name in registry:
        if not isinstance(getattr(registry.get(name), "traits", None), Traits):
            what = f'operation type "{name}" of an installed package states no traits'
            raise UsageError(what, hint="docs/reference/track-python.md says which there are")
    return registry
