"""What a track's own code does to it before the race: processors change and prepare it, validators refuse it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from esbench.errors import TrackError
from esbench.model import Track
from esbench.track import plugins_view
from esbench.track.plugins import Plugins, importable, own_code


def after_load(track: Track, plugins: Plugins, challenge: str) -> tuple[Track, plugins_view.Track]:
    """The track as its processors leave it, and their view of it, in which `challenge` is selected."""
    view = plugins_view.view_of(track)
    for each in view.challenges:
        each.selected = each.name == challenge
    for processor in plugins.track_processors:
        _call(plugins, processor, "on_after_load_track", view)
    return plugins_view.with_changes(track, view), view


def prepare(track: Track, view: plugins_view.Track, plugins: Plugins, data_root: Path) -> Track:
    """Let the processors prepare what they need, and return the track with the corpora that they made."""
    for processor in plugins.track_processors:
        for work in _call(plugins, processor, "on_prepare_track", view, str(data_root)) or ():
            if not (isinstance(work, tuple) and len(work) == 2 and callable(work[0])):
                raise TrackError(
                    f"on_prepare_track() of {type(processor).__name__} returned {work!r}",
                    where=str(plugins.folder),
                    hint="it returns a list of (function, {parameters})",
                )
            function, params = work
            what = f"track processor {type(processor).__name__}"
            with importable(plugins.folder), own_code(plugins.folder, what, str(plugins.folder)):
                function(**params)
    return plugins_view.with_changes(track, view)


def validate(view: plugins_view.Track, plugins: Plugins, challenge: str) -> None:
    """Ask the validator of a challenge, if there is one: what it returns is what is wrong."""
    validator = plugins.validators.get(challenge)
    if validator is None:
        return
    where = str(plugins.folder)
    with importable(plugins.folder), own_code(plugins.folder, f'the validator of challenge "{challenge}"', where):
        wrong = validator(view)
    found = [wrong] if isinstance(wrong, str) else list(wrong or ())
    if found:
        raise TrackError("; ".join(map(str, found)), where=f'challenge "{challenge}"')


def _call(plugins: Plugins, processor: Any, method: str, *arguments: Any) -> Any:
    function = getattr(processor, method, None)
    if function is None:
        return None
    what = f"track processor {type(processor).__name__}"
    with importable(plugins.folder), own_code(plugins.folder, what, str(plugins.folder)):
        return function(*arguments)
