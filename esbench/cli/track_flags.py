"""The options that name a track, shared by all commands that read one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from esbench.cli.command import MappingText, UserPath, with_options
from esbench.cli.completion import TrackNames
from esbench.cli.progress_options import may_print
from esbench.record.home import esbench_home

if TYPE_CHECKING:
    from esbench.track.repository import TrackRepository

mapping_option = partial(click.option, type=MappingText(), multiple=True)  # `merged` makes one of several
mapping_with_variables = partial(mapping_option, type=MappingText(reads_environment=True))
repository_flags = with_options(
    click.option(
        "--track-repository",
        metavar="FOLDER|URL",
        help="The folder that --track is looked for in, or a Git URL that it is fetched from.",
    ),
    click.option("--track-revision", metavar="NAME", help="A branch, a tag or a whole commit of that URL."),
    click.option("--offline", is_flag=True, help="Download nothing: use the files that are there."),
)
track_flags = with_options(
    click.option("--track", type=TrackNames(), metavar="NAME", help="A track that esbench ships (list tracks)."),
    click.option("--track-path", type=UserPath(), help="A folder or file of a track."),
    repository_flags,
    mapping_with_variables(
        "--track-params", metavar="PARAMS", help="k:v,k2:v2, inline JSON or a .json file; again for more."
    ),
    click.option("--no-python", is_flag=True, help="Refuse a track that runs its own Python."),
)


def track_repository_of(flags: Mapping[str, Any]) -> TrackRepository | None:
    """Return the repository that `repository_flags` name, after it was fetched; None if they name none.

    `flags`: their arguments by name. On a terminal a line says that it is being fetched.
    """
    from esbench.events.progress import print_to_stderr
    from esbench.track.repository import track_repository

    return track_repository(
        flags["track_repository"],
        flags["track_revision"],
        esbench_home(),
        offline=flags["offline"],
        say=print_to_stderr if sys.stderr.isatty() and may_print(flags) else lambda _: None,
    )
