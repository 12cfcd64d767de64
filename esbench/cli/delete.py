"""`esbench delete`: races and sessions that are not needed any more."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from esbench.cli.command import EsbenchCommand
from esbench.cli.completion import RaceNames
from esbench.cli.option import option
from esbench.cli.output import print_document
from esbench.errors import UsageError
from esbench.events.progress import print_to_stderr
from esbench.record.home import esbench_home
from esbench.record.locks import UNSUCCESSFUL, RaceLock, SessionLock, is_running, session_is_running, status_now
from esbench.record.sessions import SessionStore, session_named
from esbench.record.store import RaceEntry, RaceStore, size_bytes
from esbench.report.lists import RaceToDelete, deletion_list
from esbench.units import format_bytes, parse_duration

_CHOSEN_BY = "--failed and --before"
_WHEN = "say 2026-11-01, or 30d"


@click.command(
    cls=EsbenchCommand,
    examples=("esbench delete 20261121t1015", "esbench delete --failed --before=30d"),
    docs="docs/reference/command-line.md",
)
@click.argument("names", metavar="[RACE|SESSION]...", nargs=-1, type=RaceNames())
@option("--failed", is_flag=True, help="All races that failed, died or were cancelled.")
@option(
    "--before",
    metavar="DATE",
    help="All races that began before this day (UTC): 2026-11-01; or longer ago: 30d.",
)
@option("--yes", is_flag=True, help="Delete without asking.")
def delete(names: tuple[str, ...], failed: bool, before: str | None, yes: bool) -> None:
    """Delete races, or sessions with their races.

    RACE is an id, the beginning of an id, or 'last'.
    """
    chosen_by_filter = failed or before is not None
    if bool(names) == chosen_by_filter:
        hint = f"esbench delete RACE, or {_CHOSEN_BY}"
        raise UsageError(f"{_CHOSEN_BY} choose by themselves" if names else "which races?", hint=hint)
    files = _Files(esbench_home())
    chosen = files.named(names) if names else files.fitting(failed, None if before is None else _moment(before))
    if not chosen.races and not chosen.sessions:
        click.echo(f"esbench: there are no races like that in {files.races.races_folder}", err=True)
        return
    said = f"{chosen.text} ({format_bytes(sum(race.size_bytes for race in chosen.races))})"
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"this deletes {said}, and there is no terminal to ask on", hint="add --yes")
    print_document(deletion_list(chosen.races, [*chosen.left_out, *files.consequences(chosen)]), "text")
    if not yes:
        click.confirm(f"Delete {said}?", abort=True, err=True)
    files.delete(chosen)
    click.echo(f"deleted {said}")


@dataclass(frozen=True)
class _Chosen:
    """The races and sessions to delete; `left_out` says why others are not among them."""

    races: Sequence[RaceToDelete]
    sessions: Sequence[str]
    left_out: Sequence[str] = ()

    @property
    def text(self) -> str:
        """The races and sessions in words: `3 races and session 20261121t101530-4f2a`."""
        races = f"{len(self.races)} race{'s' * (len(self.races) != 1)}"
        if not self.sessions:
            return races
        named = f"session {self.sessions[0]}" if len(self.sessions) == 1 else f"{len(self.sessions)} sessions"
        return f"{races} and {named}"


class _Files:
    """The races and sessions of an esbench home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.races, self._sessions = RaceStore(home, print_to_stderr), SessionStore(home)
        entries, damaged = self.races.entries()
        self._entries = {entry.race_id: entry for entry in entries}
        self._ids = [*self._entries, *(race.race_id for race in damaged)]
        self._session_ids = self._sessions.ids()
        readable, _ = self._sessions.newest(len(self._session_ids))
        self._plans = {session.id: session for session in readable}

    def named(self, names: Sequence[str]) -> _Chosen:
        """Return the races and sessions that texts name, a session with its races.

        Raises UsageError for a text that names none, and for what is running.
        """
        races: dict[str, None] = {}
        sessions: dict[str, None] = {}
        for name in names:
            if (session := session_named(name, self.races, self._sessions)) is None:
                races[self.races.resolve(name)] = None
                continue
            sessions[session] = None
            races |= dict.fromkeys(self._of_session(session))
        for session in sessions:
            self._refuse_running_session(session)
        for race_id in races:
            if is_running(self._home, race_id):
                raise UsageError(f"race {race_id} is running", hint="end it first")
            if (session := self._session_of(race_id)) is not None:
                self._refuse_running_session(session)
        return _Chosen(self._to_delete(races), tuple(sessions))

    def fitting(self, failed: bool, before: str | None) -> _Chosen:
        """Return the races that have failed, or began before a moment, or both; and sessions all of whose races did so.

        Races that cannot be read are left out, and so are those that are running.
        """
        races: list[str] = []
        running: list[str] = []
        for entry in self._entries.values():
            if before is not None and entry.started_at >= before:
                continue
            if failed and status_now(self._home, entry.race_id, entry.status) not in UNSUCCESSFUL:
                continue
            session = self._session_of(entry.race_id)
            is_busy = is_running(self._home, entry.race_id) or bool(session and session_is_running(self._home, session))
            (running if is_busy else races).append(entry.race_id)
        sessions = [
            plan.id
            for plan in self._plans.values()
            if before is not None and not failed and plan.created_at < before
            if not session_is_running(self._home, plan.id) and set(self._of_session(plan.id)) <= {*races}
        ]
        left_out = [f"left out, since they or their sessions are running: {', '.join(running)}"] if running else []
        return _Chosen(self._to_delete(races), sessions, left_out)

    def consequences(self, chosen: _Chosen) -> Iterator[str]:
        """Yield a sentence for each session that stays, and can do less without the chosen races."""
        ids = {race.race_id for race in chosen.races}
        for session in self._plans.values():
            counted = {race_id for side in session.sides for race_id in session.complete(side.name)}
            if session.id in chosen.sessions or not (gone := sorted(counted & ids)):
                continue
            use = "resumed" if session.left else "compared as a whole"
            yield f"session {session.id} cannot be {use} without {', '.join(gone)}"

    def delete(self, chosen: _Chosen) -> None:
        """Delete the races one after the other, then the sessions, so that one that is interrupted can be repeated."""
        for race in chosen.races:
            with RaceLock(self._home, race.race_id):
                self.races.delete(race.race_id)
        for session in chosen.sessions:
            with SessionLock(self._home, session):
                self._sessions.delete(session)

    def _of_session(self, session: str) -> list[str]:
        """Return the races of a session, those of repeated attempts included."""
        planned = {race.race_id for race in self._plans[session].races} if session in self._plans else set()
        return [race_id for race_id in self._ids if race_id in planned or self._session_of(race_id) == session]

    def _session_of(self, race_id: str) -> str | None:
        """Return the session of a race, if there is such a session: a record of a stranger may name any."""
        entry = self._entries.get(race_id)
        named = entry.session.id if entry is not None and entry.session is not None else None
        return named if named in self._session_ids else None

    def _refuse_running_session(self, session: str) -> None:
        if session_is_running(self._home, session):
            raise UsageError(f"session {session} is running", hint="end it first")

    def _to_delete(self, races: Collection[str]) -> list[RaceToDelete]:
        return [self._race_to_delete(race_id, self._entries.get(race_id)) for race_id in races]

    def _race_to_delete(self, race_id: str, entry: RaceEntry | None) -> RaceToDelete:
        status = status_now(self._home, race_id, entry.status) if entry else "damaged"
        return RaceToDelete(race_id, entry, status, size_bytes(self.races.races_folder / race_id))


def _moment(text: str) -> str:
    """Return the time of day (UTC) that a date, or an age with its unit, stands for, as records write it.

    Raises UsageError for anything else.
    """
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        if not text.strip()[-1:].isalpha():  # a number alone would be seconds
            raise UsageError(f'"{text}" is not a date', where="--before", hint=_WHEN) from None
        moment = datetime.now(UTC) - timedelta(seconds=parse_duration(text, "--before", _WHEN))
    return moment.isoformat(timespec="seconds").replace("+00:00", "")
