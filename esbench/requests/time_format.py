"""Times as text: by a strftime format, or by a layout of Go, which shows how it would write 2006-01-02 15:04:05.

Source of the layouts: the documentation of Go's package time, at its constants.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

NS = 1_000_000_000
_ELEMENTS = re.compile(
    r"(?P<fraction>[.,](?:0+|9+)(?![0-9]))"
    r"|January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|2006|__2|_2(?!006)|002|0[1-6]|15|[1-5]|PM|pm"
    r"|(?:Z|-)(?:070000|07:00:00|0700|07:00|07)"
)
_Write = Callable[[datetime], str]
_WRITERS: dict[str, _Write] = {
    "January": lambda at: at.strftime("%B"),
    "Jan": lambda at: at.strftime("%b"),
    "Monday": lambda at: at.strftime("%A"),
    "Mon": lambda at: at.strftime("%a"),
    "MST": lambda at: at.strftime("%Z"),
    "2006": lambda at: f"{at.year:04d}",
    "06": lambda at: f"{at.year % 100:02d}",
    "01": lambda at: f"{at.month:02d}",
    "1": lambda at: str(at.month),
    "02": lambda at: f"{at.day:02d}",
    "_2": lambda at: f"{at.day:2d}",
    "2": lambda at: str(at.day),
    "002": lambda at: f"{at.timetuple().tm_yday:03d}",
    "__2": lambda at: f"{at.timetuple().tm_yday:3d}",
    "15": lambda at: f"{at.hour:02d}",
    "03": lambda at: f"{at.hour % 12 or 12:02d}",
    "3": lambda at: str(at.hour % 12 or 12),
    "04": lambda at: f"{at.minute:02d}",
    "4": lambda at: str(at.minute),
    "05": lambda at: f"{at.second:02d}",
    "5": lambda at: str(at.second),
    "PM": lambda at: "PM" if at.hour >= 12 else "AM",
    "pm": lambda at: "pm" if at.hour >= 12 else "am",
}


@dataclass(frozen=True)
class _Fraction:
    """The fraction of a second behind a point or comma; `trimmed`: without zeros at its end, or nothing."""

    separator: str
    digits: int
    trimmed: bool

    def text(self, ns: int) -> str:
        digits = str(ns).zfill(9)[: self.digits].ljust(self.digits, "0")
        if self.trimmed:
            digits = digits.rstrip("0")
        return f"{self.separator}{digits}" if digits else ""


_Part = str | _Write | _Fraction


def time_writer(form: str, *, utc: bool = False) -> Callable[[], str]:
    """Return a function that returns the time of now as text: local time, unless `utc`.

    `form` is for strftime if it contains a %, else a layout of Go. Raises ValueError if nothing in it is of a time.
    """
    if "%" in form:
        zone = UTC if utc else None
        return lambda: datetime.now(zone).astimezone(zone).strftime(form)
    return _by_layout(_parts_of(form), utc)


def _parts_of(layout: str) -> list[_Part]:
    parts: list[_Part] = []
    end = 0
    for match in _ELEMENTS.finditer(layout):
        parts.append(layout[end : match.start()])
        end = match.end()
        element = match[0]
        if match["fraction"]:
            parts.append(_Fraction(element[0], len(element) - 1, trimmed=element[1] == "9"))
        elif element in _WRITERS:
            parts.append(_WRITERS[element])
        else:
            parts.append(_zone(element))
    if end == 0:
        raise ValueError(f'"{layout}" has nothing of a time in it')
    return [part for part in (*parts, layout[end:]) if part != ""]


def _zone(element: str) -> _Write:
    """Return the writer of an offset from UTC, such as -07:00; one that begins with Z writes UTC as Z."""
    colon, seconds = ":" if ":" in element else "", len(element.replace(":", "")) == len("-070000")
    hours_only = len(element) == len("-07")

    def write(at: datetime) -> str:
        offset = at.utcoffset() or timedelta()
        if element[0] == "Z" and not offset:
            return "Z"
        minutes, second = divmod(abs(round(offset.total_seconds())), 60)
        hour, minute = divmod(minutes, 60)
        text = f"{'-' if offset < timedelta() else '+'}{hour:02d}"
        text += "" if hours_only else f"{colon}{minute:02d}"
        return f"{text}{colon}{second:02d}" if seconds else text

    return write


def _by_layout(parts: Sequence[_Part], utc: bool) -> Callable[[], str]:
    """Return the writer of a layout; the texts between its fractions of a second are written once a second."""
    zone = UTC if utc else None
    fractions = [part for part in parts if isinstance(part, _Fraction)]
    first, others = "", list[tuple[_Fraction, str]]()
    of_second = -1

    def write() -> str:
        nonlocal of_second, first, others
        second, ns = divmod(time.time_ns(), NS)
        if second != of_second:
            at, texts = datetime.fromtimestamp(second, zone).astimezone(zone), [""]
            for part in parts:
                if isinstance(part, _Fraction):
                    texts.append("")
                else:
                    texts[-1] += part(at) if callable(part) else part
            of_second, first, others = second, texts[0], list(zip(fractions, texts[1:], strict=True))
        text = first
        for fraction, following in others:
            text += fraction.text(ns) + following
        return text

    return write
