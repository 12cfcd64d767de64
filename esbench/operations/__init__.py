"""Operation types by the name that tracks use."""

from __future__ import annotations

from esbench.operations.base import OperationType
from esbench.registry import Registry


def builtin_operations() -> Registry[OperationType]:
    """Every operation type of esbench, and those that installed packages offer as `esbench.operations`."""
    from esbench.operations import bulk, clusters, documents, indices, search

    registry: Registry[OperationType] = Registry("operation type")
    for kind in (
        bulk.Bulk,
        documents.Get,
        documents.Index,
        documents.Delete,
        documents.ReadAfterWrite,
        search.Search,
        search.RawRequest,
        indices.CreateIndex,
        indices.DeleteIndex,
        indices.Refresh,
        indices.ForceMerge,
        indices.IndexStats,
        indices.AssertCount,
        clusters.ClusterHealth,
    ):
        registry.add(kind.name, kind())
    registry.add_entry_points("esbench.operations")
    return registry
