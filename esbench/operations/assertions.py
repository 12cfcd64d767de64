"""Assertions of an operation: conditions on its last reply. A failed one ends the race, as in Rally.

They are checked if a task has any: without --enable-assertions a race removes them beforehand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from esbench.errors import TrackError
from esbench.measure.verdict import ASSERTION, Verdict
from esbench.model import Challenge, Task
from esbench.requests.exchange import (
    ClientProgram,
    Concurrent,
    HttpScript,
    Reply,
    RequestFailed,
    Script,
    ScriptSession,
)

CONDITIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}
_MISSING = object()
# Names that Rally gives to what replies call otherwise.
_NAMES = {"cluster-status": "status", "relocating-shards": "relocating_shards"}


def check_assertions(assertions: Sequence[Any], where: str) -> None:
    """Raise TrackError for an invalid assertion."""
    for assertion in assertions:
        if not isinstance(assertion, Mapping) or not {"property", "condition", "value"} <= set(assertion):
            what = f'an assertion has "property", "condition" and "value": {str(assertion)[:100]}'
            raise TrackError(what, where=where)
        if (condition := str(assertion["condition"])) not in CONDITIONS:
            raise TrackError(
                f'unknown condition "{condition}" of an assertion', where=where, hint=f"one of {' '.join(CONDITIONS)}"
            )


def without_assertions(challenge: Challenge) -> Challenge:
    """Return the challenge with all assertions removed."""
    steps = tuple(replace(step, tasks=tuple(_bare(task) for task in step.tasks)) for step in challenge.steps)
    return replace(challenge, steps=steps)


def _bare(task: Task) -> Task:
    return replace(task, operation=replace(task.operation, params=_without(task.operation.params)))


def _without(value: Any) -> Any:
    """Return parameters, and those of the requests in them, without assertions."""
    bare = {key: inner for key, inner in value.items() if key != "assertions"}
    for key in ("requests", "stream"):
        if isinstance(bare.get(key), list):
            bare[key] = [_without(inner) if isinstance(inner, Mapping) else inner for inner in bare[key]]
    return bare


def asserting(compiled: ClientProgram | Script, params: Mapping[str, Any]) -> ClientProgram | Script:
    """Return a client's program or script with the assertions in `params`; unchanged if these have no assertions."""
    assertions = params.get("assertions")
    if not assertions:
        return compiled
    if isinstance(compiled, HttpScript):
        return _HttpScript(compiled, assertions)
    return _Script(compiled, assertions) if isinstance(compiled, Script) else _Program(compiled, assertions)


class _Program:
    """A client program that checks assertions on its last reply."""

    def __init__(self, program: ClientProgram, assertions: Sequence[Mapping[str, Any]]) -> None:
        *others, last = program.exchanges
        self.draw = program.draw

        def judge(status: int, body: bytes, drawn: Any) -> Verdict:
            return asserted(last.judge(status, body, drawn), Reply(status, body), assertions)

        self.exchanges = (*others, replace(last, judge=judge))


class _Script:
    """A script that checks assertions on its last reply."""

    def __init__(self, script: Script, assertions: Sequence[Mapping[str, Any]]) -> None:
        self.connections = script.connections if isinstance(script, Concurrent) else 1
        self._script = script
        self._assertions = assertions

    async def run(self, session: ScriptSession) -> Verdict:
        return asserted(await self._script.run(session), session.answer, self._assertions)


class _HttpScript(_Script):
    """A script of requests to any HTTP server that checks assertions on each reply."""

    def __init__(self, script: HttpScript, assertions: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(script, assertions)
        self.hosts = script.hosts
        self.reads_headers = script.reads_headers
        self.advance = script.advance
        self._http = script

    @property
    def rest_s(self) -> float:
        return self._http.rest_s

    @property
    def turn_is_over(self) -> bool:
        return self._http.turn_is_over


def asserted(verdict: Verdict, reply: Reply | None, assertions: Sequence[Mapping[str, Any]]) -> Verdict:
    """Return the verdict; if it is good and an assertion does not hold for the reply, an assertion failure instead.

    A property that is missing or cannot be compared does not hold; a reply that is None or no JSON object has only
    those of the verdict (`weight`, `pages`, `success`). `assertions` must have passed `check_assertions`.
    """
    if verdict.error is not None or not assertions:
        return verdict
    try:
        content: Mapping[str, Any] = reply.json() if reply is not None else {}
    except RequestFailed:
        content = {}  # a reply that is no JSON has no properties
    for assertion in assertions:
        name, condition, wanted = assertion["property"], assertion["condition"], assertion["value"]
        found = _property(str(name), content, verdict)
        if found is _MISSING:
            return Verdict(0, ASSERTION, f"the reply has no {name}, which should be {condition} {wanted}")
        try:
            holds = CONDITIONS[condition](found, wanted)
        except TypeError:
            holds = False  # not of a kind
        if not holds:
            return Verdict(0, ASSERTION, f"{name} should be {condition} {wanted}, and is {found}")
    return verdict


def _property(name: str, content: Mapping[str, Any], verdict: Verdict) -> Any:
    """Return a property, by Rally's name or by a path of keys into the reply, `hits.total.value`; else _MISSING."""
    hits = content.get("hits")
    if name in ("hits", "hits_relation") and isinstance(hits, Mapping):
        total = hits.get("total", _MISSING)
        if isinstance(total, Mapping):
            return total.get("value" if name == "hits" else "relation", _MISSING)
        return total if name == "hits" or total is _MISSING else "eq"
    if name in ("weight", "pages"):
        return verdict.units
    if name == "success":
        return True
    value: Any = content
    for key in _NAMES.get(name, name).split("."):
        value = value.get(key, _MISSING) if isinstance(value, Mapping) else _MISSING
    return value
