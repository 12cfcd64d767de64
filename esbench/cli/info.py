"""`esbench info`: the contents of a track and the tasks of its challenges."""

from __future__ import annotations

from typing import Any

import click

from esbench.cli.command import EsbenchCommand, esbench_home
from esbench.cli.output import format_option, print_document
from esbench.cli.track_options import context_of, find, track_options


@click.command(cls=EsbenchCommand)
@track_options
@click.option("--challenge", help="Only this one of its challenges.")
@format_option
def info(challenge: str | None, form: str, **flags: Any) -> None:
    """Describe a track: its documents and sizes, its parameters, and the tasks of its challenges."""
    from esbench.create_track.describe import describe
    from esbench.operations import builtin_operations
    from esbench.report.tracks import track_document

    path = find(flags)
    description = describe(path, context_of(flags, path), builtin_operations(), esbench_home(), challenge)
    print_document(track_document(description.track, description.challenges, sorted(description.parameters)), form)
