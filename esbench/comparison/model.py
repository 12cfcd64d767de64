"""The data model of comparisons, as frozen values: sides, options, differences, rows and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from esbench.comparison.reasons import Reason
from esbench.record.answers import Line
from esbench.record.figures import NEITHER, Figure, Notice
from esbench.record.model import RaceRecord
from esbench.record.series import SecondLine

PAIRED, INTERLEAVED, HISTORY = "paired", "interleaved", "history"
SECTIONS, SEARCHES, INDEPENDENT = "sections", "searches", "independent"

SecondsOf = Callable[[RaceRecord], Iterable[SecondLine]]
AnswersOf = Callable[[RaceRecord], Sequence[Line]]


def _none(record: RaceRecord) -> tuple[()]:
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

    `min_effect_ratio`: a smaller change counts as the same (None: 0.05; 0.1 from p99 up, and everywhere for sides
    that have fresh nodes in each round that holds both). `max_error_rise_ratio`: the rise of the error rate above
    which a gain is not called one; `min_score_effect`: the fall of the score of replies above which it is not;
    `recalls`: those at which sweeps are compared.
    `allow`: keys that may differ. `looks`: the number of times that the result was looked at before more rounds were
    raced, or is planned to be, this look included; `decided`: the rows that were settled at an earlier one, which are
    tested beside these. `seconds` returns a race's seconds, `answers` what
    its read tasks were answered; `history`: earlier races of the baseline's setup, in their order; only the last
    one of a session counts. `notices`: notices about the stored sides, their sessions and files.
    """

    min_effect_ratio: float | None = None
    max_error_rise_ratio: float = 0.001
    min_score_effect: float = 0.005
    recalls: tuple[float, ...] = (0.9, 0.95, 0.99)
    allow: tuple[str, ...] = ()
    looks: int = 1
    decided: int = 0
    seconds: SecondsOf = _none
    answers: AnswersOf = _none
    history: tuple[RaceRecord, ...] = ()
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A fact that is not the same on both sides. The value is None if a side lacks the fact, a list if a side's own
    races differ in it.

    `key` names what must be equal for the sides to be compared; it is "" for a fact that is under test, or that only
    labels a race (`is_label`: a user tag). `task`: the task concerned, if it is a fact of one task. `allowed`: the user
    says that the difference does not matter. `unknown`: why it is not known whether there is a difference, as far as
    that forbids to compare, too.
    """

    name: str
    baseline: Any
    contender: Any
    is_label: bool = False
    key: str = ""
    task: str = ""
    allowed: bool = False
    unknown: str = ""

    @property
    def forbids(self) -> bool:
        """True if figures must not be compared because of this difference."""
        return bool(self.key) and not self.allowed


@dataclass(frozen=True)
class AnswerPair:
    """The answers of both sides to the same request, one that shows how they differ."""

    request: str
    baseline: Any
    contender: Any


@dataclass(frozen=True)
class TaskAnswers:
    """The answers of a read task on both sides: the numbers of requests whose answers are equal, differ, or change
    from one moment to the next on one side (`unstable`), which are not compared.

    `task`: its label. `reason`: why none or not all were asked; `limits`: what was not compared of the answers;
    `documents`: sentences about indices that hold another number of documents on the other side.
    """

    task: str
    equal: int = 0
    differing: int = 0
    unstable: int = 0
    examples: tuple[AnswerPair, ...] = ()
    reason: str = ""
    limits: str = ""
    documents: tuple[str, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """The ratio contender / baseline with its 95 % interval, all ratios.

    `p` is the p value of no difference, not yet adjusted for other rows; `residual_sd`: the standard deviation of one
    race's ln(value), or (paired) of one round's difference; `method`: paired, interleaved, history, sections,
    searches, independent.
    """

    ratio: float
    low: float
    high: float
    p: float
    residual_sd: float
    method: str


@dataclass(frozen=True)
class RowVerdict:
    """The verdict of a row by its reason.

    `detail` and `remedy` say with the row's figures and options what the reason's sentence and remedy say of any row;
    "" where they say enough. `remarks`: what else to know of the row. `p` is adjusted for the rows and the looks; None
    if the row was not tested.
    """

    reason: Reason
    detail: str = ""
    remedy: str = ""
    p: float | None = None
    remarks: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """One of the five verdicts: faster, slower, same, unclear, not judged."""
        return self.reason.verdict

    @property
    def for_programs(self) -> dict[str, str | bool]:
        """The verdict as JSON, CSV and JUnit have it, by key; the last one is the word of version 1."""
        reason = self.reason
        return {
            "verdict": reason.verdict,
            "reason": reason.code,
            "has_basis": reason.has_basis,
            "scope": reason.scope,
            "verdict_v1": reason.v1,
        }

    @property
    def sentence(self) -> str:
        """The detail, or else the reason's sentence."""
        return self.detail or self.reason.sentence

    @property
    def note(self) -> str:
        """The detail, its remedy in brackets, and the remarks, as one text."""
        detail = f"{self.detail} ({self.remedy})" if self.detail and self.remedy else self.detail or self.remedy
        return "; ".join(filter(None, [detail, *self.remarks]))


