"""A small HTTP server for scrapers of a race's metrics, in separate threads, as long as the race."""

from __future__ import annotations

import errno
import gzip
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Metric, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from esbench.errors import UsageError
from esbench.publish.prometheus.families import families_of
from esbench.publish.prometheus.folding import Bounds
from esbench.publish.prometheus.following import Following

OPTION = "--metrics-port"
PROTOBUF = "application/vnd.google.protobuf"
_TEXTS = ("application/openmetrics-text", "text/plain", "text/*", "*/*")
_LOOPBACK = "127.0.0.1"
_EXAMPLE = "say 9108 for this host alone, or 0.0.0.0:9108"
_ASK_S = 0.1  # how often the server looks whether it is to end


@dataclass(frozen=True)
class Address:
    """A host and port to listen on. Port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse an address: `9108`, `0.0.0.0:9108`, `[::]:9108` or `name:9108`. The default host is 127.0.0.1."""
    host, _, port = text.strip().rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535 or "/" in host:
        raise UsageError(f'"{text}" is not a port, nor an address with a port', where=OPTION, hint=_EXAMPLE)
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise UsageError(f'"{text}": an IPv6 address stands in brackets', where=OPTION, hint=f"say [{host}]:{port}")
    return Address(host.strip("[]") or _LOOPBACK, int(port))


class Endpoint:
    """Serves the metrics of `following` from its construction until `close`. UsageError if it cannot listen.

    Serves text by default, OpenMetrics if the scraper accepts it, protobuf with native histograms if it prefers that.
    `bounds` are those of the `le` buckets of latency and service time.
    """

    def __init__(self, address: Address, following: Following, bounds: Bounds) -> None:
        self._following = following
        self._bounds = bounds
        registry = CollectorRegistry(support_collectors_without_names=True)
        registry.register(self)
        self._as_text = make_wsgi_app(registry)
        self._server = _listen(address, self._answer)
        self.url = f"http://{Address(address.host, self._server.server_port)}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_ASK_S,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def collect(self) -> list[Metric]:
        """Return the metric families without native histograms, which the text formats cannot hold."""
        return families_of(self._following.seen(), self._bounds, with_native=False)

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "GET" or not prefers_protobuf(environ.get("HTTP_ACCEPT", "")):
            answer: Iterable[bytes] = self._as_text(environ, start_response)
            return answer
        from esbench.publish.prometheus import protobuf

        body = protobuf.encode(families_of(self._following.seen(), self._bounds, with_native=True))
        headers = [("Content-Type", protobuf.CONTENT_TYPE)]
        if "gzip" in environ.get("HTTP_ACCEPT_ENCODING", ""):
            body = gzip.compress(body)
            headers.append(("Content-Encoding", "gzip"))
        start_response("200 OK", headers)
        return [body]


def prefers_protobuf(accept: str) -> bool:
    """True if an Accept header ranks Prometheus' protobuf format above its text formats; the first of equals wins."""
    ranks = [(_quality(part), part.partition(";")[0].strip().lower()) for part in accept.split(",")]
    known = [rank for rank in ranks if rank[0] > 0 and rank[1] in (PROTOBUF, *_TEXTS)]
    return max(known, key=lambda rank: rank[0], default=(0.0, ""))[1] == PROTOBUF


def _quality(part: str) -> float:
    """Return the q of a media range (RFC 9110, 12.4.2): 1 if not given, 0 if not a number."""
    for parameter in part.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _listen(address: Address, app: Callable[..., Any]) -> WSGIServer:
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
    except OSError as error:
        raise UsageError(f'"{address.host}" is no address of this host', where=OPTION, hint=_EXAMPLE) from error

    class Server(ThreadingWSGIServer):
        address_family = family

        def server_bind(self) -> None:
            socketserver.TCPServer.server_bind(self)  # http.server's would look up the host's name first
            self.server_name, self.server_port = address.host, self.server_address[1]
            self.setup_environ()

        def handle_error(self, request: object, client_address: object) -> None:
            """Do nothing: a scraper that disconnects early is no error of the race."""

    try:
        return make_server(address.host, address.port, app, Server, _Quiet)
    except OSError as error:
        hint = "another port, or 0 for any free one" if error.errno == errno.EADDRINUSE else _EXAMPLE
        raise UsageError(f"cannot listen at {address}: {error.strerror}", where=OPTION, hint=hint) from error


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in http.server
        """Write nothing: the terminal belongs to the race."""
