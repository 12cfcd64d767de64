"""The hook of races that search vectors; in other races it imports nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esbench.model import Challenge
from esbench.race.hook import Hook
from esbench.race.options import RaceOptions

if TYPE_CHECKING:
    from esbench.race.track import RacedTrack

_OF_VECTORS = {"data", "data_set_path"}  # parameters of operations that search or send vectors


class VectorFiles(Hook):
    """The hook that makes the files of vectors, queries and exact neighbours before a race begins."""

    def __init__(self, options: RaceOptions) -> None:
        self._options = options
        self._warnings: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._warnings

    def tasks(self, challenge: Challenge, raced: RacedTrack) -> Challenge:
        """Return the challenge with the files of its vectors. TrackError or CorpusError if they cannot be made."""
        if not any(_OF_VECTORS & task.operation.params.keys() for task in challenge.tasks):
            return challenge
        from esbench.features.vectors.tasks import VectorTasks

        made = VectorTasks(self._options)
        challenge = made.tasks(challenge, raced)
        self._warnings = tuple(dict.fromkeys(made.warnings))
        return challenge
