"""Operation types for cluster-wide resources: pipelines, policies, settings, data streams, machine learning jobs.

They only send requests: the results of a job are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError
from esbench.model import DataStream
from esbench.operations.administrative import (
    BODY,
    ONLY_IF_EXISTS,
    QUERY,
    AdministrativeType,
    Call,
    in_turn,
    query_of,
    request,
    segment,
)
from esbench.operations.base import ADMINISTRATIVE, MEASURED, OF_THE_CLUSTER, ON_NO_SERVERLESS, TaskContext
from esbench.operations.parameters import Parameter, flag

DATA_STREAMS = Feature("data streams", (7, 9), (1, 0), node="data-streams")
ENRICH = Feature("enrich policies", (7, 5), node="enrich-policies")
ILM = Feature("lifecycle policies", (6, 6), node="lifecycle-policies")
ML = Feature("machine learning", (5, 4), node="machine-learning")


def _enrich(context: TaskContext) -> Iterable[Call]:
    params = context.params
    for name, body in _policies(params, context.where).items():
        path = f"/_enrich/policy/{segment(name)}"
        if flag(params.get("delete")):
            yield Call("DELETE", path, accept=(404,))
        yield Call("PUT", path, query_of(params), body)
        yield Call("PUT", f"{path}/_execute", query_of(params))


def _policies(params: Mapping[str, Any], where: str) -> dict[str, Any]:
    given = params["policies"]
    if isinstance(given, list):
        if not all(isinstance(policy, dict) and {"name", "body"} <= set(policy) for policy in given):
            raise TrackError('each of "policies" needs "name" and "body"', where=where)
        given = {str(policy["name"]): policy["body"] for policy in given}
    if not all(isinstance(body, dict) for body in given.values()):
        raise TrackError('the body of each of "policies" must be an object', where=where)
    return dict(given)


def _create_data_streams(context: TaskContext) -> Iterable[Call]:
    for name in _data_streams(context):
        yield Call("PUT", f"/_data_stream/{segment(name)}", query_of(context.params), empties=name)


def _delete_data_streams(context: TaskContext) -> Iterable[Call]:
    # 405: a server that does not support data streams holds no such stream
    accept = (404, 405) if flag(context.params.get("only-if-exists"), True) else ()
    for name in _data_streams(context):
        yield Call("DELETE", f"/_data_stream/{segment(name)}", query_of(context.params), accept=accept, empties=name)


def _data_streams(context: TaskContext) -> list[str]:
    if not (names := _named_streams(context.params, context.data_streams)):
        raise TrackError("the track has no data stream", where=context.where, hint='give the operation a "data-stream"')
    return names


def _named_streams(params: Mapping[str, Any], streams: Sequence[DataStream]) -> list[str]:
    given = params.get("data-stream")
    names = [stream.name for stream in streams] if given is None else given
    return names.split(",") if isinstance(names, str) else [str(name) for name in names]


def _force(context: TaskContext) -> dict[str, Any]:
    return {"force": flag(context.params.get("force"))}


def _force_and_timeout(context: TaskContext) -> dict[str, Any]:
    return {**_force(context), "timeout": context.params.get("timeout")}


def _start(params: Mapping[str, Any]) -> Any:
    own = {name: params[name] for name in ("start", "end", "timeout") if params.get(name) is not None}
    return params.get("body") or own or None


_PIPELINE = Parameter("the pipeline's name", required=True)
_POLICY = {"policy-name": Parameter("the policy's name", required=True)}
_POLICY_PATH = "/_ilm/policy/{policy-name}"
_STREAMS = Parameter("those of the track by default", (str, list))
_JOB = {"job-id": Parameter("the job's id", required=True)}
_JOB_PATH = "{dialect.ml}/anomaly_detectors/{job-id}"
_FEED = {"datafeed-id": Parameter("the datafeed's id", required=True)}
_FEED_PATH = "{dialect.ml}/datafeeds/{datafeed-id}"
_FORCE = {"force": Parameter("whatever its state is", (bool,), False)}
_TIMEOUT = {"timeout": Parameter("how long the server waits for it", (str,))}
_ilm = partial(request, feature=ILM, traits=OF_THE_CLUSTER)
_ml = partial(request, feature=ML)

_NODES = replace(MEASURED, reads=True, not_on_serverless=ON_NO_SERVERLESS)
TYPES = (
    request("node-stats", "The statistics of all nodes.", "GET /_nodes/stats", {}, traits=_NODES),
    request(
        "put-settings",
        "Change settings of the cluster.",
        "PUT /_cluster/settings",
        {"body": BODY},
        traits=OF_THE_CLUSTER,
    ),
    request(
        "put-pipeline",
        "Create or replace an ingest pipeline.",
        "PUT /_ingest/pipeline/{id}",
        {"id": _PIPELINE, "body": BODY},
        traits=replace(ADMINISTRATIVE, node_features=frozenset({"ingest-processors"})),
    ),
    request("delete-pipeline", "Delete an ingest pipeline.", "DELETE /_ingest/pipeline/{id}", {"id": _PIPELINE}),
    _ilm(
        "create-ilm-policy", "Create or replace a lifecycle policy.", f"PUT {_POLICY_PATH}", {**_POLICY, "body": BODY}
    ),
    _ilm("delete-ilm-policy", "Delete a lifecycle policy.", f"DELETE {_POLICY_PATH}", _POLICY),
    AdministrativeType(
        "enrich-policy",
        "Create enrich policies and execute them, so that pipelines can use them.",
        {
            "policies": Parameter('name -> body, or a list of {"name": ..., "body": ...}', (dict, list), required=True),
            "delete": Parameter("delete policies of these names first", (bool,), False),
            "request-params": QUERY,
        },
        in_turn(_enrich),
        feature=ENRICH,
        refuse=_policies,
    ),
    AdministrativeType(
        "create-data-stream",
        "Create the track's data streams, or the named ones; a composable template must match them.",
        {"data-stream": _STREAMS, "request-params": QUERY},
        in_turn(_create_data_streams),
        traits=replace(ADMINISTRATIVE, creates="data-stream"),
        feature=DATA_STREAMS,
    ),
    AdministrativeType(
        "delete-data-stream",
        "Delete the track's data streams, or the named ones, with all that they hold.",
        {"data-stream": _STREAMS, "only-if-exists": ONLY_IF_EXISTS, "request-params": QUERY},
        in_turn(_delete_data_streams),
        traits=replace(ADMINISTRATIVE, deletes="data-stream"),
        deleted=lambda params, track: _named_streams(params, track.data_streams),
        feature=DATA_STREAMS,
    ),
    _ml("create-ml-job", "Create an anomaly detection job.", f"PUT {_JOB_PATH}", {**_JOB, "body": BODY}),
    _ml("delete-ml-job", "Delete an anomaly detection job.", f"DELETE {_JOB_PATH}", {**_JOB, **_FORCE}, query=_force),
    _ml(
        "open-ml-job",
        "Open an anomaly detection job.",
        f"POST {_JOB_PATH}/_open",
        {**_JOB, "body": Parameter("the request's body", (dict,))},
    ),
    _ml(
        "close-ml-job",
        "Close an anomaly detection job.",
        f"POST {_JOB_PATH}/_close",
        {**_JOB, **_FORCE, **_TIMEOUT},
        query=_force_and_timeout,
    ),
    _ml("create-ml-datafeed", "Create a datafeed of a job.", f"PUT {_FEED_PATH}", {**_FEED, "body": BODY}),
    _ml("delete-ml-datafeed", "Delete a datafeed.", f"DELETE {_FEED_PATH}", {**_FEED, **_FORCE}, query=_force),
    _ml(
        "start-ml-datafeed",
        "Start a datafeed.",
        f"POST {_FEED_PATH}/_start",
        {
            **_FEED,
            "body": Parameter("the request's body, instead of the three below", (dict,)),
            "start": Parameter("time of the first document", (str, int)),
            "end": Parameter("time of the last document; without it, no end", (str, int)),
            **_TIMEOUT,
        },
        body=_start,
    ),
    _ml(
        "stop-ml-datafeed",
        "Stop a datafeed.",
        f"POST {_FEED_PATH}/_stop",
        {**_FEED, **_FORCE, **_TIMEOUT},
        query=_force_and_timeout,
    ),
)
