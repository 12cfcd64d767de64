"""Absolute dates of requests, moved by whole days; relative ones (now-1d) stay."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from datetime import date, timedelta
from typing import Any

_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?!\d)(.*)", re.DOTALL)
_DAY_MS = 86_400_000
_MS = range(10**11, 10**13)  # 1973 to 2286: such a number is a time in ms


class DateShift:
    """Moves dates at `fields` by `days`; `moved` counts them."""

    def __init__(self, fields: Collection[str], days: int) -> None:
        self._fields = frozenset(fields)
        self._days = days
        self.moved = 0

    def text(self, body: str) -> str:
        """Return the text of a body, JSON or lines of JSON, with moved dates."""
        if "\n" not in body:
            return self._json(body)
        return "".join(f"{self._json(line)}\n" for line in body.splitlines() if line.strip())

    def _json(self, text: str) -> str:
        return json.dumps(self._value(json.loads(text)), separators=(",", ":"))

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if not isinstance(value, dict):
            return value
        is_of_field = value.get("field") in self._fields if isinstance(value.get("field"), str) else False
        return {
            name: self._moved(item) if name in self._fields or is_of_field else self._value(item)
            for name, item in value.items()
        }

    def _moved(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._moved(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._moved(item) for item in value]
        if isinstance(value, int) and not isinstance(value, bool) and value in _MS:
            self.moved += 1
            return value + self._days * _DAY_MS
        found = _DATE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return value
        try:
            begins = date.fromisoformat(found[1]) + timedelta(days=self._days)
        except (ValueError, OverflowError):
            return value
        self.moved += 1
        return f"{begins.isoformat()}{found[2]}"
