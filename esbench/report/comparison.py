"""The document of a comparison: the facts that differ between the sides, the rows with their verdicts, the notices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from esbench.comparison.conditions import Condition
from esbench.comparison.model import (
    HISTORY,
    Comparison,
    Estimate,
    RoundPlan,
    RoundsNeeded,
    Row,
    RowVerdict,
    Side,
    SlicedRounds,
)
from esbench.comparison.reasons import CHECK, FASTER, LOWER_SCORES, MORE_ERRORS, SLOWER
from esbench.comparison.stats import MOST_ROUNDS, same_level
from esbench.record.figures import Notice
from esbench.report.conclusion import conclusion, sentence
from esbench.report.race_summary import to_the_second
from esbench.report.table_model import GAIN, LOSS, NEUTRAL, Cell, Column, Interval, ReportDocument, Table, figure_cell

_SIDE = Column("Side", "side")
_COLUMNS = (
    Column("Metric", "metric"),
    Column("Task", "task"),
    Column("Baseline", "baseline", numeric=True),
    Column("Contender", "contender", numeric=True),
    Column("Diff", "diff", numeric=True, signed=True, toned=True, spare=1),
    Column("Unit", "unit", spare=2),
    Column("Diff %", "diff_percent", numeric=True, signed=True, percent=True, toned=True),
    Column("95% CI", "interval_percent"),
    Column("Verdict", "verdict", toned=True),
    Column("", "note", below=True),
    Column("", "reason", for_programs=True),
    Column("", "has_basis", for_programs=True),
    Column("", "scope", for_programs=True),
    Column("", "verdict_v1", for_programs=True),
    Column("", "remedy", for_programs=True),
    Column("", "p", for_programs=True),
    Column("", "primary", for_programs=True),
    Column("", "method", for_programs=True),
    Column("", "baseline_rounds", for_programs=True),
    Column("", "contender_rounds", for_programs=True),
    Column("", "unusable", for_programs=True),
)
_OF_SEVERAL = (
    _SIDE,
    *(replace(column, spare=3) if column.key == "interval_percent" else column for column in _COLUMNS),
)
VERSION = 2  # of the rows in JSON, CSV and JUnit


@dataclass(frozen=True, kw_only=True)
class ComparisonDocument(ReportDocument):
    """The document of a comparison, with the comparison itself and the conditions of failure, for formats without
    tables."""

    compared: Comparison
    conditions: tuple[Condition, ...]


def comparison(
    compared: Comparison, *, every_figure: bool | None = None, conditions: Sequence[Condition] = ()
) -> ComparisonDocument:
    """Return the document of a comparison.

    `every_figure`: Rally's long list, not only the figures that are judged; None: only if each side is one race.
    `conditions`, those of `--fail-on`, are kept for the JUnit format; the tables do not depend on them.
    """
    several = len(compared.pairs) > 1
    if every_figure is None:
        every_figure = all(pair.single for pair in compared.pairs)
    shown = [
        (pair, row)
        for pair in compared.pairs
        for row in pair.rows
        if every_figure or row.is_primary or row.estimate is not None
    ]
    shown.sort(key=lambda pair_and_row: not pair_and_row[1].task)  # the cluster's own counters last
    rows = tuple(((pair.contender.name, *_cells(row)) if several else _cells(row)) for pair, row in shown)
    return ComparisonDocument(
        table=Table(_OF_SEVERAL if several else _COLUMNS, rows, tuple(_tone(row) for _, row in shown)),
        header=_differences(compared),
        notices=tuple(_notices(compared)),
        line=_line(compared),
        overview=_overview(compared),
        version=VERSION,
        lead=conclusion(compared),
        compared=compared,
        conditions=tuple(conditions),
    )


def _cells(row: Row) -> tuple[Cell, ...]:
    verdict = row.verdict or (None if row.usable else RowVerdict(CHECK))
    found = verdict.for_programs if verdict is not None else {}
    return (
        row.metric,
        row.task,
        figure_cell(row.baseline),
        figure_cell(row.contender),
        row.diff,
        row.unit,
        row.diff_percent,
        interval_cell(row.estimate) if row.estimate is not None else None,
        found.get("verdict", ""),
        "; ".join(filter(None, [_p_text(verdict), verdict.note])) if verdict is not None else "",
        found.get("reason"),
        found.get("has_basis", False),
        found.get("scope", ""),
        found.get("verdict_v1", ""),
        (verdict.remedy or verdict.reason.what_helps) if verdict is not None else "",
        verdict.p if verdict is not None else None,
        row.is_primary,
        row.estimate.method if row.estimate is not None else None,
        row.baseline_rounds,
        row.contender_rounds,
        not row.usable,
    )


def interval_cell(estimate: Estimate) -> Interval:
    """Return the cell of a change's 95 % interval, in percent."""
    return Interval(100 * (estimate.low - 1), 100 * (estimate.high - 1))


