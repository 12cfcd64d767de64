"""A small HTTP server for scrapers of a race's metrics, in separate threads, as long as the race."""

from __future__ import annotations

import contextlib
import errno
import socket
import socketserver
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Metric, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from esbench.cluster.addresses import is_loopback
from esbench.errors import UsageError
from esbench.features.publish.prometheus.families import families_of_sides
from esbench.features.publish.prometheus.folding import Bounds
from esbench.features.publish.prometheus.following import FollowedRace
from esbench.numbers import whole_of

OPTION = "--metrics-port"
_LOOPBACK = "127.0.0.1"
_EXAMPLE = "say 9108 for this host alone, or 0.0.0.0:9108"
_ASK_S = 0.1  # how often the server looks whether it is to end
_MOST_CONNECTIONS, _LONGEST_S = 8, 10.0  # at a time, and of one: each has a thread of the process that measures


@dataclass(frozen=True)
class Address:
    """A host and port to listen on. Port 0 means any free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """True if only this host can reach it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse an address: `9108`, `0.0.0.0:9108`, `[::]:9108` or `name:9108`. The default host is 127.0.0.1.

    Raises UsageError for anything else. Names are not resolved.
    """
    host, _, port = text.strip().rpartition(":")
    number = whole_of(port)
    if number is None or number > 65535 or "/" in host:
        raise UsageError(f'"{text}" is not a port, nor an address with a port', where=OPTION, hint=_EXAMPLE)
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise UsageError(f'"{text}": an IPv6 address needs brackets', where=OPTION, hint=f"say [{host}]:{port}")
    return Address(host.strip("[]") or _LOOPBACK, number)


class MetricsEndpoint:
    """Serves the metrics of all of `following` from its construction to the end of a `with`.

    UsageError if it cannot listen.

    Serves text by default, OpenMetrics if the scraper accepts it. `bounds` are those of the `le` buckets of latency and
    service time.
    """

    def __init__(self, address: Address, following: Sequence[FollowedRace], bounds: Bounds) -> None:
        self._following = following
        self._bounds = bounds
        registry = CollectorRegistry(support_collectors_without_names=True)
        registry.register(self)
        app = make_wsgi_app(registry)
        self._server = _listen(address, _for_this_host(app) if address.is_loopback else app)
        self.url = f"http://{Address(address.host, self._server.server_port)}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_ASK_S,), name="metrics", daemon=True)
        self._thread.start()

    def __enter__(self) -> MetricsEndpoint:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def collect(self) -> list[Metric]:
        """Return the present metric families, as a collector of prometheus_client."""
        return families_of_sides([race.seen() for race in self._following], self._bounds)


def _for_this_host(app: Callable[..., Any]) -> Callable[..., Any]:
    """Return the app without replies to requests for another host: a page of that name, which a browser of this host
    has open, could read them (DNS rebinding)."""

    def answer(environment: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        host = urlsplit(f"//{environment.get('HTTP_HOST', _LOOPBACK)}").hostname or ""
        if is_loopback(host):
            return app(environment, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"served to 127.0.0.1 and localhost only\n"]

    return answer


def _listen(address: Address, app: Callable[..., Any]) -> WSGIServer:
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f'"{address.host}" is not an address of this host', where=OPTION, hint=_EXAMPLE) from error

    class Server(ThreadingWSGIServer):
        address_family = family
        request_queue_size = _MOST_CONNECTIONS

        def __init__(self, *args: Any) -> None:
            self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
            super().__init__(*args)

        def process_request(self, request: Any, client_address: Any) -> None:
            if self._free.acquire(blocking=False):
                super().process_request(request, client_address)
            else:
                self.shutdown_request(request)

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            end = threading.Timer(_LONGEST_S, _cut, [request])
            end.daemon = True
            end.start()
            try:
                super().process_request_thread(request, client_address)
            finally:
                end.cancel()
                self._free.release()

        def server_bind(self) -> None:
            socketserver.TCPServer.server_bind(self)  # http.server's would look up the host's name first
            self.server_name, self.server_port = address.host, self.server_address[1]
            self.setup_environ()

        def handle_error(self, request: object, client_address: object) -> None:
            """Do nothing: a scraper that disconnects early is not an error of the race."""

    try:
        return make_server(address.host, address.port, app, Server, _Quiet)
    except OSError as error:
        hint = "another port, or 0 for any free one" if error.errno == errno.EADDRINUSE else _EXAMPLE
        raise UsageError(f"cannot listen at {address}: {error.strerror}", where=OPTION, hint=hint) from error


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in http.server
        """Write nothing: the terminal belongs to the race."""
