"""The parameter sources of a task: made before its clock starts, one part per client slot."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, fields
from typing import Self

from esbench.operations import OperationTypes
from esbench.operations.base import TaskContext
from esbench.rally_python.loading import ParamSource, Plugins
from esbench.rally_python.parameter_sources import BulkIndexParamSource
from esbench.rally_python.view import Track
from esbench.track.python_part import is_bulk


@dataclass(frozen=True)
class TrackCode:
    """The Python part of a track as loaded in this process, with its view of the track and the operation types."""

    plugins: Plugins
    view: Track
    operations: OperationTypes


@dataclass(frozen=True)
class PythonContext(TaskContext):
    """A TaskContext with the Python part of the track."""

    code: TrackCode = field(kw_only=True)

    @classmethod
    def of(cls, context: TaskContext, code: TrackCode) -> Self:
        return cls(**{each.name: getattr(context, each.name) for each in fields(context)}, code=code)


def source_of(context: PythonContext) -> ParamSource | None:
    """Make the task's parameter source; None if the operation's own parameters are used."""
    params, code, kind = context.params, context.code, context.task.operation.type
    if params.get("param-source") is None:
        if not is_bulk(kind):
            return None
        return code.plugins.make_source(kind, BulkIndexParamSource, code.view, params, context.where)
    random.seed(f"{context.seed}/{context.task.name}/{context.stripe}")  # makes the draws of sources repeatable
    return code.plugins.source_of(context.task, code.view)


def parts_of(source: ParamSource, context: PythonContext) -> dict[int, ParamSource]:
    """Return the parts of a source for this worker's client slots, all made before the first draw.

    A source may return the same object for all slots, which then knows beforehand for which slots it draws.
    """
    return {slot: source.partition(slot, context.task.clients) for slot in context.slots}
