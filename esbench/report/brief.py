"""The short form of a comparison: its conclusion, a row for each figure that can be judged, and a line for each
reason."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from esbench.comparison import answers, causes
from esbench.comparison.model import Comparison, Pair, Row, RowVerdict, TaskAnswers
from esbench.comparison.preconditions import ON_THIS_NODE
from esbench.comparison.reasons import MORE_ROUNDS, NOT_JUDGED, UNCLEAR, VERDICTS
from esbench.errors.short import first_of
from esbench.record.figures import Notice
from esbench.report.conclusion import FACTOR, conclusion, named_metric, side_names
from esbench.report.table_model import GAIN, LOSS, NEUTRAL, Cell, Column, Figures, ReportDocument, Table, figure_cell

_WORD, _SIDE, _TASK = (
    Column("Verdict", "verdict", toned=True),
    Column("Side", "side"),
    Column("Task", "task", cuttable=True),
)
_MOST_ROWS_UNJUDGED = 12  # that stand in the table if nothing is judged
_MOST_NAMED, _MOST_DIFFERENCES, _MOST_WARNINGS, _MOST_REASONS = 4, 3, 4, 6
_MOST_EXAMPLES = 2  # of answers that differ
_LONGEST_TITLE = 10
_ANSWERS = "answers"
_ONLY_ANSWERS = f"not comparable: {_ANSWERS} ("
_OTHER_CAUSE = ": a setting, the data or the machine that is not in the records made the difference"
_TONES = {"faster": GAIN, "slower": LOSS}


def brief(compared: Comparison, command: Sequence[str]) -> ReportDocument:
    """Return the short form of a comparison; `command` are the words that print it, without `--all`."""
    shown = list(_shown(compared))
    return ReportDocument(
        Table(
            _columns(compared), tuple(_cells(compared, *each) for each in shown), tuple(_tone(row) for _, row in shown)
        ),
        lead=conclusion(compared),
        line=_basis(compared),
        below=(*_lines(compared), ("more", f"{shlex.join(command)} --all")),
    )


def _shown(compared: Comparison) -> Iterator[tuple[Pair, Row]]:
    """Yield the rows of the table, those of one verdict after the other: all that can be judged, or else the figures of
    a few that cannot."""
    rows = [(pair, row) for pair in compared.pairs for row in pair.primary]
    judged = [each for each in rows if each[1].word != NOT_JUDGED]
    if not judged:
        judged = [each for each in rows if each[1].diff is not None][:_MOST_ROWS_UNJUDGED]
    yield from sorted(judged, key=lambda each: VERDICTS.index(each[1].word or NOT_JUDGED))


def _columns(compared: Comparison) -> tuple[Column, ...]:
    names = side_names(compared.pairs[0]) if len(compared.pairs) == 1 else ("Baseline", "Contender")
    titles = names if max(map(len, names)) <= _LONGEST_TITLE else ("Baseline", "Contender")
    if titles == ("baseline", "contender"):
        titles = ("Baseline", "Contender")
    return (
        _WORD,
        *([_SIDE] if len(compared.pairs) > 1 else []),
        _TASK,
        Column("Metric", "metric"),
        Column(titles[0], "baseline", numeric=True, spare=len(compared.pairs) - 1),
        Column(titles[1], "contender", numeric=True),
        Column("Diff %", "diff_percent", numeric=True, signed=True, percent=True, toned=True),
        Column("95 % range", "interval_percent", numeric=True),
    )


def _cells(compared: Comparison, pair: Pair, row: Row) -> tuple[Cell, ...]:
    estimate, percent = row.estimate, row.diff_percent
    is_factor = percent is not None and percent > 100 * (FACTOR - 1)
    interval: Cell = ""
    if estimate is not None:
        ends = (f"x{each:.3g}" if is_factor else f"{100 * (each - 1):+.1f}" for each in (estimate.low, estimate.high))
        interval = Figures(" ".join(ends))
    change: Cell = Figures(f"x{1 + percent / 100:.3g}") if is_factor and percent is not None else percent
    metric = f"{named_metric(row.metric)} {row.unit}".lstrip()
    side = [pair.contender.name] if len(compared.pairs) > 1 else []
    figures = figure_cell(row.baseline), figure_cell(row.contender)
    return (row.word, *side, row.task, metric, *figures, change, interval)


def _tone(row: Row) -> str:
    return _TONES.get(row.word, NEUTRAL)


def _basis(compared: Comparison) -> str:
    """Return what was raced, and how: orders/read-after-write, 6 rounds on fresh nodes, both sides at once."""
    pair = compared.pairs[0]
    record = pair.baseline.records[0]
    counts = [len(side.records) for side in (pair.baseline, *(each.contender for each in compared.pairs))]
    many = f"{' and '.join(map(str, dict.fromkeys(counts)))} rounds"
    parts = [f"{record.track.name}/{record.challenge}", "one race a side" if set(counts) == {1} else many]
    if pair.sliced is not None:
        remarks = [remark for row in pair.primary if row.verdict is not None for remark in row.verdict.remarks]
        on_one = " on one node" if ON_THIS_NODE in remarks else ""
        parts[-1] += " on fresh nodes" if pair.sliced.fresh_nodes else on_one
        parts.append("both sides at once" if len(compared.pairs) == 1 else "all at once")
    elif set(counts) != {1}:
        parts.append("in turns" if all(each.is_interleaved for each in compared.pairs) else "one side after the other")
    if compared.history and any(row.estimate and row.estimate.method == "history" for row in pair.primary):
        parts.append(f"with {compared.history} earlier races")
    if compared.looks > 1:
        parts.append(f"{compared.looks} looks: verdicts are stricter")
    return ", ".join(parts)


def _lines(compared: Comparison) -> Iterator[tuple[str, str]]:
    for name, pair in compared.named_pairs:
        for label, text in (*_differs(pair), *_moved(pair), *_reasons(pair), *_remarks(pair), *_answers(pair.answers)):
            yield label, f"{name}{text}"
    yield from _warnings(compared)


def _differs(pair: Pair) -> Iterator[tuple[str, str]]:
    """Yield what differs between the sides."""
    found = [each for each in pair.differences if not (each.is_label or each.allowed or each.key == _ANSWERS)]
    if not found:
        if pair.is_same and [each.race_id for each in pair.baseline.records] != [
            each.race_id for each in pair.contender.records
        ]:
            changed = any(row.word in _TONES for row in pair.primary)
            yield "differs", f"nothing that esbench knows of{_OTHER_CAUSE if changed else ' (an A/A comparison)'}"
        return
    told = [_fact(each.name, each.baseline, each.contender) for each in found[:_MOST_DIFFERENCES]]
    more = len(found) - len(told)
    yield "differs", "; ".join([*told, *([f"and {more} more"] if more else [])])


def _fact(name: str, one: object, other: object) -> str:
    values = [", ".join(map(str, each)) if isinstance(each, list | tuple) else str(each) for each in (one, other)]
    values = ["none" if each is None or not text else text for each, text in zip((one, other), values, strict=True)]
    return f"{name} {' -> '.join(values)}" if values[0] != values[1] and sum(map(len, values)) <= 60 else name


def _moved(pair: Pair) -> Iterator[tuple[str, str]]:
    for each in pair.causes:
        if each.causes:
            yield "also moved", f"{each.task}: {causes.moved_text(each)}"


def _reasons(pair: Pair) -> Iterator[tuple[str, str]]:
    """Yield a line for each reason and remedy of rows without a verdict, those that cannot be judged last."""
    for word in (UNCLEAR, NOT_JUDGED):
        groups: dict[tuple[str, str], list[Row]] = {}
        rows = [row for row in pair.primary if row.word == word and row.verdict is not None]
        for row in rows:
            assert row.verdict is not None
            groups.setdefault(_reason(row.verdict, len(rows) > _MOST_REASONS), []).append(row)
        if more_rounds := [key for key in groups if key[0].startswith("about ")]:
            merged = [row for key in more_rounds for row in groups.pop(key)]
            groups = {_most_rounds(merged): merged, **groups}
        told = list(groups.items())
        for (text, remedy), of_reason in told[:_MOST_REASONS]:
            yield word, f"{_named(of_reason, len(pair.primary))}: {text}{f' ({remedy})' if remedy else ''}"
        if left := sum(len(of_reason) for _, of_reason in told[_MOST_REASONS:]):
            yield word, f"{left} more rows"


def _reason(verdict: RowVerdict, are_many: bool) -> tuple[str, str]:
    """Return why a row has no verdict, and what helps; of many rows not with the figures of each."""
    if are_many and verdict.word == NOT_JUDGED and not verdict.reason.is_fault:
        return verdict.reason.sentence, verdict.reason.what_helps
    return verdict.sentence, verdict.remedy or verdict.reason.what_helps


def _most_rounds(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the reason of rows that need more rounds: as many as the one that needs most."""
    verdicts = [row.verdict for row in rows if row.verdict is not None and row.verdict.reason.v1 == MORE_ROUNDS.v1]
    verdicts = verdicts or [row.verdict for row in rows if row.verdict is not None]
    most = max(verdicts, key=lambda each: [int(word) for word in each.detail.split() if word.isdigit()] or [0])
    return most.detail, most.remedy


