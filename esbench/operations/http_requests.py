"""Requests to any HTTP server, one after the other, as a Loadgen file has them.

A value is drawn at each occurrence of its variable, and written as it is: quotes around it are the text's own.
A single request is a template; several, or one that decides from replies, are a script.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from esbench.errors import TrackError, did_you_mean
from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.base import MEASURED, OperationType, TaskContext, unsent
from esbench.operations.conditions import Condition, ReplyFacts, condition_of
from esbench.operations.drawn import insist
from esbench.operations.parameters import SECONDS, Parameter, flag, whole
from esbench.operations.registers import Register, registers_of
from esbench.operations.replies import http_failure, judge_raw_bulk
from esbench.operations.turns import Turns, check_turns
from esbench.record.model import HTTP_REQUESTS
from esbench.requests.exchange import Exchange, Exhausted, RequestBytes, RequestFailed, Script, ScriptSession
from esbench.requests.programs import Judge, Program, Request
from esbench.requests.repeated import Drawing, RepeatedProgram
from esbench.requests.templates import Encoding, RequestTemplate, Slot, encode, parse, plain
from esbench.requests.variables import Drawn, Places, ValueSource
from esbench.units import parse_duration

INVALID = "invalid"  # the kind of failure of an assert that does not hold
NOT_FOUND = b"not_found"  # in place of a value that no reply has given yet
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE")
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
    "once-per-client": Parameter(
        "each client sends it once, in its first turn; in the next one again if it fails", (bool,)
    ),
    "weight": Parameter("of adjacent requests with weights each turn has one, drawn by its weight", (int, float)),
    "times": Parameter("how often it is sent", (int,), 1, least=1),
    "register": Parameter(
        "names for values of the reply, by their paths: `_ctx.response.body_json.id`, `...hits.hits.0._id`, all of an "
        "array by `...hits.hits.*._id`; `{path: ...hits.hits.*._id, pick: one}` draws one of them",
        (dict,),
    ),
    "assert": Parameter("conditions on the reply: equals, contains, range ... and, or, not", (dict,)),
    "valid-statuses": Parameter("statuses from 400 on that are good", (list,)),
    "pause": Parameter("the pause after it, which is not part of any measured time", SECONDS, duration=True),
}


class HttpRequests(OperationType):
    name = HTTP_REQUESTS
    traits = replace(MEASURED, any_server=True)
    doc = (
        "Requests to any HTTP server, in order, each with its own row. All figures are of requests: `iterations`, "
        "`requests` and target rates count them, and an end may cut an iteration of all of them. Values are drawn at "
        "each occurrence and written as they are. A failed request is counted, and the following ones are still sent, "
        "unless its `assert` does not hold. A reply is good if its status is below 400 or among `valid-statuses` "
        "and, where the path ends in `_bulk`, no document was refused. An `assert` decides alone: whatever the status "
        "is, and whether or not documents were refused."
    )
    parameters = {
        "requests": Parameter(
            "the requests: "
            + "; ".join(f"`{name}`: {each.doc}" for name, each in _REQUEST.items())
            + "; `pause` alone is a pause between two of them",
            (list,),
            required=True,
        ),
        "turns": Parameter("how often each client sends all of them; as the task says by default", (int,), least=1),
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
        if not (sent := _sent(params["requests"])):
            raise TrackError('"requests" has pauses alone', where=where)
        check_turns(sent, where)
        if len({bool(request.get("host")) for request in sent}) > 1:
            raise TrackError("some requests name a host, and some none", where=where, hint="name it in all, or in none")

    def tolerated(self, params: Mapping[str, Any]) -> Iterator[TrackError]:
        yield from super().tolerated(params)
        for number, request in enumerate(params["requests"], 1):
            if fault := unsent(request.get("headers") or {}, f'"requests": request {number}'):
                yield fault

    def connections(self, params: Mapping[str, Any]) -> int:
        return len(_hosts(params["requests"])) or 1

    def compile(self, context: TaskContext) -> Program:
        requests = context.params["requests"]
        if len(requests) == 1 and not _decides(requests[0]) and not context.params.get("turns"):
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
    if set(request) == {"pause"}:
        return
    if not str(request.get("path") or "").startswith("/"):
        raise TrackError(f'{name}: "path" must begin with "/", not {request.get("path")!r}', where=where)
    if (method := str(request.get("method") or "GET").upper()) not in METHODS:
        raise TrackError(f'{name}: unknown method "{method}"', where=where, hint=f"one of {', '.join(METHODS)}")
    place = f"{where}: {name}".removeprefix(": ")
    registers_of(request.get("register") or {}, place)
    if request.get("assert") is not None:
        condition_of(request["assert"], place)


def _sent(elements: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the requests among elements, of which others are pauses alone."""
    return [element for element in elements if set(element) != {"pause"}]


