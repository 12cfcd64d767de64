"""The parameter sources of a task: made before its clock starts, one part per client slot."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from esbench.features.python.loading import NamedSource, Plugins
from esbench.features.python.parameter_sources import BulkIndexParamSource
from esbench.features.python.view import TrackView
from esbench.model import Operation
from esbench.operations import OperationTypes
from esbench.operations.base import TaskContext
from esbench.track.python_part import is_bulk


@dataclass(frozen=True)
class TrackCode:
    """The Python part of a track as loaded in this process, with its view of the track and the operation types."""

    plugins: Plugins
    view: TrackView
    operations: OperationTypes


@dataclass(frozen=True)
class PythonContext(TaskContext):
    """A TaskContext with the Python part of the track."""

    code: TrackCode = field(kw_only=True)

    @classmethod
    def of(cls, context: TaskContext, code: TrackCode) -> Self:
        return cls(**{each.name: getattr(context, each.name) for each in fields(context)}, code=code)

    def alone(self, operation: Operation, slot: int) -> Self:
        """Return the context of one client slot that runs this operation in place of the task's own."""
        return replace(self, task=replace(self.task, operation=operation, clients=1), slots=(slot,))


class SourcedProgram:
    """The base of programs whose parameters a source of the track draws; `_parts` are its parts, by client slot.

    All parts are made before the first draw: a source may return the same object for all slots, which then knows
    beforehand for which slots it draws. Without a source (the operation has its own parameters) `_parts` is empty.
    """

    feed_waits = 0

    def __init__(self, context: PythonContext) -> None:
        self._context = context
        source = _source_of(context)
        self._parts: dict[int, NamedSource] = {}
        if source is not None:
            self._parts = {slot: source.partition(slot, context.task.clients) for slot in context.slots}

    @property
    def finite(self) -> bool:
        return any(not part.infinite for part in self._parts.values())

    @property
    def sources(self) -> dict[int, Any]:
        """The track's parameter sources, by client slot."""
        return {slot: part.source for slot, part in self._parts.items()}


def _source_of(context: PythonContext) -> NamedSource | None:
    """Make the task's parameter source; None if the operation's own parameters are used."""
    params, code, kind = context.params, context.code, context.task.operation.type
    if params.get("param-source") is None:
        if not is_bulk(kind):
            return None
        return code.plugins.make_source(kind, BulkIndexParamSource, code.view, params, context.where)
    random.seed(f"{context.seed}/{context.task.name}/{context.stripe}")  # makes the draws of sources repeatable
    return code.plugins.source_of(context.task, code.view)
