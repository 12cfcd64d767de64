"""Prints, as JSON, what whole loops record of random servers: the same with the compiled classes as with Python's.

An event loop without a network counts its turns for time, so that all but durations is the same each time.

python loop_outcomes.py SEED CASES
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from hot_outcomes import reply as odd_reply

from esbench.cluster.options import Access, ClientOptions, parse_hosts
from esbench.load.client import Route, TemplateClient
from esbench.load.hosts import Hosts
from esbench.load.hot import IS_COMPILED, NEVER_NS, clock_ns
from esbench.load.loops import ClosedLoop, Length, OpenLoop
from esbench.load.recorder import Recorder
from esbench.measure.histogram import Counts
from esbench.measure.slices import WholeTime
from esbench.measure.tally import Tally
from esbench.measure.verdict import GOOD, Details, Verdict
from esbench.requests.exchange import Exchange, Exhausted, NotReady, RequestBytes

TURN_S = 0.001
MOST_TURNS = 3_000
PATIENCE_TURNS = 20
DAY_NS = 24 * 3600 * 10**9
LENGTH = re.compile(rb"content-length: (\d+)")
VERDICTS = [
    *([GOOD] * 8),
    *(Verdict(label=label) for label in ("created", "updated", "deleted")),
    *(
        Verdict(250),
        Verdict(0.5),
        Verdict(0, "not found", "no such document"),
        Verdict(3, details=Details({"noop": 2}, 7)),
    ),
    Verdict(0, "busy", "again", again_after_s=3 * TURN_S),
]


class Server:
    """The far end of one connection: it takes whole requests, and does in each turn what it has planned for them."""

    def __init__(self, rng: random.Random, wire: Wire) -> None:
        self._rng = rng
        self._wire = wire
        self._unread = bytearray()
        self._plan: list[Callable[[], None]] = []
        self._idle_turns = 0

    def turn(self) -> None:
        self._unread += self._wire.taken()
        while (end := self._unread.find(b"\r\n\r\n") + 4) > 3:
            length = LENGTH.search(self._unread, 0, end)
            end += int(length[1]) if length else 0
            if len(self._unread) < end:
                break
            del self._unread[:end]
            self._idle_turns = 0
            self._plan += self._planned()
        for _ in range(self._rng.choice((1, 1, 1, 2, 4))):
            if self._plan and self._wire.is_open:
                self._plan.pop(0)()
        self._idle_turns += not self._plan
        if self._idle_turns == PATIENCE_TURNS:  # for the rest of a reply that was shorter than it said
            self._wire.time_out()

    def _planned(self) -> list[Callable[[], None]]:
        rng, wire = self._rng, self._wire
        chance, data = rng.random(), self._reply()
        if chance < 0.02:
            return [wire.time_out]
        if chance < 0.04:
            return [wire.lose]
        if chance < 0.06:
            return [lambda: wire.lose(ConnectionResetError(104, "reset"))]
        if chance < 0.08:
            data += self._reply()  # in one read, or cut anywhere
        cuts = sorted(rng.randrange(len(data)) for _ in range(rng.choice((0, 0, 0, 0, 1, 2, 6)))) if data else []
        pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        plan: list[Callable[[], None]] = [lambda piece=piece: wire.read(piece) for piece in pieces if piece]  # type: ignore[misc]
        chance = rng.random()
        if chance < 0.03:
            plan.append(lambda: wire.read(self._reply()))  # early, or to no request
        elif chance < 0.05:
            plan.append(wire.end)
        elif chance < 0.07:
            plan.append(wire.lose)
        elif chance < 0.08:
            plan[rng.randrange(len(plan) + 1) :] = [wire.lose]
        return plan

    def _reply(self) -> bytes:
        rng, body = self._rng, self._rng.choice((b"{}", b'{"took":1}', b"x" * 70_000, b""))
        chance = rng.random()
        if chance < 0.6:
            return b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%b" % (
                rng.choice((200, 201, 404, 429)),
                len(body),
                body,
            )
        if chance < 0.7:
            chunk = b"%x;e=1\r\n%b\r\n" % (len(body), body) if body else b""
            return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%b0\r\nT: y\r\n\r\n" % chunk
        if chance < 0.75:
            name = rng.choice((b"Connection", b"Proxy-Connection", b"proxy-connection", b"Keep-Alive"))
            return b"HTTP/1.1 200 OK\r\n%b: close\r\ncontent-length: %d\r\n\r\n%b" % (name, len(body), body)
        if chance < 0.8:
            interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nX: y\r\n\r\n"
            return interim + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
        return b"HTTP/1.0 200 OK\r\n\r\n{}" if chance < 0.83 else odd_reply(rng)


class Wire:
    """A transport without a network: over TLS, or with a socket that is written to directly."""

    def __init__(self, loop: Turns, protocol: Any, rng: random.Random, *, tls: bool) -> None:
        self._loop = loop
        self._protocol = protocol
        self._tls = tls
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, rng.choice((4_096, 1 << 20)))
        self._written = bytearray()
        self.server = Server(rng, self)
        self.is_open = True

    # as the server uses it

    def taken(self) -> bytes:
        """Return what was sent since."""
        found = bytearray()
        while self.is_open:
            try:
                found += self._theirs.recv(1 << 20)
            except BlockingIOError:
                break
        found += self._written
        self._written.clear()
        return bytes(found)

    def read(self, data: bytes) -> None:
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            for begin in range(0, len(data), most := len(self._protocol.get_buffer(-1))):
                part = data[begin : begin + most]
                self._protocol.get_buffer(-1)[: len(part)] = part
                self._protocol.buffer_updated(len(part))
        else:
            self._protocol.data_received(data)

    def time_out(self) -> None:
        self._protocol.owner.sweep(NEVER_NS)

    def end(self) -> None:
        self._protocol.eof_received()
        self.abort()

    def lose(self, reason: Exception | None = None) -> None:
        if self.is_open:
            self.is_open = False
            self._ours.close()
            self._theirs.close()
            self._protocol.connection_lost(reason)

    # as the connection uses it

    def get_extra_info(self, name: str) -> object:
        return self._ours if name == "socket" else "tls" if self._tls else None

    def get_write_buffer_size(self) -> int:
        return len(self._written)

    def is_closing(self) -> bool:
        return not self.is_open

    def writelines(self, pieces: list[bytes]) -> None:
        self._written += b"".join(pieces)

    def abort(self) -> None:
        self._loop.call_soon(self.lose)


class Turns(asyncio.SelectorEventLoop):
    """An event loop whose time is the number of its turns, and whose connections are Wires."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._seed = seed
        self._wires: list[Wire] = []
        self.turns = 0

    def time(self) -> float:
        return self.turns * TURN_S

    def turn(self) -> None:
        self.turns += 1
        self.call_soon(self.turn)
        for wire in [wire for wire in self._wires if wire.is_open]:
            self.call_soon(wire.server.turn)  # each by itself: what raises in it ends nothing else

    async def create_connection(self, protocol_factory: Any, *_: Any, ssl: Any = None, **__: Any) -> Any:  # type: ignore[override]
        rng = random.Random(f"{self._seed} {len(self._wires)}")
        await asyncio.sleep(rng.choice((0, 0, TURN_S)))
        if rng.random() < 0.05:
            self._wires.append(SimpleNamespace(is_open=False))  # type: ignore[arg-type]
            raise ConnectionRefusedError(111, "refused")
        protocol = protocol_factory()
        self._wires.append(wire := Wire(self, protocol, rng, tls=ssl is not None))
        protocol.connection_made(wire)
        return wire, protocol


