"""Operations as the loader of tracks makes them: with what their types are."""

from __future__ import annotations

from typing import Any

from esbench.features.python.operations import TrackOperationTypes
from esbench.model import Operation
from esbench.operations import builtin_operations

_TYPES = TrackOperationTypes(builtin_operations())


def bound_operation(*args: Any, **keys: Any) -> Operation:
    """Make an Operation of these arguments, bound to its type."""
    return _TYPES.bind(Operation(*args, **keys))
