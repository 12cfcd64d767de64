"""The documents of races: the summary of one, a list of many. Building one prints nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from esbench.record.figures import Figure, Notice, figures, notices
from esbench.record.model import RaceRecord, Session
from esbench.record.store import DamagedRace, RaceEntry
from esbench.report.device_tables import disk_usage, hot_threads, ingest_pipelines
from esbench.report.servers import load_notice, servers
from esbench.report.sweeps import sweeps
from esbench.report.table_model import UNUSABLE, Above, Cell, Column, Document, Table
from esbench.units import format_duration

SUMMARY_COLUMNS = (
    Column("Metric", "metric"),
    Column("Task", "task"),
    Column("Value", "value", numeric=True),
    Column("Unit", "unit"),
    UNUSABLE,
)
RACE_COLUMNS = (
    Column("Race ID", "race_id"),
    Column("Started", "started"),
    Column("Status", "status"),
    Column("Track", "track"),
    Column("Challenge", "challenge"),
    Column("Version", "version"),
    Column("Parameters", "parameters"),
    Column("Session", "session"),
    Column("Tags", "tags"),
)


def summary(record: RaceRecord) -> Document:
    """Return a race's summary: its facts, Rally's table (Metric, Task, Value, Unit), notices, and further tables."""
    rows = tuple(
        (figure.metric, figure.task, figure_cell(figure), figure.unit, not figure.usable) for figure in figures(record)
    )
    return Document(
        Table(SUMMARY_COLUMNS, rows),
        race_facts(record),
        (*notices(record), *load_notice(record)),
        (*sweeps(record), *servers(record), *hot_threads(record), *ingest_pipelines(record), *disk_usage(record)),
    )


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
        facts.append((label, f"{cluster.distribution} {cluster.version}{nodes}"))
    if record.track_params:
        facts.append(("Parameters", record.track_params))
    if record.user_tags:
        facts.append(("Tags", record.user_tags))
    started, finished = _moment(record.started_at), _moment(record.finished_at)
    if started and finished:
        facts.append(("Took", format_duration((finished - started).total_seconds())))
    return Table((Column("", "name"), Column("", "value")), tuple(facts))


def race_list(entries: Sequence[RaceEntry], damaged: Sequence[DamagedRace]) -> Document:
    """Return the list of races; damaged ones are named in notices."""
    rows = tuple(
        (
            entry.race_id,
            to_the_second(entry.started_at),
            entry.status,
            entry.track.name,
            entry.challenge,
            " ".join(f"{cluster.distribution} {cluster.version}" for cluster in entry.clusters.values()),
            entry.track_params,
            _session_text(entry.session),
            entry.user_tags,
        )
        for entry in entries
    )
    texts = tuple(Notice(f"race {race.race_id} is left out: {race.reason}") for race in damaged)
    return Document(Table(RACE_COLUMNS, rows), notices=texts)


def figure_cell(figure: Figure | None) -> Cell:
    """Return the cell of a figure: its value, or that it is above that value; None without a figure."""
    if figure is None:
        return None
    return Above(figure.value) if figure.exceeded else figure.value


def _session_text(session: Session | None) -> str:
    if session is None:
        return ""
    place = [session.side, f"round {session.round}" if session.round else ""]
    return " ".join([session.id, *filter(None, place)])


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
