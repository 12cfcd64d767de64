"""The classes of the hot path are Python classes, compiled or not: errors, subclasses, parts that are missing."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from esbench.load.client import TemplateClient
from esbench.load.hot import IS_COMPILED, Inbox, clock_ns
from esbench.load.recorder import Recorder
from esbench.load.transport import Connection
from esbench.measure.slices import WholeTime
from esbench.measure.verdict import GOOD
from esbench.requests.exchange import Exchange

REQUEST = (b"GET / HTTP/1.1\r\n\r\n",)
REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Wire:
    """A transport of a socket, or of what only the transport writes to."""

    def __init__(self, sock: socket.socket | None = None) -> None:
        self._sock = sock

    def get_extra_info(self, name: str) -> object:
        return self._sock if name == "socket" else None if self._sock else "tls"

    def abort(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def writelines(self, pieces: object) -> None:
        pass


class Hearer:
    """An owner that keeps what it heard; `on_reply` does what the test wants, too."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.heard: list[Any] = []
        self.then = then

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None:
        self.heard.append((status, body))
        self.then()

    def on_failure(self, kind: str, detail: str) -> None:
        self.heard.append((kind, detail))

    def on_idle_loss(self) -> None:
        self.heard.append("idle")


def connected(owner: Any, inbox: Inbox) -> Connection:
    connection = Connection(owner, inbox)
    connection.connection_made(Wire())  # type: ignore[arg-type]
    return connection


@pytest.mark.parametrize("header", ["Connection", "Proxy-Connection", "PROXY-CONNECTION"])
async def test_a_connection_that_its_server_closes_is_not_used_again(header: str) -> None:
    inbox, owner = Inbox(), Hearer()
    connection = connected(owner, inbox)
    connection.send(REQUEST, 1)
    connection.data_received(REPLY.replace(b"content-length", header.encode() + b": close\r\ncontent-length"))
    inbox.handle()
    assert owner.heard == [(200, b"{}")]
    assert not connection.usable


async def test_what_is_read_while_a_reply_is_handled_that_fails_is_not_lost() -> None:
    """Each of four replies is heard once, whichever of them fails."""
    for failing in range(3):
        inbox, errors = Inbox(), list[Any]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context, errors=errors: errors.append(context))
        owners = [Hearer() for _ in range(4)]
        connections = [connected(owner, inbox) for owner in owners]

        def fail(last: Connection = connections[3], failing: int = failing) -> None:
            last.data_received(REPLY)
            raise RuntimeError(f"reply {failing}")

        owners[failing].then = fail
        for connection in connections:
            connection.in_flight = True
        for connection in connections[:3]:
            connection.data_received(REPLY)
        for _ in range(5):
            await asyncio.sleep(0)
        assert [owner.heard for owner in owners] == [[(200, b"{}")]] * 4
        assert [str(context["exception"]) for context in errors] == [f"reply {failing}"]


async def test_a_reply_that_was_read_before_its_request_was_sent_is_no_reply() -> None:
    inbox, owner = Inbox(), Hearer(lambda: connection.send(REQUEST, 1) and None)
    connection = connected(owner, inbox)
    connection.send(REQUEST, 1)
    connection.data_received(REPLY)
    connection.data_received(REPLY)  # as two records of TLS, or two reads of a socket, in one turn of the event loop
    inbox.handle()
    assert owner.heard[0] == (200, b"{}")
    assert owner.heard[1:] == [("bad response", f"read before its request was sent: {REPLY!r}")]
    assert not connection.usable


def lane_on(connection_of: Callable[[Any], Connection] | None = None, **given: Any) -> TemplateClient:
    """A client in a closed loop that sends on."""
    exchange = Exchange("", lambda drawn: REQUEST, given.pop("judge", lambda status, body, drawn: GOOD))
    program = SimpleNamespace(exchanges=(exchange,), draw=given.pop("draw", lambda: None))
    access, hosts = SimpleNamespace(signer=None), SimpleNamespace(home=lambda slot: "host")
    route = SimpleNamespace(hosts=hosts, access=access, headers=b"", timeout_s=1.0, inbox=Inbox())
    client = given.pop("kind", TemplateClient)(0, route, program)
    client.meter = given.pop("meter", None) or Recorder(WholeTime(clock_ns()), is_open=False)
    client.meter.repeats = True
    client.loop = given.pop("loop", SimpleNamespace(freed=lambda lane: None))
    if connection_of is not None:
        client.link = connection_of(client)
    client.link.connection_made(Wire(given.pop("sock", None)))
    return client  # type: ignore[no-any-return]


