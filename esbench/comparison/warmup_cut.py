"""The cut of the warmup of a task that all sides raced at once: its figures begin where their ratio is steady
(docs/verdicts.md). Pure.

Sides that warm up alike lose nothing: only a ratio that still moves is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from esbench.comparison import stats
from esbench.comparison.own_time import OwnSlices

STEP_S = 4.0  # of own time: 8 s of two sides
BLOCK = 2  # own slices in a block: the order of the sides, and its reverse
SlicesOfRounds = Sequence[tuple[OwnSlices, OwnSlices]]  # the baseline's and a contender's slices of one task, by round


def first_steady(contenders: Sequence[SlicesOfRounds], margin: float) -> tuple[float, bool]:
    """Return the own time (s) at which a task's figures begin, for all rounds and sides, and whether they are steady.

    It is the earliest, in steps of 4 s and of whole blocks, two thirds of the task at most, at which the mean over the
    rounds of d(first third after it) - d(rest) lies inside +-`margin` (logarithms) by a 95 % bound each way, of every
    contender; two thirds if no time is. d: the difference of ln(throughput), in open loops of ln(median latency).
    """
    tasks = [task for rounds in contenders for pair in rounds for task in pair]
    blocks = min(task.whole for task in tasks) // BLOCK
    block_s = BLOCK * tasks[0].plan.length_s
    for cut, third in cuts(blocks, block_s):
        if all(_is_steady(rounds, cut, third, blocks, margin) for rounds in contenders):
            return cut * block_s, True
    return last_cut(blocks) * block_s, False


def cuts(blocks: int, block_s: float) -> Iterator[tuple[int, int]]:
    """Yield each possible cut of a task of some blocks, with the end of the first third after it, in blocks."""
    for cut in range(0, last_cut(blocks) + 1, max(1, round(STEP_S / block_s))):
        if blocks - cut > 1:
            yield cut, cut + max(1, (blocks - cut) // 3)


def last_cut(blocks: int) -> int:
    """Return the latest cut: two thirds of the blocks."""
    return 2 * blocks // 3


def _is_steady(rounds: SlicesOfRounds, cut: int, third: int, blocks: int, margin: float) -> bool:
    changes = [_change(pair, (BLOCK * cut, BLOCK * third), (BLOCK * third, BLOCK * blocks)) for pair in rounds]
    if len(changes) < 2 or None in changes:
        return False
    return bool(stats.is_same(stats.paired(changes), margin))  # type: ignore[arg-type]


def _change(pair: tuple[OwnSlices, OwnSlices], *parts: tuple[int, int]) -> float | None:
    """Return d of the first part - d of the second, in slices; None where one has too few requests."""
    baseline, contender = pair
    logs = [(baseline.log(*part), contender.log(*part)) for part in parts]
    known = [other - one for one, other in logs if one is not None and other is not None]
    return known[0] - known[1] if len(known) == len(parts) else None
