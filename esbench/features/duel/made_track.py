"""The track of a duel that is made of a file of the user: `--replay=LOG`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from esbench.errors import EsbenchError, RaceError, UsageError
from esbench.events.progress import Progress
from esbench.record.home import esbench_home
from esbench.record.store import new_race_id
from esbench.tables import TRACKS, load

FOLDER = "replays"  # of esbench's home: a session goes on with the track with which it began
_TRACKS = ("track", "track-path", "track-repository")


@contextmanager
def words_with_track(flags: Mapping[str, Any], words: Sequence[str], progress: Progress) -> Iterator[tuple[str, ...]]:
    """Context manager: the words of a duel, with the track of the log that `--replay` names, if it does.

    The track stays, unless nothing can be raced with these options. Requests that fail, as some did in production, end
    no race. Raises UsageError as `esbench replay`, and for another track beside it.
    """
    text = flags["replay"]
    if text is None:
        yield tuple(words)
        return
    names = {word.partition("=")[0] for word in words}
    if other := [name for name in _TRACKS if name in names]:
        raise UsageError(f"--{other[0]} cannot be combined with --replay: the log is the track", hint="leave one out")
    if flags["turns"]:
        what = "--turns cannot be combined with --replay: each recorded second goes to all sides in their slices"
        raise UsageError(what, hint="leave one out")
    folder = esbench_home() / FOLDER / new_race_id()
    try:
        progress.say(load(TRACKS["replay"])(text, folder / "replay"))
        yield (*words, f"track-path={folder / 'replay'}", *(() if "on-error" in names else ("on-error=continue",)))
    except EsbenchError as error:
        if not isinstance(error, RaceError):  # of a round, after which the session goes on
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if flags["dry_run"]:
        shutil.rmtree(folder, ignore_errors=True)
