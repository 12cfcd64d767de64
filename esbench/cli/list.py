"""`esbench list`: races, sessions, tracks, distributions, kept nodes, telemetry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from esbench.cli.command import EsbenchCommand, LazyCommand, LazyGroup, UserPath
from esbench.cli.option import option
from esbench.cli.output import format_option, print_document
from esbench.cli.track_flags import repository_flags, track_repository_of
from esbench.errors import UsageError
from esbench.record.home import esbench_home
from esbench.record.locks import STATUSES

_DOCS = "docs/reference/command-line.md"


LISTS = {
    "distributions": LazyCommand(
        "esbench.features.node.list_commands:distributions",
        "List servers that esbench can start, and what each can do.",
    ),
    "nodes": LazyCommand("esbench.features.node.list_commands:nodes", "List the nodes that --keep-node left running."),
    "races": LazyCommand("esbench.cli.list:races", "List the races that were run, the newest first."),
    "sessions": LazyCommand("esbench.cli.list:sessions", "List sessions (race --rounds, duel), the newest first."),
    "telemetry": LazyCommand("esbench.cli.list:telemetry", "List what --telemetry can record, with its parameters."),
    "tracks": LazyCommand("esbench.cli.list:tracks", "List esbench's own tracks, or those of a folder of tracks."),
}


@click.group("list", cls=LazyGroup, lazy=LISTS, examples=("esbench list races", "esbench list tracks"), docs=_DOCS)
def list_() -> None:
    """List races, sessions, tracks, distributions, kept nodes or telemetry devices."""


@click.command(
    "races",
    cls=EsbenchCommand,
    examples=("esbench list races --limit=30", "esbench list races --track=orders --tag=branch:main"),
    docs=_DOCS,
)
@option("--limit", type=click.IntRange(min=1), default=10, help="How many at most.")
@option("--all", "every", is_flag=True, help="All races, whatever --limit says.")
@option("--track", metavar="NAME", help="Only races of this track.")
@option("--challenge", metavar="NAME", help="Only races of this challenge.")
@option("--status", type=click.Choice(STATUSES), help="Only races with this status.")
@option("--tag", "tags", multiple=True, metavar="NAME:VALUE", help="Only races with this user tag.")
@format_option
def races(
    limit: int,
    every: bool,
    track: str | None,
    challenge: str | None,
    status: str | None,
    tags: tuple[str, ...],
    form: str,
) -> None:
    """List the races that were run, the newest first."""
    from esbench.record.locks import status_now
    from esbench.record.store import RaceStore
    from esbench.report.lists import race_list

    home = esbench_home()
    wanted = [_name_and_value(tag) for tag in tags]
    entries, damaged = RaceStore(home).entries(track=track, challenge=challenge)
    entries = [entry for entry in entries if all(entry.user_tags.get(name) == value for name, value in wanted)]
    entries = [replace(entry, status=status_now(home, entry.race_id, entry.status)) for entry in entries]
    entries = [entry for entry in entries if status in (None, entry.status)]
    shown = entries if every else entries[:limit]
    print_document(race_list(shown, damaged), form)
    if not entries:
        which = " like that" if track or challenge or status or tags else ""
        click.echo(f"esbench: there are no races{which} in {home / 'races'}", err=True)
    elif len(shown) < len(entries):
        click.echo(f"{len(shown)} of {len(entries)} races; --all shows the others, too", err=True)


def _name_and_value(tag: str) -> tuple[str, str]:
    name, colon, value = tag.partition(":")
    if not name or not colon:
        raise UsageError(f'"{tag}" is not NAME:VALUE', where="--tag", hint="as given to --user-tags")
    return name, value


@click.command(
    "sessions",
    cls=EsbenchCommand,
    examples=("esbench list sessions", "esbench list sessions --limit=30 --format=json"),
    docs=_DOCS,
)
@option("--limit", type=click.IntRange(min=1), default=10, help="How many at most.")
@format_option
def sessions(limit: int, form: str) -> None:
    """List sessions (race --rounds, duel), the newest first."""
    from esbench.record.locks import session_is_running
    from esbench.record.sessions import SessionStore
    from esbench.report.lists import session_list

    home = esbench_home()
    store = SessionStore(home)
    found, damaged = store.newest(limit)
    running = {session.id for session in found if session_is_running(home, session.id)}
    print_document(session_list(found, running, damaged), form)
    if not store.ids():
        click.echo(f"esbench: there are no sessions in {store.folder}", err=True)


@click.command(
    "tracks",
    cls=EsbenchCommand,
    examples=("esbench list tracks", "esbench list tracks --track-path=rally-tracks"),
    docs=_DOCS,
)
@repository_flags
@option("--track-path", type=UserPath(), help="List the tracks of this folder.")
@format_option
def tracks(track_path: Path | None, form: str, **flags: Any) -> None:
    """List esbench's own tracks, or those of a folder of tracks."""
    from esbench.record.figures import Notice
    from esbench.report.table_model import Column, ReportDocument, Table
    from esbench.track.library import list_tracks

    columns = (
        Column("Track", "track"),
        Column("Description", "description"),
        Column("Challenges", "challenges"),
    )
    repository = track_repository_of(flags)
    found = list_tracks(repository.folder if repository else track_path)
    rows = tuple((track.name, track.description, track.challenges) for track in found.tracks)
    notices = tuple(Notice(str(problem).replace("\n", " ")) for problem in found.problems)
    print_document(ReportDocument(Table(columns, rows), notices=notices), form)


@click.command(
    "telemetry",
    cls=EsbenchCommand,
    examples=("esbench list telemetry", "esbench list telemetry --format=markdown"),
    docs=_DOCS,
)
@format_option
def telemetry(form: str) -> None:
    """List what --telemetry can record, with its parameters."""
    from esbench.report.table_model import Column, ReportDocument, Table
    from esbench.telemetry import builtin_devices

    columns = (
        Column("Device", "device"),
        Column("On", "on"),
        Column("What it records", "description"),
        Column("Parameters", "parameters", below=True),
    )
    registry = builtin_devices()
    kinds = [registry.get(name) for name in registry]
    rows = tuple(
        (
            kind.name,
            "always" if kind.always else "when chosen",
            f"{kind.help} (embedded nodes)" if kind.embedded_only else kind.help,
            [f"{param.name} ({param.default_text})" for param in kind.params],
        )
        for kind in kinds
    )
    print_document(ReportDocument(Table(columns, rows)), form)
