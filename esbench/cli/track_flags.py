"""The options that name a track, shared by all commands that read one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from esbench.cli.command import MappingText, UserPath, with_options
from esbench.cli.completion import TrackNames
from esbench.cli.option import Group, of_track, option
from esbench.cli.progress_options import may_print
from esbench.record.home import esbench_home

if TYPE_CHECKING:
    from esbench.track.repository import TrackRepository

mapping_option = partial(option, type=MappingText(), multiple=True)  # `merged` makes one of several
mapping_with_variables = partial(mapping_option, type=MappingText(reads_environment=True))
repository_flags = with_options(
    of_track(
        "--track-repository",
        metavar="FOLDER|URL",
        help="Where --track is looked for: a folder of tracks, or a Git URL that is fetched.",
    ),
    of_track("--track-revision", metavar="NAME", help="A branch, a tag or a whole commit of that URL."),
    of_track("--offline", is_flag=True, help="Download nothing. Only files that are there already are used."),
)
track_flags = with_options(
    of_track(
        "--track",
        type=TrackNames(),
        metavar="NAME",
        matters=True,
        needed="required unless --track-path",
        help="A track of esbench list tracks.",
    ),
    of_track("--track-path", type=UserPath(), matters=True, help="The folder or file of any other track."),
    repository_flags,
    mapping_with_variables(
        "--track-params",
        metavar="PARAMS",
        group=Group.TRACK,
        matters=True,
        help="Its parameters: k:v,k2:v2, JSON or a .json file. May be repeated.",
    ),
    of_track("--no-python", is_flag=True, help="Refuse a track that runs its own Python."),
)


def track_repository_of(flags: Mapping[str, Any]) -> TrackRepository | None:
    """Return the repository that `repository_flags` name, after it was fetched; None if they name none.

    `flags`: their arguments by name. On a terminal a line says that it is being fetched.
    """
    if flags["track_repository"] is None and flags["track_revision"] is None:
        return None
    from esbench.events.progress import print_to_stderr
    from esbench.track.repository import track_repository

    return track_repository(
        flags["track_repository"],
        flags["track_revision"],
        esbench_home(),
        offline=flags["offline"],
        say=print_to_stderr if sys.stderr.isatty() and may_print(flags) else lambda _: None,
    )
