"""Operation types, by their names in tracks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from esbench.errors import UsageError
from esbench.model import Operation
from esbench.operations.base import OperationType, Traits
from esbench.tables import Registry, load

_ADMINISTRATION = "esbench.features.administration"
# The types in TYPES of each module, which is imported when a track has one of them.
OPERATIONS = {
    "esbench.operations.bulk": ("bulk",),
    "esbench.operations.documents": ("get", "index", "delete", "read-after-write"),
    "esbench.operations.http_requests": ("http-requests",),
    "esbench.operations.indices": (
        "create-index",
        "delete-index",
        "refresh",
        "force-merge",
        "index-stats",
        "assert-count",
    ),
    "esbench.operations.points_in_time": (
        "open-point-in-time",
        "close-point-in-time",
        "submit-async-search",
        "get-async-search",
        "delete-async-search",
    ),
    "esbench.operations.queries": (
        "raw-request",
        "msearch",
        "terms-enum",
        "field-caps",
        "esql",
        "esql-profile",
        "sql",
    ),
    "esbench.operations.recorded": ("recorded-requests",),
    "esbench.operations.search": ("search", "paginated-search", "scroll-search", "composite-agg"),
    f"{_ADMINISTRATION}.admin": (
        "node-stats",
        "put-settings",
        "put-pipeline",
        "delete-pipeline",
        "create-ilm-policy",
        "delete-ilm-policy",
        "enrich-policy",
        "create-data-stream",
        "delete-data-stream",
        "create-ml-job",
        "delete-ml-job",
        "open-ml-job",
        "close-ml-job",
        "create-ml-datafeed",
        "delete-ml-datafeed",
        "start-ml-datafeed",
        "stop-ml-datafeed",
    ),
    f"{_ADMINISTRATION}.resizing": ("shrink-index", "downsample", "reindex"),
    f"{_ADMINISTRATION}.snapshots": (
        "create-snapshot-repository",
        "delete-snapshot-repository",
        "create-snapshot",
        "restore-snapshot",
        "wait-for-snapshot-create",
        "wait-for-current-snapshots-create",
        "wait-for-recovery",
    ),
    f"{_ADMINISTRATION}.templates": (
        "create-index-template",
        "delete-index-template",
        "create-composable-template",
        "delete-composable-template",
        "create-component-template",
        "delete-component-template",
    ),
    f"{_ADMINISTRATION}.transforms": (
        "create-transform",
        "start-transform",
        "stop-transform",
        "delete-transform",
        "transform-stats",
        "wait-for-transform",
    ),
    f"{_ADMINISTRATION}.waiting": ("cluster-health", "sleep", "run-until"),
    "esbench.features.vectors.operations": ("knn-search", "vector-search", "bulk-vector-data-set"),
}


class OperationTypes(Registry[OperationType]):
    """The operation types of a process, by name: those of esbench, of installed packages and of the track."""

    def __init__(self) -> None:
        super().__init__("operation type")

    def bind(self, operation: Operation) -> Operation:
        """Return the operation with its type bound to it; raises UsageError if that is unknown."""
        return replace(operation, kind=self.get(operation.type))


def builtin_operations() -> OperationTypes:
    """Return all operation types of esbench, and those of installed packages (entry points `esbench.operations.v1`).

    Raises UsageError for a type of a package that states no traits, or whose name is taken.
    """
    registry = OperationTypes()
    registry.add_lazy("composite", lambda: load("esbench.operations.composite:Composite")(registry))
    for module, names in OPERATIONS.items():
        for name in names:
            registry.add_lazy(name, partial(_type_in, module, name))
    own = {*registry}
    registry.add_entry_points("esbench.operations")
    for name in {*registry} - own:
        if not isinstance(getattr(registry.get(name), "traits", None), Traits):
            what = f'operation type "{name}" of an installed package states no traits'
            raise UsageError(what, hint="docs/reference/track-python.md says which there are")
    return registry


def _type_in(module: str, name: str) -> OperationType:
    types: tuple[OperationType, ...] = load(f"{module}:TYPES")
    return next(kind for kind in types if kind.name == name)
