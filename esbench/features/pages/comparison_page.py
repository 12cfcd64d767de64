"""The page of a comparison: verdicts first, then their basis. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from esbench.comparison import answers, causes
from esbench.comparison.metrics import min_effect
from esbench.comparison.model import Comparison, Pair, Row, SecondsOf
from esbench.features.pages.comparison_charts import differences, intervals, percentiles, rounds, slices
from esbench.features.pages.comparison_series import ComparedSides, Judged, SlicedSeconds
from esbench.features.pages.page import Chart, render_charts, render_page, worst_first
from esbench.features.pages.settings import settings
from esbench.features.pages.verdict_text import DIRECTIONS, in_words, look, under_test
from esbench.measure.measures import RESPONSE_TIMES
from esbench.report.comparison import comparison, interval_cell, plans
from esbench.report.conclusion import sentence
from esbench.report.table_model import Column, ReportDocument, Section, Table
from esbench.report.text import cell_text

_MOST_NAMED = 2  # contenders in the title
_MOST_NOTICES = 4
_CHANGE = Column("", "change", signed=True, percent=True)
_VERDICT_COLUMNS = (
    "verdict",
    "side",
    "task",
    "metric",
    "diff_percent",
    "interval_percent",
    "baseline",
    "contender",
    "unit",
    "note",
)


@dataclass(frozen=True)
class _Task:
    """The section of a task: its verdicts, each a metric, a word and the change as text; `notes`, sentences on its
    causes and answers; its races and percentiles."""

    anchor: str
    verdicts: list[tuple[str, str, str]]
    notes: list[str]
    charts: list[Chart]


def comparison_page(compared: Comparison, seconds: SecondsOf = lambda record: ()) -> str:
    """Return a whole HTML document of a comparison. `seconds` returns those of a race."""
    sides = ComparedSides(compared, seconds)
    judged, everything = comparison(compared, every_figure=False), comparison(compared, every_figure=True)
    notices = worst_first(compared.notices)
    shown = max(_MOST_NOTICES, sum(notice.unusable for notice in notices))
    shown = shown if len(notices) > shown + 1 else len(notices)
    body, script = render_charts(
        "comparison.html.j2",
        look=look,
        outcomes=[
            (pair.contender.name, sentence(pair), under_test(pair, judged.header, column), in_words(pair))
            for column, pair in enumerate(compared.pairs, 2)
        ],
        verdicts=_verdicts(judged.table),
        line=_line(judged, sides),
        plans=list(plans(compared)),
        changes=list(_changes(compared)),
        differences=judged.header,
        notices=notices[:shown],
        more_notices=notices[shown:],
        tasks=_tasks(compared, sides),
        everything=(
            Section("All figures", everything.table),
            Section("Judged figures, race by race", sides.rounds()),
            Section("The races", sides.races()),
        ),
        settings=[(name, record.race_id, settings(record)) for name, record in sides.first_races],
    )
    return render_page(_title(compared), body, script)


def _title(compared: Comparison) -> str:
    baseline = compared.pairs[0].baseline
    names = [pair.contender.name for pair in compared.pairs]
    contenders = ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} contenders"
    record = baseline.records[0]
    return f"{record.track.name} / {record.challenge}: {contenders} against {baseline.name}"


def _line(judged: ReportDocument, sides: ComparedSides) -> str:
    line = judged.line.replace("   (", " (").replace("   ", " · ").replace("`", "")
    return f"{line} · session {sides.session}" if sides.session else line


def _verdicts(table: Table) -> Table:
    """Return the table of a comparison with the columns of a page in their order."""
    found = {column.key: n for n, column in enumerate(table.columns)}
    shown = [found[key] for key in _VERDICT_COLUMNS if key in found]
    columns = [table.columns[n] for n in shown]
    columns[-1] = replace(columns[-1], title="Note")  # it has none on a terminal
    return Table(tuple(columns), tuple(tuple(row[n] for n in shown) for row in table.rows))


def _changes(compared: Comparison) -> Iterator[Chart]:
    """Yield the charts of the intervals of each contender."""
    for pair in compared.pairs:
        if estimated := [row for row in pair.rows if row.estimate is not None]:
            margins = {row.metric: _margin(compared, pair, row) for row in estimated}
            title = f"{pair.contender.name} against {pair.baseline.name}"
            yield Chart(intervals(estimated, margins), title, wide=True)


def _margin(compared: Comparison, pair: Pair, row: Row) -> float:
    """Return the change (ratio) of a row that counts as none."""
    fresh_nodes = pair.sliced is not None and pair.sliced.fresh_nodes
    return min_effect(row.metric, compared.min_effect_ratio, fresh_nodes=fresh_nodes)


def _tasks(compared: Comparison, sides: ComparedSides) -> dict[str, _Task]:
    """Return the verdicts, the rounds, the races and the percentiles of each task by its label."""
    tasks, first_round = {}, sides.first_round()
    for number, (task, metrics) in enumerate(sides.judged().items()):
        verdicts = [verdict for metric, rows in metrics.items() for verdict in _of_metric(sides, metric, rows)]
        at_once = (*_slices(first_round.get(task, ())), *_differences(compared, sides, metrics))
        notes = [f"{name}{note}" for name, pair in compared.named_pairs for note in _notes(pair, task)]
        charts = [*at_once, *_rounds(sides, metrics), *_curves(sides, task)]
        tasks[task] = _Task(f"task-{number}", verdicts, notes, charts)
    return tasks


def _notes(pair: Pair, task: str) -> Iterator[str]:
    """Yield what else moved with a task, and whether it was answered in the same way."""
    yield from (causes.text(each) for each in pair.causes if each.task == task)
    for each in pair.answers:
        if each.task == task:
            yield from (notice.text for notice in answers.notices([each]))


def _slices(seconds: Sequence[SlicedSeconds]) -> Iterator[Chart]:
    """Yield the chart of the slices of all sides in the first round, if there are several."""
    if len(seconds) > 1:
        warmup = " Grey: warmup, which is in no figure." if all(side.warmup_s > 0 for side in seconds) else ""
        caption = f"The first round: each side's own seconds, where they were.{warmup}"
        yield Chart(slices(seconds), "Throughput, slice by slice", caption, wide=True)


def _differences(compared: Comparison, sides: ComparedSides, metrics: Mapping[str, Judged]) -> Iterator[Chart]:
    """Yield a chart of the changes of each round that held all sides at once for each metric that has some."""
    for metric, rows in metrics.items():
        known = [(number, row) for number, row in rows if row.differences]
        if not known:
            continue
        number, first = known[0]
        margin = _margin(compared, compared.pairs[number - 1], first)
        direction = DIRECTIONS.get(first.better, "").capitalize()
        several = "At the right the mean with its 95 % interval" if first.estimate is not None else ""
        caption = ". ".join(filter(None, [direction, several, "A change inside the grey band counts as none"]))
        yield Chart(differences(known, sides.names, margin), f"{metric}, change of each round", f"{caption}.")


def _of_metric(sides: ComparedSides, metric: str, rows: Judged) -> Iterator[tuple[str, str, str]]:
    """Yield the verdict of a metric, slower, and its change, -16.5% [-17.7, -15.2]; for several contenders each."""
    for number, row in rows:
        name = f"{metric}, {sides.names[number]}" if len(sides.names) > 2 else metric
        change = cell_text(row.diff_percent, _CHANGE) if row.usable and row.diff_percent is not None else ""
        interval = interval_cell(row.estimate) if row.estimate is not None else ""
        yield name, row.word, f"{change} {interval}".strip()


def _rounds(sides: ComparedSides, metrics: Mapping[str, Judged]) -> Iterator[Chart]:
    """Yield a chart of the values of all races for each metric; if each side is a single race, nothing."""
    if sides.are_single:
        return
    for metric, rows in metrics.items():
        first, raced = rows[0][1], list(sides.raced(rows))
        values = [value for side in raced for value in side.values]
        if all(value is None for value in values):
            continue
        direction = DIRECTIONS.get(first.better, "").capitalize()
        gaps = "Races without a known figure are left out" if None in values else ""
        caption = ". ".join(filter(None, [direction, "Dashed: the geometric mean of a side", gaps]))
        yield Chart(rounds(raced, metric, first.unit), f"{metric}, race by race", f"{caption}.")


def _curves(sides: ComparedSides, task: str) -> Iterator[Chart]:
    """Yield a chart of the percentile curves of all sides over one another."""
    for measure in RESPONSE_TIMES:  # a closed loop has no latency
        if curves := sides.curves(task, measure.name):
            together = "" if sides.are_single else " All races of a side together."
            caption = f"Less is better.{together} Both axes are logarithmic."
            yield Chart(percentiles(curves), f"Percentiles of {measure.title}", caption)
            break