def _p_text(verdict: RowVerdict) -> str:
    if verdict.p is None or not (
        verdict.word in (FASTER, SLOWER) or verdict.reason.code in (MORE_ERRORS.code, LOWER_SCORES.code)
    ):
        return ""
    return "p<0.001" if verdict.p < 0.001 else f"p={verdict.p:.3f}"


def _tone(row: Row) -> str:
    """Return the tone of a row. Only verdicts are coloured: a difference is not a gain before it is known to be one."""
    return GAIN if row.word == FASTER else LOSS if row.word == SLOWER else NEUTRAL


def _differences(compared: Comparison) -> Table:
    """Return the table of race, start and every fact that differs, with a column for each side."""
    sides = (compared.pairs[0].baseline, *(pair.contender for pair in compared.pairs))
    several = len(compared.pairs) > 1
    columns = [Column("", "name"), Column("Baseline", "baseline")]
    columns += [
        Column(pair.contender.name if several else "Contender", pair.contender.name if several else "contender")
        for pair in compared.pairs
    ]
    rows: list[tuple[Cell, ...]] = [
        ("Race ID", *(_races(side) for side in sides)),
        ("Started", *(to_the_second(side.records[0].started_at) for side in sides)),
    ]
    found = [{each.name: each for each in pair.differences} for pair in compared.pairs]
    for name in dict.fromkeys(name for each in found for name in each):
        baseline = next(each[name].baseline for each in found if name in each)
        unknown = (None if name in pair.known_of_one else baseline for pair in compared.pairs)
        values = [
            baseline,
            *(of[name].contender if name in of else own for of, own in zip(found, unknown, strict=True)),
        ]
        rows.append((name, *(_fact(value) for value in _without_common(values))))
    return Table(tuple(columns), tuple(rows))


def _without_common(values: Sequence[Any]) -> Sequence[Any]:
    """Reduce lists to the items that are not on all sides that have one, say the one of forty flags that differs.

    All items stay if that leaves nothing, since races of the same side differ, or only one side has a list.
    """
    lists = [value for value in values if value is not None]
    if len(lists) < 2 or not all(isinstance(value, list | tuple) for value in lists):
        return values
    common = set.intersection(*(set(map(str, value)) for value in lists))
    left = [None if value is None else [item for item in value if str(item) not in common] for value in values]
    return left if any(left) else values


def _races(side: Side) -> str:
    ids = [record.race_id for record in side.records]
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"


def _fact(value: Any) -> Cell:
    """Return a fact of a race as a cell: settings may hold anything that JSON can."""
    if value is None or isinstance(value, str | int | float):
        return value
    return [str(item) for item in value] or None if isinstance(value, list | tuple) else str(value)


def speed_text(ratio: Estimate) -> str:
    """Return the ratio of the speeds over all tasks in words, with its interval."""
    says = "above 1: the contender is faster" if ratio.low > 1 else "below 1: the contender is slower"
    if ratio.low <= 1 <= ratio.high:
        says = "the interval includes 1, so this says nothing"
    return f"{ratio.ratio:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] ({says}; not a verdict)"


def _line(compared: Comparison) -> str:
    """Return a line on the basis of the verdicts: rounds, side by side, in turns or not, number of rows judged."""
    baseline = compared.pairs[0].baseline
    parts = [f"baseline {_rounds(baseline)}"]
    parts += [f"{pair.contender.name} {_rounds(pair.contender)}" for pair in compared.pairs]
    sliced = [pair.sliced for pair in compared.pairs if pair.sliced is not None]
    if len(sliced) == len(compared.pairs):
        parts += _side_by_side(sliced)
    elif all(pair.is_interleaved for pair in compared.pairs):
        parts.append("in turns")
    elif not all(pair.single for pair in compared.pairs):
        parts.append("not in turns")
    if any(row.estimate.method == HISTORY for pair in compared.pairs for row in pair.primary if row.estimate):
        parts.append(f"with {compared.history} earlier races")
    primary = sum(len(pair.primary) for pair in compared.pairs)
    parts.append(f"{compared.tested or 'none'} of {primary} {'row' if primary == 1 else 'rows'} could be judged")
    if compared.looks > 1:
        parts.append(f"{compared.looks} looks: verdicts are stricter")
    return "   ".join(parts)