def _pauses_after(elements: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the seconds of the pauses alone behind each request; those before the first one stand behind the last."""
    pauses: list[float] = []
    before_s = 0.0
    for element in elements:
        if set(element) != {"pause"}:
            pauses.append(0.0)
        elif pauses:
            pauses[-1] += parse_duration(element["pause"])
        else:
            before_s += parse_duration(element["pause"])
    pauses[-1] += before_s
    return pauses


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
    valid = frozenset(request.get("valid-statuses") or ())

    def judge(status: int, body: bytes, drawn: Any) -> Verdict:
        return GOOD if status < 400 or status in valid else http_failure(status, body)

    if request["path"].partition("?")[0].endswith("_bulk"):
        return lambda status, body, drawn: (judge_raw_bulk if status < 300 else judge)(status, body, drawn)
    return judge


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
        if isinstance(value, Mapping | list):
            value = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        return [encode(value, encoding) for encoding in self._encodings]


@dataclass(frozen=True)
class _Sent:
    """A request of a script: its program for one client, and what is done with its reply."""

    exchange: Exchange
    draw: Callable[[], Any]
    lane: int
    times: int
    condition: Condition | None
    register: Sequence[Register]
    reads_headers: bool
    pause_s: float
    pause_after_all_s: float


class _SequenceProgram:
    """The program of requests that draw from the same sources; each client has what its replies have registered."""

    feed_waits = 0

    def __init__(self, context: TaskContext, elements: Sequence[Mapping[str, Any]]) -> None:
        self._context, self._requests = context, (requests := _sent(elements))
        declared = {each.name for each in (*context.variables, *context.task.operation.variables)}
        self._turns = whole(context.params.get("turns")) or 0
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
                register=registers_of(request.get("register") or {}, ""),
                reads_headers=_HEADER in json.dumps([request.get("register"), request.get("assert")]),
                pause_s=parse_duration(request.get("pause") or 0),
                pause_after_all_s=after_s,
            )
            for request, lane, after_s in zip(requests, lanes, _pauses_after(elements), strict=True)
        ]

    @property
    def finite(self) -> bool:
        return self._turns > 0 or self._program.finite

    def client(self, slot: int, headers: bytes) -> Script:
        values: dict[str, Any] = {}
        random = self._context.random(f"client {slot}")
        own = {
            name: _Registered(values, name, places, before)
            for name, (places, before) in self._program.drawn.items()
            if name in self._registered
        }
        clients = [self._program.exchanging(headers, number, own) for number in range(len(self._sent))]
        sent = [make(client.exchanges[0], client.draw) for make, client in zip(self._sent, clients, strict=True)]
        return _Sequence(
            sent,
            Turns(self._requests, random),
            random,
            self._hosts,
            values,
            ends_when_invalid=self._ends_when_invalid,
            most_turns=self._turns or math.inf,
        )

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
        what = f'a request goes to "{host}", which is not a host of the race'
        raise TrackError(what, where=context.where, hint=did_you_mean(host, known))
    return known.index(host)


class _Sequence:
    """The script of one client: each run is the next request of a turn, one request after the other.

    `hosts`: the positions of the hosts that its lanes connect to; none: the client's own. A request that fails does not
    end the turn, but for an `assert` that does not hold. There is no further request after `most_turns` of them.
    """

    def __init__(
        self,
        requests: Sequence[_Sent],
        turns: Turns,
        random: Random,
        hosts: Sequence[int],
        values: dict[str, Any],
        *,
        ends_when_invalid: bool,
        most_turns: float,
    ) -> None:
        self._ends_when_invalid = ends_when_invalid
        self.connections = len(hosts) or 1
        self.hosts = hosts
        self.reads_headers = any(request.reads_headers for request in requests)
        self.rest_s = 0.0
        self._requests = requests
        self._turns = turns
        self._random = random
        self._turn: list[
            tuple[int, int]
        ] = []  # the position of each request of a turn, and how often it was sent before
        self._next = 0
        self._turns_left = most_turns
        self._drawn: Any = None
        self._rendered: RequestBytes = ()
        self._values = values

    @property
    def turn_is_over(self) -> bool:
        return self._next == len(self._turn)

    def advance(self) -> None:
        """Draw the next request, of a new turn if one is over.

        Raises Exhausted after the last turn, and where no value is left for the request.
        """
        if self.turn_is_over:
            if not self._turns_left:
                raise Exhausted
            self._turns_left -= 1
            self._next = 0
            self._turn = [
                (place, number) for place in self._turns.next() for number in range(self._requests[place].times)
            ]
        place, number = self._turn[self._next]
        if not number:
            self._drawn = self._requests[place].draw()

    async def run(self, session: ScriptSession) -> Verdict:
        place, number = self._turn[self._next]
        request = self._requests[place]
        self._next += 1
        if not number:
            self._rendered = request.exchange.render(self._drawn)  # the same each time that it is sent
        self.rest_s = request.pause_s + (request.pause_after_all_s if number + 1 == request.times else 0.0)
        lane = session.lanes[request.lane]
        try:
            with lane.part(request.exchange.name):
                await self._send(lane, request)
        except RequestFailed as failure:
            if failure.kind == INVALID and self._ends_when_invalid:
                self._next, self.rest_s = len(self._turn), 0.0
            raise
        self._turns.succeeded(place)
        return GOOD

    async def _send(self, lane: ScriptSession, request: _Sent) -> None:
        """Send a request, register what its reply has, and judge it. Raises RequestFailed for a failure."""
        begun_s = time.monotonic()
        reply = await lane.send(self._rendered)
        elapsed_ms = int(1000 * (time.monotonic() - begun_s))
        facts = ReplyFacts(reply.status, reply.body, elapsed_ms, self._values, reply.headers)
        missing = ""
        for register in request.register:
            try:
                self._values[register.name] = register.value(facts, self._random)
            except KeyError:
                missing = f"the reply has no {register.path} to register as {register.name}"
        if request.condition is not None:
            insist(_held(request.condition, facts))
        else:
            insist(request.exchange.judge(reply.status, reply.body, self._drawn))
        if missing:
            raise RequestFailed("nothing to register", missing)


TYPES = (HttpRequests(),)
