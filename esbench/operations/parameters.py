"""The parameters of operations: their valid values, and those that every operation takes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from esbench.errors import TrackError, UsageError, closest, did_you_mean
from esbench.model import SQL
from esbench.units import parse_duration

KIND_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation type; `doc` and `default` are shown in the reference, `default` is not applied.

    `kinds` are the Python types that its value may have; a boolean may also be the text "true" or "false", a whole
    number be written as Rally's int() reads it (`whole`). With text and lists as kinds, a list has only text. A
    `duration` is in seconds, or text with a unit. A number is at least `least` (inclusive), an object has all `keys`.
    `choices`: the allowed values as text, () for all.
    """

    doc: str
    kinds: tuple[type, ...] = (str,)
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    duration: bool = False
    least: int | None = None
    keys: tuple[str, ...] = ()

    def check(self, name: str, value: Any, where: str) -> None:
        """Raise TrackError, which shows `name`, for a value that the parameter cannot have; None is such a value."""
        kinds = (*self.kinds, int) if float in self.kinds else self.kinds
        if self._is_inexact(value):
            value = whole(value)
        # a body may be long, and of no choice: its text costs more than its request
        text = "" if isinstance(value, dict | list) else str(value)
        text = text.lower() if isinstance(value, bool | str) else text
        is_flag = bool in kinds and text in ("true", "false")
        if not is_flag and (isinstance(value, bool) or not isinstance(value, kinds)):
            words = [KIND_NAMES[kind] for kind in self.kinds]
            expected = "a duration" if self.duration else " or ".join(words)
            raise TrackError(f'"{name}" must be {expected}, not {value!r}', where=where, hint=self._remedy(value))
        if self.required and value == "" and self.kinds == (str,):
            raise TrackError(f'"{name}" must not be empty', where=where)
        if self.least is not None and isinstance(value, int | float) and value < self.least:
            raise TrackError(f'"{name}" must be at least {self.least}, not {value!r}', where=where)
        if isinstance(value, dict) and (missing := [key for key in self.keys if key not in value]):
            needed = " and ".join(f'"{key}"' for key in self.keys)
            typo = closest(missing[0], [key for key in value if key not in self.keys])
            raise TrackError(f'"{name}" needs {needed}', where=where, hint=f'is it the "{typo}" there?' if typo else "")
        if isinstance(value, list) and set(self.kinds) == {str, list}:
            for element in value:
                if not isinstance(element, str):
                    raise TrackError(f'"{name}" must be text or a list of text, not of {element!r}', where=where)
        if self.choices and text not in self.choices:
            raise TrackError(f'"{name}" cannot be {value!r}', where=where, hint=did_you_mean(text, self.choices))
        if self.duration:
            try:
                parse_duration(value)
            except UsageError as error:
                raise TrackError(f'"{name}": {error.what}', where=where, hint=error.hint) from None

    def tolerated(self, name: str, value: Any) -> TrackError | None:
        """Return the fault of a value that is read as a whole number but not written as one; None without a fault."""
        if not self._is_inexact(value):
            return None
        return TrackError(f'"{name}" must be a whole number, not {value!r}', hint=f"a race takes {whole(value)}")

    def _is_inexact(self, value: Any) -> bool:
        is_whole_number = self.kinds[0] is int and float not in self.kinds
        return is_whole_number and not isinstance(value, (int, *self.kinds)) and whole(value) is not None

    def _remedy(self, value: Any) -> str:
        """Return a hint how to write a value of the wrong type correctly; "" without one."""
        if self.duration:
            return 'say 30, "500ms" or "5m"'
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if self.kinds == (str,) and is_number:
            return f'write "{value}"'
        if self.kinds == (str,) and isinstance(value, list) and all(isinstance(each, str) for each in value):
            return f'write "{",".join(value)}"'
        if {int, float} & set(self.kinds) and isinstance(value, str) and _NUMBER.fullmatch(value):
            return f"write {value} without quotes"
        if self.kinds == (list,) and isinstance(value, str | int | float | dict):
            return f"write [{json.dumps(value)}]"
        return ""


_NUMBER = re.compile(r"-?\d+(\.\d+)?")
SECONDS = (int, float, str)  # the kinds of a duration


# Parameters that every operation takes, of any type.
COMMON = {
    "request-timeout": Parameter(
        "seconds until a request counts as timed out (that of --client-options)", SECONDS, duration=True
    ),
    "headers": Parameter(
        "further HTTP headers; of those that belong to the connection only `Connection: close` is sent, and then each "
        "request has a connection of its own",
        (dict,),
    ),
    "opaque-id": Parameter("the X-Opaque-Id header", (str,)),
    "assertions": Parameter(
        "`property`, `condition` (< <= == >= >) and `value` of each; with --enable-assertions, one that does not hold "
        "for the last reply fails the race",
        (list,),
    ),
    "retries": Parameter("how often a failure is tried again", (int,), 0, least=0),
    "retry-until-success": Parameter("try again until it succeeds", (bool,), False),
    "retry-wait-period": Parameter("seconds between tries", SECONDS, 0.5, duration=True),
    "retry-on-timeout": Parameter("timeouts, lost connections and statuses 408, 429, 502 to 504 too", (bool,), True),
    "retry-on-error": Parameter("refused requests too", (bool,), False),
}


# Parameters of reads that a SQL server answers, too.
IN_SQL = {
    SQL: Parameter("the statement with which a SQL server answers it, with variables"),
    "answer": Parameter(
        "what a SQL server's rows have in common with the reply: `rows`, the path of a list in it (without it, the "
        "reply is one row), and `columns`, the path in a row by the name of each column",
        (dict,),
        keys=("columns",),
    ),
}


REFRESH = Parameter("whether the reply comes after a refresh", (str, bool), choices=("true", "false", "wait_for"))


def whole(value: object) -> int | None:
    """Return a value as a whole number, as Rally's int() reads it: 70.0 and 70.9 are 70, "100" and "100.0" are 100.

    None for all else: booleans, "70.9", other text, infinity, other types.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int):
        return value
    try:
        number = float(value)
    except ValueError:
        return None
    is_read = math.isfinite(number) and (isinstance(value, float) or number.is_integer())
    return int(number) if is_read else None


def flag(value: object, default: bool = False) -> bool:
    """Return a boolean parameter, which may be the text "true" or "false"; `default` if it is None.

    Anything else is False.
    """
    if value is None:
        return default
    return value if isinstance(value, bool) else str(value).lower() == "true"


def seconds(params: Mapping[str, Any], name: str, default: float) -> float:
    """Return a duration parameter (30, "500ms", "5m") in seconds; `default`, in seconds, if it is not given or null.

    Raises UsageError for an invalid one.
    """
    value = params.get(name)
    return default if value is None else parse_duration(value)
