"""`esbench report`: a page with charts of stored races."""

from __future__ import annotations

from pathlib import Path

import click

from esbench.cli.command import EsbenchCommand, UserPath
from esbench.cli.completion import RaceNames
from esbench.cli.option import option
from esbench.cli.output import check_file, write_report
from esbench.record.home import esbench_home


@click.command(
    cls=EsbenchCommand,
    examples=("esbench report last --html=race.html", "esbench report 20261120t1502 last --html=both.html"),
    docs="docs/reports.md",
)
@click.argument("races", metavar="RACE...", nargs=-1, required=True, type=RaceNames())
@option("--html", type=UserPath(), metavar="FILE", required=True, help="The file of the page.")
def report(races: tuple[str, ...], html: Path) -> None:
    """Write a page with charts of a race, or of several side by side.

    RACE is a race (its id, the beginning of its id, or 'last'), a session, one of its sides (SESSION:SIDE), a list of
    races (a,b,c), or all races with a tag (tag:NAME:VALUE). The page is one file that opens without a network.
    """
    check_file(html, "--html")
    write_report(html, esbench_home(), races)
    click.echo(f"{html}: {html.stat().st_size / 1e6:.1f} MB")
