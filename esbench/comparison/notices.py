"""Notices of several races, merged: a check that failed in many of them becomes one notice.

Pure: the notices of records in, fewer notices out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from esbench.record.figures import TEST_MODE, Notice, notices
from esbench.record.model import RaceRecord


@dataclass(frozen=True)
class Repeated:
    """A notice of several races, in the text of the worst of them; `times` of the `races` have it."""

    notice: Notice
    times: int
    races: int

    def counted(self, race: str) -> Notice:
        """Return the notice, with the number of races that have it unless all have it. `race` is the word for one:
        race, round."""
        if self.times == self.races:
            return self.notice
        return replace(self.notice, text=f"{self.notice.text} (in {self.times} of {self.races} {race}s)")


def repeated(records: Sequence[RaceRecord]) -> dict[str, Repeated]:
    """Return the notices of races, merged, by subject (a notice's `about`, or its text if that is empty).

    Of a subject, a race counts once. Test mode and unusable figures come first.
    """
    found: dict[str, list[Notice]] = {}
    for record in records:
        for about, notice in {notice.about or notice.text: notice for notice in notices(record)}.items():
            found.setdefault(about, []).append(notice)
    of_all = {
        about: Repeated(max(said, key=lambda notice: (notice.unusable, notice.worse)), len(said), len(records))
        for about, said in found.items()
    }
    return dict(sorted(of_all.items(), key=lambda item: place(item[1].notice)))


def place(notice: Notice) -> int:
    """Return the rank of a notice among others: 0 for test mode, 1 for unusable figures, 2 for the rest."""
    if notice == TEST_MODE:
        return 0
    return 1 if notice.unusable else 2
