"""`esbench info`, `render-track` and `validate-track`: commands that read a track without racing it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from esbench.cli.command import EsbenchCommand, UserPath, with_options
from esbench.cli.option import option
from esbench.cli.output import format_option, print_document, write_text
from esbench.cli.track_flags import track_flags, track_repository_of
from esbench.errors.printable import printable
from esbench.record.home import esbench_home

if TYPE_CHECKING:
    from esbench.track.rendering import RenderContext

_track_options = with_options(
    track_flags,
    option(
        "--distribution",
        "--distribution-version",
        default="",
        metavar="NAME",
        matters=True,
        show_default="the one marked in esbench list distributions",
        help="The server that templates of the track are rendered for: 7.10.2, opensearch-2.19.6.",
    ),
    option("--build-flavor", default="default", metavar="NAME", help="The build_flavor that templates see."),
    option("--serverless-operator", is_flag=True, help="Templates see a true serverless_operator."),
)


@click.command(
    cls=EsbenchCommand,
    examples=("esbench info --track=orders", "esbench info --track-path=my-track --challenge=append-no-conflicts"),
    docs="docs/tracks.md",
)
@_track_options
@option("--challenge", metavar="NAME", matters=True, help="Describe only this challenge.")
@format_option
def info(challenge: str | None, form: str, **flags: Any) -> None:
    """Describe a track: its documents and sizes, its parameters, and the tasks of its challenges."""
    from esbench.features.authoring.describe import describe
    from esbench.report.tracks import track_document

    track, context = _found(flags)
    description = describe(track, context, esbench_home(), challenge, no_python=flags["no_python"])
    print_document(track_document(description.track, description.challenges, sorted(description.parameters)), form)
    for warning in description.warnings(esbench_home()):
        click.echo(printable(f"warning: {warning}"), err=True)


@click.command(
    "render-track",
    cls=EsbenchCommand,
    examples=(
        "esbench render-track --track-path=my-track --track-params=bulk_size:1000",
        "esbench render-track --track-path=my-track --file=index.json",
    ),
    docs="docs/tracks.md",
)
@_track_options
@option(
    "--file", metavar="NAME", matters=True, help="Render this file of the track alone, such as the body of an index."
)
@option(
    "--output-path", type=UserPath(), metavar="FILE", matters=True, show_default="stdout", help="The file to write to."
)
def render_track(file: str | None, output_path: Path | None, **flags: Any) -> None:
    """Print a track after its Jinja templates were rendered: one document, with all parts in place."""
    from esbench.features.authoring.describe import render

    track, context = _found(flags)
    rendering = render(track, context, file)
    if output_path is None:
        click.echo(printable(rendering.text) if sys.stdout.isatty() else rendering.text)
    else:
        write_text(output_path, f"{rendering.text}\n", "--output-path")
    if rendering.problem is not None:
        raise rendering.problem


@click.command(
    "validate-track",
    cls=EsbenchCommand,
    examples=("esbench validate-track --track-path=my-track", "esbench validate-track --track-path=my-track --strict"),
    docs="docs/tracks.md",
)
@_track_options
@option("--strict", is_flag=True, matters=True, help="Refuse also the faults that Rally tolerates.")
def validate_track(strict: bool, **flags: Any) -> int:
    """Say everything that is wrong with a track, each with its file and line.

    Nothing is started, and nothing is sent.
    """
    from esbench.errors import LackedFeatureError
    from esbench.features.authoring.validation import check_track

    track, context = _found(flags)
    findings = check_track(
        track,
        context,
        esbench_home(),
        strict=strict,
        no_python=flags["no_python"],
        distribution=f"{context.distribution}-{context.version}" if flags["distribution"] else "",
    )
    for problem in findings.problems:
        click.echo(printable(str(problem)))
    for warning in findings.warnings:
        click.echo(printable(f"warning: {warning}"))
    count = len(findings.problems)
    if count:
        click.echo(f"esbench: {track} has {count} problem{'s' if count > 1 else ''}", err=True)
        return 2 if any(isinstance(problem, LackedFeatureError) for problem in findings.problems) else 1
    if findings.track is not None:
        names = ", ".join(challenge.name for challenge in findings.track.challenges)
        click.echo(printable(f'track "{findings.track.name}" is valid (challenges: {names})'))
    return 0


def _found(flags: Mapping[str, Any]) -> tuple[Path, RenderContext]:
    """Return the track file that the options name, and the values for its templates.

    The default version is that of the default embedded node.
    """
    from esbench.cli.values import parse_track_params
    from esbench.features.authoring.describe import product_and_version
    from esbench.race.node_engine import known_distributions
    from esbench.track.library import find_track
    from esbench.track.rendering import RenderContext

    repository = track_repository_of(flags)
    track = find_track(flags["track"], flags["track_path"], repository.folder if repository else None)
    product, version = product_and_version(flags["distribution"] or known_distributions().default)
    return track, RenderContext(
        params=parse_track_params(flags["track_params"], track),
        distribution=product,
        version=version,
        build_flavor=flags["build_flavor"],
        serverless_operator=flags["serverless_operator"],
        now=time.time(),
    )
