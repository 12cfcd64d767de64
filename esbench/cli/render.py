"""`esbench render-track`: the rendered text of a track."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from esbench.cli.command import EsbenchCommand
from esbench.cli.track_options import context_of, find, track_options


@click.command("render-track", cls=EsbenchCommand)
@track_options
@click.option("--file", metavar="NAME", help="A file of the track that is rendered on its own: an index body, say.")
@click.option("--output-path", type=click.Path(path_type=Path), help="Write it to this file instead of stdout.")
def render_track(file: str | None, output_path: Path | None, **flags: Any) -> None:
    """Print what Jinja makes of a track: one document, with its parts in place."""
    from esbench.create_track.describe import render
    from esbench.errors import UsageError

    track = find(flags)
    rendering = render(track, context_of(flags, track), file)
    if output_path is None:
        click.echo(rendering.text)
    else:
        try:
            output_path.write_text(f"{rendering.text}\n")
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", where=f"--output-path={output_path}") from error
    if rendering.problem is not None:
        raise rendering.problem
