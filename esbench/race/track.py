"""The track of a race: read for the cluster's version, its challenge chosen, its documents made ready."""

from __future__ import annotations

import time

from esbench.cluster.client import ClusterInfo
from esbench.corpus.prepared import PreparedDocuments
from esbench.events.progress import Progress
from esbench.load.assignment import refuse_endless
from esbench.model import Challenge, Track
from esbench.operations.assertions import without_assertions
from esbench.operations.base import OperationType
from esbench.race.corpora import DocumentFiles, OwnCode
from esbench.race.options import RaceOptions
from esbench.rally_python import track_processors
from esbench.rally_python import view as plugins_view
from esbench.rally_python.dependencies import Libraries, libraries_folder
from esbench.rally_python.loading import Plugins
from esbench.registry import Registry
from esbench.track.loader import load_track, plugins_of, track_file
from esbench.track.rendering import RenderContext
from esbench.track.selection import check_indices, choose_challenge, select_tasks, warnings_of, with_shared_clients


class RacedTrack:
    """A track and what is left of its challenge after the filters; with its own code, where it has any.

    Raises a TrackError or UsageError when there is no such thing to race.
    """

    track: Track
    challenge: Challenge
    warnings: tuple[str, ...]

    def __init__(
        self, options: RaceOptions, info: ClusterInfo, operations: Registry[OperationType], progress: Progress
    ) -> None:
        self._options = options
        self._operations = operations
        self._progress = progress
        self._plugins: Plugins | None = None
        self._view: plugins_view.Track | None = None
        self._load(info)

    def _load(self, info: ClusterInfo) -> None:
        options = self._options
        context = RenderContext(
            params=options.track_params,
            distribution=info.distribution,
            version=info.version,
            build_flavor=info.build_flavor or "default",
            now=time.time(),
        )
        libraries = Libraries(libraries_folder(options.home), options.install_dependencies, self._progress.say)
        self._plugins = plugins = plugins_of(track_file(options.track_path, "the track"), context, libraries)
        track = load_track(options.track_path, context, self._operations, test_mode=options.test_mode, plugins=plugins)
        challenge = choose_challenge(track, options.challenge)
        if plugins is not None:
            track, self._view = track_processors.after_load(track, plugins, challenge.name, self._operations)
            track_processors.validate(self._view, plugins, challenge.name)
            challenge = choose_challenge(track, options.challenge)
        challenge = select_tasks(challenge, options.include_tasks, options.exclude_tasks)
        check_indices(track, challenge, self._operations)
        if not options.enable_assertions:
            challenge = without_assertions(challenge)
        self.warnings = (*track.warnings, *warnings_of(track, challenge, self._operations))
        self.track, self.challenge = track, with_shared_clients(challenge)
        for step in self.challenge.steps:
            refuse_endless(step, self._operations)

    def prepare_documents(self) -> tuple[PreparedDocuments, ...]:
        """Every document file that the challenge needs, before any clock starts."""
        options = self._options
        code = None if self._plugins is None or self._view is None else OwnCode(self._plugins, self._view)
        files = DocumentFiles(
            home=options.home,
            origin=options.origin,
            corpus_cache=options.corpus_cache,
            synthetic_documents=options.synthetic_documents,
            test_mode=options.test_mode,
            operations=self._operations,
            progress=self._progress,
        )
        return files.prepare(self.track, self.challenge, code)

    def view(self, documents: tuple[PreparedDocuments, ...]) -> plugins_view.PackedView | None:
        """The track for its own code in the workers; None where it has none."""
        if self._view is None:
            return None
        return plugins_view.packed(plugins_view.with_documents(self._view, documents, self.challenge.name))
