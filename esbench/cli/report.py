"""`esbench report`: a race as a page with charts."""

from __future__ import annotations

from pathlib import Path

import click

from esbench.cli.command import EsbenchCommand, esbench_home
from esbench.cli.pages import check_html_file, write_race_page


@click.command(cls=EsbenchCommand)
@click.argument("race")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", required=True, help="The page's file.")
def report(race: str, html: Path) -> None:
    """Write the page of RACE: its id, the beginning of its id, or 'last'.

    The page is one file that opens without a network.
    """
    check_html_file(html)
    write_race_page(html, esbench_home(), race)
    click.echo(f"{html}: {html.stat().st_size / 1e6:.1f} MB")
