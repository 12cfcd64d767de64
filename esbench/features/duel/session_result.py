"""The result of a session, printed and written as its options say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from esbench.cli.command import CANCELLED
from esbench.cli.compare import compare
from esbench.cli.fail_on import raise_failures
from esbench.cli.output import print_document, write_report
from esbench.errors import RaceError
from esbench.events.progress import Progress
from esbench.record.figures import failed_checks, judged_objectives, wholly_failed
from esbench.record.home import esbench_home
from esbench.record.sessions import RaceSession
from esbench.record.store import RaceStore
from esbench.report.rounds import rounds as rounds_document


@dataclass(frozen=True)
class SessionResult:
    """The result of sessions whose races are in a store; `flags` are the arguments of the command."""

    flags: Mapping[str, Any]
    progress: Progress
    races: RaceStore

    def tell(self, session: RaceSession | None, *, all_stored: bool) -> int:
        """Print the result; return its exit code, or 1 if a race could not be stored."""
        if session is None:
            return CANCELLED
        told = self._tell_rounds(session) if len(session.sides) == 1 else self._compare(session)
        return told or (0 if all_stored else 1)

    def _compare(self, session: RaceSession) -> int:
        """Print what `esbench compare SESSION` prints, with those of its options that were given."""
        own = {"baseline": session.id, "contenders": ()}
        flags = {param.name: self.flags[param.name] for param in compare.params if param.name in self.flags}
        self.progress.say(f"esbench compare {session.id} shows this again")
        return click.get_current_context().invoke(compare, **{**flags, **own}) or 0

    def _tell_rounds(self, session: RaceSession) -> int:
        records = [self.races.load(str(race.race_id)) for race in session.plan]
        document = rounds_document(session.id, records)
        if self.flags["html"]:
            write_report(self.flags["html"], esbench_home(), [session.id])
        print_document(document, self.flags["form"], self.flags["report_file"], self.flags["report_format"])
        if tasks := next(filter(None, map(wholly_failed, records)), ""):
            raise RaceError(f"every request failed: {tasks}")
        raise_failures((condition, *judged_objectives(records)) for condition in self.flags["fail_on"])
        if self.flags.get("strict") and (failed := [text for record in records if (text := failed_checks(record))]):
            raise RaceError(f"checks failed in {len(failed)} rounds: {failed[0]}", where="--strict")
        return 0
