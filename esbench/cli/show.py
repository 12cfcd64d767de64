"""`esbench show`: a stored race as a summary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from esbench.cli.command import EsbenchCommand
from esbench.cli.completion import RaceNames
from esbench.cli.output import all_figures_option, print_document, report_options
from esbench.errors import RecordError, UsageError
from esbench.errors.printable import printable
from esbench.events.progress import print_to_stderr
from esbench.record.home import esbench_home

if TYPE_CHECKING:
    from esbench.report.table_model import Section


@click.command(
    cls=EsbenchCommand,
    examples=("esbench show last", "esbench show 20261121t1015 --all --report-file=race.md"),
    docs="docs/reports.md",
)
@click.argument("race", type=RaceNames())
@all_figures_option
@report_options
def show(race: str, all_figures: bool, form: str, report_file: Path | None, report_format: str | None) -> None:
    """Show the summary of a race.

    RACE is an id, the beginning of an id, or 'last'.
    """
    from esbench.record.locks import status_now
    from esbench.record.series import seconds_of
    from esbench.record.store import RaceStore
    from esbench.report.race_summary import short_summary, summary
    from esbench.report.sparklines import over_time

    home = esbench_home()
    store = RaceStore(home, print_to_stderr)
    with one_race(home, race):
        record = store.load(race)
    seconds_file = store.folder(record.race_id).seconds_file
    record = replace(record, status=status_now(home, record.race_id, record.status))

    def pictures(width: int, ascii_only: bool) -> tuple[Section, ...]:
        try:
            return over_time(record, seconds_of(record, seconds_file), width, ascii_only=ascii_only)
        except RecordError as error:  # the figures are in race.json
            click.echo(printable(f"warning: {error}"), err=True)
            return ()

    short = None if all_figures else short_summary(record)
    print_document(summary(record), form, report_file, report_format, pictures, short=short)


@contextmanager
def one_race(home: Path, race: str) -> Iterator[None]:
    """Add a hint to a UsageError within the block if `race` names a session: the commands that take a session."""
    try:
        yield
    except UsageError as error:
        from esbench.record.sessions import SessionStore
        from esbench.record.store import RaceStore

        named = [session for session in SessionStore(home).ids() if race and session.startswith(race.lower())]
        if len(named) == 1 and not RaceStore(home).beginning_with(race):
            error.hint = f"it is a session: esbench compare {named[0]}, or esbench report {named[0]} --html=FILE"
        raise
