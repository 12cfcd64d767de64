"""The running estimate of a task that two sides do at once: how much faster the contender is so far."""

from __future__ import annotations

import math
from dataclasses import dataclass

from esbench.progress.race_state import RunningTask

_FEWEST_SECONDS = 8  # of each side: four blocks
_FEWEST_CYCLES = 50  # requests of a client in a second: whole ones, which are off by up to one in each slice
_WIDEST = 4.0  # an interval of a factor of two each way; a wider one says nothing yet


@dataclass(frozen=True)
class RunningEstimate:
    """The units of the contender over those of the baseline, minus 1, in percent, with its 95 % interval."""

    percent: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.percent:+.1f} % [{self.low:+.1f}, {self.high:+.1f}]"


def prepare_estimates() -> None:
    """Load what `estimate` needs, which would hold up the races if they ran already."""
    import esbench.comparison.stats  # noqa: F401


def estimate(baseline: RunningTask, contender: RunningTask) -> RunningEstimate | None:
    """Return the estimate from the own seconds that both sides have measured.

    It says how well this task of this round is known, not what another round would find. None while the seconds are
    too few, of requests above 20 ms, which whole seconds do not count well, if a side does nothing for two of them, and
    for a task with a target rate: both sides do the same.
    """
    from esbench.comparison.stats import interval, of_slices  # numpy: only for those who race sides at once

    sides = (baseline.seconds, contender.seconds)
    if baseline.task.schedule.is_open or not all(sides):
        return None
    first = max(map(min, sides))
    both = range(first + first % 2, min(map(max, sides)) + 1)  # blocks begin at even seconds, as pairs of slices do
    if len(both) < _FEWEST_SECONDS or min(side.cycles_per_second for side in (baseline, contender)) < _FEWEST_CYCLES:
        return None
    effect = of_slices(*([side.get(number, (0.0, 0.0))[1] for number in both] for side in sides))
    logs = [float(effect.log_ratio), *map(float, interval(effect))]
    if not logs[2] - logs[1] < math.log(_WIDEST):
        return None
    return RunningEstimate(*(100 * math.expm1(log) for log in logs))
