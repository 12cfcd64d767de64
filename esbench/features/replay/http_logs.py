"""Access logs (common, combined, a `log_format` of nginx), and the files of GoReplay (.gor)."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from datetime import datetime
from urllib.parse import parse_qs

from esbench.errors import UsageError
from esbench.features.replay.entries import BadLineError, CutLineError, Entry, Stamp, duration_ms, read_json, read_stamp
from esbench.features.replay.json_logs import read_body
from esbench.features.replay.searches import BODY_MISSING, NOT_HTTP, endpoint_of, why_left_out

COMMON = '[$time_local] "$request" $status'  # as far as common and combined logs, with or without a host, are alike
GOR_END = "🐵🙈🙉"
_ORIGIN = re.compile(r"https?://[^/]*(?=/)", re.IGNORECASE)  # proxies are asked for whole URLs
_HEXADECIMAL = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_CHUNK = re.compile(rb"[0-9A-Fa-f]{1,8}")
_LONGEST_BODY = 100 << 20
_VARIABLE = re.compile(r"\$(\w+)")
_BODIES = {"_search", "_msearch", "_count", "_mget"}


class AccessLog:
    """The requests of an access log whose lines hold what `form`, a log_format of nginx, says."""

    def __init__(self, form: str = COMMON) -> None:
        self._line = _pattern(form)
        groups = self._line.groupindex
        if not ("request" in groups and {"time_local", "time_iso8601", "msec"} & groups.keys()):
            hint = "it needs $request, and $time_local, $time_iso8601 or $msec"
            raise UsageError("this form of lines is not enough", where="--log-format", hint=hint)

    def read(self, line: str) -> Entry:
        """Return the request of a line. Raises BadLineError."""
        found = self._line.search(line)
        if found is None:
            raise BadLineError("it is not as its format says")
        parts = found.groupdict()
        words = parts["request"].split(" ")
        if len(words) != 3:  # what a server writes of a connection that was no HTTP
            return Entry(_access_stamp(parts), "", "", left_out=NOT_HTTP)
        method, path = words[0], _ORIGIN.sub("", words[1])
        body = self._body(method, path, parts.get("request_body", ""))
        took_s = duration_ms(parts.get("request_time"))
        status = parts.get("status") or ""
        return Entry(
            _access_stamp(parts),
            method,
            path,
            body,
            None if took_s is None else took_s * 1000,
            int(status) if re.fullmatch(r"\d{3}", status) else None,
            at_end=took_s is not None,
            left_out=why_left_out(method, path, body) or ("" if body else self._missing(method, path)),
        )

    @staticmethod
    def _body(method: str, path: str, text: str) -> object:
        if text not in ("", "-"):
            return read_body(method, path, _unescaped(text))
        given = parse_qs(path.partition("?")[2]).get("source")
        return read_json(given[0]) if given and endpoint_of(path)[1] == "_search" else None

    def _missing(self, method: str, path: str) -> str:
        if endpoint_of(path)[1] not in _BODIES or "request_body" in self._line.groupindex:
            return ""
        names = parse_qs(path.partition("?")[2], keep_blank_values=True)
        return "" if method == "GET" and names.keys() & {"q", "source"} else BODY_MISSING


def read_gor(record: str) -> Entry | None:
    """Return the request of a record of GoReplay; None for a response. Raises BadLineError.

    Bytes that are no UTF-8 stand in the record as surrogates (PEP 383).
    """
    whole = record.rstrip("\r\n")
    record = whole.removesuffix(GOR_END)
    head, _, rest = record.partition("\n")
    parts = head.split(" ")
    if len(parts) < 3 or not parts[2].isascii() or not parts[2].isdigit() or len(parts[2]) > 20:
        raise BadLineError("its first line is not TYPE ID TIME")
    if parts[0] != "1":
        return None
    request, _, body = rest.removesuffix("\n").partition("\r\n\r\n" if "\r\n" in rest else "\n\n")
    first, *headers = request.splitlines() or [""]
    words = first.split(" ")
    if len(words) != 3 or whole == record:
        raise CutLineError("its end is missing")
    method, path = words[0], _ORIGIN.sub("", words[1])
    parsed = read_body(method, path, _decoded(body, "\n".join(headers).lower()))
    stamp = Stamp(int(parts[2]) / 1e9, 1e-9)
    return Entry(stamp, method, path, parsed, left_out=why_left_out(method, path, parsed))


def _decoded(body: str, headers: str) -> str:
    """Return the text of a body that may have come in chunks, and packed (RFC 9112, 7.1; RFC 9110, 8.4)."""
    raw = body.encode("utf-8", "surrogateescape")
    try:
        if "transfer-encoding: chunked" in headers:
            raw = b"".join(_chunks(raw))
        if "content-encoding: gzip" in headers:
            unpacking = zlib.decompressobj(wbits=31)
            raw = unpacking.decompress(raw, _LONGEST_BODY)
            if not unpacking.eof:
                raise BadLineError("its body is cut, or longer than 100 MB")
        return raw.decode()
    except (UnicodeDecodeError, zlib.error):
        raise BadLineError("its body cannot be unpacked") from None


def _chunks(raw: bytes) -> Iterator[bytes]:
    while raw:
        size, _, rest = raw.partition(b"\r\n")
        if not (found := _CHUNK.match(size)):
            raise BadLineError("the chunks of its body cannot be read")
        length = int(found[0], 16)
        yield rest[:length]
        raw = rest[length + 2 :] if length else b""


def _access_stamp(parts: dict[str, str]) -> Stamp:
    if "msec" in parts:
        seconds = duration_ms(parts["msec"])  # seconds, of which the same range is valid
        if seconds is None:
            raise BadLineError("its time cannot be read")
        return Stamp(seconds, 0.001)
    if "time_iso8601" in parts:
        return read_stamp(parts["time_iso8601"])
    try:
        return Stamp(datetime.strptime(parts["time_local"], "%d/%b/%Y:%H:%M:%S %z").timestamp(), 1.0)
    except (ValueError, OverflowError):
        raise BadLineError("its time cannot be read") from None


def _unescaped(text: str) -> str:
    """Return a variable of nginx as it was: \\x22 by default, \\" and others of JSON with escape=json."""
    try:
        if "\\x" in text:
            return _HEXADECIMAL.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode()).decode()
        return json.loads(f'"{text}"', strict=False) if "\\" in text else text
    except ValueError:
        raise BadLineError("its body cannot be read") from None


def _pattern(form: str) -> re.Pattern[str]:
    """Return the pattern of a form: each variable ends before the character that follows it, \\" aside."""
    pieces, place, seen = [], 0, set[str]()
    for variable in _VARIABLE.finditer(form):
        pieces.append(re.escape(form[place : variable.start()]))
        place = variable.end()
        following = form[place : place + 1]
        text = f"[^{re.escape(following)}]*" if following else r"\S*"
        text = r'(?:[^"\\]|\\.)*' if following == '"' else text
        pieces.append(text if variable[1] in seen else f"(?P<{variable[1]}>{text})")
        seen.add(variable[1])
    try:
        return re.compile("".join([*pieces, re.escape(form[place:])]))
    except re.error:
        raise UsageError("this form of lines cannot be read", where="--log-format") from None