def _named(rows: Sequence[Row], all_rows: int) -> str:
    """Return rows in words: bulk-load, p99 of get and insert; their number if they are many."""
    if len(rows) > _MOST_NAMED:
        return f"all {all_rows} rows" if len(rows) == all_rows else f"{len(rows)} of {all_rows} rows"
    by_metric: dict[str, list[str]] = {}
    for row in rows:
        tasks = by_metric.setdefault(named_metric(row.metric), [])
        if row.task not in tasks:  # latency and service time of it
            tasks.append(row.task)
    return ", ".join(
        f"{f'{metric} of ' if metric else ''}{first_of(tasks, _MOST_NAMED)}" for metric, tasks in by_metric.items()
    )


def _remarks(pair: Pair) -> Iterator[tuple[str, str]]:
    """Yield what else to know of rows that have a verdict, or nearly."""
    groups: dict[str, list[Row]] = {}
    for row in pair.primary:
        for remark in row.verdict.remarks if row.verdict is not None and row.word != NOT_JUDGED else ():
            groups.setdefault(remark, []).append(row)
    groups.pop(ON_THIS_NODE, None)  # the line above the table says so
    scopes = {
        row.verdict.sentence for row in pair.primary if row.verdict and row.verdict.reason.scope == "these clusters"
    }
    if told := [each for each in scopes if "as they run now" in each]:
        yield "scope", f"these clusters, {min(told, key=len).partition('; ')[2]}"
    for remark, rows in list(groups.items())[:_MOST_WARNINGS]:
        yield "note", f"{_named(rows, len(pair.primary))}: {remark}"


