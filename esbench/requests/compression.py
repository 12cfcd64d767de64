"""Request bodies as elasticsearch-py sends them with `http_compress`: all of them gzip, at its highest level."""

from __future__ import annotations

import gzip
from collections.abc import Iterable

GZIP_HEADER = b"Content-Encoding: gzip\r\n"


def compressed(body: bytes | bytearray | memoryview) -> bytes:
    """A body as gzip; the same bytes each time."""
    return gzip.compress(body, mtime=0)


def is_encoded(headers: Iterable[str]) -> bool:
    """Whether a request's own headers say how its body is encoded: then it is sent as it is."""
    return "content-encoding" in {name.lower() for name in headers}
