"""`--dry-run` of a session: its rounds, and how its sides would be raced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from esbench.cli.dry_run import DryRun, least_step_s, race_facts, race_s
from esbench.features.duel.planner import Terms, forecast_of
from esbench.features.duel.recorded_parts import parts_text
from esbench.features.duel.slices import may_be_planned, shaped, slicing
from esbench.units import format_duration

if TYPE_CHECKING:
    from esbench.events.progress import Progress
    from esbench.features.duel.forecast import Forecast
    from esbench.model import Challenge, Step
    from esbench.race.hook import Hook
    from esbench.race.options import RaceOptions
    from esbench.race.track import RacedTrack
    from esbench.record.sessions import Pacing, RaceSession


class DryRunInTurns(DryRun):
    """The dry run of a session whose races follow one another."""

    def __init__(
        self,
        sides: Mapping[str, RaceOptions],
        progress: Progress,
        search: Hook | None,
        session: RaceSession,
        unplanned: str = "",
    ) -> None:
        super().__init__(sides, progress, search)
        self._session, self._unplanned = session, unplanned

    def facts(self) -> Iterable[tuple[str, str]]:
        yield "Rounds", _rounds(self._session, sum(race_s(made.raced) for made in self.plans.values()))
        if self._unplanned:
            yield "Plan", self._unplanned


class DryRunAtOnce(DryRun):
    """The dry run of a session whose sides are raced at once. `terms` of its plan; else `unplanned` says why not."""

    def __init__(
        self,
        sides: Mapping[str, RaceOptions],
        progress: Progress,
        search: Hook | None,
        session: RaceSession,
        pacing: Pacing,
        terms: Terms | None = None,
        unplanned: str = "",
    ) -> None:
        super().__init__(sides, progress, search)
        self._session = session
        self._pacing = pacing
        self._terms, self._unplanned = terms, unplanned
        for made in self.plans.values():
            made.raced.challenge = shaped(made.raced.challenge, pacing, len(sides))
        steps = [step for made in self.plans.values() for step in made.raced.challenge.steps]
        has_pilots = terms is not None and any(map(may_be_planned, steps))
        self.length = "Length a side, before the pilot" if has_pilots else "Length a side"

    def facts(self) -> Iterator[tuple[str, str]]:
        raced, pacing = [made.raced for made in self.plans.values()], self._pacing
        yield "At once", f"{len(raced)} sides{_slices(raced[0], pacing)}"
        if text := parts_text(raced[0].challenge):
            yield "Log", text
        if self._terms is not None:
            yield from self._plan(self._terms, raced[0].challenge)
            return
        of_sides = [[_at_once_s(step, pacing) for step in side.challenge.steps] for side in raced]
        round_s = sum(len(raced) * max(of_step) for of_step in zip(*of_sides, strict=True))
        yield "Rounds", _rounds(self._session, round_s)
        if self._unplanned:
            yield "Plan", self._unplanned

    def _plan(self, terms: Terms, challenge: Challenge) -> Iterator[tuple[str, str]]:
        """Yield the plan as far as it is known, and what would settle the rest."""
        forecast = forecast_of(challenge, terms, others_s(challenge, self._pacing, terms.sides))
        yield "Plan", foretold(forecast, challenge, terms)
        if remedies := "; ".join(forecast.remedies()):
            yield "For the rest", remedies

    def facts_of(self, side: str) -> Iterator[tuple[str, str]]:
        return race_facts(self.sides[side], self.plans[side])


def foretold(forecast: Forecast, challenge: Challenge, terms: Terms) -> str:
    """Return the plan before a session begins, and on what it rests."""
    refined = "; round 1 refines it" if any(map(may_be_planned, challenge.steps)) else ""
    return f"{forecast.text}, if rounds differ by {100 * terms.luck:.2g} %{refined}"


def _rounds(session: RaceSession, round_s: float) -> str:
    """Say how many rounds and discarded races there are, and their time; `round_s`: that of a round at least."""
    discarded = len(session.discarded)  # one of each side, or none
    before = f", after {discarded} discarded race{'' if discarded == 1 else 's'}" if discarded else ""
    each = f" of {format_duration(round_s)}" if round_s else ""
    took = f": {format_duration((session.rounds + bool(discarded)) * round_s)}" if round_s else ""
    others = f"starting nodes{', searches' if session.search else ''} and tasks without a time"
    within = f", within {format_duration(session.budget_s)}" if session.budget_s else ""
    least = "at least " if session.auto else ""
    return f"{least}{session.rounds}{each}{before}{took}, and what {others} take{within}"


def _slices(raced: RacedTrack, pacing: Pacing) -> str:
    """Say how long slices and gaps are: those of most tasks, then the others with their tasks."""
    tasks: dict[tuple[str, str], list[str]] = {}
    for step in raced.challenge.steps:
        if slices := slicing(step, pacing):
            times = format_duration(slices.length_s), format_duration(slices.gap_s)
            tasks.setdefault(times, []).extend(task.name for task in step.tasks)
    if not tasks:
        return ""
    (length, gap), *others = sorted(tasks, key=lambda times: -len(tasks[times]))
    apart = (f"; {', '.join(tasks[times])}: {times[0]}, {times[1]}" for times in others)
    return f" in slices of {length}, gaps of {gap}{''.join(apart)}"


def others_s(challenge: Challenge, pacing: Pacing, sides: int) -> float:
    """Return the seconds that the steps of a round take at least which no pilot plans, all sides together."""
    return sides * sum(_at_once_s(step, pacing) for step in challenge.steps if not may_be_planned(step))


def _at_once_s(step: Step, pacing: Pacing) -> float:
    """Return the seconds that a step takes at least of a side that is raced at once, with the gaps of its slices."""
    least_s, slices = least_step_s(step), slicing(step, pacing)
    return least_s if slices is None else least_s * sum(slices) / slices.length_s
