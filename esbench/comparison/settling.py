"""The remedies of a row that is unclear, or has too few requests: rounds, time or documents, by its own figures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from esbench.comparison import stats
from esbench.comparison.effects import Design, Fit
from esbench.comparison.metrics import Percentile, fewest_samples, samples_of
from esbench.comparison.model import PAIRED, Row, RowVerdict
from esbench.comparison.preconditions import tasks_of
from esbench.comparison.reasons import FEW_IN_TAIL, FEW_REQUESTS, FEW_ROUNDS, MORE_ROUNDS, TOO_NOISY, Reason
from esbench.comparison.side_by_side import TAIL_FROM
from esbench.record.model import SlicePlan, TaskResult

_DOCUMENTS = "documents"  # the last word of the track parameter with their number
_LARGEST_EFFECT = 0.5  # that is worth asking for
_MOST_TIMES = 8  # as long as it was is worth trying
_SPARE = 1.1  # slices differ by some percent, and the one with the fewest requests must have enough


@dataclass(frozen=True)
class TailNeed:
    """The task time, all sides together, with which a percentile from p90 up has enough requests in each race.

    `requests_per_s`: of the race with the fewest, in own seconds; `raced_s`: the task time so far. `needed_s` is None
    if a race had no requests.
    """

    task: str
    metric: str
    requests_per_s: float
    raced_s: float
    needed_s: float | None

    def is_too_short(self, task_s: float) -> bool:
        """True if a task time is too short for this percentile."""
        return self.needed_s is None or self.needed_s > task_s


def to_settle(row: Row, fitted: Fit, design: Design, effect_ratio: float, rows: int) -> RowVerdict:
    """Return the verdict of a row that is neither the same nor different: how many rounds would settle whether it
    changed by `effect_ratio`, of `rows` that are judged together."""
    needed = stats.paired_rounds_to_settle if fitted.method == PAIRED else stats.rounds_to_settle
    rounds = needed(float(fitted.effect.residual_sd), math.log1p(effect_ratio), rows)
    raced = min(len(design.baseline), len(design.contender))
    if rounds is None:
        return _too_noisy(row, fitted, design, rows)
    if rounds <= raced:  # they do on average, and did not this time
        return RowVerdict(MORE_ROUNDS, "a few more rounds would settle it", _resume(design, raced + 2))
    shown = f"about {rounds} rounds in all would show a difference of {effect_ratio * 100:g}%"
    return RowVerdict(MORE_ROUNDS, shown, _resume(design, rounds))


def too_few_rounds(design: Design, fewest: int) -> RowVerdict:
    """Return the verdict of a row whose sides were raced at once in fewer rounds than a verdict takes."""
    return RowVerdict(FEW_ROUNDS, f"{len(design.rounds)} of {fewest} rounds", _resume(design, fewest))


def few_requests(design: Design, metric: str, label: str, detail: str = "") -> RowVerdict:
    """Return the verdict of a percentile with too few requests beyond it, in the race that has the fewest; `detail` in
    place of their number."""
    percentile, tasks = Percentile.of(metric), tasks_of(design.races, label)
    assert percentile is not None
    at_once = design.is_at_once(label)
    fewest = min(tasks, key=lambda task: samples_of(task, percentile.measure))
    had = samples_of(fewest, percentile.measure)
    needed = fewest_samples(percentile) * (stats.SECTIONS if at_once and percentile.rank >= TAIL_FROM else 1)
    detail = detail or f"only {had:,} requests, and it needs {needed:,}"
    return RowVerdict(of_tail(FEW_REQUESTS, FEW_IN_TAIL, metric), detail, _more_requests(design, metric, label, fewest))


def of_tail(reason: Reason, of_tails: Reason, metric: str) -> Reason:
    """Return `of_tails` for a percentile from p90 up, which needs more requests than other figures, else `reason`."""
    percentile = Percentile.of(metric)
    return of_tails if percentile is not None and percentile.rank >= TAIL_FROM else reason


def _more_requests(design: Design, metric: str, label: str, fewest: TaskResult) -> str:
    """Return what gives the race with the `fewest` requests enough of them: a task time, or documents."""
    percentile = Percentile.of(metric)
    assert percentile is not None
    had, needed = samples_of(fewest, percentile.measure), fewest_samples(percentile)
    if fewest.slices is not None:
        need = tail_need(label, metric, percentile, fewest, fewest.slices)
        if need.needed_s is None:
            return ""
        times, option = need.needed_s / max(need.raced_s, 1e-9), f"--task-time={math.ceil(need.needed_s)}s"
    elif 0 < had < needed:
        times = needed / had
        option = f"a task of {math.ceil(times * (fewest.window.end_s - fewest.window.start_s))} s, or several rounds"
    else:
        return ""
    return _more_documents(design, times) if _ends_with_its_documents(fewest) else option


def _too_noisy(row: Row, fitted: Fit, design: Design, rows: int) -> RowVerdict:
    if fitted.method != PAIRED or not design.is_at_once(row.task):
        return RowVerdict(TOO_NOISY, "differs too much between rounds", "race both at once, or a longer task")
    assert design.at_once is not None
    task, spread = design.at_once.tasks[row.task], float(fitted.effect.residual_sd)
    most = f"more than {stats.MOST_ROUNDS} rounds to settle it"
    is_known = len(task.sections) > 1 and all(task.sections)
    within = float(stats.block_variance(task.sections, task.blocks)) / task.blocks if is_known else 0.0
    total = float(stats.paired(list(map(fmean, task.sections))).residual_sd) ** 2 if is_known else 0.0
    raced = design.races[0].tasks[row.task]
    if within > total / 2:
        times = min(_MOST_TIMES, max(2, math.ceil(4 * within / max(total, 1e-12))))
        took_s = raced.window.end_s * (raced.slices.pace if raced.slices else 1.0)
        longer = f"--task-time={math.ceil(times * took_s)}s"
        remedy = _more_documents(design, times) if _ends_with_its_documents(raced) else longer
        return RowVerdict(TOO_NOISY, f"{took_s:.0f} s of load are too little: {most}", remedy)
    effect = math.expm1(stats.paired_margin(spread, len(design.rounds), rows))
    is_useful = effect <= _LARGEST_EFFECT
    remedy = f"--min-effect={math.ceil(100 * effect)}%" if is_useful else "a quieter machine, or a longer task"
    return RowVerdict(
        TOO_NOISY, f"{'start luck' if design.has_fresh_nodes else 'rounds differ too much'}: {most}", remedy
    )


def _ends_with_its_documents(task: TaskResult) -> bool:
    return task.operation_type == "bulk"


def _more_documents(design: Design, times: float) -> str:
    """Return the option that multiplies the documents of generated corpora; words where the track has no such one."""
    record = design.races[0].record
    counts = [
        (name, value)
        for name, value in record.track_params.items()
        if name.rpartition("_")[2] == _DOCUMENTS and isinstance(value, int) and not isinstance(value, bool)
    ]
    if len(counts) == 1:
        ((name, given),) = counts
        return f"--track-params={name}:{_rounded_up(given * times)}"
    generated = [corpus.documents for corpus in record.corpora if corpus.synthetic]
    total = f" (some {_rounded_up(max(generated) * times):,})" if generated else ""
    return f"{math.ceil(times)} times as many documents{total}"


def _rounded_up(number: float) -> int:
    """Return a number with two digits that is not below `number`."""
    digit = int(10 ** max(0, math.floor(math.log10(max(1.0, number))) - 1))
    return math.ceil(number / digit) * digit


def _resume(design: Design, rounds: int) -> str:
    """Return the command that adds rounds to the session of both sides; "" if they share none."""
    sessions = {race.record.session.id if race.record.session else "" for race in design.races}
    session = sessions.pop() if len(sessions) == 1 else ""
    return f"esbench duel --resume {session} --rounds={rounds}" if session else ""


def tail_need(label: str, metric: str, percentile: Percentile, task: TaskResult, slices: SlicePlan) -> TailNeed:
    """Return the task time with which each fifth of a race's task has 10 requests beyond a percentile."""
    own_s = task.window.end_s - task.window.start_s
    per_s = samples_of(task, percentile.measure) / own_s if own_s > 0 else 0.0
    raced_s, needed_s = task.window.end_s * slices.pace, None
    if per_s > 0:
        in_a_fifth = math.ceil(_SPARE * fewest_samples(percentile) / (per_s * slices.length_s))
        before = round(task.window.start_s / slices.length_s)  # slices of warmup, cut or the track's
        needed_s = (before + stats.SECTIONS * in_a_fifth) * slices.length_s * slices.pace
    return TailNeed(label, metric, per_s, raced_s, needed_s)