@dataclass(frozen=True)
class Row:
    """A figure on both sides; `task` is the task's label.

    `baseline` and `contender` are the sides' typical figures (None if no race of a side has it, which only occurs in
    primary rows), `*_rounds` one value for each of their races (None if it has none). Only primary rows carry verdicts.
    Not `comparable`: the workload differs. `differences`: ln(contender / baseline) of each round that held both sides
    at once, those that the estimate is the mean of; empty if they were not raced at once.
    """

    metric: str
    task: str
    unit: str
    baseline: Figure | None
    contender: Figure | None
    is_primary: bool = False
    baseline_rounds: tuple[float | None, ...] = ()
    contender_rounds: tuple[float | None, ...] = ()
    differences: tuple[float, ...] = ()
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
    def word(self) -> str:
        """The word of its verdict; "" without one."""
        return self.verdict.word if self.verdict is not None else ""

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
class Cause:
    """A figure of a task, in `unit`, that moved together with the task's rows: its means on both sides."""

    name: str
    unit: str
    baseline: float
    contender: float


@dataclass(frozen=True)
class TaskCauses:
    """The figures that moved together with a task's rows, the likeliest causes first.

    `metric` is that of its first row with a verdict, `percent` the change of that.
    """

    task: str
    metric: str
    percent: float | None
    causes: tuple[Cause, ...]


@dataclass(frozen=True)
class Cut:
    """The time at which the figures of a task begin that all sides raced at once, in own seconds since its start.

    `is_steady`: from there on, the sides' ratio is steady. `age_s`: the own seconds for which the race had loaded the
    nodes by then, at least.
    """

    at_s: float
    is_steady: bool
    age_s: float


@dataclass(frozen=True)
class RoundsNeeded:
    """The number of rounds that settle a change; None above 50. `session_s`: their time, None if it is not known."""

    effect_ratio: float
    rounds: int | None
    session_s: float | None


@dataclass(frozen=True)
class RoundPlan:
    """The best length of tasks, and the rounds with it, by the spread of rounds that held both sides at once.

    `between_ratio`: the standard deviation of the difference between rounds, of which `within_ratio`, that of one
    round, is not a part. `is_start_luck`: each round began with fresh nodes. `task_s`: the time of a task for all sides
    together; with it, a round takes `round_s` (None: not known), and `spread_ratio` is the standard deviation of its
    difference.
    """

    between_ratio: float
    within_ratio: float
    is_start_luck: bool
    task_s: float
    needed: tuple[RoundsNeeded, ...]
    spread_ratio: float
    round_s: float | None


@dataclass(frozen=True)
class SlicedRounds:
    """The way in which rounds held both sides at once: the lengths of their slices in s, the cut of each task by label.

    `fresh_nodes`: each side had nodes that were started for the round. `plan` is None with a single round.
    """

    slices_s: tuple[float, ...]
    cuts: Mapping[str, Cut]
    fresh_nodes: bool
    plan: RoundPlan | None = None


@dataclass(frozen=True)
class Pair:
    """The baseline and one contender. `is_interleaved`: they took turns in one session. `known_of_one`: names of facts
    that one side has and the other cannot have, so that they are no differences.

    `speed_ratio` is over all tasks, above 1 if the contender is better; None if no model applies. `sliced`: None unless
    both sides were raced at once; their records are then those after the cuts. `answers`: of the read tasks. `causes`:
    of the tasks that are faster or slower.
    """

    baseline: Side
    contender: Side
    differences: tuple[Difference, ...]
    rows: tuple[Row, ...]
    notices: tuple[Notice, ...]
    is_interleaved: bool = False
    speed_ratio: Estimate | None = None
    known_of_one: tuple[str, ...] = ()
    sliced: SlicedRounds | None = None
    answers: tuple[TaskAnswers, ...] = ()
    causes: tuple[TaskCauses, ...] = ()

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
    def named_pairs(self) -> tuple[tuple[str, Pair], ...]:
        """Each pair with the words before what is said of it: the contender's name, "" if there is only one."""
        return tuple((f"{pair.contender.name}: " if len(self.pairs) > 1 else "", pair) for pair in self.pairs)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All notices for the reader, each once: those about the stored sides, then those of each pair.

        A notice that does not hold for all of several pairs begins with the name of the contender.
        """
        common = set(self.pairs[0].notices).intersection(*(pair.notices for pair in self.pairs))
        of_pairs = (
            notice if notice in common else replace(notice, text=f"{name}{notice.text}")
            for name, pair in self.named_pairs
            for notice in pair.notices
        )
        return tuple(dict.fromkeys((*self.of_sides, *of_pairs)))
