"""Operation types by the name that tracks use."""

from __future__ import annotations

from esbench.operations.base import OperationType
from esbench.registry import Registry


def builtin_operations() -> Registry[OperationType]:
    """Every operation type of esbench, and those that installed packages offer as `esbench.operations`."""
    from esbench.operations import (
        bulk,
        clusters,
        data_streams,
        documents,
        indices,
        ml,
        policies,
        resizing,
        search,
        snapshots,
        templates,
        transforms,
    )

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
        clusters.NodeStats,
        clusters.Sleep,
        data_streams.CreateDataStream,
        data_streams.DeleteDataStream,
        templates.CreateIndexTemplate,
        templates.DeleteIndexTemplate,
        templates.CreateComposableTemplate,
        templates.DeleteComposableTemplate,
        templates.CreateComponentTemplate,
        templates.DeleteComponentTemplate,
        policies.PutSettings,
        policies.PutPipeline,
        policies.DeletePipeline,
        policies.CreateIlmPolicy,
        policies.DeleteIlmPolicy,
        policies.EnrichPolicy,
        resizing.ShrinkIndex,
        resizing.Downsample,
        resizing.Reindex,
        snapshots.CreateSnapshotRepository,
        snapshots.DeleteSnapshotRepository,
        snapshots.CreateSnapshot,
        snapshots.RestoreSnapshot,
        snapshots.WaitForSnapshotCreate,
        snapshots.WaitForCurrentSnapshotsCreate,
        snapshots.WaitForRecovery,
        transforms.CreateTransform,
        transforms.StartTransform,
        transforms.StopTransform,
        transforms.WaitForTransform,
        transforms.TransformStats,
        transforms.DeleteTransform,
        ml.CreateMlJob,
        ml.OpenMlJob,
        ml.CloseMlJob,
        ml.DeleteMlJob,
        ml.CreateMlDatafeed,
        ml.StartMlDatafeed,
        ml.StopMlDatafeed,
        ml.DeleteMlDatafeed,
    ):
        registry.add(kind.name, kind())
    registry.add_entry_points("esbench.operations")
    return registry
