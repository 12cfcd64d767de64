"""The options that were asked of a session, and whether they fit it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from esbench.cli.compare import check_comparison_files, check_files_without_verdicts
from esbench.errors import UsageError
from esbench.model import OBJECTIVES
from esbench.record.sessions import RaceSession
from esbench.units import parse_ratio

MIN_EFFECT = 0.10
_OF_COMPARISONS = ("allow", "min_effect", "max_error_rise", "min_recall_effect", "recalls", "fail_on", "every_figure")
_ONE_SIDE = "there is nothing to compare: the session has one side"
_GIVEN = ParameterSource.COMMANDLINE
_PACING = {
    "slice_s": "--slice",
    "gap_s": "--slice-gap",
    "task_time_s": "--task-time",
    "warmup": "--warmup",
    "own_nodes": "--own-nodes",
}


@dataclass(frozen=True)
class AskedOptions:
    """The arguments of `esbench race` or `esbench duel` by name."""

    flags: Mapping[str, Any]

    @property
    def effect_ratio(self) -> float:
        """The change that a plan is to settle."""
        asked = self.flags["min_effect"]
        return MIN_EFFECT if asked is None else parse_ratio(asked, "--min-effect")

    @property
    def budget_s(self) -> float | None:
        """The time of the session; None: any."""
        budget_s: float | None = self.flags.get("budget_s")
        return budget_s

    @property
    def may_plan(self) -> bool:
        """True if sides that are raced at once can be raced by a plan."""
        return self.budget_s is not None and not self.flags["test_mode"]

    def why_unplanned(self, session: RaceSession) -> str:
        """Return why a duel has no plan; "" if it has one, or if its rounds were asked for."""
        if session.search:
            return "none, as each race searches on its own for as long as that takes"
        if self.flags["test_mode"]:
            return "none, as --test-mode only shows that the duel can be raced"
        return "none, as the pilots of a plan race all sides at once" if session.pacing is None else ""

    def check_result(self, sides: int) -> None:
        """Raise a UsageError, before the first race, if the result could not be printed or written."""
        outputs = [self.flags[name] for name in ("form", "report_file", "report_format", "html")]
        if sides == 1:
            self._check_of_one_side()
            check_files_without_verdicts(_ONE_SIDE, *outputs)
        elif self.flags["dry_run"]:
            check_files_without_verdicts("a dry run has no verdicts", *outputs)
        else:
            check_comparison_files(*outputs)

    def check_resumed(self, session: RaceSession, where: str) -> None:
        """Raise a UsageError for options with which a session cannot go on."""
        self._check_command(session, where)
        self._check_pacing(session, where)

    def _check_of_one_side(self) -> None:
        """Raise a UsageError for options of a comparison that a session of one side cannot have."""
        context = click.get_current_context()
        of_comparisons = set(_OF_COMPARISONS) - ({"fail_on"} if set(self.flags["fail_on"]) <= {OBJECTIVES} else set())
        for param in context.command.params:
            if param.name in of_comparisons and context.get_parameter_source(param.name) is _GIVEN:
                raise UsageError(_ONE_SIDE, where=param.opts[0])

    def _check_command(self, session: RaceSession, where: str) -> None:
        """Raise a UsageError unless the command of a session's file, which others may have written, is given again."""
        kept, given = session.before_round, self.flags["before_round"]
        hint = "" if kept is None else f"--before-round={shlex.quote(kept)}"
        if given not in (None, kept):
            raise UsageError("--before-round cannot be changed when a session is resumed", where=where, hint=hint)
        if kept and given is None and session.left:
            what = "the session runs a command before each round or race, which is not run unless you give it again"
            raise UsageError(what, where=where, hint=hint)

    def _check_pacing(self, session: RaceSession, where: str) -> None:
        """Raise a UsageError for options that the session did not begin with: its rounds would differ."""
        pacing = session.pacing
        if self.flags["turns"] and pacing is not None:
            raise UsageError("the session races its sides at once, and --turns does not", where=where)
        began = {option: getattr(pacing, name, None) for name, option in _PACING.items()}
        given = {option: self.flags[name] for name, option in _PACING.items()}
        began["--budget"], given["--budget"] = session.budget_s, self.flags["budget_s"]
        for option, value in given.items():
            if value is not None and value is not False and value != began[option]:
                raise UsageError(
                    f"{option} cannot be changed when a session is resumed", where=where, hint="leave it out"
                )
