"""Locations of tracks: those that esbench ships, those of a repository's folder, the user's own folder or file."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from esbench.errors import EsbenchError, UsageError, did_you_mean
from esbench.errors.user_paths import user_path
from esbench.operations import builtin_operations
from esbench.track import schema
from esbench.track.faults import Faults
from esbench.track.loader import challenge_nodes, load_track, read_track, track_file
from esbench.track.rendering import RenderContext
from esbench.track.source import file_in


@dataclass(frozen=True)
class TrackSummary:
    """A track, as `list tracks` shows it; the default challenge comes first."""

    name: str
    description: str
    challenges: tuple[str, ...]


@dataclass(frozen=True)
class TrackList:
    """The tracks, sorted by name, and the errors of those that cannot be read."""

    tracks: tuple[TrackSummary, ...]
    problems: tuple[EsbenchError, ...]


def find_track(name: str | None, path: Path | None, repository: Path | None = None) -> Path:
    """Return the track file of a bundled track or one of a repository by name, or of a folder or file.

    Raises a UsageError for an unknown name, with those that exist, and for options that exclude each other.
    """
    if path is not None:
        if name is not None:
            raise UsageError("--track and --track-path exclude each other")
        if repository is not None:
            raise UsageError("--track-path and --track-repository exclude each other", hint="use --track=NAME with it")
        return track_file(path, "--track-path")
    if not name:
        raise UsageError("no track was named", hint="say --track=NAME or --track-path=FOLDER")
    known = _bundled() if repository is None else _tracks_below(repository)
    if name in known:
        return known[name]
    if repository is None and Path(name).exists():
        raise UsageError(f'"{name}" is a file or folder', where="--track", hint=f"say --track-path={name}")
    if repository is None and (named := _of_rally(name)) is not None:
        from esbench.track.repository import RALLY_TRACKS, REPOSITORY

        hint = f"it is one of rally-tracks: add {REPOSITORY}={RALLY_TRACKS}, or the folder that you cloned"
        raise UsageError(f'esbench does not ship the track "{named}"', where="--track", hint=hint)
    raise UsageError(f'unknown track "{name}"', where="--track", hint=did_you_mean(name, known))


def options_of(path: Path) -> str:
    """Return the option that names a track file: --track=orders of a bundled one, else --track-path."""
    name = next((name for name, file in _bundled().items() if file == path), None)
    return f"--track-path={shlex.quote(str(path))}" if name is None else f"--track={name}"


def list_tracks(repository: Path | None = None) -> TrackList:
    """Return the bundled tracks, or those of a repository, sorted by name, with their parameters' defaults.

    They are rendered as for Elasticsearch 8.0.0. Raises UsageError if there is no such repository, or no track in it.
    """
    context = _for_lists()
    summaries: list[TrackSummary] = []
    problems: list[EsbenchError] = []
    for name, path in sorted((_bundled() if repository is None else _tracks_below(repository)).items()):
        try:
            summaries.append(_summary(name, path, context))
        except EsbenchError as error:
            problems.append(error)
    return TrackList(tuple(summaries), tuple(problems))


def task_names(path: Path) -> tuple[str, ...]:
    """Return the names of the tasks of all challenges of a track, by its parameters' defaults; no Python of it runs.

    Raises an EsbenchError if the track cannot be read.
    """
    track = load_track(read_track(path, _for_lists()), builtin_operations())
    return tuple(dict.fromkeys(task.name for challenge in track.challenges for task in challenge.tasks))


def _for_lists() -> RenderContext:
    return RenderContext(params={}, distribution="elasticsearch", version="8.0.0", now=0.0)


def _summary(name: str, path: Path, context: RenderContext) -> TrackSummary:
    node = read_track(path, context)
    schema.validate(node, Faults())
    challenges = sorted(challenge_nodes(node), key=lambda found: not found.get("default", False))
    names = tuple(challenge.get("name", "default") for challenge in challenges)
    return TrackSummary(name, node.get("description", ""), names)


def _of_rally(name: str) -> str | None:
    """Return the name of the track of rally-tracks that a user means by `name`, also by its last part; else None."""
    from esbench.track.repository import RALLY_TRACK_NAMES

    meant = name.strip("/").lower()
    return next((known for known in sorted(RALLY_TRACK_NAMES) if meant in (known, known.rpartition("/")[2])), None)


def _bundled() -> dict[str, Path]:
    """Return the track files of the wheel, or else of the source tree, by track name."""
    package = Path(__file__).resolve().parent.parent
    root = next((folder for folder in (package / "tracks", package.parent / "tracks") if folder.is_dir()), None)
    if root is None:
        return {}
    files = {folder.name: file_in(folder) for folder in root.iterdir() if folder.is_dir()}
    return {name: file for name, file in files.items() if file is not None}


def _tracks_below(repository: Path) -> dict[str, Path]:
    """Return the track files of a folder, by track name; a nested track is named by its path ("elastic/logs").

    Raises a UsageError if there is no such folder, or no track in it.
    """
    from esbench.track.repository import REPOSITORY

    root = user_path(repository, REPOSITORY)
    if not root.is_dir():
        hint = "it is the folder of tracks that were checked out or downloaded"
        raise UsageError(f'there is no folder "{repository}"', where=REPOSITORY, hint=hint)
    found: dict[str, Path] = {}
    for folder in (root, *sorted(path for path in root.rglob("*") if path.is_dir())):
        place = folder.relative_to(root)
        file = file_in(folder)
        if file is not None and not any(part.startswith(".") for part in place.parts):
            found[place.as_posix() if place.parts else folder.resolve().name] = file
    if not found:
        raise UsageError(f'no folder below "{repository}" holds a track', where=REPOSITORY)
    return found
