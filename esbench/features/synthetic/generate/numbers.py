"""Fields of whole numbers and of decimal fractions."""

from __future__ import annotations

import math
import re
from abc import abstractmethod

import numpy as np

from esbench.corpus.spec import SpecReader
from esbench.features.synthetic.generate.field import Field, FieldCompiler, Matrix, write_digits
from esbench.features.synthetic.generate.hashing import I64, U64, Zipf, below, draw, unit

_FORMAT = re.compile(r"([^%\"\\]*)%(?:0([0-9]{1,2}))?d([^%\"\\]*)")


class NumberField(Field):
    """Numbers, held as whole multiples of 10 ** -decimals: JSON numbers, or text by a `format` such as "u%07d".

    decimals: their fixed count; None for whole numbers, which alone may have a format.
    """

    def __init__(self, spec: SpecReader, minimum: int, maximum: int, decimals: int | None = None) -> None:
        self._prefix, self._least, self._suffix = b"", 1, b""
        if decimals is None and spec.has("format"):
            self.quoted = True
            self._prefix, self._least, self._suffix = _number_format(spec)
        self._decimals = decimals or 0
        self._signed = minimum < 0
        if self._signed and self._least > 1:
            raise spec.error("zero padding cannot be combined with negative numbers")
        self._digits = max(*(len(str(abs(end))) for end in (minimum, maximum)), self._least + self._decimals)
        self.width = len(self._prefix) + self._signed + self._digits + (self._decimals > 0) + len(self._suffix)

    @abstractmethod
    def multiples(self, index: U64) -> I64:
        """Return each document's number, times 10 ** decimals."""

    def write(self, index: U64, out: Matrix) -> None:
        numbers = self.multiples(index)
        start = len(self._prefix)
        out[:, :start] = np.frombuffer(self._prefix, np.uint8)
        out[:, self.width - len(self._suffix) :] = np.frombuffer(self._suffix, np.uint8)
        magnitudes = numbers.view(np.uint64)
        if self._signed:
            out[:, start] = (numbers < 0) * np.uint8(ord("-"))
            magnitudes = np.abs(numbers).view(np.uint64)
            start += 1
        end = start + self._digits - self._decimals
        if self._decimals:
            power = np.uint64(10**self._decimals)
            whole = magnitudes // power
            out[:, end] = ord(".")
            write_digits(magnitudes - whole * power, out[:, end + 1 :], self._decimals)
            magnitudes = whole
        write_digits(magnitudes, out[:, start:end], self._least)


def _number_format(spec: SpecReader) -> tuple[bytes, int, bytes]:
    text = spec.text("format")
    match = _FORMAT.fullmatch(text)
    if match is None or not text.isascii() or not text.isprintable():
        raise spec.error(f'"{text}" is not a format of a whole number', hint='say "u%d" or "u%07d"')
    return match[1].encode(), max(1, int(match[2] or 1)), match[3].encode()


class SequenceField(NumberField):
    """The sequence from, from + step, from + 2 * step ..."""

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        self._from = spec.integer("from", 1)
        self._step = spec.integer("step", 1)
        if self._step == 0:
            raise spec.error('"step" cannot be 0')
        end = (1 << 62) - 1
        self.size = (end - abs(self._from)) // abs(self._step)
        super().__init__(spec, min(self._from, self._step), end)

    def multiples(self, index: U64) -> I64:
        return index.view(np.int64) * self._step + self._from


class RangeField(NumberField):
    """Uniform whole numbers from .. to, both included."""

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        self._from, self._to = _bounds(spec)
        self._key = compiler.key(path)
        super().__init__(spec, self._from, self._to)

    def multiples(self, index: U64) -> I64:
        return below(draw(self._key, index), self._to - self._from + 1).view(np.int64) + self._from


class ZipfField(NumberField):
    """Whole numbers from .. to, both included; the n-th has a probability proportional to n ** -exponent."""

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        self._from, to = _bounds(spec)
        self._zipf = Zipf(to - self._from + 1, spec.number("exponent", 1.0, minimum=0.0))
        self._key = compiler.key(path)
        super().__init__(spec, self._from, to)

    def multiples(self, index: U64) -> I64:
        return self._zipf.ranks(unit(draw(self._key, index))) + (self._from - 1)


def _bounds(spec: SpecReader) -> tuple[int, int]:
    start, end = spec.integer("from"), spec.integer("to")
    if start > end:
        raise spec.error(f'"from" ({start}) is above "to" ({end})')
    return start, end


def _decimals(spec: SpecReader) -> int:
    decimals = spec.integer("decimals", 2, minimum=0)
    if decimals > 9:
        raise spec.error(f'"decimals" must be at most 9, not {decimals}')
    return decimals


class DecimalField(NumberField):
    """Uniform decimal fractions from .. to, both included."""

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        decimals = _decimals(spec)
        start, end = spec.number("from"), spec.number("to")
        if start > end:
            raise spec.error(f'"from" ({start:g}) is above "to" ({end:g})')
        if max(abs(start), abs(end)) * 10**decimals >= 2**53:
            raise spec.error("numbers of more than 15 digits are not exact")
        self._from = round(start * 10**decimals)
        self._size = round(end * 10**decimals) - self._from + 1
        self._key = compiler.key(path)
        super().__init__(spec, self._from, self._from + self._size - 1, decimals)

    def multiples(self, index: U64) -> I64:
        numbers: I64 = below(draw(self._key, index), self._size).view(np.int64) + self._from
        return numbers


class LognormalField(NumberField):
    """Lognormal numbers: exp(mean + sigma * z) for a standard normal z, rounded; the median is exp(mean).

    z by Box and Muller (1958) from two uniform numbers, so |z| stays below 8.7.
    """

    _LARGEST_Z = 8.7

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        self._mean, self._sigma = spec.number("mean"), spec.number("sigma", minimum=0.0)
        decimals = _decimals(spec)
        self._scale = 10.0**decimals
        largest = self._mean + self._sigma * self._LARGEST_Z + math.log(self._scale)
        if largest > math.log(2.0**53):
            raise spec.error(
                "numbers of more than 15 digits would be drawn", hint="mean and sigma are those of the logarithm"
            )
        self._keys = compiler.key(f"{path}/radius"), compiler.key(f"{path}/angle")
        super().__init__(spec, 0, math.ceil(math.exp(largest)), decimals)

    def multiples(self, index: U64) -> I64:
        radius = np.sqrt(-2.0 * np.log1p(-unit(draw(self._keys[0], index))))
        angle = 2.0 * math.pi * unit(draw(self._keys[1], index))
        scaled: I64 = np.rint(np.exp(self._mean + self._sigma * radius * np.cos(angle)) * self._scale).astype(np.int64)
        return scaled
