"""Objectives of tasks as a track writes them, "p99<50ms": parsing, and judgement of a figure by one. Pure."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping

from esbench.errors import UsageError, closest
from esbench.model import Objective
from esbench.units import parse_duration, parse_ratio

_PARTS = re.compile(r"\s*([^<>=]*?)\s*(<=|>=|=<|=>|==|<|>|=)\s*(.+?)\s*")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?")
_PERCENTILE = re.compile(r"p\s*([0-9]*\.?[0-9]+)")
_WITHIN = re.compile(r"within\s*(.*)")
_SAY = 'say "p99<50ms", "within 50ms>=99%", "mean<5ms", "errors<0.1%" or "throughput>=1000"'
_FIGURES = ("mean", "errors", "throughput", "within")
_MEANT: Mapping[str, tuple[str, ...]] = {  # what others call it -> our names
    **dict.fromkeys(("latency", "service time", "response time", "time"), ("mean", "p99")),
    **dict.fromkeys(("average", "avg"), ("mean",)),
    **dict.fromkeys(("error rate", "failures", "failed"), ("errors",)),
    **dict.fromkeys(("rate", "ops"), ("throughput",)),
    "median": ("p50",),
    "max": ("p100",),
}
_RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_CHANCE = 1e-6  # of a request: 99.9 % of 1,000 are 999, not 999.0000000001


def parse_objective(text: str) -> Objective:
    """Parse an objective: "p99<50ms", "within 50ms>=99%", "mean<5ms", "errors<0.1%", "throughput>=1000".

    Times need a unit, ratios a %; throughput is in the task's unit per second. Spaces are free. Raises UsageError
    for anything else.
    """
    parts = _PARTS.fullmatch(text.lower())
    if parts is None:
        raise UsageError(f'"{text}" is not an objective', hint=_SAY)
    figure, sign, bound = re.sub(r"\s+", " ", parts[1]), parts[2], parts[3]

    def refused(what: str, hint: str) -> UsageError:
        return UsageError(f'"{text}" {what}', hint=hint)

    def directed(least: bool) -> str:
        signs = (">=", ">") if least else ("<", "<=")
        if sign not in signs:
            what = "is the wrong way round" if sign in _RELATIONS else f'has "{sign}"'
            raise refused(what, f'say "{figure}{signs[0]}{bound}"')
        return sign

    def milliseconds(time: str, before: str, after: str = "") -> float:
        if _NUMBER.fullmatch(time):
            raise refused("has a time without a unit", f'say "{before}{time}ms{after}"')
        duration_ms = round(1000 * parse_duration(time), 6)  # to the ns
        if not duration_ms:
            raise refused("has a time of zero", _SAY)
        return duration_ms

    def percent() -> float:
        if _NUMBER.fullmatch(bound):
            raise refused("has a share without a %", f'say "{figure}{sign}{bound}%"')
        return round(100 * parse_ratio(bound), 9)

    if (percentile := _PERCENTILE.fullmatch(figure)) is not None:
        rank = float(percentile[1])
        if not 0 < rank <= 100:
            raise refused("does not name a percentile", "a percentile is above p0, and p100 at most")
        return Objective("percentile", directed(least=False), milliseconds(bound, f"{figure}{sign}"), rank)
    if (within := _WITHIN.fullmatch(figure)) is not None and within[1]:
        limit_ms = milliseconds(within[1], "within ", f"{sign}{bound}")
        objective = Objective("within", directed(least=True), percent(), limit_ms)
    elif figure == "mean":
        objective = Objective("mean", directed(least=False), milliseconds(bound, f"mean{sign}"))
    elif figure == "errors":
        objective = Objective("errors", directed(least=False), percent())
    elif figure == "throughput":
        if not _NUMBER.fullmatch(bound):
            raise refused("has a unit or no number", 'say "throughput>=1000": it is in the task\'s unit per second')
        objective = Objective("throughput", directed(least=True), float(bound))
    else:
        raise refused(f'has no known figure "{figure}"', _meant(figure, f"{sign}{bound}"))
    if not math.isfinite(objective.bound) or _is_out_of_reach(objective):
        raise refused("can never be held", f'say "{objective.figure}{sign}={bound}"' if "=" not in sign else _SAY)
    return objective


def _is_out_of_reach(objective: Objective) -> bool:
    return (objective.kind, objective.sign, objective.bound) in (("errors", "<", 0.0), ("within", ">", 100.0))


def _meant(figure: str, rest: str) -> str:
    """Return the hint for a figure that is not known."""
    named = next((word for word in reversed(figure.split()) if word in _FIGURES or _PERCENTILE.fullmatch(word)), None)
    close = closest(figure, _FIGURES)
    meant = _MEANT.get(figure) or ((named or close,) if named or close else ())
    if not meant or meant == ("within",):
        return _SAY
    return "did you mean " + " or ".join(f'"{name}{rest}"' for name in meant) + "?"


def allows(objective: Objective, count: int, requests: int) -> bool:
    """True if an objective that counts requests is held when `count` of them are late or, of errors, failed."""
    assert objective.most_ratio is not None, objective.kind
    most = objective.most_ratio * requests
    is_strict = objective.kind != "percentile" and "=" not in objective.sign
    return count < most - _CHANCE if is_strict else count <= most + _CHANCE


def is_held(objective: Objective, value: float) -> bool:
    """True if a figure (ms, units/s, percent) is as the objective wants it."""
    return bool(_RELATIONS[objective.sign](value, objective.bound))