async def test_the_traceback_of_a_tracks_own_code_shows_its_line() -> None:
    """A parameter source that raises is shown from the line that raised."""

    def params_of_the_track() -> Any:
        return {}["missing key"]

    def not_drawn(lane: Any, reason: Exception) -> None:
        raise reason

    client = lane_on(draw=params_of_the_track, loop=SimpleNamespace(not_drawn=not_drawn))
    client.begin(0, False)
    client.link.data_received(REPLY)
    with pytest.raises(KeyError, match="missing key") as raised:
        client._route.inbox.handle()
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "params_of_the_track"


async def test_methods_of_subclasses_are_called() -> None:
    """Each method that the compiled classes call by themselves can be another one in a subclass."""
    called: list[str] = []

    class OwnLane(TemplateClient):
        def begin(self, due_ns: int, warmup: bool) -> None:
            called.append("begin")
            super().begin(due_ns, warmup)

        def on_reply(self, status: int, body: bytes, received_ns: int) -> None:
            called.append("on_reply")
            super().on_reply(status, body, received_ns)

    class OwnMeter(Recorder):
        def sent(self, sent_ns: int, warmup: bool) -> None:
            called.append("sent")
            super().sent(sent_ns, warmup)

        def good(self, *args: Any) -> None:
            called.append("good")
            super().good(*args)

    class OwnLink(Connection):
        def handle(self, data: bytes, read_ns: int) -> None:
            called.append("handle")
            super().handle(data, read_ns)

        def send(self, *args: Any) -> bool:
            called.append("send")
            return super().send(*args)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        meter = OwnMeter(WholeTime(clock_ns()), is_open=False)
        client = lane_on(lambda lane: OwnLink(lane, lane._route.inbox), kind=OwnLane, meter=meter, sock=ours)
        client.begin(0, False)
        for _ in range(2):
            client.link.data_received(REPLY)
            client._route.inbox.handle()
    once = ["begin", "send", "sent"]
    assert called == [*once, *["handle", "on_reply", "good", *once] * 2]


