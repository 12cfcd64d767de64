"""`--progress` and `--quiet`: the kind of progress output, which also prints errors if it is JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from esbench.cli.command import CANCELLED, traceback_text, with_options
from esbench.cli.option import of_results
from esbench.errors import EsbenchError, UsageError
from esbench.events.progress import print_to_stderr

if TYPE_CHECKING:
    from esbench.progress.task_progress import FollowingProgress, Quiet

_KINDS = ("auto", "live", "lines", "json", "none")
_PROGRESS = "esbench.progress"  # key of a context's `meta`


progress_options = with_options(
    of_results(
        "--progress",
        type=click.Choice(_KINDS),
        default="auto",
        help="How progress is shown on stderr. auto: live on a terminal, else lines.",
    ),
    of_results("--quiet/--no-quiet", help="Show no progress, as --progress=none."),
)


def may_print(flags: Mapping[str, Any]) -> bool:
    """True if a line may be printed to stderr before there is a Progress: `flags` ask for neither JSON nor silence.

    `flags`: a command's arguments by name, with or without those of `progress_options`.
    """
    return not flags.get("quiet") and flags.get("progress") not in ("json", "none")


@contextmanager
def progress_of(flags: Mapping[str, Any]) -> Iterator[FollowingProgress | Quiet]:
    """Yield the Progress that the options ask for, not started.

    `flags`: a command's arguments by name, `progress` and `quiet` among them. With --progress=json it also prints the
    error that ends the block, and raises click's Exit with the error's exit status instead. Raises UsageError for
    options that exclude each other, and for a live view without a terminal.
    """
    progress = _progress(_kind(flags["progress"], quiet=flags["quiet"]))
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_PROGRESS] = progress
    debug = context is not None and context.find_root().params.get("debug")

    def fail(message: str) -> bool:
        return progress.fail(f"{traceback_text()}{message}" if debug else message)

    try:
        yield progress
    except EsbenchError as error:
        if not fail(str(error)):
            raise
        raise click.exceptions.Exit(error.exit_code) from error
    except KeyboardInterrupt as interrupt:
        if not fail("cancelled"):
            raise
        raise click.exceptions.Exit(CANCELLED) from interrupt


def print_beside(line: str) -> None:
    """Print a line to stderr, as the Progress of the command does if it has one: as JSON with --progress=json."""
    progress = click.get_current_context().meta.get(_PROGRESS)
    if progress is None:
        print_to_stderr(line)
    else:
        progress.insist(line)


def _kind(asked: str, *, quiet: bool) -> str:
    if quiet and asked not in ("auto", "none"):
        raise UsageError(f"--quiet and --progress={asked} exclude each other")
    if quiet:
        return "none"
    can_draw = sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
    if asked == "auto":
        return "live" if can_draw else "lines"
    if asked == "live" and not can_draw:
        raise UsageError(
            "stderr is not a terminal that can be drawn on", where="--progress=live", hint="say --progress=lines"
        )
    return asked


def _progress(kind: str) -> FollowingProgress | Quiet:
    if kind == "live":
        from esbench.progress.live import LiveProgress

        return LiveProgress()
    if kind == "lines":
        from esbench.progress.lines import LineProgress

        return LineProgress()
    if kind == "json":
        from esbench.progress.json_lines import JsonProgress

        return JsonProgress()
    from esbench.progress.task_progress import Quiet

    return Quiet()
