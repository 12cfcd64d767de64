"""The common part of `esbench race --rounds` and `esbench duel`: begin or resume a session, and print its result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from esbench.cli.command import CANCELLED
from esbench.cli.compare import check_comparison_files, check_files_without_verdicts, compare, compare_stored
from esbench.cli.dry_run import DryRun
from esbench.cli.fail_on import raise_failures
from esbench.cli.output import print_document, write_report
from esbench.cli.publishing import check_publishing, followers, followers_of_sides, publish
from esbench.comparison.comparability import checked_keys
from esbench.comparison.model import Comparison
from esbench.comparison.nodes import FEWEST_ON_ONE_NODE, FEWEST_ROUNDS
from esbench.errors import RaceError, UsageError
from esbench.events.listeners import Listener
from esbench.events.progress import Progress
from esbench.features.duel.dry_run import DryRunAtOnce, DryRunInTurns, foretold, others_s
from esbench.features.duel.duel_round import SidePace
from esbench.features.duel.own_indices import check_at_once, has_prefixes, on_own_indices
from esbench.features.duel.planned_side import ForetellsPilots, PlannedSide
from esbench.features.duel.planner import DuelPlanner, Terms, forecast_of, luck_of
from esbench.features.duel.recorded_parts import paced_in_parts, parts_text
from esbench.features.duel.rounds_at_once import DuelAtOnce
from esbench.features.duel.search_options import probing
from esbench.features.duel.session import (
    Duel,
    Race,
    begins_cold,
    makes_indices_anew,
    may_write,
    planned,
    shares_a_node,
    with_rounds,
)
from esbench.features.duel.side_options import about, hidden, side_options, with_secrets, words_given
from esbench.features.duel.slices import shaped
from esbench.model import OBJECTIVES
from esbench.progress.task_progress import FollowingProgress, Quiet
from esbench.race.hook import Hooks, Pace, SideHook
from esbench.race.node_engine import Engine
from esbench.race.options import RaceOptions
from esbench.race.race import RacePlan, look, plan, run
from esbench.record.figures import failed_checks, judged_objectives, wholly_failed
from esbench.record.home import esbench_home
from esbench.record.host import esbench_facts
from esbench.record.locks import SessionLock
from esbench.record.model import RaceRecord
from esbench.record.sessions import LEAST_ON_FRESH_NODES_S, Pacing, RaceSession, SessionSide, SessionStore
from esbench.record.store import RaceStore
from esbench.report.rounds import rounds as rounds_document
from esbench.units import parse_ratio

if TYPE_CHECKING:
    from esbench.features.capacity.probe_steps import ProbeSteps

MIN_EFFECT, MOST_SESSIONS = 0.10, 100
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


def race_rounds(context: click.Context, progress: FollowingProgress | Quiet) -> int:
    """Race as `esbench race --rounds` says, and return the exit code. UsageError for options of a single race."""
    flags = context.params
    for name, why in (("race_id", "names one race"), ("keep_node", "is for one race")):
        if flags[name]:
            raise UsageError(f"--{name.replace('_', '-')} {why}: leave it out with --rounds")
    return SessionCommand(flags, progress).begin("rounds", words_given(context), {"race": ()}, flags["rounds"])


class SessionCommand:
    """A session that is run from the command line. `progress` is not started yet.

    `flags`: the arguments of `esbench race` or `esbench duel` by name. Options of a metrics store and of listeners are
    checked at once: UsageError for wrong ones, ClusterError if the store does not answer.
    """

    def __init__(self, flags: Mapping[str, Any], progress: FollowingProgress | Quiet) -> None:
        check_publishing(flags)
        self._flags = flags
        self._progress = progress
        self._sessions = SessionStore(esbench_home())
        self._races = RaceStore(esbench_home())
        self._all_stored = True
        self._search: tuple[str, ...] = ()
        self._planner: DuelPlanner | None = None

    def begin(
        self,
        kind: str,
        words: Sequence[str],
        sides: Mapping[str, Sequence[str]],
        rounds: int | None,
        pacing: Pacing | None = None,
        search: tuple[str, ...] = (),
    ) -> int:
        """Race a new session, print its result, and return the exit code.

        `kind`: rounds or duel. `words`: the options of all sides; `sides`: name -> its further options; each a word as
        of `side_options`. `rounds`: the races of each side; None: as many as the spread of the first ones asks for.
        `pacing`: the sides are raced at once. `search`: the races search for a capacity; the options of that search as
        words. Raises EsbenchError for wrong options, before the first race.
        """
        self._check_result(len(sides))
        self._search = search
        options, plans = _options(words, sides), dict[str, RacePlan]()
        if pacing is not None:
            options, plans = self._at_once(options, pacing)
            has_fresh_nodes = not has_prefixes(options.values()) and not any(side.hosts for side in options.values())
            if has_fresh_nodes and not search:
                pacing = replace(pacing, least_s=LEAST_ON_FRESH_NODES_S)
        budget_s = self._flags.get("budget_s")
        is_planned = pacing is not None and budget_s is not None and not search and not self._flags["test_mode"]
        planned_rounds = rounds or (_fewest(options) if is_planned else FEWEST_ROUNDS)
        if pacing is not None:
            challenge = next(iter(plans.values())).raced.challenge
            pacing = paced_in_parts(challenge, pacing, len(sides), planned_rounds, budget_s)
        session = planned(
            kind,
            tuple(SessionSide(name, hidden(own)) for name, own in sides.items()),
            planned_rounds,
            seed=next(iter(options.values())).seed,
            words=hidden(words),
            restart_node=self._flags["restart_node"],
            before_round=self._flags["before_round"],
            discard_first=pacing is None and begins_cold(options.values()),
            pacing=pacing,
            budget_s=budget_s,
            auto=rounds is None and is_planned,
            search=search,
            effect_ratio=self._effect_ratio() if is_planned else None,
        )
        self._planner = self._planner_of(session, options, plans) if is_planned else None
        unplanned = self._why_unplanned(session) if kind == "duel" else ""
        if self._flags["dry_run"]:
            search_steps = self._search_of(next(iter(options.values())), self._progress)
            if pacing is None:
                dry_run: DryRun = DryRunInTurns(options, self._progress, search_steps, session, unplanned)
            else:
                terms = self._planner.terms if self._planner is not None else None
                dry_run = DryRunAtOnce(options, self._progress, search_steps, session, pacing, terms, unplanned)
            return dry_run.tell(self._flags)
        if unplanned:
            self._progress.say(f"plan: {unplanned}")
        self._foretell(plans, pacing)
        with SessionLock(esbench_home(), session.id):
            raced = self._run(session, options)
        return self._tell(raced)

    def resume(self, name: str, words: Sequence[str], sides: Sequence[Sequence[str]], rounds: int | None) -> int:
        """Resume a session, print its result, and return the exit code.

        `name`: its id, the beginning of an id, or `last`. `words` and `sides` (in the session's order) are given again
        for the secrets in them. `rounds`: more rounds than planned; None: as planned. Raises UsageError if they do not
        fit the session.
        """
        session_id = self._sessions.resolve(name)
        with SessionLock(esbench_home(), session_id):  # before it is read: where it stands is known to one at a time
            raced = self._go_on(self._sessions.load(session_id), words, sides, rounds)
        return self._tell(raced)

    def _go_on(
        self, session: RaceSession, words: Sequence[str], sides: Sequence[Sequence[str]], rounds: int | None
    ) -> RaceSession | None:
        self._check_result(len(session.sides))
        if session.damage:
            self._progress.warn(session.damage)
        self._search = session.search
        where = f"--resume={session.id}"
        self._check_command(session, where)
        self._check_pacing(session, where)
        if rounds is not None:
            session = with_rounds(session, rounds)
        if session.left:
            self._check_races(session, where)
            self._warn_of_another_esbench(session)
        again = list(sides) + [()] * (len(session.sides) - len(sides))
        if len(again) > len(session.sides):
            raise UsageError(f"the session has {len(session.sides)} sides", where=where)
        options = _options(
            with_secrets(session.words, words, where),
            {
                side.name: with_secrets(side.words, given, f"{where}: --{side.name}")
                for side, given in zip(session.sides, again, strict=True)
            },
        )
        if session.pacing is not None and (session.left or session.auto):
            options, plans = self._at_once(options, session.pacing)
            if session.effect_ratio is not None and session.budget_s is not None:
                self._planner = self._planner_of(session, options, plans)
        return self._run(session, options)

    def _why_unplanned(self, session: RaceSession) -> str:
        """Return why a duel has no plan; "" if it has one, or if its rounds were asked for."""
        if session.search:
            return "none, as each race searches on its own for as long as that takes"
        if self._flags["test_mode"]:
            return "none, as --test-mode only shows that the duel can be raced"
        return "none, as the pilots of a plan race all sides at once" if session.pacing is None else ""

    def _effect_ratio(self) -> float:
        asked = self._flags["min_effect"]
        return MIN_EFFECT if asked is None else parse_ratio(asked, "--min-effect")

    def _planner_of(
        self, session: RaceSession, sides: Mapping[str, RaceOptions], plans: Mapping[str, RacePlan]
    ) -> DuelPlanner:
        """Return what plans a session, by the luck that this home has seen."""
        assert session.pacing is not None and session.budget_s is not None and session.effect_ratio is not None
        is_fresh = session.pacing.least_s == LEAST_ON_FRESH_NODES_S
        earlier, _ = self._sessions.newest(MOST_SESSIONS)
        terms = Terms(
            len(sides),
            session.effect_ratio,
            session.budget_s,
            _fewest(sides),
            None if session.auto else session.rounds,
            luck_of(earlier, is_fresh=is_fresh),
            is_fresh,
            replace(session.pacing, tasks=(), settled=()),
        )
        challenge = next(iter(plans.values())).raced.challenge
        return DuelPlanner(terms, challenge, self._progress, self._compared)

    def _foretell(self, plans: Mapping[str, RacePlan], pacing: Pacing | None) -> None:
        """Say what a session should settle; ask whether to begin, on a terminal, if that is nothing."""
        if pacing is None:
            return
        challenge = shaped(next(iter(plans.values())).raced.challenge, pacing, len(plans))
        if text := parts_text(challenge):
            self._progress.say(f"the log: {text}")
        if self._planner is None:
            return
        terms = self._planner.terms
        forecast = forecast_of(challenge, terms, others_s(challenge, pacing, terms.sides))
        self._progress.say(f"plan: {foretold(forecast, challenge, terms)}")
        if forecast.settled:
            return
        for remedy in forecast.remedies():
            self._progress.warn(f"nothing is expected to be settled; {remedy}")
        if not self._flags["yes"] and sys.stdin.isatty() and sys.stderr.isatty():
            click.confirm("Race it anyway?", abort=True, err=True)

    def _check_pacing(self, session: RaceSession, where: str) -> None:
        """Raise a UsageError for options that the session did not begin with: its rounds would differ."""
        pacing = session.pacing
        if self._flags["turns"] and pacing is not None:
            raise UsageError("the session races its sides at once, and --turns does not", where=where)
        began = {option: getattr(pacing, name, None) for name, option in _PACING.items()}
        given = {option: self._flags[name] for name, option in _PACING.items()}
        began["--budget"], given["--budget"] = session.budget_s, self._flags["budget_s"]
        for option, value in given.items():
            if value is not None and value is not False and value != began[option]:
                raise UsageError(
                    f"{option} cannot be changed when a session is resumed", where=where, hint="leave it out"
                )

    def _at_once(
        self, sides: Mapping[str, RaceOptions], pacing: Pacing
    ) -> tuple[dict[str, RaceOptions], dict[str, RacePlan]]:
        """Return the options with which the sides can be raced at once, and what a race of each would do; an
        EsbenchError if they cannot be."""
        plans = {}
        for name, options in sides.items():
            with about(f"--{name}"):
                steps = self._search_of(options, self._progress)
                plans[name] = plan(options, self._progress, steps)
        apart = on_own_indices(sides, plans, own_nodes=pacing.own_nodes)
        check_at_once(apart, plans, pacing)
        return apart, plans

    def _check_result(self, sides: int) -> None:
        """Raise a UsageError, before the first race, if the result could not be printed or written."""
        outputs = [self._flags[name] for name in ("form", "report_file", "report_format", "html")]
        if sides == 1:
            self._check_of_one_side()
            check_files_without_verdicts(_ONE_SIDE, *outputs)
        elif self._flags["dry_run"]:
            check_files_without_verdicts("a dry run has no verdicts", *outputs)
        else:
            check_comparison_files(*outputs)

    def _check_of_one_side(self) -> None:
        """Raise a UsageError for options of a comparison that a session of one side cannot have."""
        context = click.get_current_context()
        of_comparisons = set(_OF_COMPARISONS) - ({"fail_on"} if set(self._flags["fail_on"]) <= {OBJECTIVES} else set())
        for param in context.command.params:
            if param.name in of_comparisons and context.get_parameter_source(param.name) is _GIVEN:
                raise UsageError(_ONE_SIDE, where=param.opts[0])

    def _check_command(self, session: RaceSession, where: str) -> None:
        """Raise a UsageError unless the command of a session's file, which others may have written, is given again."""
        kept, given = session.before_round, self._flags["before_round"]
        hint = "" if kept is None else f"--before-round={shlex.quote(kept)}"
        if given not in (None, kept):
            raise UsageError("--before-round cannot be changed when a session is resumed", where=where, hint=hint)
        if kept and given is None and session.left:
            what = "the session runs a command before each round or race, which is not run unless you give it again"
            raise UsageError(what, where=where, hint=hint)

    def _check_races(self, session: RaceSession, where: str) -> None:
        """Raise a UsageError if complete races of a session no longer exist: it could not be compared at its end."""
        races = [race_id for side in session.sides for race_id in session.complete(side.name)]
        if gone := [race_id for race_id in races if not self._races.has(race_id)]:
            what = f"{', '.join(gone)} is not there any more"
            raise UsageError(
                what, where=where, hint="begin a new session; esbench compare a,b,c d,e,f takes the races that are left"
            )

    def _first(self, session: RaceSession, side: str) -> RaceRecord | None:
        """Return the record of a side's first complete race, or None."""
        ids = session.complete(side)
        return self._races.load(ids[0]) if ids else None

    def _warn_of_another_esbench(self, session: RaceSession) -> None:
        """Warn if the session began with another version: its races are compared only if allowed."""
        raced = next(filter(None, (self._first(session, side.name) for side in session.sides)), None)
        ours = esbench_facts()
        if raced is not None and raced.esbench != ours:
            began, now = (" ".join(facts.values()) for facts in (raced.esbench, ours))
            self._progress.warn(
                f"the session began with esbench {began}, and this is {now}: comparing needs --allow=esbench"
            )

    def _check_track(self, session: RaceSession, side: str, digest: str) -> None:
        """Raise a UsageError if the track has changed since the side's first race, unless that is allowed.

        A session of one side only gets a warning.
        """
        raced = self._first(session, side)
        if (
            raced is None
            or raced.track.digest == digest
            or "track digest" in checked_keys(self._flags.get("allow", ()))
        ):
            return
        what = f"the track has changed since race {raced.race_id}"
        if len(session.sides) > 1:
            raise UsageError(what, hint="--allow=track-digest continues anyway")
        self._progress.warn(f"{what}: the next rounds will use the new one")

    def _look(self, session: RaceSession, sides: Mapping[str, RaceOptions]) -> None:
        """Check all sides before the first race: raise or warn of everything that can be known to be wrong."""
        shared = shares_a_node(sides.values(), restart_node=session.restart_node)
        if session.pacing is not None:
            shared &= has_prefixes(sides.values())
        for name, options in sides.items():
            with about(f"--{name}" if len(sides) > 1 else ""):
                raced = look(options, self._progress, self._search_of(options, self._progress))
                self._check_track(session, name, raced.track.digest)
                raced_before = len(session.races) > 1 and (options.hosts or shared)
                if not raced_before or session.before_round:
                    continue
                is_anew = makes_indices_anew(raced.challenge)
                if not is_anew and may_write(raced.challenge):
                    self._progress.warn(
                        f'challenge "{raced.challenge.name}" has no create-index: a race begins with what others left'
                    )

    def _run(self, session: RaceSession, sides: Mapping[str, RaceOptions]) -> RaceSession | None:
        """Run the session; return it when all races are complete; None if it was cancelled."""
        with self._progress:
            if session.left or session.auto:
                self._look(session, sides)
            self._sessions.save(session)
            self._progress.say(f"session {session.id}")
            runner = Duel(self._sessions, sides, self._race, self._progress)
            if session.pacing is not None:
                runner = DuelAtOnce(
                    self._sessions,
                    sides,
                    self._race,
                    self._progress,
                    races_of_round=self._races_of_round,
                    planned=self._planner.after if self._planner is not None else lambda session: session,
                )
            try:
                return runner.run(session)
            except KeyboardInterrupt:
                self._progress.insist(f"esbench: cancelled; esbench duel --resume {session.id} resumes it")
                return None

    def _race(self, options: RaceOptions, node: Engine | None, pace: Pace | None) -> RaceRecord:
        with followers(self._flags, self._progress) as others:
            return self._followed(self._progress, others, options, node, pace)

    @contextmanager
    def _races_of_round(self, sides: Sequence[str]) -> Iterator[Race]:
        """Context manager for a round: yields the function that races a side, called in its own thread."""
        progress = dict(zip(sides, self._progress.of_sides(sides), strict=True))
        with followers_of_sides(self._flags, self._progress, progress) as others:

            def race(options: RaceOptions, node: Engine | None, pace: Pace | None) -> RaceRecord:
                side = options.session.side if options.session else ""
                return self._followed(progress[side], others[side], options, node, pace)

            yield race

    def _followed(
        self,
        progress: FollowingProgress | Quiet,
        others: Sequence[Listener],
        options: RaceOptions,
        node: Engine | None,
        pace: Pace | None,
    ) -> RaceRecord:
        """Run a race that `progress` and others follow, and store its record if that is asked for."""
        side, search = self._side(options, node, pace), self._search_of(options, progress, pace)
        shown = ForetellsPilots([progress]) if isinstance(side, PlannedSide) and side.has_pilots else progress
        record = run(options, progress, [shown, *others], side if search is None else Hooks([search, side]))
        if not publish(self._flags, options.home, record.race_id, progress):
            self._all_stored = False
        return record

    def _side(self, options: RaceOptions, node: Engine | None, pace: Pace | None) -> SideHook:
        """Return the hook of a race: of one of several sides at once, with pilots in the first round of a plan."""
        if not isinstance(pace, SidePace):
            return SideHook(pace or Pace(), node)
        is_first = options.session is not None and options.session.round == 1
        return PlannedSide(pace, node, self._planner if is_first else None)

    def _search_of(self, options: RaceOptions, progress: Progress, pace: Pace | None = None) -> ProbeSteps | None:
        """Return the steps of a race that searches for a capacity; None of another one."""
        return probing(self._search, options, progress, pace) if self._search else None

    def _compared(self, session: RaceSession) -> Comparison:
        """Save a session, and compare the rounds that it has."""
        self._sessions.save(session)
        allow, min_effect = self._flags["allow"], self._flags["min_effect"]
        return compare_stored(esbench_home(), session.id, allow=allow, min_effect=min_effect)

    def _tell(self, session: RaceSession | None) -> int:
        """Print the result; return its exit code, or 1 if a race could not be stored."""
        if session is None:
            return CANCELLED
        told = self._tell_rounds(session) if len(session.sides) == 1 else self._compare(session)
        return told or (0 if self._all_stored else 1)

    def _compare(self, session: RaceSession) -> int:
        """Print what `esbench compare SESSION` prints, with those of its options that were given."""
        own = {"baseline": session.id, "contenders": ()}
        flags = {param.name: self._flags[param.name] for param in compare.params if param.name in self._flags}
        self._progress.say(f"esbench compare {session.id} shows this again")
        return click.get_current_context().invoke(compare, **{**flags, **own}) or 0

    def _tell_rounds(self, session: RaceSession) -> int:
        records = [self._races.load(str(race.race_id)) for race in session.plan]
        document = rounds_document(session.id, records)
        if self._flags["html"]:
            write_report(self._flags["html"], esbench_home(), [session.id])
        print_document(document, self._flags["form"], self._flags["report_file"], self._flags["report_format"])
        if tasks := next(filter(None, map(wholly_failed, records)), ""):
            raise RaceError(f"every request failed: {tasks}")
        raise_failures((condition, *judged_objectives(records)) for condition in self._flags["fail_on"])
        if self._flags.get("strict") and (failed := [text for record in records if (text := failed_checks(record))]):
            raise RaceError(f"checks failed in {len(failed)} rounds: {failed[0]}", where="--strict")
        return 0


def _fewest(sides: Mapping[str, RaceOptions]) -> int:
    """Return the rounds that a verdict takes."""
    return FEWEST_ON_ONE_NODE if has_prefixes(sides.values()) else FEWEST_ROUNDS


def _options(words: Sequence[str], sides: Mapping[str, Sequence[str]]) -> dict[str, RaceOptions]:
    """Return the RaceOptions of each side; errors name the side's option."""
    return {name: side_options(words, own, f"--{name}" if len(sides) > 1 else "") for name, own in sides.items()}
