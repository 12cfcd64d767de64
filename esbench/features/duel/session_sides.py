"""The sides of a session: their options, and what can be known to be wrong with them before the first race."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from esbench.comparison.nodes import FEWEST_ON_ONE_NODE, FEWEST_ROUNDS
from esbench.events.progress import Progress
from esbench.features.duel.earlier_races import EarlierRaces
from esbench.features.duel.own_indices import check_at_once, has_prefixes, on_own_indices
from esbench.features.duel.search_options import probing
from esbench.features.duel.session import makes_indices_anew, may_write, shares_a_node
from esbench.features.duel.side_options import about, side_options
from esbench.model import Challenge
from esbench.race.hook import Pace
from esbench.race.options import RaceOptions
from esbench.race.race import RacePlan, look, plan
from esbench.record.sessions import Pacing, RaceSession

if TYPE_CHECKING:
    from esbench.features.capacity.probe_steps import ProbeSteps


@dataclass(frozen=True)
class SessionSides:
    """The options of each side by its name. `search`: the words of the search for a capacity that each race is; else
    empty. `plans`: what a race of each would do, of sides that are raced at once."""

    options: Mapping[str, RaceOptions]
    search: tuple[str, ...]
    progress: Progress
    plans: Mapping[str, RacePlan] = field(default_factory=dict)

    @classmethod
    def of_words(
        cls, words: Sequence[str], sides: Mapping[str, Sequence[str]], search: tuple[str, ...], progress: Progress
    ) -> SessionSides:
        """Return the sides with the words of all and of each; errors name the side's option."""
        several = len(sides) > 1
        options = {name: side_options(words, own, f"--{name}" if several else "") for name, own in sides.items()}
        return cls(options, search, progress)

    @property
    def first(self) -> RaceOptions:
        """The options of the first side."""
        return next(iter(self.options.values()))

    @property
    def fewest_rounds(self) -> int:
        """The rounds that a verdict takes."""
        return FEWEST_ON_ONE_NODE if has_prefixes(self.options.values()) else FEWEST_ROUNDS

    @property
    def has_fresh_nodes(self) -> bool:
        """True if each side has fresh nodes in each round, where all are raced at once."""
        return not has_prefixes(self.options.values()) and not any(side.hosts for side in self.options.values())

    @property
    def challenge(self) -> Challenge:
        """The challenge that the first side races, by its track."""
        return next(iter(self.plans.values())).raced.challenge

    def at_once(self, pacing: Pacing) -> SessionSides:
        """Return the sides as they can be raced at once; an EsbenchError if they cannot be."""
        plans = {}
        for name, options in self.options.items():
            with about(f"--{name}"):
                plans[name] = plan(options, self.progress, self.search_of(options, self.progress))
        apart = on_own_indices(self.options, plans, own_nodes=pacing.own_nodes)
        check_at_once(apart, plans, pacing)
        return replace(self, options=apart, plans=plans)

    def search_of(self, options: RaceOptions, progress: Progress, pace: Pace | None = None) -> ProbeSteps | None:
        """Return the steps of a race that searches for a capacity; None of another one."""
        return probing(self.search, options, progress, pace) if self.search else None

    def look(self, session: RaceSession, earlier: EarlierRaces) -> None:
        """Check all sides before the first race: raise or warn of everything that can be known to be wrong."""
        shared = shares_a_node(self.options.values(), restart_node=session.restart_node)
        if session.pacing is not None:
            shared &= has_prefixes(self.options.values())
        for name, options in self.options.items():
            with about(f"--{name}" if len(self.options) > 1 else ""):
                raced = look(options, self.progress, self.search_of(options, self.progress))
                earlier.check_track(name, raced.track.digest)
                raced_before = len(session.races) > 1 and (options.hosts or shared)
                if not raced_before or session.before_round:
                    continue
                is_anew = makes_indices_anew(raced.challenge)
                if not is_anew and may_write(raced.challenge):
                    self.progress.warn(
                        f'challenge "{raced.challenge.name}" has no create-index: a race begins with what others left'
                    )
