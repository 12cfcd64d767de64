"""The line before a duel: what it should settle within its time, and what would settle the rest. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from esbench.comparison import stats
from esbench.errors.short import first_of
from esbench.features.duel.looks import SettlingAim
from esbench.units import format_duration

_MOST_NAMED = 3
_WORTH_ASKING = 0.5  # the largest change that is


@dataclass(frozen=True)
class Expected:
    """A task of a forecast: the expected standard deviation of a round's difference in its throughput (the median of
    an open loop) and in its p99.

    `tail_spread` is None where the p99 has too few requests, which a task of `tail_s`, all sides together, would have;
    both are None if that is not known.
    """

    spread: float
    tail_spread: float | None = None
    tail_s: float | None = None


@dataclass(frozen=True)
class Forecast:
    """A forecast of what a duel settles. `round_s`: the time of a round; not `is_whole`: without nodes and documents.

    `budget_s`: the time for all rounds; None: any. `fixed`: the number of rounds that the user asked for.
    """

    aim: SettlingAim
    tasks: Mapping[str, Expected]
    round_s: float
    budget_s: float | None
    is_whole: bool = True
    fixed: int | None = None

    @property
    def most(self) -> int:
        """The rounds that the time holds."""
        if self.budget_s is None:
            return stats.MOST_ROUNDS
        return max(1, min(stats.MOST_ROUNDS, math.floor(self.budget_s / self.round_s)))

    @property
    def looks(self) -> tuple[int, ...]:
        """The rounds after which rows are judged."""
        return (self.fixed,) if self.fixed is not None else self.aim.looks(self._spreads, self.most)

    @property
    def settled(self) -> tuple[str, ...]:
        """The tasks whose throughput is expected to be settled."""
        return tuple(name for name, task in self.tasks.items() if self.aim.is_settled(task.spread, self.looks))

    @property
    def text(self) -> str:
        """The plan in a line: rounds, their time, and what they should settle."""
        rounds, effect = self.looks[-1], 100 * math.expm1(self.aim.margin)
        took = f"{format_duration(_rounded(self.round_s))}, {format_duration(_rounded(rounds * self.round_s))}"
        least = "" if self.is_whole else " at least"
        found = f"expected to settle {effect:.3g} % for {len(self.settled)} of {len(self.tasks)} tasks"
        return f"{rounds} round{'s' if rounds != 1 else ''} of {took}{least}: {found}{self._tails}"

    def remedies(self) -> Iterator[str]:
        """Yield what would settle the rest, each as a sentence."""
        rest = {name: task for name, task in self.tasks.items() if name not in self.settled}
        by_rounds = {name: self.aim.needed(task.spread) for name, task in rest.items()}
        possible = {name: rounds for name, rounds in by_rounds.items() if rounds is not None}
        if possible:
            rounds = max(possible.values())
            yield f"{first_of(list(possible), _MOST_NAMED)}: about {rounds} rounds, {self._option(rounds)}"
        if hopeless := [name for name in rest if name not in possible]:
            spread = max(rest[name].spread for name in hopeless)
            rounds = max(self.looks[-1], self.aim.fewest)
            change = math.expm1(stats.paired_margin(spread, rounds, self.aim.rows, 2))
            remedy = f"--min-effect={math.ceil(100 * change)}%" if change <= _WORTH_ASKING else "a quieter machine"
            yield f"{first_of(hopeless, _MOST_NAMED)}: more than {stats.MOST_ROUNDS} rounds, or {remedy}"
        longer = {name: task.tail_s for name, task in self.tasks.items() if task.tail_s is not None}
        if longer:
            minutes = math.ceil(max(longer.values()) / 60)
            yield f"p99 of {first_of(list(longer), _MOST_NAMED)}: --task-time={minutes}m"

    @property
    def _tails(self) -> str:
        known = [task for task in self.tasks.values() if task.tail_spread is not None or task.tail_s is not None]
        spreads = [task.tail_spread for task in known if task.tail_spread is not None]
        return f", p99 for {sum(self.aim.is_settled(each, self.looks) for each in spreads)}" if known else ""

    @property
    def _spreads(self) -> Sequence[float]:
        return [
            spread for task in self.tasks.values() for spread in (task.spread, task.tail_spread) if spread is not None
        ]

    def _option(self, rounds: int) -> str:
        if self.budget_s is None or self.fixed is not None:
            return f"--rounds={rounds}"
        return f"--budget={math.ceil(rounds * self.round_s / 60)}m"


def _rounded(seconds: float) -> float:
    """Return seconds as a plan says them: whole, and whole minutes from ten minutes on."""
    return 60 * round(seconds / 60) if seconds >= 600 else max(1, round(seconds))
