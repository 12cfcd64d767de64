"""What a cluster keeps beside its indices: ingest pipelines, lifecycle policies, enrich policies, settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError
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

ILM = Feature("lifecycle policies", (6, 6))
ENRICH = Feature("enrich policies", (7, 5))
_PIPELINE = Parameter("the pipeline's name", required=True)
_POLICY = Parameter("the policy's name", required=True)


class PutSettings(RequestType):
    name = "put-settings"
    traits = ADMINISTRATIVE
    doc = "Change settings of the cluster."
    parameters = {"body": BODY, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        yield Call("PUT", "/_cluster/settings", query_of(context.params), context.params["body"])


class PutPipeline(RequestType):
    name = "put-pipeline"
    traits = replace(ADMINISTRATIVE, node_features=frozenset({"ingest-processors"}))
    doc = "Create or replace an ingest pipeline."
    parameters = {"id": _PIPELINE, "body": BODY, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        yield Call("PUT", f"/_ingest/pipeline/{segment(params['id'])}", query_of(params), params["body"])


class DeletePipeline(RequestType):
    name = "delete-pipeline"
    traits = ADMINISTRATIVE
    doc = "Delete an ingest pipeline."
    parameters = {"id": _PIPELINE, "only-if-exists": ONLY_IF_EXISTS, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        yield Call("DELETE", f"/_ingest/pipeline/{segment(params['id'])}", query_of(params), accept=if_exists(params))


class CreateIlmPolicy(RequestType):
    name = "create-ilm-policy"
    traits = ADMINISTRATIVE
    doc = "Create or replace a lifecycle policy."
    feature = ILM
    parameters = {"policy-name": _POLICY, "body": BODY, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        yield Call("PUT", f"/_ilm/policy/{segment(params['policy-name'])}", query_of(params), params["body"])


class DeleteIlmPolicy(RequestType):
    name = "delete-ilm-policy"
    traits = ADMINISTRATIVE
    doc = "Delete a lifecycle policy."
    feature = ILM
    parameters = {"policy-name": _POLICY, "only-if-exists": ONLY_IF_EXISTS, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        path = f"/_ilm/policy/{segment(params['policy-name'])}"
        yield Call("DELETE", path, query_of(params), accept=if_exists(params))


class EnrichPolicy(RequestType):
    name = "enrich-policy"
    traits = ADMINISTRATIVE
    doc = "Create enrich policies and execute them, so that pipelines can use them."
    feature = ENRICH
    parameters = {
        "policies": Parameter('name -> body, or a list of {"name": ..., "body": ...}', (dict, list), required=True),
        "delete": Parameter("delete policies of these names first", (bool,), False),
        "request-params": QUERY,
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        _policies(params, where)

    def calls(self, context: TaskContext) -> Iterable[Call]:
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
