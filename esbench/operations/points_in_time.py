"""Operations on resources that a server keeps under an id for a limited time: points in time and async searches.

They are requests of a composite: one opens or submits and stores the id under its name; the others refer to that name.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError
from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.administrative import QUERY, ask, query_of
from esbench.operations.base import READ, OperationType, TaskContext, Traits
from esbench.operations.drawn import Exchanges
from esbench.operations.pagination import noted
from esbench.operations.parameters import Parameter
from esbench.operations.replies import judge_plain, needing
from esbench.operations.search import TARGET, target
from esbench.requests.exchange import ClientProgram, Script, ScriptSession
from esbench.requests.programs import Program, Request, ScriptProgram, TemplateProgram, template_of
from esbench.requests.templates import RequestTemplate

POINTS_IN_TIME = Feature("points in time", (7, 10), (2, 4))
ASYNC_SEARCHES = Feature("async searches", (7, 7))


@dataclass(frozen=True, eq=False)
class PartOfComposite(OperationType):
    """An operation type, as a table row, that is allowed inside a composite only."""

    name: str
    doc: str
    parameters: Mapping[str, Parameter] = field()  # not the empty one of the base
    program: Callable[[TaskContext], Program]
    feature: Feature | None
    traits: Traits = READ
    draws: bool = False

    def check(self, params: Mapping[str, Any], where: str) -> None:
        raise TrackError(f'"{self.name}" can only be a request of a composite', where=where)

    def check_part(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)

    def compile(self, context: TaskContext) -> Program:
        return self.program(context)


class _NotingProgram(TemplateProgram):
    """The program of one request; the session stores the id under `key` of the reply, by the operation's name."""

    def __init__(self, context: TaskContext, template: RequestTemplate, key: str, feature: Feature) -> None:
        super().__init__(context, [Request(template, needing(feature, context, judge_plain))])
        self._name = context.task.operation.name
        self._key = key

    def client(self, slot: int, headers: bytes) -> Script:
        return _Noting(self.exchanging(headers), self._name, self._key)


class _Noting(Exchanges):
    def __init__(self, program: ClientProgram, name: str, key: str) -> None:
        super().__init__(program)
        self._name = name
        self._key = key

    async def play(self, session: ScriptSession, drawn: Any) -> Verdict:
        verdict = await super().play(session, drawn)
        if verdict.error is None and session.answer is not None:
            # an async search that ended in time may have no id: there is nothing to fetch any more
            session.notes[self._name] = str(session.answer.json().get(self._key) or "")
        return verdict


def _open(context: TaskContext) -> Program:
    params = context.params
    opensearch = context.dialect.distribution == "opensearch"
    template = template_of(
        context,
        "POST",
        f"{target(context)}/_search/point_in_time" if opensearch else f"{target(context)}/_pit",
        query=query_of(params, keep_alive=params.get("keep-alive") or "1m"),
    )
    return _NotingProgram(context, template, "pit_id" if opensearch else "id", POINTS_IN_TIME)


def _script(
    run: Callable[[TaskContext, ScriptSession], Coroutine[Any, Any, Verdict]],
) -> Callable[[TaskContext], Program]:
    """Return the `program` function of a script."""
    return lambda context: ScriptProgram(partial(run, context), context.params)


@_script
async def _close(context: TaskContext, session: ScriptSession) -> Verdict:
    name = context.params["with-point-in-time-from"]
    pit = noted(session, name)
    if context.dialect.distribution == "opensearch":
        await ask(session, "DELETE", "/_search/point_in_time", body={"pit_id": [pit]})
    else:
        await ask(session, "DELETE", "/_pit", body={"id": pit})
    del session.notes[name]
    return GOOD


def _submit(context: TaskContext) -> Program:
    params = context.params
    template = template_of(
        context, "POST", f"{target(context)}/_async_search", query=params.get("request-params"), body=params["body"]
    )
    return _NotingProgram(context, template, "id", ASYNC_SEARCHES)


@_script
async def _get_results(context: TaskContext, session: ScriptSession) -> Verdict:
    for name in _names(context.params["retrieve-results-for"]):
        if not (search := session.notes.get(name)):
            continue
        if (await ask(session, "GET", _path(search), params=query_of(context.params))).json()["is_running"]:
            return Verdict(0, "search still running", f'the async search "{name}" has not ended yet')
    return GOOD


@_script
async def _delete_results(context: TaskContext, session: ScriptSession) -> Verdict:
    for name in _names(context.params["delete-results-for"]):
        if search := session.notes.pop(name, ""):
            await ask(session, "DELETE", _path(search), params=query_of(context.params))
    return GOOD


def _names(named: Any) -> tuple[str, ...]:
    return (named,) if isinstance(named, str) else tuple(map(str, named))


def _path(search: str) -> str:
    return f"/_async_search/{quote(search, safe='')}"


OPEN_POINT_IN_TIME = PartOfComposite(
    "open-point-in-time",
    "In a composite: open a point in time for those who name this request in `with-point-in-time-from`.",
    {**TARGET, "keep-alive": Parameter("how long it stays open", default="1m"), "request-params": QUERY},
    _open,
    POINTS_IN_TIME,
    draws=True,
)
SUBMIT_ASYNC_SEARCH = PartOfComposite(
    "submit-async-search",
    "In a composite: submit an async search for those who name this request.",
    {
        **TARGET,
        "body": Parameter("the search body, with variables", (dict, str), required=True),
        "request-params": QUERY,
    },
    _submit,
    ASYNC_SEARCHES,
    draws=True,
)
_SEARCHES = Parameter("names of submit-async-search requests", (str, list), required=True)

TYPES = (
    OPEN_POINT_IN_TIME,
    PartOfComposite(
        "close-point-in-time",
        "In a composite: close a point in time.",
        {"with-point-in-time-from": Parameter("the name of its open-point-in-time", required=True)},
        _close,
        POINTS_IN_TIME,
    ),
    SUBMIT_ASYNC_SEARCH,
    PartOfComposite(
        "get-async-search",
        "In a composite: get the results of async searches, which must be there; ended ones without id are left out.",
        {"retrieve-results-for": _SEARCHES, "request-params": QUERY},
        _get_results,
        ASYNC_SEARCHES,
    ),
    PartOfComposite(
        "delete-async-search",
        "In a composite: delete async searches and their results.",
        {"delete-results-for": _SEARCHES, "request-params": QUERY},
        _delete_results,
        ASYNC_SEARCHES,
    ),
)
