"""`esbench validate-track`: all problems of a track at once."""

from __future__ import annotations

from typing import Any

import click

from esbench.cli.command import EsbenchCommand, esbench_home
from esbench.cli.track_options import context_of, find, track_options


@click.command("validate-track", cls=EsbenchCommand)
@track_options
@click.option("--strict", is_flag=True, help="Refuse what Rally tolerates, too.")
def validate_track(**flags: Any) -> int:
    """Say everything that is wrong with a track, each with its file and line; nothing is started."""
    from esbench.create_track.validation import check_track
    from esbench.operations import builtin_operations

    track = find(flags)
    strict = flags.pop("strict")
    findings = check_track(track, context_of(flags, track), builtin_operations(), esbench_home(), strict=strict)
    for problem in findings.problems:
        click.echo(str(problem))
    for warning in findings.warnings:
        click.echo(f"warning: {warning}")
    count = len(findings.problems)
    if count:
        click.echo(f"esbench: {track} has {count} problem{'s' if count > 1 else ''}", err=True)
        return 1
    if findings.track is not None:
        names = ", ".join(challenge.name for challenge in findings.track.challenges)
        click.echo(f'track "{findings.track.name}" is valid (challenges: {names})')
    return 0
