"""Parsed lines of logs: requests, each with the reason why it cannot be sent again, if there is one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from esbench.errors.json_faults import json_fault
from esbench.numbers import read_number

_FRACTION = re.compile(r"[.,](\d+)")
_LONGEST_MS = 1e11
_HITS = re.compile(r"(\d+)(?:\+? hits)?")


class BadLineError(ValueError):
    """A line that is not what its log has; the message says why, without the line's content."""


class CutLineError(BadLineError):
    """A line whose end is missing."""


class Sign(Enum):
    """A line that is no request by itself."""

    CHILD = "a further line of a shard or phase of a search"
    OTHER_INDEX = "such a line, of another index than the search's first line"


@dataclass(frozen=True, slots=True)
class Stamp:
    """A moment in seconds since 1970, as exact as it was written (`resolution_s`)."""

    epoch_s: float
    resolution_s: float
    has_zone: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """A request as a log has it. `stamp` is its end if `at_end`, and its arrival otherwise.

    `body` is the parsed JSON of the body, a list of documents of `_msearch`, or None. `left_out` says why it is not
    sent again, "" if it can be.
    """

    stamp: Stamp
    method: str
    path: str
    body: Any = None
    took_ms: float | None = None
    status: int | None = None
    hits: int | None = None
    at_end: bool = False
    left_out: str = ""

    @property
    def arrival_s(self) -> float:
        """The moment at which the request came, in seconds since 1970."""
        return self.stamp.epoch_s - (self.took_ms or 0.0) / 1000 if self.at_end else self.stamp.epoch_s


def read_stamp(text: str) -> Stamp:
    """Return the moment that ISO 8601 text says, UTC if it names no zone. Raises BadLineError."""
    try:
        moment = datetime.fromisoformat(text)
        has_zone = moment.tzinfo is not None
        seconds = (moment if has_zone else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise BadLineError("its time cannot be read") from None
    digits = _FRACTION.search(text)
    return Stamp(seconds, 10.0 ** -len(digits[1]) if digits else 1.0, has_zone)


def read_json(text: str) -> Any:
    """Return a JSON value. Raises CutLineError if its end is missing, BadLineError for what is no JSON."""
    try:
        return json.loads(text, parse_constant=read_number, parse_int=read_number, parse_float=read_number)
    except RecursionError:
        raise BadLineError("its JSON is nested too deep") from None
    except ValueError:
        fault = json_fault(text)
    is_cut = fault.what.startswith("it ends too early") or fault.what == "text is not closed"
    raise (CutLineError("its end is missing") if is_cut else BadLineError("it is not valid JSON"))


def read_object(line: str) -> dict[str, Any]:
    """Return the JSON object of a line. Raises BadLineError for anything else."""
    value = read_json(line.rstrip("\r\n"))
    if not isinstance(value, dict):
        raise BadLineError("it is not a JSON object")
    return value


def number_of(value: object) -> float | None:
    """Return a number that a log has as a number or as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not isinstance(value, str):
        return float(value)
    try:
        return float(read_number(value))
    except ValueError:
        return None


def duration_ms(value: object) -> float | None:
    """Return a recorded duration in ms as a number; None if it is missing, negative, or of years."""
    found = number_of(value)
    return found if found is not None and 0 <= found <= _LONGEST_MS else None


def hits_of(text: str) -> int | None:
    """Return the hits of a slow log's `12 hits`, `10000+ hits`, or `12` before 7.0; None if they were not counted."""
    found = _HITS.fullmatch(text)
    return int(found[1]) if found and len(found[1]) < 20 else None
