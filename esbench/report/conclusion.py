"""The conclusion of a comparison in one sentence: what changed, by how much, and what is not known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from esbench.comparison.metrics import CAPACITY, THROUGHPUT
from esbench.comparison.model import Comparison, Difference, Pair, Row
from esbench.comparison.reasons import (
    ANSWERS_DIFFER,
    CLUSTERS,
    FASTER,
    LOWER_SCORES,
    MORE_ERRORS,
    NOT_JUDGED,
    OF_THESE_CLUSTERS,
    SAME,
    SLOWER,
    UNCLEAR,
)
from esbench.errors.printable import printable
from esbench.errors.short import beginning
from esbench.record.figures import HIGHER

FACTOR = 2.0  # a ratio above it is said as a factor
_MOST_TASKS, _LONGEST_NAME = 3, 24
_PARAM = "param "
_FIRST = {CAPACITY: 0, THROUGHPUT: 1}


def conclusion(compared: Comparison) -> str:
    """Return the sentence of each contender, one a line."""
    return "\n".join(sentence(pair) for pair in compared.pairs)


def sentence(pair: Pair) -> str:
    """Return what came of a pair: alarms first, then tasks by verdict, the worst first."""
    parts = [*_alarms(pair), *_outcomes(pair)]
    now = " as they run now" if _scope_of(pair) == CLUSTERS else ""
    same = " (no known difference)" if pair.is_same and pair.baseline != pair.contender else ""
    return printable(f"{' -> '.join(side_names(pair))}{now}{same}: {'; '.join(parts)}")


def side_names(pair: Pair) -> tuple[str, str]:
    """Return the names of both sides by what differs between them: versions, one track parameter, or the hosts of
    clusters that are known as they are now; those of the sides if more differs, or nothing."""
    names = pair.baseline.name, pair.contender.name
    tested = [each for each in pair.differences if not each.is_label and not each.key]
    if _scope_of(pair) == CLUSTERS:
        return _values(next((each for each in tested if each.name == "hosts"), None)) or names
    versions = [each for each in tested if each.name == "version"]
    params = [each for each in tested if each.name.startswith(_PARAM)]
    if len(versions) + len(params) != 1:
        return _values(tested[0]) or names if len(tested) == 1 else names
    return _values((*versions, *params)[0]) or names


def _scope_of(pair: Pair) -> str:
    scopes = {row.verdict.reason.scope for row in pair.primary if row.verdict is not None}
    return CLUSTERS if CLUSTERS in scopes else ""


def _values(difference: Difference | None) -> tuple[str, str] | None:
    """Return the value of a fact on each side as a short name; None if one would be long, or they are alike."""
    if difference is None:
        return None
    name = difference.name.removeprefix(_PARAM).rpartition(": ")[2]
    prefix = "" if difference.name in ("version", "hosts") else f"{name}:"
    found = [_value(difference.name, value) for value in (difference.baseline, difference.contender)]
    if difference.name == "version" and len({each.partition(" ")[0] for each in found}) == 1:
        found = [each.partition(" ")[2] for each in found]
    one, other = (f"{prefix}{each}" for each in found)
    if one == other or max(map(len, (one, other))) > _LONGEST_NAME or not all(found):
        return None
    return one, other


def _value(name: str, value: object) -> str:
    if name == "version" and isinstance(value, str):
        return " ".join(value.split()[:2])  # without the hash of the build
    if isinstance(value, list | tuple):
        return ",".join(str(each).removeprefix("http://") for each in value)
    unset = "default" if name.startswith(_PARAM) else "none"
    return unset if value is None else str(value)


_ALARMS = (MORE_ERRORS, LOWER_SCORES, ANSWERS_DIFFER)


def _alarms(pair: Pair) -> Iterator[str]:
    by_reason = {reason: _tasks(_of_reason(pair, reason.code)) for reason in _ALARMS}
    baseline, contender = side_names(pair)
    for reason, what in ((MORE_ERRORS, "more requests failed"), (LOWER_SCORES, "replies score lower")):
        if tasks := by_reason[reason]:
            rows = _of_reason(pair, reason.code)
            sides = {contender if row.verdict and row.verdict.detail.startswith(FASTER) else baseline for row in rows}
            yield f"{what} on {' and '.join(sorted(sides))} in {_named(tasks)}"
    if tasks := by_reason[ANSWERS_DIFFER]:
        yield f"the answers differ in {_named(tasks)}"


def _of_reason(pair: Pair, code: str) -> list[Row]:
    return [row for row in pair.primary if row.verdict is not None and row.verdict.reason.code == code]


def _outcomes(pair: Pair) -> Iterator[str]:
    leading = _leading(pair.primary)
    told = [row for row in pair.primary if row in leading or row.word in (SLOWER, FASTER)]
    by_word = {word: [row for row in told if row.word == word] for word in (SLOWER, FASTER)}
    for word, rows in by_word.items():
        if rows:
            yield _changed(word, rows)
    main = {word: [row for row in leading if row.word == word] for word in (SAME, UNCLEAR, NOT_JUDGED)}
    changed = {row.task for rows in by_word.values() for row in rows}
    if len(leading) > 1 and len(main[SAME]) == len(leading) and not changed:
        yield f"the same in all {len(leading)} tasks"
    elif main[SAME]:
        yield f"the same in {_named(_rows(main[SAME], changed))}"
    is_all = not main[SAME] and not any(by_word.values())
    if main[UNCLEAR]:
        yield _unknown("unclear", main[UNCLEAR], changed, with_reason=is_all)
    if silent := [row for row in main[NOT_JUDGED] if row.verdict and not row.verdict.reason.is_alarm]:
        yield _unknown(NOT_JUDGED, silent, changed, with_reason=is_all)
    if not pair.primary:
        yield "nothing to judge: no task of both sides has figures"


def _leading(rows: Sequence[Row]) -> list[Row]:
    """Return the row of each task that says most of it: its capacity, else its throughput, else the first one."""
    by_task: dict[str, list[Row]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append(row)
    return [min(of_task, key=lambda row: _FIRST.get(row.metric, len(_FIRST))) for of_task in by_task.values()]


def _changed(word: str, rows: Sequence[Row]) -> str:
    """Return the tasks that are faster or slower, by how much: 15 times faster in a; 12 % faster in b, p99 of c."""
    told = [f"{_by(word, row)} in {_figure(row)}" for row in rows[:_MOST_TASKS]]
    more = len(rows) - _MOST_TASKS
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _by(word: str, row: Row) -> str:
    if row.estimate is None:  # the rate was missed
        return f"{word} (only one side reached the rate)"
    speed = row.estimate.ratio if row.better == HIGHER else 1 / row.estimate.ratio
    times = max(speed, 1 / speed)
    if times > FACTOR:
        return f"{f'{times:.1f}' if times < 10 else f'{times:,.0f}'} times {word}"
    return f"{abs(row.estimate.ratio - 1) * 100:.2g} % {word}"


def _figure(row: Row) -> str:
    return f"{named} of {row.task}" if (named := named_metric(row.metric)) else row.task


def named_metric(metric: str) -> str:
    """Return the word for a metric beside its task: p99, capacity; "" for throughput, which needs none."""
    return "" if metric == THROUGHPUT else metric.partition(" ")[0].lower()


def _unknown(word: str, rows: Sequence[Row], changed: Set[str], *, with_reason: bool) -> str:
    tasks = _rows(rows, changed)
    if not with_reason:
        return f"{_named(tasks)} {word}"
    found = (row.verdict.reason.sentence for row in rows if row.verdict is not None)
    reasons = list(dict.fromkeys(sentence.removeprefix(OF_THESE_CLUSTERS) for sentence in found))
    of_all = f"all {len(tasks)} tasks" if len(tasks) > _MOST_TASKS else _named(tasks)
    return f"{word} in {of_all}: {beginning(reasons[0], 90)}" + (" and other reasons" if reasons[1:] else "")


def _rows(rows: Iterable[Row], changed: Set[str]) -> list[str]:
    """Return the tasks of rows, with the metric where another row of the task has `changed`: p50 of get-by-id."""
    return list(dict.fromkeys(_figure(row) if row.task in changed else row.task for row in rows))


def _tasks(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row.task for row in rows))


def _named(tasks: Sequence[str]) -> str:
    if len(tasks) > _MOST_TASKS + 1:
        return f"{', '.join(tasks[:_MOST_TASKS])} and {len(tasks) - _MOST_TASKS} more"
    return " and ".join(filter(None, [", ".join(tasks[:-1]), tasks[-1]]))
