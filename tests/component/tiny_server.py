"""A real HTTP server that answers with fixed replies and remembers what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, Any]  # status; JSON, or text
INFO = {
    "name": "n1",
    "cluster_name": "tiny",
    "cluster_uuid": "u1",
    "version": {"number": "8.19.4", "build_hash": "abc", "build_flavor": "default"},
}
GREEN: dict[str, Reply] = {"GET /": (200, INFO), "GET /_cluster/health": (200, {"status": "green"})}


@dataclass
class Asked:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class TinyServer:
    """`replies` maps `METHOD /path` to a reply, whatever the query string; anything else is a 404."""

    replies: Mapping[str, Reply]
    port: int = 0
    tls: bool = False
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"


class _HttpServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that refuse the certificate are part of the tests."""


@contextmanager
def serve(replies: Mapping[str, Reply], tls: ssl.SSLContext | None = None) -> Iterator[TinyServer]:
    """A server on a free port of 127.0.0.1."""
    server = TinyServer(replies, tls=tls is not None)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.asked.append(Asked(self.command, self.path, dict(self.headers), body))
            path = self.path.partition("?")[0]
            status, reply = server.replies.get(f"{self.command} {path}", (404, {"error": f"no {path}"}))
            is_text = isinstance(reply, str)
            content = (reply if is_text else json.dumps(reply)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if is_text else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Quiet."""

    http_server = _HttpServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        # The handshake happens in the connection's thread, at its first read.
        http_server.socket = tls.wrap_socket(http_server.socket, server_side=True, do_handshake_on_connect=False)
    server.port = http_server.server_address[1]
    thread = threading.Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http_server.shutdown()
        thread.join()
        http_server.server_close()
