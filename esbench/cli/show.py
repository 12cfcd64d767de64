"""`esbench show`: the summary of a race that was run before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from esbench.cli.command import EsbenchCommand, esbench_home
from esbench.cli.output import print_document, report_options


@click.command(cls=EsbenchCommand)
@click.argument("race")
@report_options
def show(race: str, form: str, report_file: Path | None, report_format: str | None) -> None:
    """Show the summary of RACE: its id, the beginning of its id, or 'last'."""
    from esbench.locks import status_now
    from esbench.report.tables import summary
    from esbench.store import RaceStore

    home = esbench_home()
    record = RaceStore(home).load(race)
    record = replace(record, status=status_now(home, record.race_id, record.status))
    print_document(summary(record), form, report_file, report_format)
