"""The parameter sources of a task: made before its clock starts, a part for each client slot."""

from __future__ import annotations

import random

from esbench.errors import TrackError
from esbench.operations.base import TaskContext, TrackCode
from esbench.rally_python.loading import ParamSource
from esbench.rally_python.parameter_sources import BulkIndexParamSource, is_bulk


def code_of(context: TaskContext) -> TrackCode:
    if context.code is None:
        raise TrackError("the Python part of the track is not loaded", where=context.where)
    return context.code


def source_of(context: TaskContext) -> ParamSource | None:
    """The task's parameter source; None where the operation's own parameters are used."""
    params, code, kind = context.params, code_of(context), context.task.operation.type
    if params.get("param-source") is None:
        if not is_bulk(kind):
            return None
        return code.plugins.make_source(kind, BulkIndexParamSource, code.view, params, context.where)
    random.seed(f"{context.seed}/{context.task.name}/{context.stripe}")  # what sources draw is repeatable
    return code.plugins.source_of(context.task, code.view)


def parts_of(source: ParamSource, context: TaskContext) -> dict[int, ParamSource]:
    """The parts of this worker's client slots, all of them made before the first draw.

    A source may give them one object, which by then knows whose data it has to draw.
    """
    return {slot: source.partition(slot, context.task.clients) for slot in context.slots}
