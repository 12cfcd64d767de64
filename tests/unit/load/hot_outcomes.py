"""Prints, as JSON, what the classes of esbench.load.hot make of random requests and replies: compiled or not, the same.

python hot_outcomes.py SEED
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from dataclasses import asdict
from typing import Any

from esbench.load.hot import IS_COMPILED, Inbox
from esbench.load.recorder import Recorder
from esbench.load.transport import Connection
from esbench.measure.histogram import Counts
from esbench.measure.slices import SlicedTime, WholeTime
from esbench.measure.tally import Tally
from esbench.measure.verdict import GOOD, Details, Verdict
from esbench.operations.replies import CREATED, UPDATED

NS = 1_000_000_000
VERDICTS = [
    *([GOOD] * 6),
    *(CREATED, UPDATED, Verdict(100), Verdict(0.5)),
    *(Verdict(0, "timeout"), Verdict(3, "bulk item"), Verdict(5, details=Details({"noop": 2}, 7))),
]


def plain(value: Any) -> Any:
    if isinstance(value, Counts):
        return {name: getattr(value, name) for name in Counts.__slots__}
    if isinstance(value, Tally):
        return {name: plain(getattr(value, name)) for name in Tally.__slots__}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in sorted(value.items())}
    return plain(asdict(value)) if hasattr(value, "__dataclass_fields__") else value


def counted(rng: random.Random, *, is_open: bool, has_window: bool, in_slices: bool) -> Any:
    """What a recorder counts of some thousand requests over five seconds, two of them of warmup."""
    start_ns = rng.randrange(1 << 50)
    window = (start_ns + 2 * NS + 300_000_000, start_ns + 4 * NS + 700_000_000) if has_window else None
    time = SlicedTime(start_ns, NS, NS // 20, NS // 10, 2, 0, seed=1) if in_slices else WholeTime(start_ns)
    recorder = Recorder(time, is_open=is_open, window_ns=window, within_ns=(1_000_000, 50_000_000))
    link = Connection(Owner(), Inbox())
    closed = []
    now_ns = start_ns
    for _ in range(3_000):
        now_ns += rng.choice((0, 1, 100_000, 3_000_000))
        due_ns = now_ns - rng.choice((0, 0, 30_000, 5_000_000))
        warmup = due_ns < start_ns + 2 * NS + 300_000_000
        free_ns = due_ns + rng.choice((-1_000_000, -1_000_000, 0, 20_000))
        received_ns = now_ns + round(rng.lognormvariate(13, 2))
        verdict = rng.choice(VERDICTS)
        if is_open:
            recorder.arrived(due_ns, warmup, waits=rng.random() < 0.1)
        recorder.sent(now_ns, warmup)
        link.bytes_sent, link.bytes_received = rng.randrange(1 << 40), rng.choice((0, 90, 1 << 40))
        takes_part = verdict.error is None and verdict.details is None
        counted = (due_ns, min(free_ns, now_ns), now_ns, received_ns, warmup, verdict)
        if takes_part and rng.random() < 0.9:
            recorder.good(*counted, link, rng.choice((200, 200, 201, 404, 0)))
        else:
            recorder.exchanged(link, rng.choice((200, 429, 0)), received_ns, warmup)
            recorder.completed(*counted)
        if rng.random() < 0.005:
            closed += [(s.second, s.warmup, plain(s.tally)) for s in recorder.closed_seconds(now_ns)]
    closed += [(s.second, s.warmup, plain(s.tally)) for s in recorder.closed_seconds(1 << 60)]
    return closed, recorder.first_measured_ns, recorder.last_measured_received_ns


class Owner:
    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.connection: Connection

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None:
        self.heard.append((status, body.decode("latin-1")))
        self.connection.in_flight = self.connection.usable  # the next request

    def on_failure(self, kind: str, detail: str) -> None:
        self.heard.append((kind, detail))

    def on_idle_loss(self) -> None:
        self.heard.append("idle")


class Wire:
    def get_extra_info(self, name: str) -> object:
        return "tls" if name == "sslcontext" else None

    def abort(self) -> None:
        pass


HEADERS = [
    *(
        b"content-type: application/json",
        b"X-elastic-product: Elasticsearch",
        b"Connection: close",
        b"connection:close",
        b"Connection: keep-alive",
        b"connection:Keep-Alive",
        b"Connection: keep-alive, close",
        b"Connection: keep-alive ",
        b"Connection: keep-alives",
    ),
    *(
        b"Transfer-Encoding: chunked",
        b"Keep-Alive: timeout=5",
        b"X-A:",
        b"X-A:  a b ",
        b"Content-Length : 2",
        b" folded",
    ),
    *(b"no colon", b"X\x00: y", b"X: y\x01", b"X: \xff", b"Content-Length: 2", b"upgrade: h2c", b"CONTENT-LENGTH: 14"),
    *(b"Content-Length: +2", b"Content-Length: 2, 2", b"Content-Length: 0x2", b": empty", b"X-\xe9: y", b"X\ty: z"),
]
BODIES = [b"", b"{}", b'{"found":true}', b"\x1f\x8b", b"\x00\xff" * 40, b"x" * 5_000]
LINES = [b"HTTP/1.1 200 OK"] * 8 + [b"HTTP/1.1 200", b"HTTP/1.1 201 Created", b"HTTP/1.0 200 OK", b"HTTP/1.1 2000 OK"]


def reply(rng: random.Random) -> bytes:
    body = rng.choice(BODIES)
    headers = rng.sample(HEADERS, rng.choice((0, 0, 1, 2)))
    if rng.random() < 0.9:
        off = rng.choice((0, 0, 0, 0, 0, 1, -1))
        headers.insert(rng.randrange(len(headers) + 1), b"Content-Length: %d" % max(0, len(body) + off))
    data = b"\r\n".join([rng.choice(LINES), *headers, b"", body])
    if rng.random() < 0.2:
        place = rng.randrange(len(data))
        data = data[:place] + rng.choice((b"", b"\r", b"\n", b" ", b"\x00", b"a")) + data[place + rng.choice((0, 1)) :]
    return data


def heard(rng: random.Random, inbox: Inbox) -> Any:
    """What the owner of a connection hears when replies arrive, in one piece or several."""
    owner = Owner()
    owner.connection = connection = Connection(owner, inbox)
    connection.connection_made(Wire())  # type: ignore[arg-type]
    connection.in_flight = True
    sent = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = reply(rng)
        cut = rng.randrange(len(data)) if rng.random() < 0.3 else 0
        for piece in filter(None, (data[:cut], data[cut:])):
            sent.append(piece.decode("latin-1"))
            connection.data_received(piece)
            inbox.handle()
    connection.connection_lost(None)
    return sent, owner.heard, connection.usable, connection.in_flight, connection.bytes_received


async def main() -> None:
    rng, inbox = random.Random(int(sys.argv[1])), Inbox()
    outcomes = [
        *(
            counted(rng, is_open=is_open, has_window=has_window, in_slices=in_slices)
            for is_open in (False, True)
            for has_window, in_slices in ((False, False), (True, False), (False, True))
        ),
        *(heard(rng, inbox) for _ in range(5_000)),
    ]
    json.dump({"compiled": IS_COMPILED, "outcomes": outcomes}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