def _side_by_side(sliced: Sequence[SlicedRounds]) -> Iterator[str]:
    """Yield the parts of the line on sides that were raced at once: their slices, and the tasks whose warmup was
    cut."""
    lengths = sorted({length for rounds in sliced for length in rounds.slices_s})
    yield f"side by side in slices of {' and '.join(f'{length:g}' for length in lengths)} s"
    cuts: dict[float, list[str]] = {}
    for label, cut in {label: cut for rounds in sliced for label, cut in rounds.cuts.items()}.items():
        cuts.setdefault(cut.at_s, []).append(label)
    if of_tasks := [f"{', '.join(labels)} {at_s:g} s" for at_s, labels in sorted(cuts.items()) if at_s > 0]:
        yield f"warmup cut: {', '.join(of_tasks)}"


def plans(compared: Comparison) -> Iterator[str]:
    """Yield in words what would settle the rows of each pair whose rounds allow to tell."""
    for name, pair in compared.named_pairs:
        if pair.sliced is not None and pair.sliced.plan is not None:
            yield f"{name}{plan_text(pair.sliced.plan)}"


def plan_text(plan: RoundPlan) -> str:
    """Return in words how long tasks should be, and how many rounds would then settle a change."""
    first, *others = plan.needed
    took = f" ({_hours(first.session_s)})" if first.session_s is not None else ""
    further = "".join(f", {_rounds_of(each)} {each.effect_ratio * 100:g}%" for each in others)
    return (
        f"{'start luck' if plan.is_start_luck else 'between rounds'} {plan.between_ratio * 100:.1f}%, within rounds "
        f"{plan.within_ratio * 100:.1f}%: with --task-time={max(1, math.ceil(plan.task_s))}s, "
        f"{_rounds_of(first)}{took} settle {first.effect_ratio * 100:g}%{further}"
    )


def _rounds_of(needed: RoundsNeeded) -> str:
    return f"more than {MOST_ROUNDS} rounds" if needed.rounds is None else f"{needed.rounds} rounds"


def _hours(seconds: float) -> str:
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    return f"{hours} h {minutes:02}" if hours else f"{minutes} min"


def _rounds(side: Side) -> str:
    return "1 race" if len(side.records) == 1 else f"{len(side.records)} rounds"


def _notices(compared: Comparison) -> list[Notice]:
    found = []
    for name, pair in compared.named_pairs:
        if pair.is_same and _races(pair.baseline) != _races(pair.contender):
            found.append(Notice(f"{name}A/A: nothing but chance differs between the two sides", note=True))
        if pair.speed_ratio is not None:
            found.append(Notice(f"{name}speed ratio over all tasks: {speed_text(pair.speed_ratio)}", note=True))
    return [*found, *(Notice(text, note=True) for text in plans(compared)), *compared.notices]


def _overview(compared: Comparison) -> dict[str, Any]:
    baseline = compared.pairs[0].baseline
    return {
        "baseline": _side(baseline),
        "contenders": [
            {
                **_side(pair.contender),
                "conclusion": sentence(pair),
                "interleaved": pair.is_interleaved,
                "identical": pair.is_same,
                "not_comparable": sorted({each.key for each in pair.differences if each.forbids}),
                "primary_rows": len(pair.primary),
                "speed_ratio": None if pair.speed_ratio is None else _ratio(pair.speed_ratio),
                "causes": [asdict(causes) for causes in pair.causes],
                "answers": [asdict(answers) for answers in pair.answers],
                **({} if pair.sliced is None else {"side_by_side": asdict(pair.sliced)}),
            }
            for pair in compared.pairs
        ],
        "looks": compared.looks,
        "tested_rows": compared.tested,
        "adjusted": "Benjamini-Hochberg 0.05",
        "same_interval_percent": 100 * same_level(compared.looks),
        "history_races": compared.history,
    }


def _side(side: Side) -> dict[str, Any]:
    return {"name": side.name, "session": side.session, "races": [record.race_id for record in side.records]}


def _ratio(estimate: Estimate) -> dict[str, Any]:
    return {"ratio": estimate.ratio, "interval": [estimate.low, estimate.high], "method": estimate.method}
