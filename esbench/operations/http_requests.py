"""Requests to any HTTP server, one after the other, as a Loadgen file has them.

A value is drawn at each occurrence of its variable, and written as it is: quotes around it are the text's own.
A single request is a template; several, or one that decides from replies, are a script.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from esbench.errors import TrackError, did_you_mean
from esbench.measure.verdict import CONNECTION_ERRORS, GOOD, TIMEOUT, Verdict
from esbench.operations.base import MEASURED, OperationType, TaskContext
from esbench.operations.conditions import Condition, ReplyFacts, condition_of
from esbench.operations.drawn import insist
from esbench.operations.parameters import SECONDS, Parameter, flag, whole
from esbench.operations.replies import http_failure, judge_raw_bulk
from esbench.requests.exchange import Exchange, RequestBytes, RequestFailed, Script, ScriptSession
from esbench.requests.programs import Judge, Program, Request
from esbench.requests.repeated import Drawing, RepeatedProgram
from esbench.requests.templates import Encoding, RequestTemplate, Slot, encode, parse, plain
from esbench.requests.variables import Drawn, Places, ValueSource
from esbench.units import parse_duration

INVALID = "invalid"  # the kind of failure of an assert that does not hold
NOT_FOUND = b"not_found"  # in place of a value that no reply has given yet
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")  # HEAD has a length without a body
_ELAPSED, _HEADER = "_ctx.elapsed", "_ctx.response.header"

_REQUEST: Mapping[str, Parameter] = {
    "name": Parameter("its row, under the task's", (str,)),
    "method": Parameter("the HTTP method", (str,), "GET"),
    "path": Parameter("path and query string, beginning with /", required=True),
    "host": Parameter("the host of the race, HOST:PORT, that it goes to: of all requests or of none", (str,)),
    "headers": Parameter("its HTTP headers", (dict,)),
    "body": Parameter("the body", (str,)),
    "repeat": Parameter("how often the body stands in the request", (int,), 1, least=1),
    "once": Parameter("names, each for one draw of a variable in the whole request", (dict,)),
    "once-per-repetition": Parameter("names, each for one draw of a variable in each repetition of the body", (dict,)),
    "times": Parameter("how often it is sent", (int,), 1, least=1),
    "register": Parameter("names for values of the reply, by their paths: `_ctx.response.body_json.id`", (dict,)),
    "assert": Parameter("conditions on the reply: equals, contains, range ... and, or, not", (dict,)),
    "pause": Parameter("the pause after it", SECONDS, duration=True),
}


class HttpRequests(OperationType):
    name = "http-requests"
    traits = replace(MEASURED, any_server=True)
    doc = (
        "Requests to any HTTP server, in order, each with its own row. Values are drawn at each occurrence and written "
        "as they are. A failed request is counted, and the following ones are sent all the same, unless its `assert` "
        "does not hold. A reply is good if its status is below 400 and, where the path ends in `_bulk`, no document "
        "was refused. An `assert` decides alone: whatever the status is, and whether or not documents were refused."
    )
    parameters = {
        "requests": Parameter(
            "the requests: " + "; ".join(f"`{name}`: {each.doc}" for name, each in _REQUEST.items()),
            (list,),
            required=True,
        ),
        "ends-when-invalid": Parameter("end a turn at an `assert` that does not hold", (bool,), True),
    }

    def names(self, params: Mapping[str, Any]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for each in params.get("requests") or ():
            if isinstance(each, Mapping):
                found |= dict.fromkeys(each.get("register") or (), "")
                found |= {**(each.get("once") or {}), **(each.get("once-per-repetition") or {})}
        return found

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        if not params["requests"]:
            raise TrackError('"requests" is empty', where=where)
        for number, request in enumerate(params["requests"], 1):
            _check(request, f"request {number}", where)
        if len({bool(request.get("host")) for request in params["requests"]}) > 1:
            raise TrackError("some requests name a host, and some none", where=where, hint="name it in all, or in none")

    def connections(self, params: Mapping[str, Any]) -> int:
        return len(_hosts(params["requests"])) or 1

    def compile(self, context: TaskContext) -> Program:
        requests = context.params["requests"]
        if len(requests) == 1 and not _decides(requests[0]):
            (request,) = requests
            return RepeatedProgram(context, [(_request(context, request, _judge(request)), _drawing(request))])
        return _SequenceProgram(context, requests)


def _check(request: Any, name: str, where: str) -> None:
    """Raise TrackError for a request that cannot be sent."""
    if not isinstance(request, Mapping):
        raise TrackError(f"{name}: expected a mapping, not {str(request)[:100]}", where=where)
    for key, value in request.items():
        if key not in _REQUEST:
            raise TrackError(f'{name}: unknown key "{key}"', where=where, hint=did_you_mean(str(key), _REQUEST))
        if value is not None:
            _REQUEST[key].check(key, value, where)
    if not str(request.get("path") or "").startswith("/"):
        raise TrackError(f'{name}: "path" must begin with "/", not {request.get("path")!r}', where=where)
    if (method := str(request.get("method") or "GET").upper()) not in METHODS:
        raise TrackError(f'{name}: unknown method "{method}"', where=where, hint=f"one of {', '.join(METHODS)}")
    if request.get("assert") is not None:
        condition_of(request["assert"], f"{where}: {name}".removeprefix(": "))


def _decides(request: Mapping[str, Any]) -> bool:
    """True for a request that needs more than its template: a host, a pause, what its reply has ..."""
    needs = ((whole(request.get("times")) or 1) > 1, *map(request.get, ("host", "register", "pause")))
    condition = json.dumps(request.get("assert"))
    return any(needs) or _ELAPSED in condition or _HEADER in condition


def _drawing(request: Mapping[str, Any]) -> Drawing:
    return Drawing(
        repeat=whole(request.get("repeat")) or 1,
        each_occurrence=True,
        once=request.get("once") or {},
        once_per_repetition=request.get("once-per-repetition") or {},
    )


def _request(context: TaskContext, request: Mapping[str, Any], judge: Judge, name: str = "") -> Request:
    """Return a request whose values are written as they are."""
    body, headers = request.get("body"), {str(key): plain(each) for key, each in (request.get("headers") or {}).items()}
    if request.get("host"):  # its connection may have been made for another one
        headers = {"Host": request["host"], **headers}
    template = RequestTemplate.of(
        request.get("method") or "GET",
        request["path"],
        headers=headers,
        body="" if body else None,
        where=context.where,
    )
    target = tuple(
        replace(part, encoding=Encoding.TARGET) if isinstance(part, Slot) else part for part in template.target
    )
    lines = tuple(parse(body, Encoding.TEXT)) if body else None
    return Request(RequestTemplate(template.method, target, template.headers, lines), judge, name)


def _judge(request: Mapping[str, Any]) -> Judge:
    """Return the judge of a reply by its status, or by the request's `assert` alone."""
    if request.get("assert") is not None:
        condition = condition_of(request["assert"], "")
        return lambda status, body, drawn: _held(condition, ReplyFacts(status, body))
    if request["path"].partition("?")[0].endswith("_bulk"):
        return lambda status, body, drawn: judge_raw_bulk(status, body, drawn) if status < 300 else _plain(status, body)
    return lambda status, body, drawn: _plain(status, body)


