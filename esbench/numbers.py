"""Numbers as files and options have them: none is larger than a float holds, since each may become one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

TOO_LARGE = "a number is too large"
_MOST_DIGITS = 400  # Python takes long to read more, or refuses them


def read_number(text: str) -> int | float:
    """Return the number that a text of YAML or JSON says: 12, -1.5e3, 0xff.

    Raises ValueError for other text, and for a number that no float holds (1.8e308).
    """
    number: int | float
    if len(text) <= _MOST_DIGITS:
        try:
            number = int(text, 16 if text.startswith("0x") else 10)
        except ValueError:
            number = float(text)
        with suppress(OverflowError):
            if math.isfinite(number):
                return number
    raise ValueError(TOO_LARGE)


def whole_of(text: str) -> int | None:
    """Return the number that a text of digits says, of at most 18 of them; None for other text."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def read_json(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return the value of a JSON text; `pairs` makes an object of its members.

    Raises ValueError for other text, and also for NaN, a number that no float holds and half a character;
    RecursionError for what is nested too deeply.
    """
    number = read_number  # refuses NaN and Infinity, too, which Python's parser takes for numbers
    value = json.loads(text, object_pairs_hook=pairs, parse_constant=number, parse_int=number, parse_float=number)
    json.dumps(value, ensure_ascii=False).encode()
    return value
