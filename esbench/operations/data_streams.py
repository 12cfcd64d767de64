"""Data streams of the track, or named ones: create and delete."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError
from esbench.operations.administrative import ONLY_IF_EXISTS, QUERY, Call, RequestType, query_of, segment
from esbench.operations.base import TaskContext
from esbench.operations.parameters import Parameter, flag
from esbench.operations.traits import ADMINISTRATIVE

DATA_STREAMS = Feature("data streams", (7, 9), (1, 0))
_NAMES = Parameter("the data stream or data streams; those of the track by default", (str, list))


def _names(context: TaskContext) -> list[str]:
    given = context.params.get("data-stream")
    names = [stream.name for stream in context.data_streams] if given is None else given
    names = names.split(",") if isinstance(names, str) else [str(name) for name in names]
    if not names:
        raise TrackError("the track has no data stream", where=context.where, hint='give the operation a "data-stream"')
    return names


class CreateDataStream(RequestType):
    name = "create-data-stream"
    traits = replace(ADMINISTRATIVE, creates="data-stream")
    doc = "Create the track's data streams, or the named ones; a composable template must match them."
    feature = DATA_STREAMS
    parameters = {"data-stream": _NAMES, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        for name in _names(context):
            yield Call("PUT", f"/_data_stream/{segment(name)}", query_of(context.params), empties=name)


class DeleteDataStream(RequestType):
    name = "delete-data-stream"
    traits = replace(ADMINISTRATIVE, deletes="data-stream")
    doc = "Delete the track's data streams, or the named ones, with all that they hold."
    feature = DATA_STREAMS
    parameters = {"data-stream": _NAMES, "only-if-exists": ONLY_IF_EXISTS, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        # 405: what the server does not know it has not either
        accept = (404, 405) if flag(context.params.get("only-if-exists"), True) else ()
        for name in _names(context):
            path = f"/_data_stream/{segment(name)}"
            yield Call("DELETE", path, query_of(context.params), accept=accept, empties=name)
