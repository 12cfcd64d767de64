"""Replies of servers as values that the rest can rely on: JSON that can be kept, figures, texts.

A figure that is not finite, or beyond 64 bits, is not known: None. A value of another type is a WrongType, and
`known_form` makes one line of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

from esbench.errors import ClusterError
from esbench.errors.reasons import WrongType, form_fault
from esbench.record.reading import check_nesting

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_DEEPEST = 100  # levels: a record has some more around them
_DIGITS_OF_64_BITS = 20
_BEYOND = 2**63
_SHOWN = 40  # characters of a value


def decode_json(content: bytes) -> Any:
    """Return the JSON of a reply as `parse_json` does: text if it is not JSON that can be kept, None if it is empty."""
    try:
        return parse_json(content) if content else None
    except ValueError:
        return content.decode(errors="replace")


def parse_json(content: bytes) -> Any:
    """Return the JSON of a reply. Raises ValueError for what is not JSON that can be kept.

    JSON with more than 100 levels, or with half a character (a lone surrogate), cannot be kept. Whole numbers beyond 64
    bits are floats; what is no finite number is None.
    """
    try:
        value = json.loads(content, parse_int=_whole, parse_float=_finite, parse_constant=lambda name: None)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if content.count(b"[") + content.count(b"{") > _DEEPEST:
        check_nesting(value, _DEEPEST)
    if _SURROGATE.search(content):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _whole(digits: str) -> int | float | None:
    if len(digits) <= _DIGITS_OF_64_BITS and -_BEYOND <= (number := int(digits)) < 2 * _BEYOND:
        return number
    return _finite(digits)


def _finite(text: str) -> float | None:
    number = float(text)
    return number if isfinite(number) else None


@contextmanager
def known_form(where: str) -> Iterator[None]:
    """Raise ClusterError if the block finds a reply of an unknown form, as a proxy in front of the cluster may send.

    AttributeError, KeyError, TypeError and ValueError of the block count as that. `where` is the request's path, or
    what was asked, for the error.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ClusterError(f"the reply has an unknown form ({form_fault(error)})", where=where) from error


def number(value: Any) -> int | float | None:
    """Return a figure; None if it is missing, not finite, or beyond 64 bits. Raises WrongType for what is no number."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(value, "a number")
    return value if abs(value) < _BEYOND else None  # nan is not, either


def count(value: Any) -> int | None:
    """Return a whole figure; None as `number`, and if it is negative, which is how servers say that they do not know.

    Raises WrongType for what is no whole number.
    """
    figure = number(value)
    if figure is None or figure < 0:
        return None
    if figure != int(figure):
        raise _wrong(value, "a whole number")
    return int(figure)


def counted(value: Any) -> int:
    """Return a whole figure as `count` does. Raises WrongType also where it is not known."""
    if (figure := count(value)) is None:
        raise _wrong(value, "a count")
    return figure


def text(value: Any) -> str:
    """Return a text; "" if it is missing. Raises WrongType for what is no text."""
    if value is not None and not isinstance(value, str):
        raise _wrong(value, "a text")
    return value or ""


def flag(value: Any) -> bool:
    """Return a truth value. Raises WrongType for anything else."""
    if not isinstance(value, bool):
        raise _wrong(value, "true or false")
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; an empty one if it is missing. Raises WrongType for anything else."""
    if value is not None and not isinstance(value, Mapping):
        raise _wrong(value, "an object")
    return value or {}


def listed(value: Any) -> Sequence[Any]:
    """Return a JSON array; an empty one if it is missing. Raises WrongType for anything else."""
    if value is not None and not isinstance(value, list | tuple):
        raise _wrong(value, "an array")
    return value or ()


def _wrong(value: Any, wanted: str) -> WrongType:
    shown = json.dumps(value, default=str)
    return WrongType(f"{shown if len(shown) <= _SHOWN else f'{shown[:_SHOWN]}...'} is not {wanted}")
