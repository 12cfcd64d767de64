"""The settings of a race as tables: parameters, clusters and their nodes, corpora, the driver's host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from esbench.record.model import ClusterFacts, RaceRecord
from esbench.report.table_model import Cell, Section, facts_table

_NOT_SETTINGS = ("statistics", "shards", "shards_by_node")  # of a cluster: they are figures


def settings(record: RaceRecord) -> list[Section]:
    """Return tables of a race's settings and environment: race, clusters, corpora, driver."""
    return [
        _section(
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
        *(_section(f"Cluster {name}", _of_cluster(cluster)) for name, cluster in record.clusters.items()),
        _section("Corpora", {corpus.name: asdict(corpus) for corpus in record.corpora}),
        _section(
            "Driver",
            {"host": record.host_class, **record.environment, "workers": [asdict(driver) for driver in record.drivers]},
        ),
    ]


def _of_cluster(cluster: ClusterFacts) -> dict[str, Any]:
    return {name: value for name, value in asdict(cluster).items() if name not in _NOT_SETTINGS}


def _section(title: str, values: Mapping[str, Any]) -> Section:
    return Section(title, facts_table(_flat(values)))


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