class Program:
    """Requests of one to six pieces, some larger than a socket takes at once; it fails as Python of a track does."""

    def __init__(self, rng: random.Random, clients: list[TemplateClient], *, fails: bool) -> None:
        self._rng = rng
        self._clients = clients
        self._fails = 0.01 if fails else 0
        names = ("write", "read") if rng.random() < 0.2 else ("",)
        self.exchanges = tuple(Exchange(name, self._render, self._judge) for name in names)

    def draw(self) -> int:
        chance = self._rng.random()
        if chance < self._fails:
            raise ValueError("not drawn")
        if chance > 0.999:
            raise Exhausted
        if chance > 0.98:
            raise NotReady(asyncio.get_running_loop().call_soon)
        return self._rng.randrange(1_000)

    def _render(self, drawn: int) -> RequestBytes:
        if self._rng.random() < self._fails / 2:
            raise ValueError("not rendered")
        body = b"b" * self._rng.choice((0, 0, 0, 2, 300_000))
        head = b"POST /%d HTTP/1.1\r\ncontent-length: %d\r\n" % (drawn, len(body))
        more = [b"X: y\r\n"] * self._rng.choice((0, 0, 0, 3))
        return [head, *more, b"\r\n", memoryview(body) if len(body) > 2 else body]  # type: ignore[list-item]

    def _judge(self, status: int, body: bytes, drawn: int) -> Verdict:
        chance = self._rng.random()
        if chance < self._fails / 2:
            raise ValueError("not judged")
        if chance > 0.99:
            self._rng.choice(self._clients).give_up("cancelled", "by another one")
        elif chance > 0.98:
            self._rng.choice(self._clients).link.retire()
        return self._rng.choice(VERDICTS)


