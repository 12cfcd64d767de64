"""The page of a comparison: verdicts first, then their basis. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from esbench.comparison.model import Comparison
from esbench.comparison.verdicts import min_effect
from esbench.measure.measures import RESPONSE_TIMES
from esbench.report.comparison import comparison, interval_cell
from esbench.report.html.comparison_charts import intervals, percentiles, rounds
from esbench.report.html.comparison_series import Judged, Sides
from esbench.report.html.comparison_table import verdict_table
from esbench.report.html.page import Charts, render_page
from esbench.report.html.settings import settings_html
from esbench.report.html.tables import folded, render_notices, render_table
from esbench.report.html.verdict_text import DIFFERENCES, DIRECTIONS, badge, in_words, under_test
from esbench.report.table_model import Column, Document
from esbench.report.text import cell_text

_MOST_NAMED = 2  # contenders in the title
_MOST_NOTICES = 4
_CHANGE = Column("", "change", signed=True, percent=True)


def comparison_page(compared: Comparison) -> str:
    """Return a whole HTML document of a comparison."""
    charts, sides = Charts(), Sides(compared)
    judged, everything = comparison(compared, every_figure=False), comparison(compared, every_figure=True)
    line = judged.line.replace("   (", " (").replace("   ", " · ").replace("`", "")
    line = f"{line} · session {sides.session}" if sides.session else line
    parts = [
        *_outcomes(compared, judged),
        verdict_table(judged.table, {task: _anchor(number) for number, task in enumerate(sides.judged())}),
        f'<p class="muted">{escape(line)}</p>',
        _changes(compared, charts),
        f'<h2 id="{DIFFERENCES}">What differs</h2>{render_table(judged.header)}' if judged.header else "",
        _to_know(compared),
        _tasks(sides, charts),
        "<h2>Everything else</h2>",
        folded("All figures", render_table(everything.table)),
        folded("Judged figures, race by race", render_table(sides.rounds())),
        folded("The races", render_table(sides.races())),
        *(
            folded(f"Settings and environment of {name} (race {record.race_id})", settings_html(record))
            for name, record in sides.first_races
        ),
    ]
    return render_page(_title(compared), "\n".join(parts), charts)


def _title(compared: Comparison) -> str:
    baseline = compared.pairs[0].baseline
    names = [pair.contender.name for pair in compared.pairs]
    contenders = ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} contenders"
    record = baseline.records[0]
    return f"{record.track.name} / {record.challenge}: {contenders} against {baseline.name}"


def _outcomes(compared: Comparison, judged: Document) -> Iterator[str]:
    """Yield, for each contender, what is under test and the verdicts in words."""
    for number, pair in enumerate(compared.pairs):
        if len(compared.pairs) > 1:
            yield f"<h2>{escape(pair.contender.name)}</h2>"
        yield under_test(pair, judged.header, number + 2)
        yield in_words(pair)


def _changes(compared: Comparison, charts: Charts) -> str:
    """Return the charts of the intervals of each contender."""
    caption = (
        "The change of the contender with its 95 % interval: ▲ faster, ▼ slower, ■ same, ● neither. "
        "A change inside the grey band counts as none."
    )
    parts = []
    for pair in compared.pairs:
        if estimated := [row for row in pair.rows if row.estimate is not None]:
            margins = {row.metric: min_effect(row.metric, compared.min_effect_ratio) for row in estimated}
            title = f"{pair.contender.name} against {pair.baseline.name}"
            parts.append(charts.place(intervals(estimated, margins), title, wide=True))
    return f'<h2>Change</h2><p>{caption}</p><div class="charts">{"".join(parts)}</div>' if parts else ""


def _to_know(compared: Comparison) -> str:
    """Return the notices, unusable figures first; if there are many, most of the others are folded away."""
    found = sorted(compared.notices, key=lambda notice: (not notice.unusable, notice.note))
    shown = max(_MOST_NOTICES, sum(notice.unusable for notice in found))
    left = found[shown:] if len(found) > shown + 1 else []
    more = folded(f"{len(left)} more", render_notices(left))
    return f"<h2>What to know</h2>{render_notices(found[: len(found) - len(left)])}{more}" if found else ""


def _tasks(sides: Sides, charts: Charts) -> str:
    """Return a section for each task: its verdicts, its races and its percentiles; for several tasks also links to
    them."""
    judged = sides.judged()
    sections = []
    for number, (task, metrics) in enumerate(judged.items()):
        outcomes = "".join(_outcome(sides, metric, rows) for metric, rows in metrics.items())
        figures = "".join([*_rounds(sides, metrics, charts), *_curves(sides, task, charts)])
        html = f'<h2>{escape(task)}</h2>{outcomes}<div class="charts">{figures}</div>'
        sections.append(f'<section class="task" id="{_anchor(number)}">{html}</section>')
    links = "".join(f'<a href="#{_anchor(number)}">{escape(task)}</a>' for number, task in enumerate(judged))
    contents = f'<h2>Task by task</h2><nav aria-label="tasks">{links}</nav>' if len(judged) > 1 else ""
    return contents + "".join(sections)


def _anchor(task: int) -> str:
    return f"task-{task}"


def _outcome(sides: Sides, metric: str, rows: Judged) -> str:
    """Return the verdicts of a metric: ▼ slower -16.5% [-17.7, -15.2]; for several contenders a line each."""
    told = []
    for number, row in rows:
        name = f"{metric}, {sides.names[number]}:" if len(sides.names) > 2 else f"{metric}:"
        change = cell_text(row.diff_percent, _CHANGE) if row.usable and row.diff_percent is not None else ""
        interval = str(interval_cell(row.estimate)) if row.estimate is not None else ""
        found = badge(row.verdict.kind if row.verdict else "")
        told.append(f'<p class="outcome">{escape(name)} {found} {change} {interval}</p>')
    return "".join(told)


def _rounds(sides: Sides, metrics: Mapping[str, Judged], charts: Charts) -> Iterator[str]:
    """Yield a chart of the values of all races for each metric; if each side is a single race, nothing."""
    if sides.are_single:
        return
    for metric, rows in metrics.items():
        first, raced = rows[0][1], list(sides.raced(rows))
        values = [value for side in raced for value in side.values]
        if all(value is None for value in values):
            continue
        direction = DIRECTIONS.get(first.better, "").capitalize()
        gaps = "Races without a usable figure are left out" if None in values else ""
        caption = ". ".join(filter(None, [direction, "Dashed: the geometric mean of a side", gaps]))
        yield charts.place(rounds(raced, metric, first.unit), f"{metric}, race by race", f"{caption}.")


def _curves(sides: Sides, task: str, charts: Charts) -> Iterator[str]:
    """Yield a chart of the percentile curves of all sides over one another."""
    for measure in RESPONSE_TIMES:  # a closed loop has no latency
        if curves := sides.curves(task, measure.name):
            together = "" if sides.are_single else " All races of a side together."
            caption = f"Less is better.{together} Both axes are logarithmic."
            yield charts.place(percentiles(curves), f"Percentiles of {measure.title}", caption)
            break
