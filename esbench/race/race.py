"""The steps of a race: reach a cluster, prepare the track, run its steps, keep the record.

It reads no flag, no environment variable and no configuration file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from esbench.cluster.client import ClusterInfo
from esbench.errors import EsbenchError, RaceError
from esbench.events.listeners import Listener
from esbench.events.progress import Progress
from esbench.race.cluster import RaceTarget
from esbench.race.hook import Hook, RaceHooks
from esbench.race.options import RaceOptions
from esbench.race.preparing import check_worker_count, hide_secrets, reach
from esbench.race.running import BegunRace
from esbench.race.targets import FoundIndex, check_targets, targets_of
from esbench.race.track import RacedTrack
from esbench.record.model import RaceRecord
from esbench.record.store import RaceFolder, RaceStore


def run(
    options: RaceOptions, progress: Progress, listeners: Sequence[Listener] = (), hook: Hook | None = None
) -> RaceRecord:
    """Run a race and return its record, whose `status` is complete, cancelled or failed. `listeners` follow it.

    `hook` decides on it while it runs. Raises an EsbenchError if the race could not begin. What was measured before a
    failure or Ctrl-C is in the record.
    """
    with BegunRace(options, progress, hook or Hook()) as race:
        race.announce(listeners)
        with race.kept(), race.prepared() as running:
            for number, step in running.steps():
                running.run(number, step)
        return race.record


def look(options: RaceOptions, progress: Progress, hook: Hook | None = None) -> RacedTrack:
    """Return the track that a race with these options and hook would run.

    Nothing is started; an external cluster is asked for its version. Raises an EsbenchError for faults that can be
    found beforehand.
    """
    options = hide_secrets(options)
    with ExitStack() as stack:
        check_worker_count(options)
        cluster, raced, _ = _reached(options, progress, stack, hook)
        check_targets(targets_of(options, raced, cluster), options, ())
        return raced


@dataclass(frozen=True)
class RacePlan:
    """The effects that a race would have. `raced`: its tasks; `deleted`: names and patterns that it deletes.

    `found`: the indices of its names that are there now; `health`: the cluster's, "" for a node that would be started.
    `refusal`: why it would not begin, None if it would. `parts`: what features would keep in its record;
    `notes`: names and texts of theirs for a dry run.
    """

    raced: RacedTrack
    info: ClusterInfo
    needs_download: bool
    deleted: tuple[str, ...]
    found: tuple[FoundIndex, ...] = ()
    health: str = ""
    refusal: EsbenchError | None = None
    warnings: tuple[str, ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[tuple[str, str], ...] = ()


def plan(options: RaceOptions, progress: Progress, hook: Hook | None = None) -> RacePlan:
    """Return what a race with these options and hook would do. Nothing is started, written or deleted.

    Raises an EsbenchError for faults of the options, the track or the cluster.
    """
    options = hide_secrets(options)
    with ExitStack() as stack:
        cluster, raced, hooks = _reached(options, progress, stack, hook)
        targets, refusal = targets_of(options, raced, cluster), None
        warnings = (*check_worker_count(options), *raced.warnings)
        try:
            warnings += check_targets(targets, options, ())
        except RaceError as error:
            refusal = error
        deleted = tuple(dict.fromkeys(name for each in targets for name in each.deleted))
        found = tuple(index for each in targets for index in each.found())
        return RacePlan(
            raced,
            cluster.info,
            cluster.needs_download,
            deleted,
            found=found,
            health=cluster.health,
            refusal=refusal,
            warnings=warnings,
            parts=hooks.parts(),
            notes=tuple(hooks.planned()),
        )


def _reached(
    options: RaceOptions, progress: Progress, stack: ExitStack, hook: Hook | None
) -> tuple[RaceTarget, RacedTrack, RaceHooks]:
    """Return the cluster of a race that is only looked at, connected if it is external, the race's track and hooks."""
    folder = RaceFolder(RaceStore(options.home).races_folder / options.race_id)  # not made
    hooks = RaceHooks(hook or Hook(), options)
    return *reach(options, progress, folder, stack, hooks), hooks
