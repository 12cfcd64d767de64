"""Files over HTTP: with ranges, ETags, cut replies and failures; remembers what was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from raw_server import CLOSE, Action, RawServer, Request, reply


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

    def answer(self, number: int, request: Request) -> Sequence[Action]:
        headers = request.headers
        asked = headers.get("Range")
        self.asked.append((request.target, asked, headers.get("Authorization")))
        content = self.files.get(request.target.partition("?")[0])
        status = self.statuses.pop(0) if self.statuses else 200 if content is not None else 404
        if status != 200 or content is None:
            return [reply("", f"{status} {HTTPStatus(status).phrase}")]
        start = 0
        if asked and self.has_ranges and headers.get("If-Range") == self.etag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(content) > 0:
            return [reply("", "416 Range Not Satisfiable", f"Content-Range: bytes */{len(content)}")]
        lines = [f"Content-Range: bytes {start}-{len(content) - 1}/{len(content)}"] if start else []
        lines += [f"ETag: {self.etag}"] if self.etag else []
        whole = reply(content[start:], "206 Partial Content" if start else "200 OK", *lines)
        if not self.cuts or (end := start + self.cuts.pop(0)) >= len(content):
            return [whole]
        return [whole[: end - len(content)], CLOSE]


@contextmanager
def serve_files(files: dict[str, bytes], cuts: Sequence[int] = ()) -> Iterator[FileServer]:
    """A server on a free port of 127.0.0.1."""
    served = FileServer(files, cuts=list(cuts))
    with RawServer(served.answer) as server:
        served.url = server.url
        yield served
