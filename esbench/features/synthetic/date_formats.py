"""Elasticsearch's date formats, written and read: the built-in names, and patterns of Java's DateTimeFormatter."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

Writer = Callable[[datetime], str | int]

_DATE, _TIME = "%Y-%m-%d", "%H:%M:%S"
_NAMED = {
    "date_optional_time": f"{_DATE}T{_TIME}Z",
    "date_optional_time_nanos": f"{_DATE}T{_TIME}Z",
    "iso8601": f"{_DATE}T{_TIME}Z",
    "date_time": f"{_DATE}T{_TIME}.000Z",
    "date_time_no_millis": f"{_DATE}T{_TIME}Z",
    "date": _DATE,
    "year_month_day": _DATE,
    "year_month": "%Y-%m",
    "year": "%Y",
    "date_hour": f"{_DATE}T%H",
    "date_hour_minute": f"{_DATE}T%H:%M",
    "date_hour_minute_second": f"{_DATE}T{_TIME}",
    "date_hour_minute_second_millis": f"{_DATE}T{_TIME}.000",
    "date_hour_minute_second_fraction": f"{_DATE}T{_TIME}.000",
    "hour_minute": "%H:%M",
    "hour_minute_second": _TIME,
    "ordinal_date": "%Y-%j",
    "basic_date": "%Y%m%d",
    "basic_date_time": "%Y%m%dT%H%M%S.000Z",
    "basic_date_time_no_millis": "%Y%m%dT%H%M%SZ",
    "basic_ordinal_date": "%Y%j",
}
_PER_SECOND = {"epoch_second": 1, "epoch_millis": 1000}
_LETTERS = {
    "yyyy": "%Y", "uuuu": "%Y", "y": "%Y", "u": "%Y", "yy": "%y", "uu": "%y",
    "MMMM": "%B", "MMM": "%b", "MM": "%m", "dd": "%d", "DDD": "%j",
    "EEEE": "%A", "EEE": "%a", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S", "a": "%p",
    "S": "0", "SS": "00", "SSS": "000", "SSSSSS": "000000", "SSSSSSSSS": "000000000",
    "Z": "+0000", "xx": "+0000", "xxx": "+00:00", "ZZ": "+00:00", "X": "Z", "XX": "Z", "XXX": "Z", "ZZZZZ": "Z",
}  # fmt: skip
_TOKEN = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*|')|[^A-Za-z']")  # quoted text, letters or a lone quote, others


def date_writer(formats: str) -> Writer | None:
    """Return a function that writes a time (UTC) in the first known of `||`-separated formats; None if all are unknown.

    It writes text, or a whole number for epoch_millis and epoch_second.
    """
    for name in formats.split("||"):
        writer = _writer(name.strip())
        if writer is not None:
            return writer
    return None


def read_time(value: object, formats: str) -> datetime | None:
    """Parse a bound of a query: a number, or text in ISO 8601 or one of the `formats`; date math after `||` is ignored.

    `formats` are separated by `||`. A whole number is read in epoch_second and epoch_millis, whichever of `formats`
    fits first, else as ms if it has 12 or 13 digits, else as text. Times without a zone are UTC. Returns None if it
    cannot be read, or for a year outside 1971 to 9998.
    """
    text = str(value).partition("||")[0].strip()
    names = [name.strip() for name in formats.split("||")]
    epochs = [*names, "epoch_millis"] if 11 < len(text) < 14 else names
    readings = [*(_read_epoch(text, name) for name in epochs), _read_iso(text), *(_read(text, name) for name in names)]
    time = next((time for time in readings if time is not None and 1970 < time.year < 9999), None)
    return time if time is None or time.tzinfo else time.replace(tzinfo=UTC)


def _read_epoch(text: str, name: str) -> datetime | None:
    if not text.isdecimal() or name not in _PER_SECOND:
        return None
    try:
        return datetime.fromtimestamp(int(text) // _PER_SECOND[name], UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _read_iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _read(text: str, name: str) -> datetime | None:
    pattern = _NAMED.get(_plain(name)) or _converted(name.removeprefix("8"))
    try:
        return None if pattern is None else datetime.strptime(text, pattern)
    except ValueError:
        return None


def _plain(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().removeprefix("strict_")


def _writer(name: str) -> Writer | None:
    plain = _plain(name)
    if plain == "epoch_millis":
        return lambda time: int(time.timestamp() * 1000)
    if plain == "epoch_second":
        return lambda time: int(time.timestamp())
    pattern = _NAMED.get(plain) or _converted(name.removeprefix("8"))
    return None if pattern is None else lambda time: time.strftime(pattern)


def _converted(pattern: str) -> str | None:
    """Convert a pattern of Java's DateTimeFormatter to strftime's; None if a letter of it has no counterpart."""
    try:
        converted = _TOKEN.sub(_counterpart, pattern)
    except KeyError:
        return None
    return converted if "%" in converted else None


def _counterpart(token: re.Match[str]) -> str:
    if token[2] is not None:
        return _LETTERS[token[2]]
    text = token[0] if token[1] is None else token[1].replace("''", "'") or "'"
    return text.replace("%", "%%")
