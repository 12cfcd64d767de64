"""Operation types by the name that tracks use."""

from __future__ import annotations

from esbench.errors import UsageError
from esbench.model import Operation
from esbench.operations.base import OperationType
from esbench.operations.traits import Traits
from esbench.registry import Registry


class OperationTypes(Registry[OperationType]):
    """The operation types of a process, by name: of esbench, of installed packages, and what a track adds to them."""

    def __init__(self) -> None:
        super().__init__("operation type")

    def of(self, operation: Operation) -> OperationType:
        """Return the type that runs an operation; UsageError where there is none."""
        return self.get(operation.type)


def builtin_operations() -> OperationTypes:
    """Every operation type of esbench, and those that installed packages offer as `esbench.operations`."""
    from esbench.operations import (
        bulk,
        clusters,
        composite,
        data_streams,
        documents,
        handles,
        indices,
        ml,
        policies,
        queries,
        resizing,
        run_until,
        search,
        snapshots,
        templates,
        transforms,
    )

    registry = OperationTypes()
    for kind in (
        bulk.Bulk,
        documents.Get,
        documents.Index,
        documents.Delete,
        documents.ReadAfterWrite,
        search.Search,
        search.PaginatedSearch,
        search.ScrollSearch,
        search.CompositeAgg,
        queries.RawRequest,
        queries.FieldCaps,
        queries.Esql,
        queries.EsqlProfile,
        queries.Sql,
        handles.OpenPointInTime,
        handles.ClosePointInTime,
        handles.SubmitAsyncSearch,
        handles.GetAsyncSearch,
        handles.DeleteAsyncSearch,
        composite.Composite,
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
        run_until.RunUntil,
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
    for name in registry:
        if not isinstance(getattr(registry.get(name), "traits", None), Traits):
            what = f'operation type "{name}" of an installed package states no traits'
            raise UsageError(what, hint="docs/reference/track-python.md says which there are")
    return registry
