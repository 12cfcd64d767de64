"""The data model of comparisons, as frozen values: sides, options, differences, rows and verdicts, the latter by their
displayed names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from esbench.record.figures import NEITHER, Figure, Notice
from esbench.record.model import RaceRecord
from esbench.record.series import SecondLine

FASTER, SLOWER, SAME, UNDECIDED = "faster", "slower", "same", "~"
UNUSABLE, ERRORS = "!", "! errors"
FEW_EVENTS, TOO_SHORT = "few events", "too short"
WITHIN_RACE, SESSION_ONLY = "within-race only", "session-only"
DRIVER_LAG = "driver lag"
# Verdicts that state something about the two sides: the others have no basis for it.
DECIDED = (FASTER, SLOWER, SAME, UNDECIDED, ERRORS)

INTERLEAVED, HISTORY, SECTIONS, INDEPENDENT = "interleaved", "history", "sections", "independent"

SecondsOf = Callable[[RaceRecord], Iterable[SecondLine]]


def _no_seconds(record: RaceRecord) -> Iterable[SecondLine]:
    return ()


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a race or several rounds, in the order of their start. `session`: id of the session
    that they share."""

    name: str
    records: tuple[RaceRecord, ...]
    session: str | None = None


@dataclass(frozen=True)
class CompareOptions:
    """The options of a comparison.

    `min_effect_ratio`: a smaller change counts as the same (None: 0.05, and 0.1 from p99 up). `max_error_rise_ratio`:
    the rise of the error rate above which a gain is not called one. `allow`: keys that may differ. `looks`: the number
    of times that the result was looked at before more rounds were raced, this look included. `seconds` returns a race's
    seconds; `history`: earlier races of the baseline's setup, in their order; only the last one of a session counts.
    `notices`: notices about the stored sides, their sessions and files.
    """

    min_effect_ratio: float | None = None
    max_error_rise_ratio: float = 0.001
    allow: tuple[str, ...] = ()
    looks: int = 1
    seconds: SecondsOf = _no_seconds
    history: tuple[RaceRecord, ...] = ()
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A fact that is not the same on both sides. The value is None if a side lacks the fact, a list if a side's own
    races differ in it.

    `key` names what must be equal for the sides to be compared; it is "" for a fact that is under test, or that only
    labels a race (`is_label`: a user tag). `task`: the task concerned, if it is a fact of one task. `allowed`: the user
    says that the difference does not matter.
    """

    name: str
    baseline: Any
    contender: Any
    is_label: bool = False
    key: str = ""
    task: str = ""
    allowed: bool = False

    @property
    def forbids(self) -> bool:
        """True if figures must not be compared because of this difference."""
        return bool(self.key) and not self.allowed


@dataclass(frozen=True)
class Estimate:
    """The ratio contender / baseline with its 95 % interval, all ratios.

    `p` is the p value of no difference, not yet adjusted for other rows; `residual_sd`: the standard deviation of one
    race's ln(value); `method`: interleaved, history, sections, independent.
    """

    ratio: float
    low: float
    high: float
    p: float
    residual_sd: float
    method: str


@dataclass(frozen=True)
class RowVerdict:
    """The verdict of a row; `note` is a reason or advice.

    `kind`: faster, slower, same, ~ (undecided), ! (unusable), ! errors; or the missing basis: few events, too short,
    within-race only, session-only, driver lag. `p` is adjusted for the rows and the looks; None if the row was not
    tested.
    """

    kind: str
    note: str = ""
    p: float | None = None


@dataclass(frozen=True)
class Row:
    """A figure on both sides; `task` is the task's label.

    `baseline` and `contender` are the sides' typical figures (None if no race of a side has it, which only occurs in
    primary rows), `*_rounds` one value for each of their races (None if it has none). Only primary rows carry verdicts.
    Not `comparable`: the workload differs.
    """

    metric: str
    task: str
    unit: str
    baseline: Figure | None
    contender: Figure | None
    is_primary: bool = False
    baseline_rounds: tuple[float | None, ...] = ()
    contender_rounds: tuple[float | None, ...] = ()
    estimate: Estimate | None = None
    verdict: RowVerdict | None = None
    comparable: bool = True

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of the sides that have one."""
        return tuple(figure for figure in (self.baseline, self.contender) if figure is not None)

    @property
    def better(self) -> str:
        """The direction that is a gain: "higher", "lower", or "" for neither."""
        return next((figure.better for figure in self.figures), NEITHER)

    @property
    def kind(self) -> str:
        """The kind of its verdict; "" without one."""
        return self.verdict.kind if self.verdict is not None else ""

    @property
    def diff(self) -> float | None:
        """Contender - baseline in the row's unit: by the estimate if there is one, else of the figures as they are.

        None if a side has no value, or is only known to exceed it.
        """
        if self.baseline is None or self.contender is None or any(figure.exceeded for figure in self.figures):
            return None
        if self.estimate is not None:
            return self.baseline.value * (self.estimate.ratio - 1)
        return self.contender.value - self.baseline.value

    @property
    def diff_percent(self) -> float | None:
        """`diff` in percent of the baseline's value; None if `diff` is None, or the baseline is 0."""
        if self.baseline is None or self.diff is None or not self.baseline.value:
            return None
        return 100 * self.diff / self.baseline.value

    @property
    def usable(self) -> bool:
        """True if the figures of both sides may be used and compared."""
        return self.comparable and all(figure.usable for figure in self.figures)


@dataclass(frozen=True)
class Pair:
    """The baseline and one contender. `is_interleaved`: they took turns in one session. `known_of_one`: names of facts
    that one side has and the other cannot have, so that they are no differences.

    `speed_ratio` is over all tasks, above 1 if the contender is better; None if no model applies.
    """

    baseline: Side
    contender: Side
    differences: tuple[Difference, ...]
    rows: tuple[Row, ...]
    notices: tuple[Notice, ...]
    is_interleaved: bool = False
    speed_ratio: Estimate | None = None
    known_of_one: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """True if the sides differ in nothing but their labels (A/A)."""
        return all(difference.is_label for difference in self.differences)

    @property
    def primary(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.is_primary)

    @property
    def single(self) -> bool:
        """True if each side is one race."""
        return len(self.baseline.records) == len(self.contender.records) == 1


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison: one pair for each contender.

    `tested`: the number of rows, over all pairs, that are one family of tests: their p values were adjusted together
    and multiplied by `looks`. `history`: the number of earlier races available to them. `min_effect_ratio` and the
    notices `of_sides` are those of the options.
    """

    pairs: tuple[Pair, ...]
    looks: int = 1
    min_effect_ratio: float | None = None
    tested: int = 0
    history: int = 0
    of_sides: tuple[Notice, ...] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All notices for the reader, each once: those about the stored sides, then those of each pair."""
        return tuple(dict.fromkeys((*self.of_sides, *(notice for pair in self.pairs for notice in pair.notices))))
