"""The null server: a listener, its script, its counts and its control path (/__null/...)."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import time
from collections import Counter
from pathlib import Path

import msgspec

from esbench.errors import UsageError
from esbench.measure.cpu_time import run_delay_ns
from esbench.null_server.cluster import Cluster
from esbench.null_server.indices import Answer, error_body
from esbench.null_server.log import Counts, LogLine, RequestLog
from esbench.null_server.protocol import Connection, Exchange
from esbench.null_server.rules import Plan, Rules
from esbench.null_server.script import Outage, Reply, Script, parse_script
from esbench.null_server.timer import Timer
from esbench.null_server.versions import parse_version
from esbench.null_server.wire import Head, Wire, scripted

_CONTROL = "/__null/"
_S = 1_000_000_000


class Server:
    """All state of one null server; `Connection` objects call it."""

    def __init__(self, script: Script, *, log: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.timer = Timer(self._loop)
        self.known_heads: dict[bytes, Head] = {}
        self.connections: set[Connection] = set()
        self.malformed = 0
        self._log = RequestLog(log) if log else None
        self._tls = tls
        self._address: tuple[str, int] = ("127.0.0.1", 0)
        self._listener: asyncio.AbstractServer | None = None
        self._opening: asyncio.Task[int] | None = None
        self._cluster_key: tuple[str, bool, bool] | None = None
        self.set_script(script)

    # life

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; 0 asks for a free one."""
        self._address = (host, port)
        self._address = (host, await self._listen())
        return self._address[1]

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.reset()
        await asyncio.sleep(0.01)  # connections log what they still owe
        self.timer.close()
        if self._log:
            self._log.close()

    async def _listen(self) -> int:
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(self._address)
        port = int(listening.getsockname()[1])
        self._listener = await self._loop.create_server(
            lambda: Connection(self), sock=listening, backlog=4096, ssl=self._tls
        )
        return port

    # script

    def set_script(self, script: Script) -> None:
        """Set a script: start its clock, reset counts and log.

        Indices and documents stay, unless the script has another version, `store` or `bulk_items`.
        """
        version = parse_version(script.version)
        key = (script.version, script.store, script.bulk_items)
        if key != self._cluster_key:
            self._cluster = Cluster(version, store=script.store, bulk_items=script.bulk_items)
            self._cluster_key = key
            self.wire = Wire(version)
        self._script = script
        self._start_ns = time.monotonic_ns()
        self._rules = Rules(script, self._start_ns)
        self._credentials = {_basic(name, password) for name, password in script.users.items()}
        self._by_class: Counter[str] = Counter()
        self._per_second: Counter[int] = Counter()
        self._connections_seen = 0
        self.malformed = 0
        self._cluster.documents = 0
        for connection in self.connections:
            connection.counted = False
        if self._log:
            self._log.clear()
        for outage in script.refuse:
            self._plan_outage(outage)

    def _plan_outage(self, outage: Outage) -> None:
        script = self._script

        def begin() -> None:
            if self._script is script and self._listener is not None:
                self._listener.close()
                self._listener = None
                for connection in list(self.connections) if outage.cut else ():
                    connection.reset()

        def end() -> None:
            if self._listener is None and (self._opening is None or self._opening.done()):
                self._opening = self._loop.create_task(self._listen())
                self._opening.add_done_callback(asyncio.Task.result)  # stderr shows that a port is taken

        self.timer.at(self._start_ns + round(outage.at_s * _S), begin)
        self.timer.at(self._start_ns + round((outage.at_s + outage.for_s) * _S), end)

    # requests

    def handle(
        self, connection: Connection, method: str, target: str, head: Head, body: bytes, now_ns: int
    ) -> tuple[Answer, Plan | None, bool]:
        """Return the answer, its plan if a rule matches, and True if the request belongs in the log."""
        path, _, query = target.partition("?")
        if path.startswith(_CONTROL):
            return self._control(method, path.removeprefix(_CONTROL), body), None, False
        if not connection.counted:
            connection.counted = True
            self._connections_seen += 1
        if self._credentials and head.authorization not in self._credentials:
            return scripted(Reply(status=401)), None, self._log is not None
        request = self._cluster.route(method, path, query, body)
        self._by_class[request.label] += 1
        self._per_second[(now_ns - self._start_ns) // _S] += 1
        plan = self._rules.plan(method, target, now_ns) if self._rules else None
        if plan is not None and plan.reply is not None:
            return scripted(plan.reply), plan, self._log is not None
        if plan is not None:
            request.refuse_item = plan.refuse_item
        return self._cluster.answer(request), plan, self._log is not None

    def log_exchange(self, exchange: Exchange, answered_ns: int | None) -> None:
        if self._log is None or exchange.target.startswith(_CONTROL):
            return
        self._log.write(
            LogLine(
                exchange.received_ns,
                answered_ns,
                exchange.method,
                exchange.target,
                exchange.head.opaque_id.decode("latin-1"),
                exchange.status,
                exchange.delay_ns / 1e6,
            )
        )

    # control

    def _control(self, method: str, name: str, body: bytes) -> Answer:  # noqa: PLR0911 - one for each request
        match method, name:
            case "GET", "counts":
                return 200, msgspec.json.encode(self._counts())
            case "GET", "log":
                if self._log is None:
                    return _refusal(404, "this server keeps no log: start it with --log FILE")
                return 200, self._log.read()
            case "POST", "reset":
                self.set_script(self._script)
                return 200, b"{}"
            case "GET", "script":
                return 200, msgspec.json.encode(self._script)
            case "PUT", "script":
                try:
                    self.set_script(parse_script(msgspec.json.decode(body or b"{}")))
                except (UsageError, msgspec.DecodeError) as error:
                    return _refusal(400, str(error))
                return 200, b"{}"
        known = "GET counts, GET log, GET script, PUT script, POST reset"
        return _refusal(404, f"no control request {method} {name}; known: {known}")

    def _counts(self) -> Counts:
        seconds = range(max(self._per_second, default=-1) + 1)
        return Counts(
            requests=self._by_class.total(),
            documents=self._cluster.documents,
            connections=self._connections_seen,
            malformed=self.malformed,
            by_class=dict(self._by_class),
            per_second=[self._per_second[second] for second in seconds],
            busy_s=time.process_time() + run_delay_ns() / _S,
        )


def _refusal(status: int, reason: str) -> Answer:
    return status, error_body(status, "null_server_exception", reason)


def _basic(name: str, password: str) -> bytes:
    return b"Basic " + base64.b64encode(f"{name}:{password}".encode())
