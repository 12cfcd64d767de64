"""The matching of requests with a script's rules, and the resulting plan of each reply. Draws are seeded."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import cycle
from typing import Any

from esbench.null_server.script import (
    Bimodal,
    BulkErrors,
    Constant,
    Delay,
    Drip,
    Exponential,
    Fault,
    Listed,
    Rule,
    ScriptedReply,
    ServerScript,
    Stall,
)

_S = 1_000_000_000
_MS = 1_000_000


@dataclass(slots=True)
class Plan:
    """The plan of one reply: it leaves at `due_ns`, changed as the fields say."""

    due_ns: int
    fault: Fault | None = None
    reply: ScriptedReply | None = None
    refuse_item: Callable[[], BulkErrors | None] | None = None
    merges: list[Mapping[str, Any]] = field(default_factory=list)
    pad_to_bytes: int = 0
    chunked: bool = False
    drip: Drip | None = None
    connection_close: bool = False


class Rules:
    """The rules of a script with their counters, queues and draws.

    `start_ns` (CLOCK_MONOTONIC) is the zero of rules that count from the start.
    """

    def __init__(self, script: ServerScript, start_ns: int) -> None:
        self._rules = [
            _Running(rule, random.Random(f"{script.seed}:{number}"), start_ns)
            for number, rule in enumerate(script.rules)
        ]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def plan(self, method: str, target: str, now_ns: int) -> Plan | None:
        """Return the combined plan of all rules that match the request, or None if no rule matches.

        Each call counts as one request. `target` is path and query; `now_ns` is of CLOCK_MONOTONIC. Delays add up; of
        replies and faults the first one counts.
        """
        met = [rule for rule in self._rules if rule.meets(method, target, now_ns)]
        if not met:
            return None
        plan = Plan(now_ns)
        for rule in met:
            rule.apply(plan, now_ns)
        for rule in met:
            rule.hold(plan)
        return plan


class _Running:
    def __init__(self, rule: Rule, draw: random.Random, start_ns: int) -> None:
        self.rule = rule
        self._random = draw
        self._path = re.compile(rule.path) if rule.path is not None else None
        self._zero_ns = start_ns if rule.since == "start" else None
        self._seen = 0
        self._delay = _sampler(rule.delay, draw) if rule.delay else None
        self._service = _sampler(rule.queue.service, draw) if rule.queue else None
        self._free_ns = [0] * rule.queue.slots if rule.queue else []
        heapify(self._free_ns)

    def meets(self, method: str, target: str, now_ns: int) -> bool:
        rule = self.rule
        if rule.method is not None and rule.method != method:
            return False
        if self._path is not None and self._path.search(target) is None:
            return False
        if self._zero_ns is None:
            self._zero_ns = now_ns
        elapsed_s = (now_ns - self._zero_ns) / _S
        if elapsed_s < rule.after_s or (rule.until_s is not None and elapsed_s >= rule.until_s):
            return False
        self._seen += 1
        if self._seen < rule.first or (rule.last is not None and self._seen > rule.last):
            return False
        if (self._seen - rule.first + 1) % rule.every:
            return False
        return rule.share >= 1 or self._random.random() < rule.share

    def apply(self, plan: Plan, now_ns: int) -> None:
        rule = self.rule
        if self._service:
            begin_ns = max(now_ns, self._free_ns[0])
            done_ns = begin_ns + self._service()
            heapreplace(self._free_ns, done_ns)
            plan.due_ns += done_ns - now_ns
        if self._delay:
            plan.due_ns += self._delay()
        plan.fault = plan.fault or rule.fault
        plan.reply = plan.reply or rule.reply
        if rule.bulk_errors and plan.refuse_item is None:
            plan.refuse_item = self._refuse_item
        if rule.merge is not None:
            plan.merges.append(rule.merge)
        plan.pad_to_bytes = max(plan.pad_to_bytes, rule.pad_to_bytes or 0)
        plan.chunked |= rule.chunked
        plan.drip = plan.drip or rule.drip
        plan.connection_close |= rule.connection_close

    def hold(self, plan: Plan) -> None:
        """Delay a reply that is due during the stall until the stall's end."""
        if self.rule.stall and self._zero_ns is not None:
            plan.due_ns = self._zero_ns + _after_stall(self.rule.stall, plan.due_ns - self._zero_ns)

    def _refuse_item(self) -> BulkErrors | None:
        errors = self.rule.bulk_errors
        return errors if errors and self._random.random() < errors.share else None


def _after_stall(stall: Stall, due_ns: int) -> int:
    """Return the time at which a reply that is due at `due_ns` leaves; both ns since the rule's zero."""
    begin_ns = round(stall.at_s * _S)
    if stall.every_s is not None and due_ns >= begin_ns:
        every_ns = round(stall.every_s * _S)
        begin_ns += (due_ns - begin_ns) // every_ns * every_ns
    end_ns = begin_ns + round(stall.for_s * _S)
    return end_ns if begin_ns <= due_ns < end_ns else due_ns


def _sampler(delay: Delay, draw: random.Random) -> Callable[[], int]:
    """Return a function that draws delays, in ns."""
    match delay:
        case Constant(ms=ms):
            constant = round(ms * _MS)
            return lambda: constant
        case Bimodal(low_ms=low, high_ms=high, high_ratio=ratio):
            low_ns, high_ns = round(low * _MS), round(high * _MS)
            return lambda: high_ns if draw.random() < ratio else low_ns
        case Exponential(mean_ms=mean):
            return lambda: round(draw.expovariate(1 / mean) * _MS)
        case Listed(ms=values):
            turns = cycle([round(value * _MS) for value in values])
            return lambda: next(turns)
