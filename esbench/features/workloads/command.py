"""`esbench convert-workload`: makes a track of a workload of OpenSearch Benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from esbench.cli.command import EsbenchCommand
from esbench.errors.printable import printable


@click.command(
    "convert-workload",
    cls=EsbenchCommand,
    examples=(
        "esbench convert-workload opensearch-benchmark-workloads/geonames tracks/geonames",
        "esbench convert-workload my-workload my-track",
    ),
    docs="docs/from-other-tools.md",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
def convert_workload(folder: Path, out: Path) -> None:
    """Make a track of a workload of OpenSearch Benchmark, and list what has no equivalent.

    DIR is the folder of the workload, OUT a new folder for the track. Code of the workload is not run.
    """
    from esbench.features.workloads.convert import convert
    from esbench.operations import builtin_operations

    converted = convert(folder, out, tuple(builtin_operations()))
    _list("not converted, and not in the track", converted.left_out)
    _list("converted to something that is not quite the same", converted.changed)
    click.echo(
        f"{converted.files} files in {printable(str(out))}; esbench validate-track --track-path={out} checks them"
    )


def _list(title: str, notes: Sequence[object]) -> None:
    if notes:
        click.echo(f"{title}:")
    for note in notes:
        click.echo(f"  {printable(str(note))}")