def _answers(found: Sequence[TaskAnswers]) -> Iterator[tuple[str, str]]:
    if differing := [each for each in found if each.differing]:
        told = [f"{each.task} ({each.differing} of {each.equal + each.differing} asked again)" for each in differing]
        yield "answers", f"differ: {first_of(told, _MOST_NAMED)}"
        yield from (("answers", answers.example_text(each)) for each in differing[:_MOST_EXAMPLES] if each.examples)
    if same := [each for each in found if each.equal and not each.differing]:
        yield "answers", f"the same ({first_of([f'{each.task}: {each.equal} asked again' for each in same], 3)})"
    if unknown := [each for each in found if not each.equal and not each.differing]:
        yield "answers", f"not compared: {first_of([f'{each.task} ({each.reason})' for each in unknown], 3)}"


def _is_of_answers(notice: Notice) -> bool:
    """True if the lines of answers say as much."""
    return "other answers to" in notice.text or notice.text.startswith(_ONLY_ANSWERS)


def _warnings(compared: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the warnings: those about what is stored, which may be damaged, then unusable figures, then others."""
    records = [record for pair in compared.pairs for side in (pair.baseline, pair.contender) for record in side.records]
    damages = {record.damage for record in records if record.damage}
    told = [each for each in compared.notices if not (each.note or _is_of_answers(each))]

    def place(notice: Notice) -> tuple[bool, bool]:
        of_store = notice in compared.of_sides or any(damage in notice.text for damage in damages)
        return not of_store, not notice.unusable

    told.sort(key=place)
    for each in told[:_MOST_WARNINGS]:
        yield "!" if each.unusable else "warning", each.text
    if told[_MOST_WARNINGS:]:
        yield "warning", f"and {len(told) - _MOST_WARNINGS} more"
