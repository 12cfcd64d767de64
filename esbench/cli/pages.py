"""Where a command's page goes: --html FILE."""

from __future__ import annotations

from pathlib import Path

import click

from esbench.cli.output import check_file
from esbench.errors import UsageError

html_option = click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Also write a page with charts to this file."
)


def check_html_file(file: Path | None) -> None:
    """Say before a race whether its page could be written after it: UsageError when not."""
    if file is not None:
        check_file(file, "--html")


def write_page(file: Path, page: str) -> None:
    """Write a page, in place of what the file held."""
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=f"--html={file}") from error


def write_race_page(file: Path, home: Path, race: str) -> None:
    """Write the page of a race that is kept under `home`: its id, the beginning of its id, or 'last'."""
    from dataclasses import replace

    from esbench.comparison.reported import ReportedSides
    from esbench.locks import status_now
    from esbench.report.html.race import race_page
    from esbench.report.html.races import races_page
    from esbench.series_files import read_seconds, read_telemetry
    from esbench.sessions import SessionStore
    from esbench.store import RaceStore

    store = RaceStore(home)
    folder, record = store.folder(race), store.load(race)
    record = replace(record, status=status_now(home, record.race_id, record.status))
    write_page(file, race_page(record, read_seconds(folder.seconds_file), read_telemetry(folder.telemetry_file)))
