"""Construction of a task's schedule: its target rate or stages, its arrivals, its ramps; and of its think time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from esbench.errors import EsbenchError, TrackError, did_you_mean
from esbench.measure.schedule import builtin_schedules
from esbench.model import Schedule, Stage, ThinkSpread
from esbench.track.document import DocumentNode
from esbench.track.schema import known_keys
from esbench.units import Rate, format_duration, parse_duration, parse_target_rate

T = TypeVar("T")
_TASK_KEYS = known_keys("task")
_RANGE = re.compile(r"\s*([^:-]+?)\s*-\s*([^:-]+?)\s*:(.*)")
_ZERO = re.compile(r"\s*[-+]?0+(\.0*)?\s*(%|[^\s\d.%]*/s)?\s*")  # 0, "0 ops/s"
_DIGITS = re.compile(r"[0-9.]+\s*")
_THINK_TIMES = "say 500ms, {from: 200ms, to: 1s}, {mean: 500ms} or {mean: 500ms, deviation: 100ms}"


def build_schedule(
    node: DocumentNode, key: Callable[[str], DocumentNode | None], schedulers: Iterable[str] | None = ()
) -> Schedule:
    """Return the schedule of a task; raises TrackError for an invalid one.

    `key` returns the node of a key that the task may have from its "parallel", None if it is missing. `schedulers` are
    the names of those of the track's own code; None, if that could not be loaded, accepts any name.
    """
    kind, own = node.get("schedule", "deterministic"), set(schedulers or ())
    known = {*builtin_schedules(), *own}
    if kind not in known and schedulers is not None:
        node["schedule"].fail(f'unknown schedule "{kind}"', did_you_mean(kind, known))
    given = [name for name in ("target-throughput", "target-interval", "stages") if node.find(name) is not None]
    if len(given) > 1:
        node[given[1]].fail(f'"{given[0]}" and "{given[1]}" exclude one another')
    return Schedule(
        kind=kind,
        rate=_target(node),
        ramp_up_s=optional_seconds(key("ramp-up-time-period")) or 0.0,
        ramp_down_s=optional_seconds(key("ramp-down-time-period")) or 0.0,
        stages=_stages(node),
        params={name: value for name, value in node.value.items() if name not in _TASK_KEYS},
        custom=kind not in builtin_schedules(),
    )


def _target(node: DocumentNode) -> Rate | None:
    """Return the target rate; None for a closed loop: "none", an empty text, zero as in Rally, or a missing key."""
    if (interval := node.find("target-interval")) is not None:
        seconds = _parsed(interval, parse_duration)
        return Rate(1 / seconds, "ops") if seconds else None
    target = node.find("target-throughput")
    if target is None or str(target.value).strip().lower() in ("", "none") or _ZERO.fullmatch(str(target.value)):
        return None
    return _parsed(target, parse_target_rate)


def _stages(node: DocumentNode) -> tuple[Stage, ...]:
    """Return the stages of a rate, given as a list or as text such as "0-60s: 100/s, 60-120s: 500/s"."""
    stages = node.find("stages")
    if stages is None:
        return ()
    if isinstance(stages.value, str):
        return _stages_of_text(stages)
    made = []
    for stage in stages:
        duration_s = _parsed(stage["for"], parse_duration)
        if duration_s <= 0:
            stage["for"].fail("a stage must last longer than zero")
        made.append(Stage(duration_s, _parsed(stage["target-throughput"], parse_target_rate)))
    return tuple(made)


def _stages_of_text(node: DocumentNode) -> tuple[Stage, ...]:
    stages: list[Stage] = []
    before_s = 0.0
    for part in re.split(r"[,;\n]", node.value.strip().rstrip(",;")):
        match = _RANGE.fullmatch(part)
        if match is None:
            node.fail(f'"{part.strip()}" is not a stage', 'say "0-60s: 100/s, 60-120s: 500/s"')
        first, last, rate = match.groups()
        unit = _DIGITS.sub("", last, count=1)
        try:
            # "0-60s": a start without a unit has that of the end
            end_s = parse_duration(last)
            start_s = parse_duration(first if first[-1:].isalpha() else first + unit)
            stage = Stage(end_s - start_s, parse_target_rate(rate.strip()))
        except EsbenchError as error:
            raise node.failed(error) from None
        if not math.isclose(start_s, before_s):
            what = "begin at 0" if not stages else f"continue at {format_duration(before_s)}, where the one before ends"
            node.fail(f'the stage "{part.strip()}" does not {what}', "stages have no gaps and do not overlap")
        if end_s <= start_s:
            node.fail(f'the stage "{part.strip()}" ends before it begins')
        stages.append(stage)
        before_s = end_s
    return tuple(stages)


def build_think_time(node: DocumentNode | None) -> tuple[float, ThinkSpread | None]:
    """Return the mean of a task's think time in s, 0 without one, and how it differs: None if it is always the same.

    It is a duration, {from, to}, {mean}, or {mean, deviation}. Raises TrackError for anything else.
    """
    if node is None or not isinstance(node.value, Mapping):
        return optional_seconds(node) or 0.0, None
    keys = set(node.value)
    if keys not in ({"from", "to"}, {"mean"}, {"mean", "deviation"}):
        node.fail(
            f'a drawn "think-time" cannot have the keys {", ".join(sorted(map(str, keys))) or "none"}', _THINK_TIMES
        )
    first_s, last_s = optional_seconds(node.find("from")) or 0.0, optional_seconds(node.find("to")) or 0.0
    mean_s, deviation_s = optional_seconds(node.find("mean")) or 0.0, optional_seconds(node.find("deviation")) or 0.0
    if "to" in keys:
        if not first_s < last_s:
            node.fail(f'the "think-time" is from {first_s:g} s to {last_s:g} s: no range', '"to" is above "from"')
        return (first_s + last_s) / 2, ThinkSpread("uniform", (last_s - first_s) / 2)
    if not mean_s:
        node.fail('the "mean" of a "think-time" must be above zero', "leave it out where clients do not pause")
    if deviation_s > mean_s / 2:
        hint = 'with "mean" alone pauses are exponential'
        node.fail(f'the "deviation" of a "think-time" is above half of its mean, {mean_s:g} s', hint)
    if "deviation" in keys:
        return mean_s, ThinkSpread("normal", deviation_s)
    return mean_s, ThinkSpread("exponential", mean_s)


def optional_seconds(node: DocumentNode | None) -> float | None:
    """Return the duration in a key (90, "500ms", "5m") in seconds; None if missing or null. TrackError if invalid."""
    return None if node is None or node.value is None else _parsed(node, parse_duration)


def _parsed(node: DocumentNode, parse: Callable[[Any], T]) -> T:
    """Return the value of a key, parsed; an invalid one is a TrackError that names the key."""
    try:
        return parse(node.value)
    except EsbenchError as error:
        raise node.failed(TrackError(f'"{node.path[-1]}": {error.what}', hint=error.hint)) from None
