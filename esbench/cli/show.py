"""`esbench show`: the summary of a stored race."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from esbench.cli.command import EsbenchCommand, esbench_home
from esbench.cli.one_race import one_race
from esbench.cli.output import print_document, report_options
from esbench.errors import RecordError

if TYPE_CHECKING:
    from esbench.report.table_model import Section


@click.command(cls=EsbenchCommand)
@click.argument("race")
@report_options
def show(race: str, form: str, report_file: Path | None, report_format: str | None) -> None:
    """Show the summary of RACE: its id, the beginning of its id, or 'last'."""
    from esbench.record.locks import status_now
    from esbench.record.series import read_seconds
    from esbench.record.store import RaceStore
    from esbench.report.race_summary import summary
    from esbench.report.sparklines import over_time

    home = esbench_home()
    store = RaceStore(home)
    with one_race(home, race):
        record = store.load(race)
    seconds_file = store.folder(record.race_id).seconds_file
    record = replace(record, status=status_now(home, record.race_id, record.status))

    def pictures(width: int, ascii_only: bool) -> tuple[Section, ...]:
        try:
            return over_time(record, read_seconds(seconds_file), width, ascii_only=ascii_only)
        except RecordError as error:  # the figures are in race.json
            click.echo(f"warning: {error}", err=True)
            return ()

    print_document(summary(record), form, report_file, report_format, pictures)
