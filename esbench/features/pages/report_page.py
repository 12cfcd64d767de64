"""The page of races that a user names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from esbench.comparison.resolve import SideResolver
from esbench.events.progress import print_to_stderr
from esbench.features.pages.race import race_page
from esbench.features.pages.races import races_page
from esbench.features.pages.timeline import CHARTED
from esbench.record.locks import status_now
from esbench.record.model import RaceRecord
from esbench.record.series import SecondLine, Series, seconds_of, telemetry_of
from esbench.record.sessions import SessionStore
from esbench.record.store import RaceStore


def report_page(home: Path, texts: Sequence[str]) -> str:
    """Return a page of one race or of all named races stored under `home`; `texts` name races as a user types them.

    A session in `texts` stands for all of its sides. Raises UsageError for a text that names no race, and for a race
    that is named twice.
    """
    store = RaceStore(home, print_to_stderr)

    def series_of(record: RaceRecord) -> tuple[Iterable[SecondLine], Sequence[Series]]:
        folder = store.folder(record.race_id)
        return seconds_of(record, folder.seconds_file), telemetry_of(record, folder.telemetry_file, CHARTED)

    def as_it_is_now(record: RaceRecord) -> RaceRecord:
        return replace(record, status=status_now(home, record.race_id, record.status))

    resolver = SideResolver(store, SessionStore(home))
    sides = [replace(side, records=tuple(map(as_it_is_now, side.records))) for side in resolver.reported(texts)]
    notices = tuple(resolver.unfinished(sides, "not shown"))
    races = [record for side in sides for record in side.records]
    if len(races) == 1 and not notices:
        return race_page(races[0], *series_of(races[0]))
    return races_page(sides, series_of, notices)
