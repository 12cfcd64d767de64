"""Requests as bytes: constant segments and variable slots, joined per request.

While the clock runs, nothing is encoded but the values themselves. `$[[name]]` or `$[[name.field]]` stands for a drawn
value in a path, query string, header or body.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any
from urllib.parse import quote

from esbench.errors import TrackError
from esbench.requests.exchange import Body

_SLOT = re.compile(r"\$\[\[\s*([A-Za-z_][\w-]*)(?:\.([\w.-]+))?\s*\]\]")
# a slot that is a whole JSON string, but no key of an object: keys stay strings
_QUOTED_SLOT = re.compile(rf'(?<!\\)"{_SLOT.pattern}"(?!\s*:)')
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2: token
GZIP_HEADER = b"Content-Encoding: gzip\r\n"
CLOSE_HEADER = b"Connection: close\r\n"
# What belongs to a connection, and not to a request (RFC 9110, 7.6.1; RFC 9112, 6).
_OF_CONNECTIONS = ("connection", "keep-alive", "proxy-connection", "upgrade", "content-length", "transfer-encoding")


class Encoding(Enum):
    """The form in which a value is written at its place."""

    PATH = "path"  # percent-encoded
    TARGET = "target"  # percent-encoded only where HTTP cannot carry it: it may hold / ? & = %
    TEXT = "text"  # as text, of headers too
    JSON = "json"  # escaped, inside quotes
    JSON_VALUE = "json value"  # a bare number, or a quoted string
    RAW = "raw"  # bytes, as they are


@dataclass(frozen=True)
class Slot:
    """A place for a drawn value: that of a `variable`, or of one `field` of it."""

    variable: str
    field: str | None
    encoding: Encoding


Part = bytes | Slot


def encode(value: object, encoding: Encoding) -> bytes:
    """Return a value as bytes, encoded for its place; bytes are text in UTF-8 that is encoded likewise.

    RAW takes bytes alone and leaves them as they are. JSON_VALUE writes numbers, true, false and null bare, and lists
    as JSON; elsewhere values are written as by `plain`, half a character (a lone surrogate) as `?`.
    """
    if encoding is Encoding.TEXT:
        return value if isinstance(value, bytes) else plain(value).encode(errors="replace")
    if encoding is Encoding.RAW:
        assert isinstance(value, bytes)
        return value
    if encoding is Encoding.JSON_VALUE and not isinstance(value, bytes):
        return json.dumps(value).encode()
    text = value.decode() if isinstance(value, bytes) else plain(value)
    if encoding is Encoding.PATH:
        return quote(text, safe="", errors="replace").encode("ascii")
    if encoding is Encoding.TARGET:
        return quote(text, safe="!$%&'()*+,/:;=?@[]", errors="replace").encode("ascii")
    escaped = json.dumps(text)
    return (escaped if encoding is Encoding.JSON_VALUE else escaped[1:-1]).encode("ascii")


# Texts that need no escape where they stand, a line each.
_UNESCAPED = {
    Encoding.PATH: re.compile(rb"[\n0-9A-Za-z_.~-]*"),
    Encoding.TARGET: re.compile(rb"[\n0-9A-Za-z_.~!$%&'()*+,/:;=?@\[\]-]*"),
    Encoding.TEXT: re.compile(rb"[\n -~]*"),
    Encoding.JSON: re.compile(rb"[\n !#-\[\]-~]*"),
    Encoding.JSON_VALUE: re.compile(rb"[\n !#-\[\]-~]*"),
}


def encode_all(values: Sequence[object], encoding: Encoding) -> list[bytes]:
    """Return many values as `encode` would, several times as fast for plain texts or whole numbers."""
    kinds = set(map(type, values))
    if encoding is Encoding.RAW and kinds == {bytes}:
        return list(values)  # type: ignore[arg-type]
    if kinds == {int}:
        return [str(value).encode() for value in values]
    if kinds in ({str}, {bytes}):
        lines = [value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass") for value in values]
        text = b"\n".join(lines)
        if text.count(b"\n") == len(lines) - 1 and _UNESCAPED[encoding].fullmatch(text):
            return [b'"%b"' % line for line in lines] if encoding is Encoding.JSON_VALUE else lines
    return [encode(value, encoding) for value in values]


def encode_rows(rows: Iterable[Sequence[object]], encodings: Sequence[Encoding]) -> Iterator[tuple[bytes, ...]]:
    """Return rows of values, each encoded as its column requires.

    Raises ValueError without any row, and unless every row has as many values as there are `encodings`.
    """
    columns = zip(zip(*rows, strict=True), encodings, strict=True)
    return zip(*(encode_all(values, encoding) for values, encoding in columns), strict=True)


def plain(value: object) -> str:
    """Return a value as text: true and false as JSON spells them, a list with commas, nothing for None."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(plain(item) for item in value)
    return "" if value is None else str(value)


