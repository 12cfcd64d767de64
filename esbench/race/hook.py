"""Hooks: what decides on a race while it runs. Features that decide on every race, if asked to, stand in HOOKS.

A search for a capacity chooses each step by what it has seen; a side of a duel waits for the other sides; read tasks
are asked again between steps. A lone race has the default, the steps of its challenge in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from esbench.events.listeners import Listener, Listeners
from esbench.load.coordinator import at_once
from esbench.measure.slices import WholeTime
from esbench.race.interrupts import Interrupts, InterruptsByOthers
from esbench.record.parts import attribute_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from esbench.events.progress import Progress
    from esbench.load.coordinator import Coordinator
    from esbench.load.messages import Stock, Target
    from esbench.model import Challenge, Step
    from esbench.race.cluster import RaceTarget
    from esbench.race.node_engine import Engine
    from esbench.race.options import RaceOptions
    from esbench.race.track import RacedTrack
    from esbench.record.model import TaskResult
    from esbench.record.store import RaceFolder

T = TypeVar("T")

PERCENT_RATES = "esbench.features.capacity.percent_rates:PercentRates"
HOOKS = (
    PERCENT_RATES,
    "esbench.race.answers:ReadTasks",
    "esbench.features.replay.rounds:ReplayedRounds",
    "esbench.features.vectors.hook:VectorFiles",
)


class Pace:
    """The pace of a lone race. That of a side of a round (features.duel) waits for the other sides."""

    def join(self, race_id: str) -> InterruptsByOthers:
        """Take part as the race of this id; return what interrupts it."""
        return Interrupts()

    @property
    def siblings(self) -> frozenset[str]:
        """The ids of the other races of the round."""
        return frozenset()

    def shaped(self, challenge: Challenge) -> Challenge:
        """Return the challenge with the lengths that its tasks have at this pace."""
        return challenge

    def turn(self) -> AbstractContextManager[None]:
        """Context manager: let the block run while no other side does anything, each side after the other."""
        return nullcontext()

    def exchange(self, brought: T) -> tuple[int, Sequence[T]]:
        """Wait until each side has brought something; return the number of this side, and what each has brought."""
        return 0, (brought,)

    def watch(self, pids: Mapping[str, int]) -> None:
        """Watch the CPU time of the side's nodes, process ids by name, from the next step on."""

    def step(self, step: Step) -> AbstractContextManager[None]:
        """Context manager: prepare and run a step in the block; one without load in turn."""
        return nullcontext()

    def begin(self, delay_ns: int) -> WholeTime:
        """Return the time in which the step that is ready runs, when all sides are ready, from `delay_ns` on."""
        return at_once(delay_ns)

    def end(self, results: tuple[TaskResult, ...]) -> tuple[TaskResult, ...]:
        """Wait until the step has ended on all sides; return its results with what was seen from outside."""
        return results


@dataclass(frozen=True)
class PreparedRace:
    """The parts of a race that are there before its first step."""

    options: RaceOptions
    cluster: RaceTarget
    target: Target
    stock: Stock
    coordinator: Coordinator
    folder: RaceFolder
    progress: Progress


class Hook(Listener):
    """A hook of one race: it follows the race, and each step may depend on those before.

    `pace` says when steps begin, beside other races; `node` is a started one, which is raced instead of one that the
    race starts, and runs on afterwards. `warnings` are about what `tasks` has left out.
    """

    pace: Pace = Pace()
    node: Engine | None = None
    warnings: tuple[str, ...] = ()

    def tasks(self, challenge: Challenge, raced: RacedTrack) -> Challenge:
        """Return the challenge of a track with the tasks that the race may run, as it runs them. EsbenchError if it
        lacks one that must be."""
        return challenge

    def steps(self, steps: Iterator[Step], race: PreparedRace) -> Iterator[Step]:
        """Yield each step when those before it have ended, by default all of `steps`."""
        return steps

    def enough(self) -> bool:
        """True if the running step need not go on."""
        return False

    def parts(self) -> Mapping[str, Any]:
        """Return what is kept in the record, by the keys of its parts (record.parts), as it is so far."""
        return {}

    def planned(self) -> Iterable[tuple[str, str]]:
        """Return what a dry run says of it, names and texts, once `tasks` was called; "Takes" is time beside tasks."""
        return ()


class SideHook(Hook):
    """The hook of one of several sides: its pace, and the node that all of them share, if they do."""

    def __init__(self, pace: Pace, node: Engine | None = None) -> None:
        self.pace, self.node = pace, node


class Hooks(Listeners, Hook):
    """Several hooks as one: the tasks and the steps of each are what the next one is given."""

    def __init__(self, hooks: Sequence[Hook]) -> None:
        super().__init__(hooks)
        self._hooks = tuple(hooks)
        self.pace = next((each.pace for each in hooks if each.pace is not Hook.pace), Hook.pace)
        self.node = next((each.node for each in hooks if each.node is not None), None)

    @property
    def warnings(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(warning for each in self._hooks for warning in each.warnings)

    def tasks(self, challenge: Challenge, raced: RacedTrack) -> Challenge:
        for each in self._hooks:
            challenge = each.tasks(challenge, raced)
        return challenge

    def steps(self, steps: Iterator[Step], race: PreparedRace) -> Iterator[Step]:
        for each in self._hooks:
            steps = each.steps(steps, race)
        return steps

    def enough(self) -> bool:
        return any(each.enough() for each in self._hooks)

    def parts(self) -> Mapping[str, Any]:
        return {key: part for each in self._hooks for key, part in each.parts().items()}

    def planned(self) -> Iterator[tuple[str, str]]:
        for each in self._hooks:
            yield from each.planned()


def with_hooks_of_features(hook: Hook, options: RaceOptions) -> Hooks:
    """Return the hook of a race with those of the features that decide on every race, if asked to."""
    made: list[Callable[[RaceOptions], Hook] | None] = [attribute_at(place) for place in HOOKS]
    return Hooks((hook, *(make(options) for make in made if make is not None)))
