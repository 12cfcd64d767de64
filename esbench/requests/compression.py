"""Request bodies as elasticsearch-py sends them with `http_compress`: all of them gzip, at its highest level."""

from __future__ import annotations

import gzip
from collections.abc import Iterable

GZIP_HEADER = b"Content-Encoding: gzip\r\n"


def compressed(body: bytes | bytearray | memoryview) -> bytes:
    """Return a body as gzip; the same body always gives the same bytes."""
    return gzip.compress(body, mtime=0)


def is_encoded(headers: Iterable[str]) -> bool:
    """True if a request's own headers say how its body is encoded; such a body is sent as it is."""
    return "content-encoding" in {name.lower() for name in headers}