# What is missing, deleted or of another type is an error of Python, whatever the compiled classes take for granted.
MISUSES = {
    "a whole lane goes round": (
        "lane = whole(); lane.begin(0, False); answer(lane.link); assert lane.meter.begun == 1",
        "done",
    ),
    "a link that was not begun reads": ("Link.__new__(Link).data_received(b'x')", "AttributeError"),
    "a link that was not begun handles": ("Link.__new__(Link).handle(REPLY, 1)", "AttributeError"),
    "a link that was not begun sends": ("Link.__new__(Link).send(REQUEST, 1)", "AttributeError"),
    "a lane without parts gets a reply": ("answer(Link(Lane(), Inbox()))", "AttributeError"),
    "a lane without parts is called with a reply": ("Lane().on_reply(200, b'{}', 1)", "AttributeError"),
    "a lane without parts begins": ("Lane().begin(0, False)", "AttributeError"),
    "a link has lost its owner": ("link = Link(object(), Inbox()); del link.owner; answer(link)", "AttributeError"),
    "a link has no link for an owner": ("answer(Link(None, Inbox()))", "AttributeError"),
    "a lane has something else for a link": (
        "lane = whole(); lane.link = object(); lane.begin(0, False)",
        "AttributeError",
    ),
    "a lane has something else for a meter": (
        "lane = whole(); lane.meter = object(); answer(lane.link)",
        "AttributeError",
    ),
    "a judge deletes what follows": (
        """
lane = whole()
def judge(*args):
    for name in ('loop', 'draw', 'render', 'drawn', 'judge', 'link', 'meter'):
        delattr(lane, name)
    return GOOD
lane.judge = judge
answer(lane.link)""",
        "AttributeError",
    ),
    "a render deletes what follows": (
        """
lane = whole()
def render(drawn):
    for name in ('render', 'drawn', 'link', 'meter'):
        delattr(lane, name)
    gc.collect()
    return REQUEST
lane.render = render
lane.begin(0, False)
lane.begin(0, False)""",
        "AttributeError",
    ),
    "a draw deletes itself": (
        """
lane = whole()
def draw():
    del lane.draw, lane.render
lane.draw = draw
del draw
answer(lane.link)""",
        "AttributeError",
    ),
    "a meter without a tally is folded": (
        "meter = Meter(False, ()); meter.until_ns = 1 << 60; meter.sent(1, False); meter.fold()",
        "AttributeError",
    ),
    "a meter that was not begun counts": (
        "meter = Meter.__new__(Meter); meter.until_ns = 1 << 60; meter.sent(1, False); meter.fold()",
        "AttributeError",
    ),
    "a meter without its limits is begun again": (
        "meter = Meter(False, (1, 2)); meter.__init__(False, ('x',))",
        "TypeError",
    ),
    "a tally has other limits": (
        """
meter = Meter(False, (1, 2))
meter.until_ns, meter._tally = 1 << 60, Tally(within=[])
meter.good(0, 0, 1, 2, False, Verdict(), Link(None, Inbox()), 200)
meter.fold()""",
        "IndexError",
    ),
    "a verdict makes its label anew each time": (
        """
class Fresh(Verdict):
    error, details, units = None, None, 1
    label = property(lambda self: 40 * 'x' + str(len('y')))
    __init__ = object.__init__
verdict, label = Fresh(), 40 * 'x' + '1'
meter = Meter(False, ())
meter.until_ns = 1 << 60
for number in range(50):
    meter.good(0, 0, 1, 2, False, verdict, Link(None, Inbox()), 200)
    filler = [str(number) * 20 for _ in range(99)]
parts = []
meter._tally = SimpleNamespace(
    requests=0, units=0, in_window=0, in_window_units=0, bytes_sent=0, bytes_received=0, sent=0, due=0, waited=0,
    driver_ns=0,
    add_status=lambda *of: None,
    part=lambda name: parts.append(name) or SimpleNamespace(requests=0, service_time=counts),
    service_time=(counts := SimpleNamespace(absorb=lambda *of: None)),
)
meter.fold()
assert parts == [label], parts""",
        "done",
    ),
    "a segment ends a meter": (
        """
class Own(Meter):
    def move_to(self, at_ns, warmup):
        lane.meter = None
        return True
lane = whole()
lane.meter = Own(False, ())
lane.begin(0, False)
answer(lane.link)""",
        "AttributeError",
    ),
}
BEFORE = """
import gc
from types import SimpleNamespace
from esbench.load.hot import Inbox, Lane, Link, Meter
from esbench.measure.tally import Tally
from esbench.measure.verdict import GOOD, Verdict
REQUEST = (b"GET / HTTP/1.1", b"")
REPLY = b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\n{}"

class Sent(Link):
    def write_later(self, pieces, written):
        return True

class Whole(Lane):
    def begin_slowly(self):
        pass

class Any(Meter):
    def move_to(self, at_ns, warmup):
        self.until_ns = 1 << 60
        return True

def answer(link):
    link.in_flight = True
    link.handle(REPLY, 1 << 60)

def whole():
    lane = Whole()
    lane.link, lane.meter, lane.loop = Sent(lane, Inbox()), Any(False, ()), SimpleNamespace(freed=print)
    lane.meter._tally = Tally()
    lane.link.usable = lane.is_plain = lane.meter.repeats = True
    lane.timeout_ns = lane.free_ns = lane.due_ns = lane.sent_ns = 0
    lane.warmup = False
    lane.render, lane.judge, lane.draw, lane.drawn = (lambda x: REQUEST), (lambda *args: GOOD), object, object()
    return lane
"""


EACH = """
import json, os, sys, traceback
for name, code in json.load(sys.stdin).items():
    read, write = os.pipe()
    if not os.fork():
        try:
            exec(code)
            outcome = "done"
        except BaseException as error:
            outcome = type(error).__name__
        os.write(write, outcome.encode())
        os._exit(0)
    os.close(write)
    _, status = os.wait()
    print(json.dumps([name, os.waitstatus_to_exitcode(status), os.read(read, 100).decode()]))
    os.close(read)
"""


@pytest.mark.skipif(not IS_COMPILED, reason="Python's own classes cannot crash")
def test_misuse_is_an_error_and_no_crash() -> None:
    cases = {name: code for name, (code, _) in MISUSES.items()}
    ran = subprocess.run(
        [sys.executable, "-c", BEFORE + EACH], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    outcomes = [json.loads(line) for line in ran.stdout.splitlines()]
    assert outcomes == [[name, 0, expected] for name, (_, expected) in MISUSES.items()], ran.stderr
