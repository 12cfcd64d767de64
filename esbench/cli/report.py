"""`esbench report`: races as a page with charts."""

from __future__ import annotations

from pathlib import Path

import click

from esbench.cli.command import EsbenchCommand, esbench_home
from esbench.cli.pages import check_html_file, write_report


@click.command(cls=EsbenchCommand)
@click.argument("races", metavar="RACE...", nargs=-1, required=True)
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", required=True, help="The page's file.")
def report(races: tuple[str, ...], html: Path) -> None:
    """Write the page of a race, or of several side by side.

    RACE is a race (id, beginning of an id, or 'last'), a session or SESSION:SIDE, a list of races (a,b,c) or
    tag:NAME:VALUE. The page is one file that opens without a network.
    """
    check_html_file(html)
    write_report(html, esbench_home(), races)
    click.echo(f"{html}: {html.stat().st_size / 1e6:.1f} MB")
