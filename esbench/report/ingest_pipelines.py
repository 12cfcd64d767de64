"""What ingest pipelines did in a race, as a table: a line for each pipeline and its processors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from esbench.record.model import RaceRecord
from esbench.report.table_model import Cell, Column, Section, Table

DEVICE = "ingest-pipeline-stats"
_PIPELINES_AT_MOST = 5
_COLUMNS = (
    Column("Pipeline", "pipeline"),
    Column("Processor", "processor"),
    Column("Documents", "count", numeric=True),
    Column("Time ms", "time_ms", numeric=True),
    Column("Failed", "failed", numeric=True),
)


def ingest_pipelines(record: RaceRecord) -> tuple[Section, ...]:
    """A section of the pipelines that took most time, or none where nothing was seen of any."""
    pipelines = record.telemetry.get(DEVICE, {}).get("pipelines", [])[:_PIPELINES_AT_MOST]
    rows = tuple(row for pipeline in pipelines for row in _rows(pipeline))
    return (Section("Ingest pipelines, over all nodes", Table(_COLUMNS, rows)),) if rows else ()


def _rows(pipeline: Mapping[str, Any]) -> Iterator[tuple[Cell, ...]]:
    for line in ({**pipeline, "processor": "(all)"}, *pipeline.get("processors", ())):
        yield pipeline["pipeline"], line["processor"], line["count"], line["time_ms"], line["failed"]