def segment(value: object) -> str:
    """Return a value as one segment of a path: percent-encoded but for its slots.

    Raises TrackError for a `$[[` that is not a variable.
    """
    return "".join(
        quote(part.decode(), safe="") if isinstance(part, bytes) else _written(part)
        for part in parse(plain(value), Encoding.PATH)
    )


def _written(slot: Slot) -> str:
    return f"$[[{slot.variable}.{slot.field}]]" if slot.field else f"$[[{slot.variable}]]"


def parse(text: str, encoding: Encoding) -> list[Part]:
    """Split text into constants and slots with that encoding; constants are left as they are written. Empty for "".

    Raises TrackError, without a place, for a `$[[` that is not a variable.
    """
    parts: list[Part] = []
    position = 0
    for match in _SLOT.finditer(text):
        parts.append(text[position : match.start()].encode())
        parts.append(Slot(match[1], match[2], encoding))
        position = match.end()
    parts.append(text[position:].encode())
    for part in parts:
        if isinstance(part, bytes) and b"$[[" in part:
            found = part[part.index(b"$[[") :].decode()[:40]
            raise TrackError(f'"{found}" is not a variable', hint="say $[[name]] or $[[name.field]]")
    return [part for part in parts if part != b""]


def variables_in(value: object) -> Iterator[str]:
    """Yield the names of the variables that a value of an operation uses, at any depth; keys of mappings included.

    Raises TrackError for a slot that is not closed or has no valid name.
    """
    if isinstance(value, str):
        yield from (part.variable for part in parse(value, Encoding.JSON) if isinstance(part, Slot))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from variables_in(key)
            yield from variables_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from variables_in(inner)


def json_text(value: Any) -> str:
    """Return a value as JSON; numpy's arrays and numbers, dates and decimals of a track's own code are converted.

    Raises a TrackError without a place for anything else.
    """
    try:
        return json.dumps(value, default=_as_json)
    except _NotJson as error:
        what = str(error)
    except TypeError:
        what = "a key of it is neither text nor a number"
    except ValueError:
        what = "it contains itself"
    raise TrackError(f"a body cannot be written as JSON: {what}", hint="it has text, numbers, lists, dicts")


class _NotJson(TypeError):  # noqa: N818 - caught above
    """Raised for a value that JSON does not have."""