def _plain(status: int, body: bytes) -> Verdict:
    return GOOD if status < 400 else http_failure(status, body)


def _held(condition: Condition, facts: ReplyFacts) -> Verdict:
    failure = condition(facts)
    return Verdict(0, INVALID, failure) if failure else GOOD


class _Registered:
    """The source of a value that a reply has given: until then that of the variable of its name, if there is one."""

    at_send = True

    def __init__(self, values: Mapping[str, Any], name: str, places: Places, before: ValueSource) -> None:
        self._values, self._name, self._before = values, name, before
        self._encodings = [encoding for _, encoding in places]

    def draw(self) -> Sequence[bytes]:
        if self._name not in self._values:
            return self._before.draw()
        value = self._values[self._name]
        return [encode(value, encoding) for encoding in self._encodings]


@dataclass(frozen=True)
class _Sent:
    """A request of a script: its program for one client, and what is done with its reply."""

    exchange: Exchange
    draw: Callable[[], Any]
    lane: int
    times: int
    condition: Condition | None
    register: Mapping[str, str]
    reads_headers: bool
    pause_s: float


class _SequenceProgram:
    """The program of requests that draw from the same sources; each client has what its replies have registered."""

    finite = False
    feed_waits = 0

    def __init__(self, context: TaskContext, requests: Sequence[Mapping[str, Any]]) -> None:
        declared = {each.name for each in (*context.variables, *context.task.operation.variables)}
        self._ends_when_invalid = flag(context.params.get("ends-when-invalid"), True)
        self._registered = {str(name) for request in requests for name in request.get("register") or {}}
        missing: ValueSource = Drawn(lambda: (NOT_FOUND,) * len(Encoding), at_send=True)  # at most one for each
        made = [
            (_request(context, request, _judge({**request, "assert": None}), name), _drawing(request))
            for request, name in zip(requests, _names(requests), strict=True)
        ]
        self._program = RepeatedProgram(context, made, dict.fromkeys(self._registered - declared, missing))
        named = _hosts(requests)
        self._hosts = tuple(_host(context, name) for name in named)
        lanes = [named.index(request["host"]) if named else 0 for request in requests]
        self._sent = [  # for the exchange and the draw of each client
            partial(
                _Sent,
                lane=lane,
                times=whole(request.get("times")) or 1,
                condition=condition_of(request["assert"], "") if request.get("assert") is not None else None,
                register=request.get("register") or {},
                reads_headers=_HEADER in json.dumps([request.get("register"), request.get("assert")]),
                pause_s=parse_duration(request.get("pause") or 0),
            )
            for request, lane in zip(requests, lanes, strict=True)
        ]

    def client(self, slot: int, headers: bytes) -> Script:
        values: dict[str, Any] = {}
        own = {
            name: _Registered(values, name, places, before)
            for name, (places, before) in self._program.drawn.items()
            if name in self._registered
        }
        clients = [self._program.exchanging(headers, number, own) for number in range(len(self._sent))]
        sent = [make(client.exchanges[0], client.draw) for make, client in zip(self._sent, clients, strict=True)]
        return _Sequence(sent, self._hosts, values, self._ends_when_invalid)

    def close(self) -> None:
        self._program.close()


