"""Notices of several races, merged: a check that failed in many of them becomes one notice.

Pure: the notices of records in, fewer notices out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from esbench.record.figures import TEST_MODE, Notice, single_notices, together
from esbench.record.model import RaceRecord


@dataclass(frozen=True)
class Repeated:
    """A notice of several races, in the text of the worst of them; of `races` (their number) those named in `ids` have
    it."""

    notice: Notice
    ids: frozenset[str]
    races: int

    def counted(self, race: str) -> Notice:
        """Return the notice, with "(in 3 of 6 races)" appended unless all races have it.

        `race`: the noun, race or round.
        """
        if len(self.ids) == self.races:
            return self.notice
        return replace(self.notice, text=f"{self.notice.text} (in {len(self.ids)} of {self.races} {race}s)")


def repeated(records: Sequence[RaceRecord]) -> dict[tuple[str, str], Repeated]:
    """Return the notices of races, merged, by subject (a notice's `about`, or its text if that is empty) and task.

    Of a subject, a race counts once.
    """
    found: dict[tuple[str, str], list[tuple[str, Notice]]] = {}
    for record in records:
        for notice in single_notices(record):
            found.setdefault((notice.about or notice.text, notice.task), []).append((record.race_id, notice))
    return {
        about: Repeated(
            max((notice for _, notice in said), key=attrgetter("severity")),
            frozenset(race_id for race_id, _ in said),
            len(records),
        )
        for about, said in found.items()
    }


def merged(found: Iterable[Repeated]) -> list[Repeated]:
    """Return notices with those about the same in several tasks as one. Test mode and unusable figures come first."""
    groups: dict[str, list[Repeated]] = {}
    for each in found:
        groups.setdefault(each.notice.about or each.notice.text, []).append(each)
    several = [
        Repeated(
            together([each.notice for each in group]),
            frozenset().union(*(each.ids for each in group)),
            max(each.races for each in group),
        )
        for group in groups.values()
    ]
    return sorted(several, key=lambda each: place(each.notice))


def place(notice: Notice) -> int:
    """Return the rank of a notice among others: 0 for test mode, 1 for unusable figures, 2 for the rest."""
    if notice == TEST_MODE:
        return 0
    return 1 if notice.unusable else 2
