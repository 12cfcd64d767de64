"""A real HTTP server of files: with ranges, ETags, cut replies and failures, that remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FileServer:
    """`files` by path. cuts: after how many bytes the next replies end; statuses: what they answer instead."""

    files: dict[str, bytes]
    url: str = ""
    etag: str = '"one"'
    has_ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    asked: list[tuple[str, str | None, str | None]] = field(default_factory=list)  # path, Range, Authorization


@contextmanager
def serve_files(files: dict[str, bytes]) -> Iterator[FileServer]:
    """A server on a free port of 127.0.0.1."""
    server = FileServer(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            server.asked.append((self.path, asked, self.headers.get("Authorization")))
            content = server.files.get(self.path.partition("?")[0])
            status = server.statuses.pop(0) if server.statuses else 200 if content is not None else 404
            if status != 200 or content is None:
                self.send_error(status)
                return
            start = 0
            if asked and server.has_ranges and self.headers.get("If-Range") == server.etag:
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content) > 0:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            if server.etag:
                self.send_header("ETag", server.etag)
            self.end_headers()
            end = start + server.cuts.pop(0) if server.cuts else len(content)
            with suppress(ConnectionError):  # who has enough hangs up
                self.wfile.write(content[start:end])

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Quiet."""

    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http_server.server_address[1]}"
    thread = threading.Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http_server.shutdown()
        thread.join()
        http_server.server_close()
