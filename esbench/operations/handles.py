"""Operations on what a server keeps under an id for a while: points in time and async searches.

They are requests of a composite: one opens or submits, and notes the id under its name; the others name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError
from esbench.operations.base import ClientProgram, OperationType, Program, Script, Session, TaskContext, Verdict
from esbench.operations.drawn import Exchanges, ProgramOfScripts
from esbench.operations.needs import needing
from esbench.operations.pagination import noted
from esbench.operations.parameters import Parameter
from esbench.operations.replies import judge_plain
from esbench.operations.scripts import ask
from esbench.operations.search import TARGET, target
from esbench.operations.traits import REQUEST
from esbench.requests.programs import ScriptProgram, common_headers
from esbench.requests.templates import RequestTemplate

POINTS_IN_TIME = Feature("points in time", (7, 10), (2, 4))
ASYNC_SEARCHES = Feature("async searches", (7, 7))
_QUERY = Parameter("query string parameters", (dict,))


class _PartOfComposite(OperationType):
    """An operation that has no meaning outside of a composite."""

    def check(self, params: Mapping[str, Any], where: str) -> None:
        raise TrackError(f'"{self.name}" can only be a request of a composite', where=where)

    def check_part(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)


class _NotingProgram(ProgramOfScripts):
    """One request whose reply has an id under `key`, noted under the operation's name."""

    def __init__(self, context: TaskContext, template: RequestTemplate, key: str, feature: Feature) -> None:
        super().__init__(context, template, needing(feature, context, judge_plain))
        self._name = context.task.operation.name
        self._key = key

    def client(self, slot: int, headers: bytes) -> Script:
        return _Noting(self.templates.client(slot, headers), self._name, self._key)


class _Noting(Exchanges):
    def __init__(self, program: ClientProgram, name: str, key: str) -> None:
        super().__init__(program)
        self._name = name
        self._key = key

    async def play(self, session: Session, drawn: Any) -> Verdict:
        verdict = await super().play(session, drawn)
        if verdict.error is None and session.answer is not None:
            # an async search that ended in time may have no id: there is nothing to fetch any more
            session.notes[self._name] = str(session.answer.json().get(self._key) or "")
        return verdict


class OpenPointInTime(_PartOfComposite):
    name = "open-point-in-time"
    traits = REQUEST
    doc = "In a composite: open a point in time for those who name this request in `with-point-in-time-from`."
    feature = POINTS_IN_TIME
    parameters = {
        **TARGET,
        "keep-alive": Parameter("how long it stays open", default="1m"),
        "request-params": _QUERY,
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        opensearch = context.dialect.distribution == "opensearch"
        template = RequestTemplate.of(
            "POST",
            f"{target(context)}/_search/point_in_time" if opensearch else f"{target(context)}/_pit",
            query={"keep_alive": params.get("keep-alive") or "1m", **(params.get("request-params") or {})},
            headers=common_headers(params),
            where=context.where,
        )
        return _NotingProgram(context, template, "pit_id" if opensearch else "id", POINTS_IN_TIME)


class ClosePointInTime(_PartOfComposite):
    name = "close-point-in-time"
    traits = REQUEST
    doc = "In a composite: close a point in time."
    feature = POINTS_IN_TIME
    parameters = {"with-point-in-time-from": Parameter("the name of its open-point-in-time", required=True)}

    def compile(self, context: TaskContext) -> Program:
        opensearch = context.dialect.distribution == "opensearch"
        return ScriptProgram(_Close(context.params["with-point-in-time-from"], opensearch), context.params)


class _Close:
    def __init__(self, name: str, opensearch: bool) -> None:
        self._name = name
        self._opensearch = opensearch

    async def run(self, session: Session) -> Verdict:
        pit = noted(session, self._name)
        if self._opensearch:
            await ask(session, "DELETE", "/_search/point_in_time", body={"pit_id": [pit]})
        else:
            await ask(session, "DELETE", "/_pit", body={"id": pit})
        del session.notes[self._name]
        return Verdict()


class SubmitAsyncSearch(_PartOfComposite):
    name = "submit-async-search"
    traits = REQUEST
    doc = "In a composite: submit an async search for those who name this request."
    feature = ASYNC_SEARCHES
    parameters = {
        **TARGET,
        "body": Parameter("the search body, with variables", (dict, str), required=True),
        "request-params": _QUERY,
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        template = RequestTemplate.of(
            "POST",
            f"{target(context)}/_async_search",
            query=params.get("request-params"),
            headers=common_headers(params),
            body=params["body"],
            where=context.where,
        )
        return _NotingProgram(context, template, "id", ASYNC_SEARCHES)


@dataclass(frozen=True)
class _OnSearches:
    """What is asked of the async searches that were submitted under these names."""

    names: tuple[str, ...]
    query: Mapping[str, Any]

    @classmethod
    def of(cls, params: Mapping[str, Any], key: str) -> Self:
        """`key` is the parameter that has the names."""
        named = params[key]
        names = (named,) if isinstance(named, str) else tuple(map(str, named))
        return cls(names, dict(params.get("request-params") or {}))


class GetAsyncSearch(_PartOfComposite):
    name = "get-async-search"
    traits = REQUEST
    doc = "In a composite: get the results of async searches, which must be there; ended ones without id are left out."
    feature = ASYNC_SEARCHES
    parameters = {
        "retrieve-results-for": Parameter("names of submit-async-search requests", (str, list), required=True),
        "request-params": _QUERY,
    }

    def compile(self, context: TaskContext) -> Program:
        return ScriptProgram(_GetResults.of(context.params, "retrieve-results-for"), context.params)


class _GetResults(_OnSearches):
    async def run(self, session: Session) -> Verdict:
        for name in self.names:
            if not (search := session.notes.get(name)):
                continue
            reply = (await ask(session, "GET", _path(search), params=self.query)).json()
            if reply["is_running"]:
                return Verdict(0, "search still running", f'the async search "{name}" has not ended yet')
        return Verdict()


class DeleteAsyncSearch(_PartOfComposite):
    name = "delete-async-search"
    traits = REQUEST
    doc = "In a composite: delete async searches and their results."
    feature = ASYNC_SEARCHES
    parameters = {
        "delete-results-for": Parameter("names of submit-async-search requests", (str, list), required=True),
        "request-params": _QUERY,
    }

    def compile(self, context: TaskContext) -> Program:
        return ScriptProgram(_DeleteResults.of(context.params, "delete-results-for"), context.params)


class _DeleteResults(_OnSearches):
    async def run(self, session: Session) -> Verdict:
        for name in self.names:
            if search := session.notes.pop(name, ""):
                await ask(session, "DELETE", _path(search), params=self.query)
        return Verdict()


def _path(search: str) -> str:
    return f"/_async_search/{quote(search, safe='')}"


TYPES = (OpenPointInTime(), ClosePointInTime(), SubmitAsyncSearch(), GetAsyncSearch(), DeleteAsyncSearch())
