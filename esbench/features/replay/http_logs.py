"""Access logs (common, combined, a `log_format` of nginx), and the files of GoReplay (.gor)."""

from __future__ import annotations

import re
from datetime import datetime
from urllib.parse import parse_qs

from esbench.errors import UsageError
from esbench.features.replay.entries import BadLineError, CutLineError, Entry, Stamp, duration_ms, read_json, read_stamp
from esbench.features.replay.json_logs import read_body
from esbench.features.replay.searches import BODY_MISSING, endpoint_of, why_left_out

COMBINED = '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent'
GOR_END = "🐵🙈🙉"
_VARIABLE = re.compile(r"\$(\w+)")
_BODIES = {"_search", "_msearch", "_count", "_mget"}


class AccessLog:
    """The requests of an access log whose lines are as `form`, a log_format of nginx, says, or longer."""

    def __init__(self, form: str = COMBINED) -> None:
        self._line = _pattern(form)
        groups = self._line.groupindex
        if not ("request" in groups and {"time_local", "time_iso8601", "msec"} & groups.keys()):
            hint = "it needs $request, and $time_local, $time_iso8601 or $msec"
            raise UsageError("this form of lines is not enough", where="--log-format", hint=hint)

    def read(self, line: str) -> Entry:
        """Return the request of a line. Raises BadLineError."""
        found = self._line.match(line)
        if found is None:
            raise BadLineError("it is not a line of the access log")
        parts = found.groupdict()
        words = parts["request"].split(" ")
        if len(words) != 3 or not words[1].startswith("/"):
            raise BadLineError("its request is not METHOD PATH PROTOCOL")
        method, path = words[0], words[1]
        took_s = duration_ms(parts.get("request_time"))
        status = parts.get("status") or ""
        return Entry(
            _access_stamp(parts),
            method,
            path,
            self._body(path),
            None if took_s is None else took_s * 1000,
            int(status) if re.fullmatch(r"\d{3}", status) else None,
            at_end=took_s is not None,
            left_out=why_left_out(method, path, None) or self._missing(method, path),
        )

    @staticmethod
    def _body(path: str) -> object:
        given = parse_qs(path.partition("?")[2]).get("source")
        return read_json(given[0]) if given and endpoint_of(path)[1] == "_search" else None

    @staticmethod
    def _missing(method: str, path: str) -> str:
        if endpoint_of(path)[1] not in _BODIES:
            return ""
        names = parse_qs(path.partition("?")[2], keep_blank_values=True)
        return "" if method == "GET" and names.keys() & {"q", "source"} else BODY_MISSING


def read_gor(record: str) -> Entry | None:
    """Return the request of a record of GoReplay; None for a response. Raises BadLineError."""
    head, _, rest = record.partition("\n")
    parts = head.split(" ")
    if len(parts) < 3 or not parts[2].isascii() or not parts[2].isdigit() or len(parts[2]) > 20:
        raise BadLineError("its first line is not TYPE ID TIME")
    if parts[0] != "1":
        return None
    request, _, body = rest.replace("\r\n", "\n").partition("\n\n")
    words = request.partition("\n")[0].split(" ")
    if len(words) != 3:
        raise CutLineError("its end is missing")
    method, path = words[0], words[1]
    parsed = read_body(method, path, body)
    stamp = Stamp(int(parts[2]) / 1e9, 1e-9)
    return Entry(stamp, method, path, parsed, left_out=why_left_out(method, path, parsed))


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


def _pattern(form: str) -> re.Pattern[str]:
    """Return the pattern of a form: each variable ends before the character that follows it."""
    pieces, place, seen = [], 0, set[str]()
    for variable in _VARIABLE.finditer(form):
        pieces.append(re.escape(form[place : variable.start()]))
        place = variable.end()
        following = form[place : place + 1]
        text = f"[^{re.escape(following)}]*" if following else r"\S*"
        pieces.append(text if variable[1] in seen else f"(?P<{variable[1]}>{text})")
        seen.add(variable[1])
    try:
        return re.compile("".join([*pieces, re.escape(form[place:])]))
    except re.error:
        raise UsageError("this form of lines cannot be read", where="--log-format") from None
