"""Text as columns: a block of documents is one matrix of bytes, one row per document, padded with NULs.

JSON never holds a NUL byte, so NULs may stand anywhere: `squeeze` drops them all in one pass. That is what
makes it fast: no object per document or value exists.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from esbench.corpus.generate.hashing import I64, U64

Matrix = NDArray[np.uint8]

_ZERO, _MINUS, _NEWLINE = ord("0"), ord("-"), ord("\n")


def _four_digits() -> NDArray[np.uint32]:
    numbers = np.arange(10_000)
    digits = np.stack([numbers // 1000, numbers // 100 % 10, numbers // 10 % 10, numbers % 10], axis=1)
    return (digits + _ZERO).astype(np.uint8).view(np.uint32).ravel()


_FOUR_DIGITS = _four_digits()
_TEN_THOUSAND = np.uint64(10_000)


def squeeze(matrix: Matrix) -> bytes:
    """Return the rows one after another, without their NULs."""
    return matrix.tobytes().translate(None, b"\0")


def row_texts(matrix: Matrix) -> list[str]:
    """Return each row's text, without its NULs (rows of plain ASCII without line ends)."""
    rows = np.empty((matrix.shape[0], matrix.shape[1] + 1), np.uint8)
    rows[:, :-1] = matrix
    rows[:, -1] = _NEWLINE
    return squeeze(rows).decode("ascii").splitlines()


def table(texts: Sequence[bytes]) -> Matrix:
    """Return the texts as rows of one matrix, as wide as the longest, padded with NULs."""
    width = max(1, *(len(text) for text in texts))
    return np.array(list(texts), dtype=f"S{width}").view(np.uint8).reshape(len(texts), width)


def digits_of(number: int) -> int:
    """Return the number of decimal digits of a number, without its sign."""
    return len(str(abs(number)))


def write_digits(numbers: U64, out: Matrix, least: int = 1) -> None:
    """Write each number's decimal digits into its row of `out`, right-aligned.

    Leading zeros stay up to `least` digits; those beyond become NULs.
    """
    rows, width = out.shape
    groups = -(-width // 4)
    block = np.empty((rows, groups), np.uint32)
    rest = numbers
    for group in range(groups - 1, -1, -1):
        quotient = rest // _TEN_THOUSAND
        block[:, group] = _FOUR_DIGITS[rest - quotient * _TEN_THOUSAND]
        rest = quotient
    text = block.view(np.uint8)[:, groups * 4 - width :]
    if (ragged := width - least) > 0:
        powers = np.array([10**power for power in range(width - 1, least - 1, -1)], np.uint64)
        text[:, :ragged] *= numbers[:, None] >= powers
    out[:] = text


def write_sign(numbers: I64, out: Matrix) -> U64:
    """Write a minus into the first column of `out` for each negative number; returns the absolute values."""
    out[:, 0] = (numbers < 0) * np.uint8(_MINUS)
    return np.abs(numbers).view(np.uint64)
