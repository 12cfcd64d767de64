"""The summary of a race as a document. Building one prints nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from esbench.record.figures import Consequence, Figure, Notice, figures, notices, returned_numbers, task_label
from esbench.record.model import RaceRecord
from esbench.report.device_tables import disk_usage, hot_threads, ingest_pipelines
from esbench.report.parts import ShownPart, shown_part
from esbench.report.race_sentence import race_sentence
from esbench.report.table_model import (
    Cell,
    ColumnOf,
    ReportDocument,
    Section,
    Table,
    facts_table,
    figure_cell,
    table_of,
)
from esbench.report.task_tables import (
    by_load_host,
    load_notice,
    objectives,
    scores,
    servers,
    sweeps,
    targets,
    task_lines,
)
from esbench.units import format_duration

_MOST_WARNINGS = 4  # lines
_REMEDY = re.compile(r" \(([^()]*)\)$")
_METRIC_OF_TASK: tuple[ColumnOf[Figure], ...] = (
    ColumnOf("Metric", "metric", read=lambda figure: figure.metric),
    ColumnOf("Task", "task", cuttable=True, read=lambda figure: figure.task),
    ColumnOf("Value", "value", numeric=True, read=figure_cell),
)
_COLUMNS = (
    *_METRIC_OF_TASK,
    ColumnOf("Unit", "unit", read=lambda figure: figure.unit),
    ColumnOf("", "unusable", flag=True, read=lambda figure: not figure.usable),
)


def summary(record: RaceRecord) -> ReportDocument:
    """Return a race's summary: its facts, Rally's table (Metric, Task, Value, Unit), notices, and further tables.

    That of a race with a part that reports show begins with its result, and has its tables first.
    """
    if (found := shown_part(record)) is not None:
        key, shown = found
        return ReportDocument(
            table_of(_COLUMNS, figures(record)),
            race_facts(record),
            (*shown.notices(), *notices(record), *load_notice(record)),
            (
                shown.main(),
                *shown.sections(),
                *by_load_host(record),
                *servers(record),
                *_of_devices(record),
            ),
            overview={key: shown.overview()},
            lead=shown.sentence(),
        )
    return ReportDocument(
        table_of(_COLUMNS, figures(record)),
        race_facts(record),
        (*notices(record), *load_notice(record)),
        (
            *scores(record),
            *objectives(record),
            *sweeps(record),
            *by_load_host(record),
            *servers(record),
            *_of_devices(record),
        ),
    )


def short_summary(record: RaceRecord) -> ReportDocument:
    """Return a race's summary for the screen: its result in a sentence, its facts, a line for each task, notices, and
    the main further tables.

    A race with a part that reports show has the main table of that part in place of its tasks.
    """
    more = Notice(f"esbench show {record.race_id} --all prints every figure of the tasks and the cluster", note=True)
    if (found := shown_part(record)) is not None:
        return _short_part(record, found[1], more)
    swept = sweeps(record)
    return ReportDocument(
        task_lines(record),
        race_facts(record),
        (*_by_remedy(record), *(load_notice(record) if swept else ()), more),
        (
            *scores(record),
            *objectives(record),
            *targets(record),
            *swept,
            *_returned(record),
            *by_load_host(record),
            *servers(record, every_figure=False),
            *_of_devices(record),
        ),
        lead=race_sentence(record),
    )


def _short_part(record: RaceRecord, shown: ShownPart, more: Notice) -> ReportDocument:
    main = shown.main()
    return ReportDocument(
        main.table,
        race_facts(record),
        (*shown.notices(), *_by_remedy(record), more),
        (*shown.sections(), *_of_devices(record)),
        main.title,
        lead=shown.sentence(),
    )


def _by_remedy(record: RaceRecord) -> Iterator[Notice]:
    """Yield the warnings of a race in at most four lines, by what follows from them, the gravest first.

    Those with the same remedy, in brackets at their end, are one line, and so are all about lost hosts. The last line
    has the number of those that do not fit, and the command that prints them. Notes follow, as they are.
    """
    found = notices(record)
    groups: dict[object, list[Notice]] = {}
    for notice in (each for each in found if not each.note):
        is_of_host = notice.consequence is Consequence.LOST_HOST
        groups.setdefault(notice.consequence if is_of_host else _remedy(notice) or notice.text, []).append(notice)
    ranked = sorted(groups.values(), key=lambda group: min(each.consequence for each in group))
    shown = len(ranked) if len(ranked) <= _MOST_WARNINGS else _MOST_WARNINGS - 1
    yield from map(_in_one_line, ranked[:shown])
    if left := [notice for group in ranked[shown:] for notice in group]:
        unusable = sum(notice.unusable for notice in left)
        of_them = f", {unusable} of them on figures that must not be used" if unusable else ""
        text = f"{len(left)} more warnings{of_them} (esbench show {record.race_id} --all)"
        yield Notice(text, unusable=unusable > 0)
    yield from (each for each in found if each.note)


def _remedy(notice: Notice) -> str:
    match = _REMEDY.search(notice.text)
    return match[1] if match else ""


def _in_one_line(group: Sequence[Notice]) -> Notice:
    remedies = {_remedy(notice) for notice in group}
    ending = f" ({next(iter(remedies))})" if len(remedies) == 1 and remedies != {""} else ""
    text = "; ".join(notice.text.removesuffix(ending) for notice in group) + ending
    return replace(group[0], text=text, unusable=any(notice.unusable for notice in group))


def _returned(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section with the numbers that runners returned; empty if none did."""
    found = [figure for task in record.tasks for figure in returned_numbers(task, task_label(record, task))]
    return (Section("Returned by the tasks", table_of(_METRIC_OF_TASK, found)),) if found else ()


def _of_devices(record: RaceRecord) -> tuple[Section, ...]:
    """Return the tables of telemetry devices that are on only when asked for."""
    return (*hot_threads(record), *ingest_pipelines(record), *disk_usage(record))


def race_facts(record: RaceRecord) -> Table:
    """Return the facts of a race as a table of names and values."""
    facts: list[tuple[Cell, ...]] = [
        ("Race ID", record.race_id),
        ("Track", f"{record.track.name} / {record.challenge}"),
        ("Started", to_the_second(record.started_at)),
        ("Status", record.status),
    ]
    for name, cluster in record.clusters.items():
        nodes = f", {len(cluster.nodes)} nodes" if len(cluster.nodes) > 1 else ""
        label = "Cluster" if len(record.clusters) == 1 else f"Cluster {name}"
        facts.append((label, f"{cluster.server}{nodes}"))
    if record.load_hosts:
        facts.append(("Load hosts", ", ".join(str(host["name"]) for host in record.load_hosts)))
    if record.track_params:
        facts.append(("Parameters", record.track_params))
    if record.user_tags:
        facts.append(("Tags", record.user_tags))
    started, finished = _moment(record.started_at), _moment(record.finished_at)
    if started and finished and finished >= started:  # in older records the clock may have been set back
        facts.append(("Took", format_duration((finished - started).total_seconds())))
    return facts_table(facts)


def _moment(text: str | None) -> datetime | None:
    """Return a record's time of day; None if it has none or is malformed, e.g. edited by hand."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except ValueError:
        return None


def to_the_second(text: str) -> str:
    """Return a record's time of day to the second, as 2026-11-21T10:15:30Z; malformed text as it is."""
    moment = _moment(text)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else text
