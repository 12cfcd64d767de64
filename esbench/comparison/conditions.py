"""The conditions of `--fail-on`: rows that make a comparison fail, and rows that leave it undecided."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from esbench.comparison.comparability import ANSWERS
from esbench.comparison.metrics import PRIMARY_METRICS
from esbench.comparison.model import Comparison, Row
from esbench.comparison.reasons import CLUSTERS, SLOWER
from esbench.comparison.verdicts import SIGNIFICANT
from esbench.errors import UsageError
from esbench.model import OBJECTIVES
from esbench.record.figures import HIGHER, LOWER, judged_objectives

_CHANGE = re.compile(r"\s*([a-z][a-z0-9. ]*?)\s*([<>])\s*([+-]?[0-9]*\.?[0-9]+)\s*%\s*(:raw|:these-clusters)?\s*")
_THESE_CLUSTERS = ":these-clusters"
_SAY = (
    'say slower, answers, objectives, "p99>+10%", "throughput<-5%", or with :raw or :these-clusters at the end; '
    "--fail-on once for each"
)


@dataclass(frozen=True)
class Condition:
    """A condition of `--fail-on`.

    `text` is the condition as typed. `metric` is a metric or its first words, in lower case ("p99", "p50 latency",
    "throughput"), empty for a `word`: "slower", "answers" or "objectives". The condition holds if the change exceeds
    `percent` in the direction of `sign` (1: above, -1: below). `raw`: whether or not the change is significant.
    `of_clusters`: also by verdicts on these clusters, as they are now.
    """

    text: str
    metric: str = ""
    word: str = ""
    sign: int = 1
    percent: float = 0.0
    raw: bool = False
    of_clusters: bool = False

    def concerns(self, row: Row) -> bool:
        """True if the condition applies to the row: its metric matches and, unless `raw`, it is primary.

        "slower" applies to every primary row, "answers" and "objectives" to no row.
        """
        if self.word:
            return row.is_primary and self.word == SLOWER
        if not (row.is_primary or self.raw):
            return False
        return _begins(row.metric, self.metric)

    def holds(self, row: Row) -> bool:
        """True if the row, one that the condition concerns, makes the comparison fail.

        That is a slower row or, for a metric, a change that is large enough and, unless `raw`, significant (adjusted p
        below 0.05). If only the contender missed its target rate, the figure is worse than any, whatever `percent` is.
        """
        if not self.raw and self._leaves_aside(row):
            return False
        if self.word:
            return row.word == SLOWER
        if row.word == SLOWER and row.estimate is None:  # the rate was missed: the figure is worse than any
            return row.better == (LOWER if self.sign > 0 else HIGHER)
        if row.diff_percent is None or not self.sign * row.diff_percent > self.sign * self.percent:
            return False
        p = row.verdict.p if row.verdict is not None else None
        return self.raw or (p is not None and p < SIGNIFICANT)

    def undecided(self, row: Row) -> bool:
        """True if a row for which the condition does not hold leaves open whether it would: its verdict has no basis,
        or is about these clusters alone, or (`raw`) its change is unknown.

        A percentile that lacks requests leaves only conditions on it open, not those on every row.
        """
        if self.raw:
            return row.diff_percent is None and row.diff != 0
        if row.verdict is None or self._leaves_aside(row):
            return True
        reason = row.verdict.reason
        return not reason.has_basis and not (self.word and reason.only_if_asked)

    def why_open(self, row: Row) -> str:
        """Return in brackets why a row leaves the condition open; "" if it has no verdict."""
        if row.verdict is None:
            return ""
        if self._leaves_aside(row):
            return f" ({row.verdict.word} on these clusters, which {self.text}{_THESE_CLUSTERS} counts)"
        return f" ({row.verdict.word}: {row.verdict.sentence})"

    def _leaves_aside(self, row: Row) -> bool:
        """True if a row's verdict is about these clusters, and the condition about the sides."""
        return row.verdict is not None and row.verdict.reason.scope == CLUSTERS and not self.of_clusters


@dataclass(frozen=True)
class Outcome:
    """The outcome of a condition: rows (objectives) for which it holds, and those that leave it undecided, each as
    "metric of task"."""

    condition: Condition
    hits: tuple[str, ...]
    undecided: tuple[str, ...]


def parse_condition(text: str) -> Condition:
    """Parse a condition of `--fail-on`: slower, answers, objectives, "p99>+10%", "throughput<-5%:raw",
    slower:these-clusters.

    Raises UsageError if the text is not a condition, or names a metric that has no verdicts without `:raw`.
    """
    if (word := text.strip().lower()) in (SLOWER, ANSWERS, OBJECTIVES):
        return Condition(text, word=word)
    if word == f"{SLOWER}{_THESE_CLUSTERS}":
        return Condition(text, word=SLOWER, of_clusters=True)
    match = _CHANGE.fullmatch(text.lower())
    if match is None:
        raise UsageError(f'"{text}" is not a condition', where="--fail-on", hint=_SAY)
    metric, sign, percent, kind = match.groups()
    raw = kind == ":raw"
    metric = metric.removeprefix("mean ")
    if not raw and not any(_begins(each, metric) for each in PRIMARY_METRICS):
        raise UsageError(
            f'"{metric}" is not judged',
            where=f"--fail-on={text}",
            hint=f'judged are {", ".join(map(_name, PRIMARY_METRICS))}; of any other figure say "{text}:raw"',
        )
    of_clusters = kind == _THESE_CLUSTERS
    return Condition(text, metric, "", 1 if sign == ">" else -1, float(percent), raw, of_clusters)


def _name(metric: str) -> str:
    return metric.lower().removeprefix("mean ")


def _begins(metric: str, words: str) -> bool:
    return _name(metric) == words or _name(metric).startswith(f"{words} ")


def outcome(condition: Condition, compared: Comparison) -> Outcome:
    """Evaluate a condition on the rows of all contenders; if there are several, their names precede the rows.

    `undecided` also has an entry for each contender without such a row, or with a race that is on both sides.
    """
    hits, undecided = [], []
    for prefix, pair in compared.named_pairs:
        if condition.word == OBJECTIVES:
            missed, unjudged = judged_objectives(pair.contender.records)
            hits += [f"{prefix}{name}" for name in missed]
            undecided += [f"{prefix}{name}" for name in unjudged]
            continue
        ours, theirs = ({record.race_id for record in side.records} for side in (pair.baseline, pair.contender))
        if ours & theirs:
            undecided.append(f"{prefix}a race is on both sides")
        if condition.word == ANSWERS:
            hits += [f"{prefix}answers of {each.task}" for each in pair.answers if each.differing]
            unknown = [each for each in pair.answers if not each.differing and not each.equal]
            undecided += [f"{prefix}answers of {each.task} (not compared)" for each in unknown]
            undecided += [] if pair.answers else [f"{prefix}no answers"]
            continue
        concerned = [row for row in pair.rows if condition.concerns(row)]
        hits += [f"{prefix}{row.metric} of {row.task}" for row in concerned if condition.holds(row)]
        undecided += [f"{prefix}{name}" for name in _open(condition, concerned)]
    return Outcome(condition, tuple(hits), tuple(undecided))


def _open(condition: Condition, rows: list[Row]) -> Iterator[str]:
    if not rows:
        yield "no such row"
    for row in rows:
        if not condition.holds(row) and condition.undecided(row):
            yield f"{row.metric} of {row.task}{condition.why_open(row)}"