def counts(value: Any) -> Any:
    """Return a tally without its durations."""
    if isinstance(value, Counts):
        return value.count
    if isinstance(value, dict):
        return {str(key): counts(item) for key, item in sorted(value.items())}
    if slots := getattr(type(value), "__slots__", None):
        return {name: counts(getattr(value, name)) for name in slots if name not in ("waited", "driver_ns")}
    return value


async def outcome(rng: random.Random, loop: Turns) -> Any:
    """What a loop of one to five clients has recorded when it ends, or is stuck since the track's Python has failed."""
    raised: list[Any] = []
    failures: Counter[str] = Counter()

    def note(error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        raised.append([repr(error), [frame.name for frame in frames if frame.filename == __file__][-1:]])

    loop.set_exception_handler(lambda _, context: note(context["exception"]))
    hosts = Hosts(parse_hosts("a:1,b:2")[0], ClientOptions(), lost=lambda: None, back=lambda: None, any_server=True)
    access: Any = SimpleNamespace(tls=object(), proxy=None, signer=None) if rng.random() < 0.2 else Access()
    route = Route(hosts, access, b"", 60.0)
    clients: list[TemplateClient] = []
    program: Any = Program(rng, clients, fails=rng.random() < 0.2)
    clients += [TemplateClient(slot, route, program) for slot in range(rng.randrange(1, 6))]
    loop.call_soon(loop.turn)
    await asyncio.gather(*(client.connect() for client in clients), return_exceptions=True)
    start_ns, is_open = clock_ns(), rng.random() < 0.4
    recorder = Recorder(WholeTime(start_ns), is_open=is_open, within_ns=(DAY_NS,))
    length = Length(requests=rng.randrange(10, 200), warmup_requests=rng.choice((0, 0, 15)))
    ended = asyncio.Event()
    common: Any = {
        "ended": ended.set,
        "failed": lambda verdict: failures.update([f"{verdict.error}: {verdict.example}"]),
    }
    load = (
        OpenLoop(clients, recorder, length, arrivals=iter([0] * 1_000), **common)
        if is_open
        else ClosedLoop(clients, recorder, length, **common)
    )
    try:
        load.start(start_ns)
    except ValueError as error:
        note(error)
    while not ended.is_set() and loop.turns < MOST_TURNS:
        await asyncio.sleep(50 * TURN_S)
    load.close()
    hosts.close()
    total = {False: Tally(within=[0]), True: Tally(within=[0])}
    for second in recorder.closed_seconds(NEVER_NS):
        total[second.warmup].merge(second.tally)
    return {
        **{"warmup" if warmup else "measured": counts(tally) for warmup, tally in total.items()},
        **{"ended": ended.is_set(), "unsent": load.unsent, "failures": failures, "raised": raised},
    }


def main() -> None:
    seed, cases = map(int, sys.argv[1:])
    outcomes = []
    for case in range(cases):
        loop = Turns(f"{seed} {case}")
        outcomes.append(loop.run_until_complete(outcome(random.Random(f"{seed} {case}"), loop)))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.close()
    json.dump({"compiled": IS_COMPILED, "outcomes": outcomes}, sys.stdout)


if __name__ == "__main__":
    main()
