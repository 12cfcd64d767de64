"""Output of a command's page: --html FILE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from esbench.cli.output import check_file, write_text

if TYPE_CHECKING:
    from esbench.record.model import RaceRecord
    from esbench.record.series import SecondLine, Series

html_option = click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Also write a page with charts to this file."
)


def check_html_file(file: Path | None) -> None:
    """Raise a UsageError if the page could not be written; call it before a race."""
    if file is not None:
        check_file(file, "--html")


def write_report(file: Path, home: Path, texts: Sequence[str]) -> None:
    """Write a page of one race or of all named races stored under `home`; `texts` name races as a user types them."""
    from dataclasses import replace

    from esbench.comparison.resolve import ReportedSides
    from esbench.record.locks import status_now
    from esbench.record.series import read_seconds, read_telemetry
    from esbench.record.sessions import SessionStore
    from esbench.record.store import RaceStore
    from esbench.report.html.race import race_page
    from esbench.report.html.races import races_page

    store = RaceStore(home)

    def series_of(record: RaceRecord) -> tuple[Iterable[SecondLine], Sequence[Series]]:
        folder = store.folder(record.race_id)
        return read_seconds(folder.seconds_file), read_telemetry(folder.telemetry_file)

    def as_it_is_now(record: RaceRecord) -> RaceRecord:
        return replace(record, status=status_now(home, record.race_id, record.status))

    reported = ReportedSides(store, SessionStore(home))
    sides = [replace(side, records=tuple(map(as_it_is_now, side.records))) for side in reported.sides(texts)]
    notices = tuple(reported.unfinished(sides))
    races = [record for side in sides for record in side.records]
    if len(races) == 1 and not notices:
        write_text(file, race_page(races[0], *series_of(races[0])), "--html")
    else:
        write_text(file, races_page(sides, series_of, notices), "--html")
