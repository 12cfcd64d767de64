"""What is to be known of several races of the same thing, told once: a check that failed in many of them is one notice.

Pure: the notices of records in, fewer notices out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from esbench.record.figures import TEST_MODE, Notice, notices
from esbench.record.model import RaceRecord


@dataclass(frozen=True)
class Repeated:
    """A notice of several races, in the words of the worst of them; `times`: in how many of the `races` it is."""

    notice: Notice
    times: int
    races: int

    def counted(self, race: str) -> Notice:
        """The notice, with how many races it is about where there are several; `race` is what one of them is called."""
        if self.times == self.races:
            return self.notice
        return replace(self.notice, text=f"{self.notice.text} (in {self.times} of {self.races} {race}s)")


def repeated(records: Sequence[RaceRecord]) -> dict[str, Repeated]:
    """The notices of races by what they are about, test mode and unusable figures before all else."""
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
    """Where a notice stands among others: what may not be lost comes first."""
    if notice == TEST_MODE:
        return 0
    return 1 if notice.unusable else 2
