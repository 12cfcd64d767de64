"""Numbers as files and options have them: none is larger than a float holds, since each may become one."""

from __future__ import annotations

import math

TOO_LARGE = "a number is too large"
_MOST_DIGITS = 400  # Python takes long to read more, or refuses them


def read_number(text: str) -> int | float:
    """Return the number that a text of YAML or JSON says: 12, -1.5e3, 0xff.

    Raises ValueError for other text, and for a number that no float holds (1.8e308).
    """
    if len(text) > _MOST_DIGITS:
        raise ValueError(TOO_LARGE)
    number: int | float
    try:
        number = int(text, 16 if text.startswith("0x") else 10)
    except ValueError:
        number = float(text)
    if not _is_held(number):
        raise ValueError(TOO_LARGE)
    return number


def _is_held(number: int | float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False
