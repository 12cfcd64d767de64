"""What is compared, and what comes of it, as frozen values; verdicts by the names that readers meet."""

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
# What says something of the two sides: the others have no basis for it.
DECIDED = (FASTER, SLOWER, SAME, UNDECIDED, ERRORS)

INTERLEAVED, HISTORY, SECTIONS, INDEPENDENT = "interleaved", "history", "sections", "independent"

SecondsOf = Callable[[RaceRecord], Iterable[SecondLine]]


def _no_seconds(record: RaceRecord) -> Iterable[SecondLine]:
    return ()


@dataclass(frozen=True)
class Side:
    """One side: a race or several rounds of it, in the order of their start; `session` is the id they share."""

    name: str
    records: tuple[RaceRecord, ...]
    session: str | None = None


@dataclass(frozen=True)
class CompareOptions:
    """`min_effect_ratio`: below it sides count as the same (None: 0.05, and 0.1 from p99 up). `max_error_rise_ratio`:
    by how much the error rate may rise before a gain is not called one. `allow`: differing keys that do not matter.
    `looks`: how often rounds were added after somebody had looked, and this look. `seconds` gives a race's seconds;
    `history` holds earlier races of what the baseline is, in their order; of a session only the last one counts.
    `notices` are those of the sides as they are stored: of their sessions and files."""

    min_effect_ratio: float | None = None
    max_error_rise_ratio: float = 0.001
    allow: tuple[str, ...] = ()
    looks: int = 1
    seconds: SecondsOf = _no_seconds
    history: tuple[RaceRecord, ...] = ()
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A fact of the sides that is not the same on both; None where a side does not have it, a list where it differs
    between a side's own races.

    `key` names what must be equal for the sides to be compared: "" for what is under test, or only names a race
    (`is_label`: a user tag). `task` has it where only that task is concerned. `allowed`: the user says it does not
    matter.
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
        """Whether figures must not be compared for it."""
        return bool(self.key) and not self.allowed


@dataclass(frozen=True)
class Estimate:
    """contender / baseline with its 95 % interval, all ratios. `p` is of no difference, before it is adjusted for
    other rows; `method`: interleaved, history, sections, independent."""

    ratio: float
    low: float
    high: float
    p: float
    residual_sd: float
    method: str


@dataclass(frozen=True)
class Verdict:
    """`kind` is one of the names above, `note` says why or what to do; `p` is adjusted for the rows and the looks."""

    kind: str
    note: str = ""
    p: float | None = None


@dataclass(frozen=True)
class Row:
    """A figure of both sides.

    `baseline` and `contender` are the sides' typical figures (None where no race of a side has it, which is told of
    primary rows only), `*_rounds` one value for each of their races (None where it has none). Only primary rows carry
    verdicts. Not `comparable`: the workload differs.
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
    verdict: Verdict | None = None
    comparable: bool = True

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of the sides that have one."""
        return tuple(figure for figure in (self.baseline, self.contender) if figure is not None)

    @property
    def better(self) -> str:
        """Which direction is a gain: higher, lower, or neither."""
        return next((figure.better for figure in self.figures), NEITHER)

    @property
    def diff(self) -> float | None:
        """Contender - baseline in the row's unit; None when a side has no value, or is only known to exceed it."""
        if self.baseline is None or self.contender is None or any(figure.exceeded for figure in self.figures):
            return None
        if self.estimate is not None:
            return self.baseline.value * (self.estimate.ratio - 1)
        return self.contender.value - self.baseline.value

    @property
    def diff_percent(self) -> float | None:
        """The difference in percent of the baseline; None where there is no difference or the baseline is 0."""
        if self.baseline is None or self.diff is None or not self.baseline.value:
            return None
        return 100 * self.diff / self.baseline.value

    @property
    def usable(self) -> bool:
        """Whether the figures of both sides may be used, and set beside one another."""
        return self.comparable and all(figure.usable for figure in self.figures)


@dataclass(frozen=True)
class Pair:
    """The baseline and one contender. `speed_ratio` is over all tasks, above 1 where the contender is better."""

    baseline: Side
    contender: Side
    differences: tuple[Difference, ...]
    rows: tuple[Row, ...]
    notices: tuple[Notice, ...]
    is_interleaved: bool = False
    speed_ratio: Estimate | None = None

    @property
    def is_same(self) -> bool:
        """Whether the sides differ in nothing but their labels (A/A)."""
        return all(difference.is_label for difference in self.differences)

    @property
    def primary(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.is_primary)

    @property
    def single(self) -> bool:
        """Whether each side is one race."""
        return len(self.baseline.records) == len(self.contender.records) == 1


@dataclass(frozen=True)
class Comparison:
    """One pair for each contender. `tested` rows of all of them are one family, whose p values were adjusted together
    and multiplied by `looks`; `history` earlier races were there for those that it takes. `min_effect_ratio` is the
    option's, and so are the notices `of_sides`."""

    pairs: tuple[Pair, ...]
    looks: int = 1
    min_effect_ratio: float | None = None
    tested: int = 0
    history: int = 0
    of_sides: tuple[Notice, ...] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All that a reader must know, each once: of the sides as they are stored, then of each pair."""
        return tuple(dict.fromkeys((*self.of_sides, *(notice for pair in self.pairs for notice in pair.notices))))
