"""The options of commands that read a track without racing it: the track, and the values for its templates."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from esbench.track.rendering import RenderContext

C = TypeVar("C", bound=Callable[..., Any])


def track_options(command: C) -> C:
    """Add the options of a track, the arguments of `find` and `context_of`, to a command.

    They are --track, --track-path, --track-repository, --track-params, --distribution, --build-flavor and
    --serverless-operator.
    """
    for option in reversed(
        (
            click.option("--track", help="A track that esbench ships (esbench list tracks)."),
            click.option("--track-path", type=click.Path(path_type=Path), help="A folder or file of a track."),
            click.option(
                "--track-repository",
                type=click.Path(path_type=Path),
                help="The folder that --track is looked for in.",
            ),
            click.option(
                "--track-params", default="", metavar="PARAMS", help="k:v,k2:v2, inline JSON or a .json file."
            ),
            click.option(
                "--distribution",
                "--distribution-version",
                default="",
                help="What the templates are rendered for: 7.10.2, opensearch-2.19.6.",
            ),
            click.option("--build-flavor", default="default", show_default=True, help="As templates see it."),
            click.option("--serverless-operator", is_flag=True, help="As templates see it."),
        )
    ):
        command = option(command)
    return command


def find(flags: Mapping[str, Any]) -> Path:
    """Return the track file that the options name."""
    from esbench.track.library import find_track

    return find_track(flags["track"], flags["track_path"], flags["track_repository"])


def context_of(flags: Mapping[str, Any], track: Path) -> RenderContext:
    """Return the values for a track's templates; the default version is that of the default embedded node."""
    from esbench.cli.values import parse_mapping
    from esbench.create_track.describe import product_and_version
    from esbench.track.rendering import RenderContext

    distribution = flags["distribution"]
    if not distribution:
        from esbench.engine.catalog import load_catalog

        distribution = load_catalog().default
    product, version = product_and_version(distribution)
    return RenderContext(
        params=parse_mapping(flags["track_params"], "--track-params", [track.parent]),
        distribution=product,
        version=version,
        build_flavor=flags["build_flavor"],
        serverless_operator=flags["serverless_operator"],
        now=time.time(),
    )
