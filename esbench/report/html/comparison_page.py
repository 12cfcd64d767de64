"""The page of a comparison: verdicts first, then what they come from. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from esbench.comparison.model import (
    ERRORS,
    FASTER,
    SAME,
    SLOWER,
    UNDECIDED,
    UNUSABLE,
    Comparison,
    Pair,
    Row,
    Side,
)
from esbench.comparison.verdicts import min_effect
from esbench.over_time import percentile_curve
from esbench.report.comparison import comparison
from esbench.report.document import Column, Table
from esbench.report.html.page import Charts, render_page
from esbench.report.html.tables import folded, render_notices, render_table, verdict, verdict_line
from esbench.report.tables import to_the_second
from esbench.report.text import cell_text
from esbench.summary import task_label

# A word, a sign and a colour for each verdict, so that none of them has to carry the meaning alone; worst first.
_LOOKS = {
    SLOWER: ("slower", "▼", "bad"),
    ERRORS: ("more errors", "!", "bad"),
    UNUSABLE: ("not usable", "!", "warning"),
    FASTER: ("faster", "▲", "good"),
    SAME: ("same", "=", "same"),
    UNDECIDED: ("undecided", "~", ""),
}
_VERDICT = "verdict"
_ORDER = (  # what a phone shows without scrolling comes first
    _VERDICT,
    "side",
    "diff_percent",
    "interval_percent",
    "task",
    "metric",
    "baseline",
    "contender",
    "unit",
    "note",
)
_MOST_TESTED, _LONGEST_FACT = 4, 80  # in words; all of it stands in a table below
_RACES = (
    Column("Side", "side"),
    Column("Race ID", "race_id"),
    Column("Started", "started_at"),
    Column("Status", "status"),
)


def comparison_page(compared: Comparison) -> str:
    """A whole HTML document."""
    charts = Charts()
    judged, everything = comparison(compared, every_figure=False), comparison(compared, every_figure=True)
    parts = [
        verdict(_in_words(compared)),
        _verdicts(judged.table),
        f'<p class="muted">{escape(judged.line.replace("   ", " · ").replace("`", ""))}</p>',
        *(_pair(pair, charts, compared.min_effect_ratio) for pair in compared.pairs),
        f"<h2>What differs</h2>{render_table(judged.header)}" if judged.header else "",
        f"<h2>What to know</h2>{render_notices(judged.notices)}" if judged.notices else "",
        "<h2>Everything else</h2>",
        folded("All figures", render_table(everything.table)),
        *(folded(f"The races of {_title(pair)}", render_table(_races(pair))) for pair in compared.pairs),
    ]
    baseline = compared.pairs[0].baseline
    track = f"{baseline.records[0].track.name} / {baseline.records[0].challenge}"
    contenders = ", ".join(pair.contender.name for pair in compared.pairs)
    return render_page(f"{track}: {contenders} against {baseline.name}", "\n".join(parts), charts)


def _in_words(compared: Comparison) -> Iterator[str]:
    """The rows of each verdict as a sentence."""
    for kind, (word, sign, level) in _LOOKS.items():
        rows = [
            _row_in_words(pair, row, several=len(compared.pairs) > 1)
            for pair in compared.pairs
            for row in pair.primary
            if row.verdict is not None and row.verdict.kind == kind
        ]
        if rows:
            yield verdict_line(level, f"{sign} {word}:", "; ".join(rows))
    others = dict.fromkeys(
        row.verdict.kind
        for pair in compared.pairs
        for row in pair.primary
        if row.verdict is not None and row.verdict.kind not in _LOOKS
    )
    if others:
        yield verdict_line("warning", "No verdict for some rows:", ", ".join(others))
    for pair in compared.pairs:
        tested = [each for each in pair.differences if not each.is_label and not each.key]
        if pair.is_same:
            yield verdict_line("", "A/A:", f"{_title(pair)}: nothing but chance differs")
        elif tested:
            named = [f"{each.name} {_fact(each.baseline)} → {_fact(each.contender)}" for each in tested[:_MOST_TESTED]]
            more = [f"and {len(tested) - _MOST_TESTED} more below"] if len(tested) > _MOST_TESTED else []
            yield verdict_line("", "Under test:", "; ".join([*named, *more]))


def _fact(value: Any) -> str:
    text = "none" if value is None else ", ".join(value) if isinstance(value, list) else str(value)
    return f"{text[:_LONGEST_FACT]}…" if len(text) > _LONGEST_FACT else text


def _row_in_words(pair: Pair, row: Row, *, several: bool) -> str:
    side = f"{pair.contender.name}: " if several else ""
    change = f" {row.diff_percent:+.1f}%" if row.usable and row.diff_percent is not None else ""
    return f"{side}{row.task}, {row.metric}{change}"


def _verdicts(table: Table) -> str:
    """The rows that are judged, each verdict with its sign."""
    found = {column.key: n for n, column in enumerate(table.columns)}
    shown = [(found[key], table.columns[found[key]]) for key in _ORDER if key in found]
    head = "".join(f"<th{_kind(column)}>{escape(column.title)}</th>" for _, column in shown)
    lines = []
    for row in table.rows:
        cells = (
            _badge(str(row[n])) if column.key == _VERDICT else escape(cell_text(row[n], column)) for n, column in shown
        )
        lines.append("".join(f"<td{_kind(column)}>{cell}</td>" for (_, column), cell in zip(shown, cells, strict=True)))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="table"><table class="verdicts"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _badge(kind: str) -> str:
    if not kind:
        return ""
    word, sign, level = _LOOKS.get(kind, (kind, "", ""))
    return f'<span class="badge {level}">{escape(f"{sign} {word}".strip())}</span>'


def _kind(column: Column) -> str:
    return ' class="number"' if column.numeric else ""


def _pair(pair: Pair, charts: Charts, min_effect_ratio: float | None) -> str:
    """The charts of the baseline and one contender."""
    from esbench.report.html.comparison_charts import intervals, rounds

    estimated = [row for row in pair.rows if row.estimate is not None]
    parts = []
    if estimated:
        margins = {row.metric: min_effect(row.metric, min_effect_ratio) for row in estimated}
        caption = (
            "The change of the contender with its 95 % interval: ▲ faster, ▼ slower, ■ same, ● no verdict. "
            "A change inside the grey band counts as none."
        )
        parts.append(charts.place(intervals(estimated, margins), "Change", caption, wide=True))
    if not pair.single:
        caption = "Dashed: the side's figure."
        parts += [
            charts.place(rounds(pair, row, _names(pair)), f"{row.task}: {row.metric}, race by race", caption)
            for row in pair.primary
        ]
    parts += _curves(pair, charts)
    return f'<h2>{escape(_title(pair))}</h2><div class="charts">{"".join(parts)}</div>' if parts else ""


def _curves(pair: Pair, charts: Charts) -> Iterator[str]:
    """The percentile curves of both sides over one another, for each task that is judged."""
    from esbench.report.html.charts import curves_chart
    from esbench.report.html.comparison_charts import BASELINE_COLOUR, CONTENDER_COLOUR

    sides = tuple(zip(_names(pair), (BASELINE_COLOUR, CONTENDER_COLOUR), (pair.baseline, pair.contender), strict=True))
    for task in dict.fromkeys(row.task for row in pair.primary):
        for measure in ("latency", "service_time"):  # a closed loop has no latency
            curves = [
                (name, colour, percentile_curve(*_histograms(side, task, measure))) for name, colour, side in sides
            ]
            if all(len(curve) > 1 for _, _, curve in curves):
                caption = "All races of a side together. Both axes are logarithmic."
                title = f"{task}: percentiles of {measure.replace('_', ' ')}"
                yield charts.place(curves_chart(curves), title, caption)
                break


def _histograms(side: Side, task: str, measure: str) -> list[str]:
    """What the races of a side measured of a task (by its label), encoded."""
    return [
        result.histograms[measure]
        for record in side.records
        for result in record.tasks
        if task_label(record, result) == task and measure in result.histograms
    ]


def _title(pair: Pair) -> str:
    return f"{pair.contender.name} against {pair.baseline.name}"


def _names(pair: Pair) -> tuple[str, str]:
    """What the sides are called, apart even where they are the same."""
    names = pair.baseline.name, pair.contender.name
    return names if names[0] != names[1] else (f"{names[0]} (baseline)", f"{names[1]} (contender)")


def _races(pair: Pair) -> Table:
    """All races of both sides, in the order of their start."""
    sides = zip(_names(pair), (pair.baseline, pair.contender), strict=True)
    raced = [(record.started_at, name, record) for name, side in sides for record in side.records]
    return Table(
        _RACES,
        tuple(
            (name, record.race_id, to_the_second(started_at), record.status)
            for started_at, name, record in sorted(raced, key=lambda race: race[0])
        ),
    )
