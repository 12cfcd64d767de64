"""What the fields of the track's indices take on disk, as a table: the whole of each index, then the largest fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from esbench.record.model import RaceRecord
from esbench.report.table_model import Cell, Column, Section, Table

DEVICE = "disk-usage"
_INDICES_AT_MOST = 10
_FIELDS_AT_MOST = 20
_MB = 1 << 20
_PARTS = (
    ("inverted_index", "Inverted index"),
    ("stored_fields", "Stored fields"),
    ("doc_values", "Doc values"),
    ("points", "Points"),
    ("norms", "Norms"),
    ("term_vectors", "Term vectors"),
    ("knn_vectors", "Vectors"),
)


def disk_usage(record: RaceRecord) -> tuple[Section, ...]:
    """A section without the parts that no index has; none where nothing was asked for or seen."""
    usage = record.telemetry.get(DEVICE, {})
    indices: list[Mapping[str, Any]] = usage.get("indices", [])
    if not indices:
        return ()
    parts = [(name, title) for name, title in _PARTS if any(f"{name}_bytes" in index for index in indices)]
    columns = (
        Column("Index", "index"),
        Column("Field", "field"),
        Column("Total", "total_mb", numeric=True),
        *(Column(title, f"{name}_mb", numeric=True) for name, title in parts),
    )
    rows = tuple(
        (
            sizes["index"],
            sizes["field"],
            sizes["total_bytes"] / _MB,
            *(_mb(sizes.get(f"{name}_bytes")) for name, _ in parts),
        )
        for sizes in _lines(indices, usage)
    )
    return (Section("Disk usage by field, in MB", Table(columns, rows)),)


def _lines(indices: list[Mapping[str, Any]], usage: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from ({**index, "field": "(all fields)"} for index in indices[:_INDICES_AT_MOST])
    for sizes in _summed(indices[_INDICES_AT_MOST:], usage.get("other_indices")):
        yield {**sizes, "index": f"({sizes['count']} others)", "field": "(all fields)"}
    yield from usage["fields"][:_FIELDS_AT_MOST]
    for sizes in _summed(usage["fields"][_FIELDS_AT_MOST:], usage.get("other_fields")):
        yield {**sizes, "index": "", "field": f"({sizes['count']} others)"}


def _summed(left_out: list[Mapping[str, Any]], further: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """What is left out here and what the record has only as a sum, if there is any of them."""
    every = [*left_out, *([further] if further else [])]
    if every:
        names = {name for sizes in every for name in sizes if name.endswith("_bytes")}
        sums = {name: sum(sizes.get(name, 0) for sizes in every) for name in names}
        yield {"count": len(left_out) + (further["count"] if further else 0), **sums}


def _mb(size_bytes: int | None) -> Cell:
    return size_bytes / _MB if size_bytes else None
