"""Durations, rates and sizes: parsing of user input, formatting for display.

No other module parses or formats a number with a unit.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from esbench.errors import UsageError
from esbench.errors.short import beginning

_NUMBER_UNIT = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*((?:[^\W\d_]|/).*?)?\s*")
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_BYTES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_PER_SECOND = re.compile(r"(.*?)\s*(?:/\s*(?:s|sec|second)|per second)")
_RATE_UNITS = {
    "": "ops",
    **dict.fromkeys(("op", "request", "requests", "req"), "ops"),
    "doc": "docs",
    "page": "pages",
}
_BYTES_OF_A_RATE = re.compile(r"([kmg]?)i?b|bytes?", re.IGNORECASE)
PERCENT = "%"  # a unit of rates
_LARGEST = 1e18  # of a number with a unit: what is counted in them has 64 bits
_LONGEST_S = 10 * 365 * 86400.0
_A_DURATION, _A_RATE = 'say 30, "500ms" or "5m"', 'say 1000 or "1000 docs/s"'


@dataclass(frozen=True)
class Rate:
    """A target rate: `value` units per second, shared by all clients of a task; or percent of a capacity.

    `unit`: ops, docs, pages, MB (1,048,576 bytes); PERCENT until the capacity is known.
    """

    value: float
    unit: str

    def __str__(self) -> str:
        return f"{self.value:g} % of the capacity" if self.unit == PERCENT else f"{self.value:g} {self.unit}/s"


def parse_duration(value: object, where: str = "", hint: str = _A_DURATION) -> float:
    """Return seconds from a number of seconds or text with a unit: 90, "90", "500ms", "5m", "1h".

    The units are ns, us, ms, s, sec, m (minutes), min, h and d, in lower case. Raises UsageError, which begins with
    `where` and has the `hint`, for anything else, for a negative number, and for more than ten years.
    """
    number, unit = _split(value, where, "a duration", hint)
    if unit and unit not in _SECONDS:
        raise UsageError(f'"{value}" has no known unit of time', where=where, hint=f"units: {', '.join(_SECONDS)}")
    if (seconds := number * _SECONDS[unit or "s"]) > _LONGEST_S:
        raise UsageError(f'"{_shown(value)}" is longer than ten years', where=where, hint=hint)
    return seconds


def parse_rate(value: object, where: str = "", hint: str = _A_RATE) -> Rate:
    """Return a rate from a number (ops/s) or text: 1000, "1000", "1000 docs/s", "1000/s", "512 KB/s" (0.5 MB/s).

    Bytes become MB of 1,048,576; a unit that is not known is kept as written ("5 hits/s"). Raises UsageError, which
    begins with `where` and has the `hint`, for anything else, for zero, for a negative number and for bits ("1 Mb/s").
    """
    number, text = _split(value, where, "a rate", hint)
    per_second = _PER_SECOND.fullmatch(text.strip())
    if text.strip() and per_second is None:
        raise UsageError(f'"{value}" is not a rate per second', where=where, hint='say "1000 docs/s"')
    if number <= 0:
        raise UsageError(f'a rate must be above zero, not "{value}"', where=where, hint=hint)
    unit = per_second[1] if per_second else ""
    if re.fullmatch("[KMG]i?b", unit):
        raise UsageError(f'"{value}" is a rate in bits', where=where, hint=f'say "{unit[:-1]}B/s" for bytes')
    if (size := _BYTES_OF_A_RATE.fullmatch(unit)) is not None:
        return Rate(number * _BYTES[(size[1] or "b").lower()] / _BYTES["m"], "MB")
    return Rate(number, _RATE_UNITS.get(unit, unit))


def parse_target_rate(value: object, where: str = "") -> Rate:
    """Return a rate as `parse_rate` does, or one in percent of a capacity from text: "70%", "150 %".

    Raises UsageError as `parse_rate` does.
    """
    if not isinstance(value, str) or not value.strip().endswith(PERCENT):
        return parse_rate(value, where)
    rate = _NUMBER_UNIT.fullmatch(value.strip().removesuffix(PERCENT))
    if rate is None or rate[2] or not math.isfinite(float(rate[1])):
        raise UsageError(f'"{value}" is not a rate', where=where, hint='say "70%" of the capacity, or 1000')
    if not float(rate[1]):
        raise UsageError(f'a rate must be above zero, not "{value}"', where=where, hint='say "70%" of the capacity')
    return Rate(float(rate[1]), PERCENT)


def parse_size(value: object, where: str = "") -> int:
    """Return bytes from a number or text: 1048576, "512m", "1g", "1.5 GB" (powers of 1,024).

    Raises UsageError for anything else, and for a negative number.
    """
    number, unit = _split(value, where, "a size", 'say "512m" or "1g"')
    key = unit.lower().removesuffix("ib").removesuffix("b") if unit.lower() != "b" else "b"
    if key and key not in _BYTES:
        raise UsageError(f'"{value}" has no known unit of size', where=where, hint="units: b, k, m, g, t")
    return int(number * _BYTES[key or "b"])


def parse_ratio(value: str, where: str = "") -> float:
    """Return a ratio from 0 to 1, from text: "1%", "0.01".

    Raises UsageError for anything else; for a bare number of 1 or more it suggests adding the missing %.
    """
    text = value.strip()
    is_percent = text.endswith("%")
    number, unit = _split(text.removesuffix("%"), where, "a ratio", 'say "1%" or 0.01')
    if unit:
        raise UsageError(f'"{value}" is not a ratio', where=where, hint='say "1%" or 0.01')
    if is_percent and number <= 100:
        return number / 100
    if number < 1:
        return number
    raise UsageError(f'"{value}" is not a part of a whole', where=where, hint=f'say "{min(number, 100):g}%"')


def _split(value: object, where: str, what: str, hint: str) -> tuple[float, str]:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UsageError(f"{value!r} is not {what}", where=where, hint=hint)
    if isinstance(value, int | float):
        if not abs(value) <= _LARGEST:
            raise UsageError(f"{_shown(value)} is not {what}", where=where, hint=hint)
        if value < 0:
            raise UsageError(f"{what} cannot be negative: {value!r}", where=where, hint=hint)
        return float(value), ""
    match = _NUMBER_UNIT.fullmatch(value)
    if match is None or not float(match[1]) <= _LARGEST:
        raise UsageError(f'"{_shown(value)}" is not {what}', where=where, hint=hint)
    return float(match[1]), match[2] or ""


def _shown(value: object) -> str:
    """Return a value as a message has it, however long it is: a number of 5,000 digits is not written out."""
    is_long = isinstance(value, int) and abs(value) > _LARGEST
    return f"a number above {_LARGEST:g}" if is_long else beginning(str(value), 60)


def format_duration(seconds: float) -> str:
    """Return a duration for display: 0.42 -> "420 ms", 5.26 -> "5.3 s", 75 -> "1 min 15 s", 5430 -> "1 h 30 min"."""
    if round(seconds * 1000) < 1000:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def format_bytes(count: float) -> str:
    """Return a size for display: 1536 -> "1.5 KB" (powers of 1,024)."""
    for unit, decimals in (("B", 0), ("KB", 1), ("MB", 1), ("GB", 1)):
        if round(abs(count), decimals) < 1024:
            return f"{count:.{decimals}f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def format_number(value: float) -> str:
    """Return a measured number for a table: an integer as it is, a float with about four significant digits.

    The whole part of a large float is kept, and a small one has at most four decimals: 12345.6 -> "12346", 0.00012 ->
    "0.0001".
    """
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    for decimals, limit in ((4, 0.01 if value else 0), (3, 10), (2, 100), (1, 1000)):
        if round(abs(value), decimals) < limit:
            return f"{value:.{decimals}f}"
    return f"{value:.0f}"
