"""Machine learning: anomaly detection jobs and their datafeeds. Requests only; what a job finds is not looked at."""

from __future__ import annotations

from collections.abc import Iterable

from esbench.cluster.dialect import Dialect, Feature
from esbench.operations.administrative import (
    BODY,
    ONLY_IF_EXISTS,
    QUERY,
    Call,
    RequestType,
    if_exists,
    query_of,
    segment,
)
from esbench.operations.base import TaskContext
from esbench.operations.parameters import Parameter, flag
from esbench.operations.traits import ADMINISTRATIVE

ML = Feature("machine learning", (5, 4))
_JOB = Parameter("the job's id", required=True)
_DATAFEED = Parameter("the datafeed's id", required=True)
_FORCE = Parameter("whatever its state is", (bool,), False)
_TIMEOUT = Parameter("how long the server waits for it", (str,))


def _root(dialect: Dialect) -> str:
    return "/_xpack/ml" if dialect.typed else "/_ml"


def _job(context: TaskContext, ending: str = "") -> str:
    return f"{_root(context.dialect)}/anomaly_detectors/{segment(context.params['job-id'])}{ending}"


def _datafeed(context: TaskContext, ending: str = "") -> str:
    return f"{_root(context.dialect)}/datafeeds/{segment(context.params['datafeed-id'])}{ending}"


class _MlType(RequestType):
    feature = ML


class _DeleteType(_MlType):
    """Deletes a job or a datafeed."""

    def path(self, context: TaskContext) -> str:
        raise NotImplementedError

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        accept = if_exists(params)
        yield Call("DELETE", self.path(context), query_of(params, force=flag(params.get("force"))), accept=accept)


class _StopType(_MlType):
    """Closes a job or stops a datafeed."""

    def path(self, context: TaskContext) -> str:
        raise NotImplementedError

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        query = query_of(params, force=flag(params.get("force")), timeout=params.get("timeout"))
        yield Call("POST", self.path(context), query)


class CreateMlJob(_MlType):
    name = "create-ml-job"
    traits = ADMINISTRATIVE
    doc = "Create an anomaly detection job."
    parameters = {"job-id": _JOB, "body": BODY, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        yield Call("PUT", _job(context), query_of(context.params), context.params["body"])


class DeleteMlJob(_DeleteType):
    name = "delete-ml-job"
    traits = ADMINISTRATIVE
    doc = "Delete an anomaly detection job."
    parameters = {"job-id": _JOB, "force": _FORCE, "only-if-exists": ONLY_IF_EXISTS, "request-params": QUERY}

    def path(self, context: TaskContext) -> str:
        return _job(context)


class OpenMlJob(_MlType):
    name = "open-ml-job"
    traits = ADMINISTRATIVE
    doc = "Open an anomaly detection job."
    parameters = {"job-id": _JOB, "body": Parameter("the request's body", (dict,)), "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        yield Call("POST", _job(context, "/_open"), query_of(context.params), context.params.get("body"))


class CloseMlJob(_StopType):
    name = "close-ml-job"
    traits = ADMINISTRATIVE
    doc = "Close an anomaly detection job."
    parameters = {"job-id": _JOB, "force": _FORCE, "timeout": _TIMEOUT, "request-params": QUERY}

    def path(self, context: TaskContext) -> str:
        return _job(context, "/_close")


class CreateMlDatafeed(_MlType):
    name = "create-ml-datafeed"
    traits = ADMINISTRATIVE
    doc = "Create a datafeed of a job."
    parameters = {"datafeed-id": _DATAFEED, "body": BODY, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        yield Call("PUT", _datafeed(context), query_of(context.params), context.params["body"])


class DeleteMlDatafeed(_DeleteType):
    name = "delete-ml-datafeed"
    traits = ADMINISTRATIVE
    doc = "Delete a datafeed."
    parameters = {"datafeed-id": _DATAFEED, "force": _FORCE, "only-if-exists": ONLY_IF_EXISTS, "request-params": QUERY}

    def path(self, context: TaskContext) -> str:
        return _datafeed(context)


class StartMlDatafeed(_MlType):
    name = "start-ml-datafeed"
    traits = ADMINISTRATIVE
    doc = "Start a datafeed."
    parameters = {
        "datafeed-id": _DATAFEED,
        "body": Parameter("the request's body, instead of the three below", (dict,)),
        "start": Parameter("time of the first document", (str, int)),
        "end": Parameter("time of the last document; none: it goes on", (str, int)),
        "timeout": _TIMEOUT,
        "request-params": QUERY,
    }

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        own = {name: params[name] for name in ("start", "end", "timeout") if params.get(name) is not None}
        body = params.get("body") or own or None
        yield Call("POST", _datafeed(context, "/_start"), query_of(params), body)


class StopMlDatafeed(_StopType):
    name = "stop-ml-datafeed"
    traits = ADMINISTRATIVE
    doc = "Stop a datafeed."
    parameters = {"datafeed-id": _DATAFEED, "force": _FORCE, "timeout": _TIMEOUT, "request-params": QUERY}

    def path(self, context: TaskContext) -> str:
        return _datafeed(context, "/_stop")