def _names(requests: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Return the names of requests, each different."""
    names: list[str] = []
    for number, request in enumerate(requests, 1):
        name = str(request.get("name") or f"request-{number}")
        names.append(name if name not in names else f"{name}-{number}")
    return names


def _hosts(requests: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Return the hosts that requests name, each once."""
    return list(dict.fromkeys(request["host"] for request in requests if request.get("host")))


def _host(context: TaskContext, host: str) -> int:
    """Return the position of a host among those of the race. Raises TrackError for another host."""
    known = [str(each) for each in context.hosts]
    if host not in known:
        what = f'a request goes to "{host}", which is no host of the race'
        raise TrackError(what, where=context.where, hint=did_you_mean(host, known))
    return known.index(host)


class _Sequence:
    """The script of one client. `hosts`: the positions of the hosts that its lanes connect to; none: the client's own.

    A turn is one request after the other. It fails if one of them does; only an `assert` that does not hold ends it.
    """

    def __init__(
        self, requests: Sequence[_Sent], hosts: Sequence[int], values: dict[str, Any], ends_when_invalid: bool
    ) -> None:
        self._ends_when_invalid = ends_when_invalid
        self.connections = len(hosts) or 1
        self.hosts = hosts
        self.reads_headers = any(request.reads_headers for request in requests)
        self._requests = requests
        self._values = values

    async def run(self, session: ScriptSession) -> Verdict:
        failure: RequestFailed | None = None
        for request in self._requests:
            lane, drawn = session.lanes[request.lane], request.draw()
            rendered = request.exchange.render(drawn)  # the same each time
            for _ in range(request.times):
                try:
                    with lane.part(request.exchange.name):
                        await self._send(lane, request, drawn, rendered)
                except RequestFailed as failed:
                    if failed.kind == INVALID and self._ends_when_invalid:
                        raise
                    failure = max(failure or failed, failed, key=_weight)
                if request.pause_s:
                    await session.pause(request.pause_s)
        if failure is not None:
            raise failure
        return GOOD

    async def _send(self, lane: ScriptSession, request: _Sent, drawn: Any, rendered: RequestBytes) -> None:
        """Send a request, register what its reply has, and judge it. Raises RequestFailed for a failure."""
        begun_s = time.monotonic()
        reply = await lane.send(rendered)
        elapsed_ms = int(1000 * (time.monotonic() - begun_s))
        facts = ReplyFacts(reply.status, reply.body, elapsed_ms, self._values, reply.headers)
        missing = ""
        for name, path in request.register.items():
            try:
                self._values[name] = facts.get(str(path))
            except KeyError:
                missing = f"the reply has no {path} to register as {name}"
        if request.condition is not None:
            insist(_held(request.condition, facts))
        else:
            insist(request.exchange.judge(reply.status, reply.body, drawn))
        if missing:
            raise RequestFailed("nothing to register", missing)


def _weight(failure: RequestFailed) -> int:
    """Return how much a failure says of its turn, which is counted as one: an `assert` most, a status least."""
    return 2 if failure.kind == INVALID else 1 if failure.kind in (*CONNECTION_ERRORS, TIMEOUT) else 0


TYPES = (HttpRequests(),)
