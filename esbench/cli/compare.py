"""`esbench compare`: two races side by side."""

from __future__ import annotations

from pathlib import Path

import click

from esbench.cli.command import EsbenchCommand, esbench_home
from esbench.cli.output import print_document, report_options


@click.command(cls=EsbenchCommand)
@click.option("--baseline", required=True, metavar="RACE", help="The race to compare with.")
@click.option("--contender", required=True, metavar="RACE", help="The race that may be better.")
@report_options
def compare(baseline: str, contender: str, form: str, report_file: Path | None, report_format: str | None) -> None:
    """Compare two races. RACE is an id, the beginning of an id, or 'last'."""
    from esbench.compare import compare as compare_records
    from esbench.report.tables import comparison
    from esbench.store import RaceStore

    store = RaceStore(esbench_home())
    compared = compare_records(store.load(baseline), store.load(contender))
    print_document(comparison(compared), form, report_file, report_format)
