"""Fields of text: permuted ids, choices, words, prefixes; and constants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from esbench.corpus.spec import SpecReader
from esbench.features.synthetic.generate.field import Field, FieldCompiler, Matrix, json_text, table, write_digits
from esbench.features.synthetic.generate.hashing import U64, Permutation, Zipf, below, draw
from esbench.features.synthetic.generate.words import WORDS

_TOKEN = re.compile(r"(\[[^\]]+\]|\\d|[^\[\]{}\\\"()*+?|.^$])(?:\{([0-9]{1,2})\})?")
_RANGE = re.compile(r"(.)-(.)|(.)")  # of a class: two ends, or a single character
_DIGITS = "0123456789"


class PermutedField(Field):
    """The i-th value of a seeded permutation of all texts of a pattern: unique values that look random.

    Patterns are literals, [classes], \\d and {counts}: "[0-9]{18}", "ORD-[A-Z]{2}[0-9]{10}".
    """

    quoted = True

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        self._pattern = _parse_pattern(spec, spec.text("of"))
        size = 1
        for alphabet, count in self._pattern:
            size *= len(alphabet) ** count
        if size >= 1 << 62:
            raise spec.error(f"the pattern has {size} values; at most 2^62", hint='such as "[0-9]{18}"')
        self.size = size
        self.width = sum(count for _, count in self._pattern)
        self._permutation = Permutation(size, compiler.key(path))

    def write(self, index: U64, out: Matrix) -> None:
        rest = self._permutation.forward(index)
        end = self.width
        for alphabet, count in reversed(self._pattern):
            start = end - count
            if len(alphabet) == 1:
                out[:, start:end] = ord(alphabet)
            elif alphabet == _DIGITS:
                higher = rest // np.uint64(10**count)
                write_digits(rest - higher * np.uint64(10**count), out[:, start:end], count)
                rest = higher
            else:
                letters = np.frombuffer(alphabet.encode(), np.uint8)
                for column in range(end - 1, start - 1, -1):
                    higher = rest // np.uint64(len(alphabet))
                    out[:, column] = letters[rest - higher * np.uint64(len(alphabet))]
                    rest = higher
            end = start


def _parse_pattern(spec: SpecReader, pattern: str) -> list[tuple[str, int]]:
    """Return (alphabet, count) of each token of a pattern; raises TrackError if it cannot be read."""
    parts: list[tuple[str, int]] = []
    position = 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None or not pattern.isascii() or not pattern.isprintable():
            raise spec.error(
                f'the pattern "{pattern}" cannot be read at "{pattern[position:]}"',
                hint='it may hold literals, [classes], \\d and {counts}: "ORD-[A-Z]{2}[0-9]{10}"',
            )
        parts.append((_alphabet(spec, match[1]), int(match[2] or 1)))
        position = match.end()
    return parts


def _alphabet(spec: SpecReader, token: str) -> str:
    if token == "\\d":
        return _DIGITS
    if len(token) == 1:
        return token
    letters = [
        chr(code)
        for first, last, single in _RANGE.findall(token[1:-1])
        for code in range(ord(first or single), ord(last or single) + 1)
    ]
    if len(set(letters)) != len(letters) or not letters or token[1] == "^" or set(letters) & {'"', "\\"}:
        raise spec.error(f'the class "{token}" cannot be used', hint="say [a-z0-9]: each character once")
    return "".join(letters)


def weighted_ends(spec: SpecReader, options: Iterable[tuple[object, Any]]) -> U64:
    """Return the ends, in 64-bit draws, of the range of each option but the last, from (option, weight).

    The ranges are proportional to the weights. Raises TrackError for an invalid weight.
    """
    sums = [Fraction(0)]
    for option, weight in options:
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < 1e15:
            raise spec.error(f'the weight of "{option}" must be a number above zero, not {weight!r}')
        sums.append(sums[-1] + Fraction(weight))
    return np.array([int(total / sums[-1] * 2**64) for total in sums[1:-1]], np.uint64)


class ChoiceField(Field):
    """One of several values: with equal probability (a list), or by weight (a mapping of value to weight)."""

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        options = spec.take("values")
        if isinstance(options, list):
            options = [(option, 1) for option in options]
        elif isinstance(options, dict):
            options = list(options.items())
        if not isinstance(options, list) or not options:
            raise spec.error('"values" must be a list, or a mapping of value to weight')
        self._ends = weighted_ends(spec, options)
        texts = [json_text(option) for option, _ in options]
        self.quoted = all(isinstance(option, str) for option, _ in options)
        if self.quoted:
            texts = [text[1:-1] for text in texts]
        self.plain = self.quoted and all(
            text == str(option).encode() for text, (option, _) in zip(texts, options, strict=True)
        )
        self._texts = table(texts)
        self.width = self._texts.shape[1]
        self._key = compiler.key(path)

    def write(self, index: U64, out: Matrix) -> None:
        out[:] = self._texts[np.searchsorted(self._ends, draw(self._key, index), side="right")]


class WordsField(Field):
    """`count` words of a vocabulary (English by default), the n-th of them with probability ~ 1 / n."""

    quoted = True
    plain = False
    _STEPS = 1 << 16

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        self._least, self._most = spec.span("count")
        if self._most < 1:
            raise spec.error('"count" must allow a word')
        vocabulary = spec.take("vocabulary", list(WORDS))
        if (
            not isinstance(vocabulary, list)
            or not all(isinstance(word, str) and word for word in vocabulary)
            or not vocabulary
        ):
            raise spec.error('"vocabulary" must be a list of words')
        if len(vocabulary) > self._STEPS:
            raise spec.error(f"a vocabulary may have {self._STEPS} words, not {len(vocabulary)}")
        self._texts = table([b" " + json_text(word)[1:-1] for word in vocabulary])
        self._slot = self._texts.shape[1]
        self.width = self._slot * self._most
        # A draw of 16 bits is looked up: the word of each step of the inverted distribution.
        steps = (np.arange(self._STEPS) + 0.5) / self._STEPS
        self._word_of = Zipf(len(vocabulary), 1.0).ranks(steps) - 1
        self._count_key = compiler.key(f"{path}/count")
        self._keys = [compiler.key(f"{path}/{block}") for block in range(-(-self._most // 4))]

    def write(self, index: U64, out: Matrix) -> None:
        bits = np.empty((len(index), len(self._keys)), np.uint64)
        for block, key in enumerate(self._keys):
            bits[:, block] = draw(key, index)
        words = self._word_of[bits.view(np.uint16)[:, : self._most]]
        counts = below(draw(self._count_key, index), self._most - self._least + 1) + np.uint64(self._least)
        for slot in range(self._most):
            text = self._texts[words[:, slot]]
            if slot == 0:
                text[:, 0] = 0
            if slot >= self._least:
                text *= (counts > np.uint64(slot))[:, None]
            out[:, slot * self._slot : (slot + 1) * self._slot] = text


class PrefixField(Field):
    """The first `length` characters of a text field above it."""

    quoted = True

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        name = spec.text("of")
        self._base = compiler.earlier(name, spec)
        if not (self._base.quoted and self._base.plain):
            raise spec.error(f'"{name}" is not a field of plain text')
        self._length = spec.integer("length", minimum=1)
        self.size = self._base.size
        # A character of plain text takes up to four bytes.
        self.width = min(self._base.width, 4 * self._length)

    def write(self, index: U64, out: Matrix) -> None:
        texts = [value[: self._length].encode() for value in self._base.values(index)]
        out[:] = np.array(texts, f"S{self.width}").view(np.uint8).reshape(out.shape)


class ConstantField(Field):
    """The same value, of any JSON type, in every document."""

    plain = False

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        self._text = np.frombuffer(json_text(spec.take("value")), np.uint8)
        self.width = len(self._text)

    def write(self, index: U64, out: Matrix) -> None:
        out[:] = self._text
