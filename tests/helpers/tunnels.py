"""A proxy that opens tunnels (CONNECT) and forwards requests, for tests: what it was asked for, and by whom."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit


class TunnelProxy:
    """A proxy on a free port; `user` (name:password) is the only one that it lets through, None lets all through.

    `asked`: the authorities of all tunnels that were asked for; `forwarded`: those of requests with a whole URL. With
    `tls` it is itself reached by TLS.
    """

    def __init__(self, user: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[str] = []
        self.forwarded: list[str] = []
        self._wanted = None if user is None else f"Basic {base64.b64encode(user.encode()).decode()}"
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # who waits for it is woken
        for thread in self._threads:
            thread.join(5)
        for each in (self._listener, *self._sockets):
            each.close()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        self._threads.append(threading.Thread(target=target, args=args, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True)
                self._sockets.append(client)
            head = b""
            while b"\r\n\r\n" not in head:
                if not (data := client.recv(4096)):
                    return
                head += data
            head, _, body = head.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            method, target, _ = lines[0].split()
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            url = urlsplit(target if "://" in target else f"//{target}")
            (self.asked if method == "CONNECT" else self.forwarded).append(url.netloc)
            if self._wanted not in (None, headers.get("Proxy-Authorization")):
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                client.close()
                return
            try:
                server = socket.create_connection((url.hostname, url.port))
            except OSError:
                client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                client.close()
                return
            self._sockets.append(server)
            if method != "CONNECT":
                path = f"{url.path}?{url.query}" if url.query else url.path
                sent = [f"{method} {path} HTTP/1.1", *lines[1:], "Connection: close", "", ""]
                server.sendall("\r\n".join(sent).encode())
                server.sendall(body)
                while len(body) < int(headers.get("Content-Length", 0)):
                    body += (data := client.recv(1 << 16))
                    server.sendall(data)
                _copy(server, client)
                client.close()
                return
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            self._start(_copy, server, client)
            _copy(client, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
