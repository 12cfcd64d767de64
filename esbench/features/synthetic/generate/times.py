"""Fields of points in time, in UTC and whole seconds."""

from __future__ import annotations

import datetime

import numpy as np

from esbench.corpus.spec import SpecReader
from esbench.features.synthetic.generate.field import Field, FieldCompiler, Matrix, table, write_digits
from esbench.features.synthetic.generate.hashing import I64, U64, below, draw

_DAY_S = 86_400
_WIDTHS = {"iso": 20, "date": 10, "epoch_second": 12, "epoch_millis": 15}  # bytes, by format


class TimestampField(Field):
    """Times drawn uniformly from .. to, both included; or `within` a range of seconds after another timestamp field.

    A `to` without a time of day means the end of that day. Formats: iso (2024-01-31T23:59:59Z), date,
    epoch_second, epoch_millis.
    """

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        self._key = compiler.key(path)
        self._base: TimestampField | None = None
        self.first: int
        self.last: int
        if spec.has("after"):
            base = compiler.earlier(name := spec.text("after"), spec)
            if not isinstance(base, TimestampField):
                raise spec.error(f'"after" names "{name}", which is not a timestamp')
            self._base = base
            least, most = spec.span("within")
            self._from, self._size = least, most - least + 1
            self.first, self.last = base.first + least, base.last + most
        else:
            self.first, self.last = _seconds(spec, "from"), _seconds(spec, "to")
            if self.first > self.last:
                raise spec.error('"from" is after "to"')
            self._from, self._size = self.first, self.last - self.first + 1
        if self.last >= 253_402_300_800:
            raise spec.error("times after the year 9999 cannot be written")
        self._format = spec.text("format", "iso")
        if self._format not in _WIDTHS:
            raise spec.error(f'unknown format "{self._format}" of a time', hint=f"known: {', '.join(_WIDTHS)}")
        self.quoted = self._format in {"iso", "date"}
        self._first_day = self.first // _DAY_S
        if self._format == "iso":
            self._clock = _clock_table()
        if self.quoted:
            self._days = _day_table(self._first_day, self.last // _DAY_S)
        self.width = _WIDTHS[self._format]

    def seconds(self, index: U64) -> I64:
        """Return each document's time in seconds since 1970."""
        offsets = below(draw(self._key, index), self._size).view(np.int64) + self._from
        return offsets if self._base is None else offsets + self._base.seconds(index)

    def write(self, index: U64, out: Matrix) -> None:
        seconds = self.seconds(index)
        if not self.quoted:
            numbers = seconds * 1000 if self._format == "epoch_millis" else seconds
            write_digits(numbers.view(np.uint64), out)
            return
        days = seconds // _DAY_S
        out[:, :10] = self._days[days - self._first_day]
        if self._format == "iso":
            out[:, 10:] = self._clock[seconds - days * _DAY_S]


def _seconds(spec: SpecReader, key: str) -> int:
    value = spec.take(key)
    if isinstance(value, datetime.date):
        value = value.isoformat()
    try:
        time = datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise spec.error(
            f'"{key}" is not a date or time: {value!r}', hint="say 2024-01-31 or 2024-01-31T23:59:59Z"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=datetime.UTC)
    seconds = int(time.timestamp())
    if seconds < 0:
        raise spec.error(f'"{key}" is before 1970: {value}')
    return seconds + _DAY_S - 1 if key == "to" and len(value) == len("2024-01-31") else seconds


def _day_table(first: int, last: int) -> Matrix:
    days = np.datetime_as_string(np.arange(first, last + 1).astype("datetime64[D]"))
    return table([day.encode() for day in days.tolist()])


def _clock_table() -> Matrix:
    """Return the text THH:MM:SSZ of each second of a day, shape (86400, 10)."""
    second = np.arange(_DAY_S, dtype=np.uint64)
    clock = np.empty((_DAY_S, 10), np.uint8)
    clock[:] = np.frombuffer(b"T00:00:00Z", np.uint8)
    for column, part in ((1, second // 3600), (4, second // 60 % 60), (7, second % 60)):
        write_digits(part, clock[:, column : column + 2], 2)
    return clock
