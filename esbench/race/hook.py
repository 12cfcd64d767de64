"""Hooks: what decides on a race while it runs. HOOKS are those that a race has by what its track or options ask for.

A search for a capacity chooses each step by what it has seen; a side of a duel waits for the other sides; read tasks
are asked again between steps. A lone race has the default, the steps of its challenge in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from esbench.events.listeners import Listener, Listeners
from esbench.load.coordinator import at_once
from esbench.measure.schedule import rates
from esbench.measure.slices import WholeTime
from esbench.race.interrupts import Interrupts, InterruptsByOthers
from esbench.tables import load
from esbench.units import PERCENT

if TYPE_CHECKING:
    from esbench.events.progress import Progress
    from esbench.load.coordinator import Coordinator
    from esbench.load.messages import Stock, Target
    from esbench.model import Challenge, Step, Track
    from esbench.race.cluster import RaceTarget
    from esbench.race.node_engine import Engine
    from esbench.race.options import RaceOptions
    from esbench.race.track import RacedTrack
    from esbench.record.model import TaskResult
    from esbench.record.store import RaceFolder

T = TypeVar("T")

_OF_VECTORS = {"data", "data_set_path"}  # parameters of operations that search or send vectors


@dataclass(frozen=True)
class HookRow:
    """A hook at a place ("module:attribute"), a function of options, and whether it decides on a race of these options,
    this track and these tasks. It is imported for such a race alone."""

    place: str
    decides: Callable[[RaceOptions, Track, Challenge], bool]


def _has_percent(options: RaceOptions, _: Track, challenge: Challenge) -> bool:
    units = (rate.unit for task in challenge.tasks for rate in rates(task.schedule))
    return options.capacity is not None or PERCENT in units


def _reads(*_: Any) -> bool:
    return True


def _replays(options: RaceOptions, track: Track, challenge: Challenge) -> bool:
    is_round_of_log = options.session is not None and any(each.schedule.recorded for each in challenge.tasks)
    return is_round_of_log or "replay" in track.meta


def _searches_vectors(_: RaceOptions, __: Track, challenge: Challenge) -> bool:
    return any(_OF_VECTORS & task.operation.params.keys() for task in challenge.tasks)


# In the order in which they are given the tasks: rates are known before anything is made of them.
HOOKS = (
    HookRow("esbench.features.capacity.percent_rates:PercentRates", _has_percent),
    HookRow("esbench.race.answers:ReadTasks", _reads),
    HookRow("esbench.features.replay.rounds:ReplayedRounds", _replays),
    HookRow("esbench.features.vectors.tasks:VectorTasks", _searches_vectors),
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


class RaceHooks(Hooks):
    """The hook of a race, and those of HOOKS that decide on it, which are made when its tasks are known."""

    def __init__(self, hook: Hook, options: RaceOptions) -> None:
        super().__init__((hook,))
        self._given, self._options = hook, options

    def tasks(self, challenge: Challenge, raced: RacedTrack) -> Challenge:
        """Return the challenge as all of them let it be raced. UsageError if the feature of one is not installed."""
        hooks = [self._given]
        challenge = self._given.tasks(challenge, raced)
        for row in HOOKS:
            if row.decides(self._options, raced.track, challenge):
                hooks.append(load(row.place)(self._options))
                challenge = hooks[-1].tasks(challenge, raced)
        # Anew, not added to: the tasks of a race are asked again where the default node lacks what they need.
        self._hooks = tuple(hooks)
        self._listeners = self._hooks
        return challenge
