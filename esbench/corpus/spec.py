"""Reading of a track's `generate` mapping: its keys with types, defaults and one-line errors. No numpy."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from esbench.errors import TrackError, did_you_mean

ALGORITHM = 1  # raised whenever the same spec would give other documents

_REQUIRED = object()


def plain_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec as plain JSON values: keys become text, in their order; dates of YAML become ISO text.

    Raises TrackError for a value that JSON does not have, TypeError for such a key.
    """
    plain: dict[str, Any] = json.loads(json.dumps(spec, default=_plain))
    return plain


def spec_digest(spec: Mapping[str, Any]) -> str:
    """Return the sha256 (hex) of what determines the documents: the spec, in its order of fields, and the algorithm."""
    text = json.dumps([ALGORITHM, plain_spec(spec)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    raise TrackError(f"{value!r} cannot be written as JSON", where="generate")


class SpecReader:
    """Reader of the keys of one mapping: each is taken once, checked by type; `finish` refuses those left.

    `where` is the place that errors name. Raises TrackError if `spec` is not a mapping.
    """

    def __init__(self, spec: object, where: str) -> None:
        self.where = where
        if not isinstance(spec, Mapping):
            raise self.error(f"expected a mapping, not {spec!r}")
        self._left = {str(key): value for key, value in spec.items()}
        self._known: set[str] = set()

    def error(self, what: str, hint: str = "") -> TrackError:
        return TrackError(what, where=self.where, hint=hint)

    def take(self, key: str, default: Any = _REQUIRED) -> Any:
        """Take the value of a key; if it is missing, return `default` or, without one, raise TrackError."""
        self._known.add(key)
        if key in self._left:
            return self._left.pop(key)
        if default is _REQUIRED:
            near = did_you_mean(key, self._left) if self._left else ""
            raise self.error(f'"{key}" is missing', hint=near if near.startswith("did") else "")
        return default

    def has(self, key: str) -> bool:
        """True if the key is there and was not taken yet; it counts as known from now on."""
        self._known.add(key)
        return key in self._left

    def integer(self, key: str, default: Any = _REQUIRED, *, minimum: int | None = None) -> int:
        """Take a whole number, as `take`; raises TrackError for another type, below `minimum`, or outside of +-2^62."""
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f'"{key}" must be a whole number, not {value!r}')
        if minimum is not None and value < minimum:
            raise self.error(f'"{key}" must be at least {minimum}, not {value}')
        if abs(value) >= 1 << 62:
            raise self.error(f'"{key}" must be below 2^62, not {value}')
        return value

    def number(self, key: str, default: Any = _REQUIRED, *, minimum: float | None = None) -> float:
        """Take a number as a float, as `take`; raises TrackError for another type, or below `minimum`."""
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
            raise self.error(f'"{key}" must be a number, not {value!r}')
        if minimum is not None and value < minimum:
            raise self.error(f'"{key}" must be at least {minimum:g}, not {value!r}')
        return float(value)

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        """Take text that is not empty, as `take`; raises TrackError for anything else."""
        value = self.take(key, default)
        if not isinstance(value, str) or not value:
            raise self.error(f'"{key}" must be text, not {value!r}')
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise self.error(f'"{key}" must be true or false, not {value!r}')
        return value

    def span(self, key: str) -> tuple[int, int]:
        """Take a count, a whole number or [least, most], as (least, most); raises TrackError for another value."""
        value = self.take(key)
        pair = [value, value] if isinstance(value, int) else value
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or any(isinstance(end, bool) or not isinstance(end, int) for end in pair)
            or not 0 <= pair[0] <= pair[1]
        ):
            raise self.error(f'"{key}" must be a whole number or [least, most], not {value!r}')
        return pair[0], pair[1]

    def finish(self) -> None:
        """Raise TrackError for the first key that was not taken, if any."""
        for key in self._left:
            raise self.error(f'unknown key "{key}"', hint=did_you_mean(key, self._known))
