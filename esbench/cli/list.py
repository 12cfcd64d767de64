"""`esbench list`: races, tracks, distributions."""

from __future__ import annotations

import click

from esbench.cli.command import EsbenchGroup, esbench_home
from esbench.cli.output import format_option, print_document


@click.group("list", cls=EsbenchGroup)
def list_() -> None:
    """List races, tracks or distributions."""


@list_.command("races")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="At most so many.")
@click.option("--track", help="Only races of this track.")
@click.option("--challenge", help="Only races of this challenge.")
@format_option
def races(limit: int, track: str | None, challenge: str | None, form: str) -> None:
    """List the races that were run, the newest first."""
    from esbench.locks import is_running
    from esbench.report.tables import race_list
    from esbench.store import RaceStore

    home = esbench_home()
    entries, damaged = RaceStore(home).entries(track=track, challenge=challenge, limit=limit)
    running = {entry.race_id for entry in entries if entry.status == "running" and is_running(home, entry.race_id)}
    print_document(race_list(entries, damaged, running), form)
    if not entries:
        which = " of that track and challenge" if track or challenge else ""
        click.echo(f"esbench: there are no races{which} in {home / 'races'}", err=True)
