"""A proxy between esbench and a cluster: each connection is a tunnel through it (CONNECT, RFC 9110, 9.3.6).

Standard library only: load workers import it.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from esbench.errors import UsageError


@dataclass(frozen=True)
class Proxy:
    """An HTTP proxy, reached by TLS if `scheme` is https. The password stays out of its repr."""

    host: str
    port: int
    scheme: str = "http"
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str, where: str) -> Proxy:
        """Return the proxy of `http://user:password@10.0.0.9:3128`. Raises UsageError; it shows no password."""
        hint = "say http://10.0.0.9:3128 or http://user:password@10.0.0.9:3128"
        shown = text.rpartition("@")[2]
        try:
            url = urlsplit(text if "://" in text else f"http://{text}")
            host, port = url.hostname, url.port
        except ValueError:
            host = port = None
        if not host or url.path.strip("/") or url.query or url.fragment:
            raise UsageError(f'proxy "{shown}" is not the URL of a host', where=where, hint=hint)
        if url.scheme not in ("http", "https"):
            raise UsageError(f'proxy "{shown}" has the scheme "{url.scheme}"', where=where, hint="http or https")
        if not port:
            raise UsageError(f'proxy "{shown}" has no port', where=where, hint=hint)
        return cls(host, port, url.scheme, unquote(url.username or ""), unquote(url.password or ""))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL, without user and password."""
        return f"{self.scheme}://{self}"

    def headers(self) -> Mapping[str, str]:
        """Return the headers of each CONNECT: those of the user, if there is one."""
        if not self.user:
            return {}
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return {"Proxy-Authorization": f"Basic {pair}"}

    def connect_request(self, authority: str) -> bytes:
        """Return the request for a tunnel to `host:port`."""
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        lines += [f"{name}: {value}" for name, value in self.headers().items()]
        return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


def through(kind: type[Any], proxy: Proxy, tls: ssl.SSLContext | None) -> type[Any]:
    """Return a class of urllib3's connections whose connections go through a proxy."""
    from urllib3.connection import ProxyConfig

    config = ProxyConfig(tls, use_forwarding_for_https=False, assert_hostname=None, assert_fingerprint=None)

    class Tunnelled(kind):  # type: ignore[misc]
        def __init__(self, host: str, port: int, **options: Any) -> None:
            super().__init__(proxy.host, proxy.port, **{**options, "proxy_config": config})
            self.set_tunnel(host, port, dict(proxy.headers()), proxy.scheme)

    return Tunnelled
