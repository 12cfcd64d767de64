"""The needs of sides that are raced at once: indices that no other side has, memory, the same steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import combinations

from esbench.errors import UsageError
from esbench.features.duel.session import shares_a_node
from esbench.features.duel.slices import slicing
from esbench.race.host_limits import check_memory_at_once
from esbench.race.node_memory import host_memory
from esbench.race.options import RaceOptions
from esbench.race.race import RacePlan
from esbench.record.index_prefix import INDEX_PREFIX
from esbench.record.sessions import Pacing
from esbench.track.rendering import takes_parameter

_TURNS = "--turns races one side after the other"


def on_own_indices(
    sides: Mapping[str, RaceOptions], plans: Mapping[str, RacePlan], *, own_nodes: bool = False
) -> dict[str, RaceOptions]:
    """Return the options of the sides, with prefixes of their indices where they are raced on one cluster.

    `plans`: what a race of each side would do. Sides whose node is the same one share it if their track can prefix its
    indices, but not with `own_nodes`. UsageError for sides on one cluster of the user's if their track cannot, and for
    prefixes of the user's.
    """
    together = _on_one_cluster(sides, plans)
    if not together and (own_nodes or not shares_a_node(sides.values(), restart_node=False)):
        return dict(sides)
    lacking = [name for name, plan in plans.items() if not takes_parameter(plan.raced.track.path, INDEX_PREFIX)]
    if lacking and not together:
        return dict(sides)  # each has nodes of its own
    if lacking:
        track = plans[lacking[0]].raced.track.name
        why = f'track "{track}" has no parameter {INDEX_PREFIX} to keep their indices apart'
        what = f"is raced on the same cluster as {together[0]}, and {why}"
        raise UsageError(what, where=f"--{together[1]}", hint=_TURNS)
    if own := [name for name, options in sides.items() if INDEX_PREFIX in options.track_params]:
        what = f"track parameter {INDEX_PREFIX} is set by esbench where sides share a cluster"
        raise UsageError(what, where=f"--{own[0]}", hint=f"leave it out; {_TURNS}")
    return with_prefixes(sides)


def with_prefixes(sides: Mapping[str, RaceOptions]) -> dict[str, RaceOptions]:
    """Return the options of the sides, each with a prefix of its indices; all prefixes have the same length."""
    width = len(str(len(sides)))
    prefixes = {name: f"side{number:0{width}}-" for number, name in enumerate(sides, 1)}
    return {
        name: replace(
            options,
            track_params={**options.track_params, INDEX_PREFIX: prefixes[name]},
            other_prefixes=tuple(prefix for other, prefix in prefixes.items() if other != name),
        )
        for name, options in sides.items()
    }


def has_prefixes(sides: Collection[RaceOptions]) -> bool:
    """True if the sides are kept apart by prefixes of their indices."""
    return all(options.other_prefixes for options in sides)


def check_at_once(
    sides: Mapping[str, RaceOptions],
    plans: Mapping[str, RacePlan],
    pacing: Pacing,
    memory: Callable[[], tuple[int, int]] = host_memory,
) -> None:
    """Raise an error if sides cannot be raced at once.

    UsageError if their steps differ, RaceError if the memory does not hold all nodes. `memory` returns this host's
    bytes of memory, and those that are available.
    """
    raced = {name: plans[name].raced for name in sides}
    names = {name: [[task.name for task in step.tasks] for step in of.challenge.steps] for name, of in raced.items()}
    slices = {name: [slicing(step, pacing) for step in of.challenge.steps] for name, of in raced.items()}
    first, *others = names
    for name in others:
        if names[name] != names[first]:
            mine, theirs = ({task for step in names[side] for task in step} for side in (name, first))
            differing = ", ".join(sorted(mine ^ theirs)) or "their order"
            raise UsageError(f"its steps are not those of {first}: {differing}", where=f"--{name}", hint=_TURNS)
        if other_types := [
            ", ".join(tasks)
            for tasks, mine, theirs in zip(names[name], slices[name], slices[first], strict=True)
            if mine != theirs
        ]:
            what = f"the operation types of {', '.join(other_types)} have other slices than in {first}"
            raise UsageError(what, where=f"--{name}", hint=_TURNS)
    counted = {task.name for of in raced.values() for task in of.challenge.tasks if task.warmup_iterations}
    if pacing.warmup == "track" and counted:
        what = f"the warmup of {', '.join(sorted(counted))} is a number of requests, and tasks are raced for a time"
        raise UsageError(what, where="--warmup=track", hint="leave it out: the comparison cuts the warmup")
    nodes = [options.node for options in sides.values() if not options.hosts]
    if nodes:
        check_memory_at_once(nodes[:1] if has_prefixes(sides.values()) else nodes, *memory())


def _on_one_cluster(sides: Mapping[str, RaceOptions], plans: Mapping[str, RacePlan]) -> tuple[str, ...]:
    """Return the names of two sides that are raced on one cluster of the user's; none if each has another."""
    for one, other in combinations([name for name, options in sides.items() if options.hosts], 2):
        ids = {plans[name].info.uuid for name in (one, other)}
        if set(sides[one].hosts) & set(sides[other].hosts) or (len(ids) == 1 and "" not in ids):
            return one, other
    return ()
