"""`esbench list distributions` and `esbench list nodes`."""

from __future__ import annotations

import click

from esbench.cli.command import EsbenchCommand
from esbench.cli.output import format_option, print_document
from esbench.cluster.field_types import VECTORS
from esbench.record.home import esbench_home

_DOCS = "docs/reference/command-line.md"

# Title and key of a column of distributions, and the features of which it shows whether there is one.
_ABILITIES: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("Scripting", "painless", frozenset({"painless"})),
    ("Expressions", "expressions", frozenset({"expressions"})),
    ("Language analyzers", "language-analyzers", frozenset({"language-analyzers"})),
    ("Percolator", "percolator", frozenset({"percolator"})),
    ("Vectors", "vectors", frozenset(VECTORS)),
    ("Ingest", "ingest", frozenset({"ingest-processors"})),
    ("Data streams", "data-streams", frozenset({"data-streams"})),
    ("SQL", "sql", frozenset({"sql"})),
    ("Security", "security", frozenset({"security"})),
)


@click.command(
    "distributions",
    cls=EsbenchCommand,
    examples=("esbench list distributions", "esbench list distributions --format=json"),
    docs=_DOCS,
)
@format_option
def distributions(form: str) -> None:
    """List servers that esbench can start, and what each can do."""
    from esbench.features.node.catalog import load_catalog
    from esbench.features.node.download import is_downloaded
    from esbench.features.node.folders import Folders
    from esbench.features.node.unpacked import is_assembled
    from esbench.report.table_model import Cell, Column, ReportDocument, Table

    catalog = load_catalog()
    folders = Folders.of(esbench_home())
    columns = (
        Column("Distribution", "distribution"),
        Column("Default", "default"),
        Column("Java", "java"),
        *(Column(title, key, spare=1) for title, key, _ in _ABILITIES),
        Column("Made of", "made_of", spare=2),
        Column("Downloaded", "downloaded"),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name,
            name == catalog.default,
            str(entry.java),
            *(not features.isdisjoint(entry.features) for _, _, features in _ABILITIES),
            entry.made_of,
            is_assembled(entry, folders.servers) or is_downloaded(entry.artifacts, folders.downloads),
        )
        for name, entry in catalog.items()
    )
    print_document(ReportDocument(Table(columns, rows)), form)


@click.command(
    "nodes",
    cls=EsbenchCommand,
    examples=("esbench list nodes", "esbench list nodes --wide"),
    docs=_DOCS,
)
@format_option
def nodes(form: str) -> None:
    """List the nodes that --keep-node left running.

    The files of those that have ended since are removed.
    """
    from esbench.features.node.kept import KeptNode, KeptNodes
    from esbench.record.store import size_bytes
    from esbench.report.race_summary import to_the_second
    from esbench.report.table_model import ColumnOf, ReportDocument, table_of
    from esbench.units import format_bytes

    kept = KeptNodes(esbench_home())
    columns: tuple[ColumnOf[KeptNode], ...] = (
        ColumnOf("Race ID", "race_id", read=lambda node: node.race_id),
        ColumnOf("Node", "node", read=lambda node: node.name),
        ColumnOf("Status", "status", read=lambda node: "running" if node.is_running else "gone"),
        ColumnOf("Distribution", "distribution", cuttable=True, read=lambda node: node.distribution),
        ColumnOf("Address", "address", read=lambda node: node.url),
        ColumnOf("PIDs", "pids", spare=4, read=lambda node: list(node.processes)),
        ColumnOf("Heap", "heap", numeric=True, spare=2, read=lambda node: format_bytes(node.heap_bytes)),
        ColumnOf("", "heap_bytes", for_programs=True, read=lambda node: node.heap_bytes),
        ColumnOf("Since", "since", spare=3, read=lambda node: to_the_second(node.kept_at)),
        ColumnOf("Size", "size", numeric=True, spare=1, read=lambda node: format_bytes(size_bytes(kept.folder(node)))),
        ColumnOf("", "size_bytes", for_programs=True, read=lambda node: size_bytes(kept.folder(node))),
        ColumnOf("Folder", "folder", below=True, read=lambda node: str(kept.folder(node))),
    )
    found = kept.all()
    print_document(ReportDocument(table_of(columns, found)), form)
    for node in found:
        if not node.is_running and kept.clean_up(node):
            click.echo(f"{node.name} of race {node.race_id} had ended: its folder is removed now", err=True)
    if not found:
        click.echo("esbench: no node is kept (esbench race --keep-node keeps one)", err=True)
