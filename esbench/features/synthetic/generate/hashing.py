"""Counter-based draws: the n-th number of a stream, for whole blocks of n at once.

Every function is pure: none keeps state or uses numpy's generators, whose streams may change.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32, _11 = (np.uint64(bits) for bits in (27, 30, 31, 32, 11))


def stream_key(*parts: object) -> np.uint64:
    """Return the key of a random stream from the parts of its name: a seed, a field's path, a purpose."""
    name = "/".join(str(part) for part in parts)
    return np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))


def draw(key: np.uint64, index: U64) -> U64:
    """Return 64 random bits per index: output index + 1 of splitmix64 seeded with `key`.

    Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014). Seeded with 1234567 its first
    output is 6457827717110365317.
    """
    bits = index + np.uint64(1)
    bits *= _GOLDEN
    bits += key
    bits ^= bits >> _30
    bits *= _MIX_1
    bits ^= bits >> _27
    bits *= _MIX_2
    bits ^= bits >> _31
    return bits


def below(bits: U64, size: int) -> U64:
    """Return uniform whole numbers in [0, size) from 64 random bits each; the bias is below size / 2^32."""
    if size <= 1 << 32:
        return ((bits >> _32) * np.uint64(size)) >> _32
    return bits % np.uint64(size)


def unit(bits: U64) -> F64:
    """Return uniform floats in [0, 1), on a grid of 2^-53, from 64 random bits each."""
    return (bits >> _11).astype(np.float64) * 2.0**-53


class Zipf:
    """Ranks 1..count with probability proportional to rank ** -exponent, by inverting the sum of weights.

    The first 1,024 weights are summed one by one, the rest is their integral by the midpoint rule: each
    rank's probability is right to a few parts in 10^7, and memory does not grow with `count`.
    """

    _HEAD = 1024

    def __init__(self, count: int, exponent: float) -> None:
        self.count = count
        head = min(count, self._HEAD)
        self._sums = np.cumsum(np.arange(1, head + 1, dtype=np.float64) ** -exponent)
        self._start = head + 0.5
        self._slope = 1.0 - exponent
        self._scale = self._start**self._slope
        tail = self._integral(count + 0.5) if count > head else 0.0
        self._total = float(self._sums[-1]) + tail

    def _integral(self, end: float) -> float:
        """Return the integral of x ** -exponent from the end of the head to `end`."""
        ratio = math.log(end / self._start)
        if self._slope == 0.0:
            return ratio
        return float(self._scale * math.expm1(self._slope * ratio) / self._slope)

    def ranks(self, uniform: F64) -> I64:
        """Return the rank of each uniform number in [0, 1); small numbers give small ranks."""
        target = uniform * self._total
        ranks = np.searchsorted(self._sums, target, side="right") + 1
        beyond = ranks > len(self._sums)
        if beyond.any():
            area = target[beyond] - self._sums[-1]
            if self._slope:
                area = np.log1p(self._slope * area / self._scale) / self._slope
            ranks[beyond] = np.floor(self._start * np.exp(area) + 0.5)
        return np.minimum(ranks, self.count)


class Permutation:
    """A seeded permutation of 0..size-1: unique numbers that look random. Raises ValueError unless 1 <= size < 2^62.

    A Feistel network on two digits of a mixed radix a * b >= size, four rounds, with cycle walking for the few numbers
    in between (Black, Rogaway: Ciphers with arbitrary finite domains, 2002).
    """

    def __init__(self, size: int, key: np.uint64) -> None:
        if not 1 <= size < 1 << 62:
            raise ValueError(f"a permutation needs 1 to 2^62 numbers, not {size}")
        self.size = size
        self._a = math.isqrt(size - 1) + 1
        self._b = -(-size // self._a)
        self._keys = [stream_key(int(key), "round", number) for number in range(4)]

    def forward(self, index: U64) -> U64:
        """Return the images of indices below `size`."""
        numbers = self._encrypt(index)
        while (outside := numbers >= np.uint64(self.size)).any():
            numbers[outside] = self._encrypt(numbers[outside])
        return numbers

    def _encrypt(self, numbers: U64) -> U64:
        a, b = np.uint64(self._a), np.uint64(self._b)
        left = numbers // b
        right = numbers - left * b
        for number, key in enumerate(self._keys):
            if number % 2 == 0:
                left = (left + below(draw(key, right), self._a)) % a
            else:
                right = (right + below(draw(key, left), self._b)) % b
        return left * b + right
