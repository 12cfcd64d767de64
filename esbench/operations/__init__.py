"""Operation types, by their names in tracks."""

from __future__ import annotations

from dataclasses import replace

from esbench.errors import UsageError
from esbench.model import Operation
from esbench.operations.base import OperationType, Traits
from esbench.registry import Registry


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
    from esbench.operations import (
        admin,
        bulk,
        composite,
        documents,
        http_requests,
        indices,
        points_in_time,
        queries,
        recorded,
        resizing,
        search,
        snapshots,
        templates,
        transforms,
        waiting,
    )

    registry = OperationTypes()
    for kind in (
        bulk.Bulk(),
        composite.Composite(registry),
        *admin.TYPES,
        *documents.TYPES,
        *http_requests.TYPES,
        *points_in_time.TYPES,
        *indices.TYPES,
        *queries.TYPES,
        *recorded.TYPES,
        *resizing.TYPES,
        *search.TYPES,
        *snapshots.TYPES,
        *templates.TYPES,
        *transforms.TYPES,
        *waiting.TYPES,
    ):
        registry.add(kind.name, kind)
    registry.add_entry_points("esbench.operations")
    for name in registry:
        if not isinstance(getattr(registry.get(name), "traits", None), Traits):
            what = f'operation type "{name}" of an installed package states no traits'
            raise UsageError(what, hint="docs/reference/track-python.md says which there are")
    return registry
