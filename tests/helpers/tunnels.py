"""A proxy that opens tunnels (CONNECT), for tests: what it was asked for, and whom it lets through."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from contextlib import suppress
from typing import Self


class TunnelProxy:
    """A proxy on a free port; `user` (name:password) is the only one that it lets through, None lets all through.

    `asked`: the authorities of all tunnels that were asked for. With `tls` it is itself reached by TLS.
    """

    def __init__(self, user: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[str] = []
        self._wanted = None if user is None else f"Basic {base64.b64encode(user.encode()).decode()}"
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True)
            head = b""
            while b"\r\n\r\n" not in head:
                if not (data := client.recv(4096)):
                    return
                head += data
            lines = head.decode().split("\r\n")
            self.asked.append(lines[0].split()[1])
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            if self._wanted not in (None, headers.get("Proxy-Authorization")):
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                client.close()
                return
            host, _, port = self.asked[-1].rpartition(":")
            try:
                server = socket.create_connection((host, int(port)))
            except OSError:
                client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                client.close()
                return
            self._sockets.append(server)
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            threading.Thread(target=_copy, args=(server, client), daemon=True).start()
            _copy(client, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
