"""The settings of a race, folded away: parameters, clusters and their nodes, corpora, the driver's host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from esbench.record.model import ClusterFacts, RaceRecord
from esbench.report.html.tables import folded, render_table
from esbench.report.table_model import Cell, Column, Table

_COLUMNS = (Column("", "name"), Column("", "value"))
_NOT_SETTINGS = ("statistics", "shards", "shards_by_node")  # of a cluster: they are figures


def settings_html(record: RaceRecord) -> str:
    """Return folded tables of a race's settings and environment: race, clusters, corpora, driver."""
    parts = [
        _table(
            "Race",
            {
                "track": asdict(record.track),
                "challenge": record.challenge,
                "seed": record.seed,
                "parameters": record.track_params,
                "tags": record.user_tags,
                "esbench": record.esbench,
                "session": asdict(record.session) if record.session else None,
            },
        ),
        *(_table(f"Cluster {name}", _of_cluster(cluster)) for name, cluster in record.clusters.items()),
        _table("Corpora", {corpus.name: asdict(corpus) for corpus in record.corpora}),
        _table(
            "Driver",
            {"host": record.host_class, **record.environment, "workers": [asdict(driver) for driver in record.drivers]},
        ),
    ]
    return "".join(parts)


def _of_cluster(cluster: ClusterFacts) -> dict[str, Any]:
    return {name: value for name, value in asdict(cluster).items() if name not in _NOT_SETTINGS}


def _table(title: str, values: Mapping[str, Any]) -> str:
    return folded(title, render_table(Table(_COLUMNS, tuple(_flat(values)))))


def _flat(value: Any, name: str = "") -> Iterator[tuple[Cell, ...]]:
    """Yield nested values as rows, by their path; empty and unknown ones are left out."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{name}.{number}")
    elif isinstance(value, list | tuple):
        if value:
            yield name, ", ".join(str(each) for each in value)
    elif value is not None and value != "":
        yield name, value if isinstance(value, bool | int | float) else str(value)
