"""Simulated rounds that hold both sides at once, in slices (ABBA or BAAB): a set is one comparison of some tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from esbench.comparison import stats
from esbench.comparison.stats import Floats
from esbench.comparison.warmup_cut import cuts, last_cut

BLOCKS = 10  # of two slices of 1 s a side
_SLOTS = 4  # of a block
_SLICE_SD = 0.06  # of slices of one node
Weather = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def calm(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return np.zeros(shape)


def autoregressive(sd: float, phi: float = 0.9) -> Weather:
    def weather(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        values = rng.standard_normal(shape) * sd
        values[..., 1:] *= np.sqrt(1 - phi**2)
        for slot in range(1, shape[-1]):
            values[..., slot] += phi * values[..., slot - 1]
        return values

    return weather


def bursts(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """In one of 20 slots something else begins that takes a third for three slots."""
    begins = rng.random(shape) < 0.05
    return -0.4 * (begins | np.roll(begins, 1, axis=-1) | np.roll(begins, 2, axis=-1))


def drift(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Up to a fifth over the task, up or down."""
    return rng.uniform(-0.2, 0.2, (*shape[:-1], 1)) * np.linspace(0, 1, shape[-1])


WEATHER: dict[str, Weather] = {
    "calm": calm,
    "AR(1), 10 %": autoregressive(0.10),
    "AR(1), 25 %": autoregressive(0.25),
    "bursts": bursts,
    "drift": drift,
}


@dataclass(frozen=True)
class Setup:
    """What sides are like: the standard deviation of start luck, of a whole node or of each task by itself; the time
    constant of their warmup in own seconds (0: none), which differs between races by a third."""

    luck: float = 0.0
    of_tasks: bool = False
    weather: str = "calm"
    warmup_s: float = 0.0


def units(rng: np.random.Generator, of: Setup, sets: int, rows: int, rounds: int, change: float = 0.0) -> Floats:
    """Units by side, set, row, round and block; the first row's contender does `change` more (a ratio)."""
    shape = (sets, rows, rounds, BLOCKS * _SLOTS)
    slots = (WEATHER[of.weather](rng, shape) + _SLICE_SD * rng.standard_normal(shape)).reshape(*shape[:3], BLOCKS, 4)
    outer, inner = slots[..., [0, 3]], slots[..., [1, 2]]
    is_abba = rng.random((*shape[:3], BLOCKS, 1)) < 0.5
    logs = np.stack([np.where(is_abba, outer, inner), np.where(is_abba, inner, outer)])
    logs += of.luck * rng.standard_normal((2, sets, rows if of.of_tasks else 1, rounds, 1, 1))
    logs[1, :, 0] += np.log1p(change)
    done = np.exp(logs)
    if of.warmup_s:
        constant_s = of.warmup_s * np.exp(0.33 * rng.standard_normal((2, sets, rows, rounds, 1, 1)))
        done *= 1 - 0.5 * np.exp(-np.arange(2.0 * BLOCKS).reshape(BLOCKS, 2) / constant_s)
    summed: Floats = done.sum(axis=-1)
    return summed


def difference(units: Floats, begin: int = 0, end: int = BLOCKS) -> Floats:
    """ln(contender / baseline) of each round, from a range of blocks."""
    logs = np.log(units[..., begin:end].sum(axis=-1))
    found: Floats = logs[1] - logs[0]
    return found


def after_the_cut(units: Floats, margin: float) -> tuple[Floats, Floats]:
    """The difference of each round after the cut of its row, and the cut in blocks (set, row)."""
    cut = np.full(units.shape[1:3], last_cut(BLOCKS))
    for begin, third in reversed(list(cuts(BLOCKS, 2.0))):
        change = difference(units, begin, third) - difference(units, third)
        cut = np.where(stats.is_same(stats.paired(change), margin), begin, cut)
    found = np.empty(units.shape[1:4])
    for begin in np.unique(cut):
        found = np.where((cut == begin)[..., None], difference(units, int(begin)), found)
    return found, cut


def called(differences: Floats, margin: float) -> tuple[Floats, Floats]:
    """Which rows are called different, and which the same (set, row)."""
    effect = stats.paired(differences)
    same = stats.is_same(effect, margin)
    return ~same & (stats.adjusted(stats.p_value(effect)) < 0.05), same


def any_false_verdict(rng: np.random.Generator, of: Setup, rows: int, sets: int, margin: float) -> float:
    """In which share of comparisons of identical sides, six rounds each, some row is called different; of sides that
    warm up, after the cut."""
    hits, left = 0.0, sets
    while left > 0:  # in parts, for the memory
        part = min(left, 1000)
        done = units(rng, of, part, rows, 6)
        differences = after_the_cut(done, margin)[0] if of.warmup_s else difference(done)
        hits, left = hits + called(differences, margin)[0].any(axis=-1).sum(), left - part
    return float(hits / sets)


def found(rng: np.random.Generator, of: Setup, sets: int) -> float:
    """In which share of comparisons, six rounds each, a change of 10 % of one row of eight is found."""
    hits, left = 0.0, sets
    while left > 0:
        part = min(left, 1000)
        different, _ = called(difference(units(rng, of, part, 8, 6, change=0.10)), float(np.log(1.05)))
        hits, left = hits + different[:, 0].sum(), left - part
    return float(hits / sets)
