"""The track of a race: loaded for the cluster's version, with the chosen challenge and prepared documents."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from esbench.cluster.client import ClusterInfo
from esbench.cluster.dialect import Dialect
from esbench.corpus.prepared import PreparedDocuments
from esbench.events.progress import Progress
from esbench.load.assignment import refuse_endless
from esbench.load.messages import Stock
from esbench.model import Challenge, Track
from esbench.operations.assertions import without_assertions
from esbench.operations.versions import for_versions
from esbench.race.corpora import DocumentFiles
from esbench.race.loading import load_with_python
from esbench.race.options import RaceOptions
from esbench.record.secrets import Secret
from esbench.track.rendering import RenderContext
from esbench.track.selection import check_indices, choose_challenge, select_tasks, warnings_of, with_shared_clients

if TYPE_CHECKING:
    from esbench.corpus.sizes import DiskNeed


class RacedTrack:
    """A track and its challenge after the task filters; with its own code, if it has any.

    Raises a TrackError or UsageError if there is nothing that can be raced.
    """

    track: Track
    challenge: Challenge
    warnings: tuple[str, ...]
    disk_needs: tuple[DiskNeed, ...] = ()

    def __init__(self, options: RaceOptions, info: ClusterInfo, progress: Progress) -> None:
        self._options = options
        self._progress = progress
        self._load(info)

    def _load(self, info: ClusterInfo) -> None:
        options = self._options
        context = RenderContext(
            params={name: _plain(value) for name, value in options.track_params.items()},
            distribution=info.distribution,
            version=info.version,
            build_flavor=info.build_flavor or "default",
            now=time.time(),
        )
        loaded = load_with_python(
            options.track_path,
            context,
            options.home,
            test_mode=options.test_mode,
            install_dependencies=options.install_dependencies,
            no_python=options.no_python,
            progress=self._progress,
            raced=options.challenge or "",
        )
        track, self._own_code = loaded.processed(choose_challenge(loaded.track, options.challenge).name)
        if self._own_code is not None:
            self._own_code.validate()
        challenge = choose_challenge(track, options.challenge)
        challenge = select_tasks(challenge, options.include_tasks, options.exclude_tasks)
        check_indices(track, challenge)
        if not options.enable_assertions:
            challenge = without_assertions(challenge)
        self.warnings = (*track.warnings, *warnings_of(track, challenge))
        self.track, self.challenge = track, with_shared_clients(challenge)
        for step in self.challenge.steps:
            refuse_endless(step)

    def fit(self, dialects: Mapping[str, Dialect]) -> None:
        """Leave out of operations what the clusters do not know and they do not need, and warn of it.

        `dialects`: by the names of the clusters. Raises a LackedFeatureError for a task that its cluster cannot run.
        """
        self.challenge, told = for_versions(self.challenge, dialects)
        self.warnings += told

    def prepare_documents(self) -> tuple[PreparedDocuments, ...]:
        """Prepare every document file that the challenge needs, before any clock starts."""
        return self._files.prepare(self.track, self.challenge, self._own_code)

    def check_sizes(self) -> None:
        """Note the disk that preparing the documents will take, in `disk_needs`.

        Raises a TrackError or CorpusError if the documents cannot be generated, or have no room.
        """
        self.disk_needs = self._files.check_sizes(self.track, self.challenge)

    @property
    def _files(self) -> DocumentFiles:
        options = self._options
        return DocumentFiles(
            home=options.home,
            origin=options.origin,
            corpus_cache="unpack" if options.is_sql else options.corpus_cache,
            synthetic_documents=options.synthetic_documents,
            test_mode=options.test_mode,
            progress=self._progress,
        )

    def stock(self, documents: tuple[PreparedDocuments, ...]) -> Stock:
        """Return the track's parts for the load workers; with its own code, if it has any."""
        track = self.track
        return Stock(
            indices=track.indices,
            corpora=track.corpora,
            documents=documents,
            variables=track.variables,
            data_streams=track.data_streams,
            templates=track.templates,
            view=None if self._own_code is None else self._own_code.packed(documents),
        )


def _plain(value: Any) -> Any:
    """Return a secret as the text that a track knows nothing more about."""
    return str(value) if isinstance(value, Secret) else value
