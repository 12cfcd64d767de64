"""Code of a track, as a race sees it: the feature `python` imports it, and runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from esbench.corpus.prepared import PreparedDocuments
from esbench.load.messages import PackedView
from esbench.model import Challenge, Corpus, Track
from esbench.operations import OperationTypes
from esbench.track.python_part import PythonPart


class OwnCode(Protocol):
    """The code of a track for a race of one challenge."""

    def validate(self) -> None:
        """Call the challenge's validator, if there is one; raises TrackError with the faults it returns or raises."""

    def prepare(
        self,
        track: Track,
        data_root: Path,
        documents: Callable[[Corpus], tuple[PreparedDocuments, ...]],
        say: Callable[[str], None] = ...,
    ) -> tuple[Track, tuple[Corpus, ...]]:
        """Run what prepares the track; return it with the corpora that were made, and these corpora."""

    def corpora_of_sources(self, challenge: Challenge) -> set[str]:
        """Return the names of the corpora that a challenge's parameter sources read."""

    def requests_of_sources(self, challenge: Challenge) -> list[Mapping[str, Any]]:
        """Return requests that a challenge's parameter sources make."""

    def packed(self, documents: Sequence[PreparedDocuments]) -> PackedView:
        """Return the track as load workers import it."""


class LoadedCode(Protocol):
    """The imported code of a track; `types` of operations are with those of its runners."""

    @property
    def types(self) -> OperationTypes: ...

    @property
    def part(self) -> PythonPart | None:
        """The objects that the code has registered; None of code that could not be imported, a gathered fault."""

    def processed(self, track: Track, challenge: str) -> tuple[Track, OwnCode | None]:
        """Return the track after its own code, for a race of `challenge`, and that code; None without a part."""

    def imported_again(self, track: Track) -> LoadedCode:
        """Return the code as it is when it is imported once more: its processors saw no other challenge."""