def _as_json(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    raise _NotJson(f"{type(value).__name__} {value!r}"[:80])


def parse_body(body: Any) -> list[Part]:
    """Split a request body (text, a Slot, or a value to be written as JSON) into constants and slots; None is empty.

    A whole JSON string `"$[[n]]"` is replaced with its quotes: a number is written without any. Raises TrackError,
    without a place, for a `$[[` that is not a variable and for a value that JSON does not have.
    """
    if body is None:
        return []
    if isinstance(body, Slot):
        return [body]
    text = body if isinstance(body, str) else json_text(body)
    if "$[[" not in text:
        return [text.encode()] if text else []
    parts: list[Part] = []
    position = 0
    for match in _QUOTED_SLOT.finditer(text):
        parts += parse(text[position : match.start()], Encoding.JSON)
        parts.append(Slot(match[1], match[2], Encoding.JSON_VALUE))
        position = match.end()
    return parts + parse(text[position:], Encoding.JSON)


class Layout:
    """The place of each slot's value in a draw: draw[source][item].

    `variables`: the variable of each source, in order. `fields`: variable name -> (field, encoding) of each of its
    items; slots that are alike share an item.
    """

    def __init__(self, slots: Iterable[Slot]) -> None:
        self.fields: dict[str, list[tuple[str | None, Encoding]]] = {}
        for slot in slots:
            wanted = self.fields.setdefault(slot.variable, [])
            if (slot.field, slot.encoding) not in wanted:
                wanted.append((slot.field, slot.encoding))
        self.variables = tuple(self.fields)

    def find(self, slot: Slot) -> tuple[int, int]:
        """Return (source, item) of a slot. Raises ValueError for a slot that is not one of the layout's."""
        return self.variables.index(slot.variable), self.fields[slot.variable].index((slot.field, slot.encoding))


def check_header(name: str, value: str, where: str) -> None:
    """Raise TrackError for a header that HTTP cannot carry."""
    if not _HEADER_NAME.fullmatch(name) or re.search(r"[\r\n\0]", value):
        raise TrackError(f"HTTP cannot send the header {name!r}: {value!r}", where=where)


def _ascii(constant: bytes) -> bytes:
    """Percent-encode all bytes that are not ASCII; the rest is left as it is written."""
    return re.sub(rb"[\x80-\xff]", lambda match: b"%%%02X" % match[0][0], constant)


Draw = Sequence[Sequence[bytes]]


@dataclass(frozen=True)
class RequestTemplate:
    """One HTTP request with slots. `target` is path and query; `headers` are the operation's own, as header lines.

    `body` None: the request has no body.
    """

    method: str
    target: tuple[Part, ...]
    headers: tuple[Part, ...] = ()
    body: tuple[Part, ...] | None = None

    @classmethod
    def of(
        cls,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        where: str = "",
    ) -> RequestTemplate:
        """Return the template of a request that a track describes.

        Path, body and the values of `query` and `headers` may have slots. `query` values are percent-encoded, and of
        the path what is not ASCII. A body is JSON unless `headers` has a Content-Type. `where` is the place that errors
        name. Raises TrackError for a request that HTTP cannot carry, for a `$[[` that is not a variable, and for a body
        that JSON does not have.
        """
        if not path.startswith("/"):
            raise TrackError(f'a path must begin with "/", not "{path}"', where=where)
        path = path.partition("#")[0]  # a fragment is the client's own (RFC 9110, 7.1)
        target = parse(path, Encoding.PATH)
        joint = "&" if "?" in path else "?"
        for key, value in (query or {}).items():
            target.append(f"{joint}{quote(str(key))}=".encode())
            for part in parse(plain(value), Encoding.PATH):
                target.append(quote(part, safe=",*").encode() if isinstance(part, bytes) else part)
            joint = "&"
        if any(isinstance(part, bytes) and re.search(rb"[\x00-\x20\x7f]", part) for part in target):
            raise TrackError(f"a path cannot contain white space: {path!r}", where=where, hint="say %20")
        target = [_ascii(part) if isinstance(part, bytes) else part for part in target]
        headers = own_headers(headers or {})
        given = {name.lower() for name in headers}
        lines: list[Part] = []
        if body is not None and "content-type" not in given:
            lines.append(b"Content-Type: application/json\r\n")
        for name, value in headers.items():
            check_header(name, value, where)
            lines += [f"{name}: ".encode(), *parse(value, Encoding.TEXT), b"\r\n"]
        try:
            parts = None if body is None else tuple(parse_body(body))
        except TrackError as error:
            raise TrackError(error.what, where=error.where or where, hint=error.hint) from None
        return cls(method.upper(), tuple(target), tuple(lines), parts)

    @property
    def _header_names(self) -> list[str]:
        return [part.partition(b":")[0].decode() for part in self.headers if isinstance(part, bytes) and b":" in part]

    @property
    def closes(self) -> bool:
        """True if its connection ends with its reply."""
        return "Connection" in self._header_names

    @property
    def slots(self) -> tuple[Slot, ...]:
        parts = (*self.target, *self.headers, *(self.body or ()))
        return tuple(part for part in parts if isinstance(part, Slot))

    @property
    def may_be_compressed(self) -> bool:
        """True if it has a body, and no header that says how that is encoded."""
        return self.body is not None and not is_encoded(self._header_names)

    def head(self, connection_headers: bytes, compress: bool) -> list[Part]:
        """Return the request line and the headers but Content-Length, for a connection with these header lines."""
        lines = without_headers(connection_headers, self._header_names)
        head = [self.method.encode() + b" ", *self.target, b" HTTP/1.1\r\n", lines, *self.headers]
        return [*head, GZIP_HEADER] if compress else head

    def bind(
        self, layout: Layout, connection_headers: bytes, compress: bool = False
    ) -> Callable[[Draw], Sequence[bytes]]:
        """Return a function that renders the request from a draw, for a connection with these header lines.

        The operation's own headers replace those of the connection. With `compress`, its body is sent as gzip, unless
        its own headers say how it is encoded.
        """
        compress = compress and self.may_be_compressed
        head, body = self.head(connection_headers, compress), self.body
        if body is None:
            if self.method in ("POST", "PUT"):
                head.append(b"Content-Length: 0\r\n")
            return _joiner([*head, b"\r\n"], layout)
        if not any(isinstance(part, Slot) for part in body):
            constant = b"".join(part for part in body if isinstance(part, bytes))
            constant = compressed(constant) if compress else constant
            return _joiner([*head, b"Content-Length: %d\r\n\r\n" % len(constant), constant], layout)
        render_head = _joiner([*head, b"Content-Length: "], layout)
        render_body = _joiner(list(body), layout)

        def render(draw: Draw) -> Sequence[bytes]:
            content = render_body(draw)[0]
            if compress:
                content = compressed(content)
            return (b"%b%d\r\n\r\n%b" % (render_head(draw)[0], len(content), content),)

        return render


def compressed(body: Body) -> bytes:
    """Return a body as elasticsearch-py sends it with `http_compress`: gzip, at its highest level.

    The same body always gives the same bytes.
    """
    return gzip.compress(body, mtime=0)


def own_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return a request's own headers as they are sent: of those that belong to its connection, `Connection: close`."""
    own = {name: value for name, value in headers.items() if name.lower() not in _OF_CONNECTIONS}
    return {**own, "Connection": "close"} if any(_asks(each, "close") for each in headers.items()) else own


def unsent_headers(headers: Mapping[str, str]) -> Sequence[str]:
    """Return the names of the headers that a request says, and that are neither sent nor what is done anyway."""
    return [
        name
        for name, value in headers.items()
        if name.lower() in _OF_CONNECTIONS
        and not _asks((name, value), "close")
        and not _asks((name, value), "keep-alive")
    ]


def _asks(header: tuple[str, str], option: str) -> bool:
    """True for a header Connection with an option, in any case (RFC 9110, 7.6.1)."""
    name, value = header
    return name.lower() == "connection" and option in map(str.strip, value.lower().split(","))


def closes(head: Body) -> bool:
    """True if header lines, or a rendered request's, say that its connection ends with its reply (RFC 9112, 9.6)."""
    head = bytes(head)
    end = head.find(b"\r\n\r\n")
    return head.find(CLOSE_HEADER, 0, end + 2 if end >= 0 else len(head)) >= 0


def is_encoded(headers: Iterable[str]) -> bool:
    """True if a request's own headers (their names) say how its body is encoded; such a body is sent as it is."""
    return "content-encoding" in {name.lower() for name in headers}


def without_headers(lines: bytes, names: Iterable[str]) -> bytes:
    """Return the header lines of a connection without those of these names (in any case), which a request replaces."""
    own = {name.lower().encode() for name in names}
    if not own:
        return lines
    kept = [line for line in lines.splitlines(keepends=True) if line.partition(b":")[0].lower() not in own]
    return b"".join(kept)


def _joiner(parts: list[Part], layout: Layout) -> Callable[[Draw], Sequence[bytes]]:
    """Return a function that joins constants and the values of a draw."""
    merged: list[Part] = []
    for part in parts:
        if merged and isinstance(part, bytes) and isinstance(merged[-1], bytes):
            merged[-1] += part
        else:
            merged.append(part)
    pieces = [part if isinstance(part, bytes) else b"" for part in merged]
    places = [(number, *layout.find(part)) for number, part in enumerate(merged) if isinstance(part, Slot)]
    if not places:
        constant = (b"".join(pieces),)
        return lambda draw: constant
    if len(places) == 1 and len(pieces) == 3:  # most requests: an id in a path, a term in a body
        before, _, after = pieces
        ((_, source, item),) = places
        return lambda draw: (before + draw[source][item] + after,)
    join = b"".join

    def render(draw: Draw) -> Sequence[bytes]:
        for number, source, item in places:
            pieces[number] = draw[source][item]
        return (join(pieces),)

    return render
