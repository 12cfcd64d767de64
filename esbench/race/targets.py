"""The indices that a race uses in its cluster: those that it deletes, and those that esbench made and may delete.

And the races that run on this host at the same time, which may use the same."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

from esbench.cluster.client import IndexIdentity
from esbench.errors import ClusterError, EsbenchError, RaceError, TrackError
from esbench.errors.short import first_of
from esbench.events.progress import Progress
from esbench.model import DEFAULT_CLUSTER, Step, Task
from esbench.operations.base import kind_of
from esbench.race.cluster import RaceTarget
from esbench.race.hook import Pace
from esbench.race.options import RaceOptions
from esbench.race.recording import RecordWriter
from esbench.race.track import RacedTrack
from esbench.record.index_prefix import index_prefix
from esbench.record.locks import Claim, end_other_races, other_races
from esbench.record.made_indices import MadeIndices
from esbench.record.store import RaceStore
from esbench.units import format_bytes

_NAMED = 3
_TIMEOUT_S = 5.0  # a cluster that hangs must not hold up a race


@dataclass(frozen=True)
class FoundIndex:
    """An index that is there before a race; `docs` and `store_bytes` are None if not known (it is closed).

    `is_deleted`: by the race; `is_ours`: an esbench made it.
    """

    name: str
    docs: int | None
    store_bytes: int | None
    is_deleted: bool
    is_ours: bool

    def __str__(self) -> str:
        docs = "unknown documents" if self.docs is None else f"{self.docs:,} document{'' if self.docs == 1 else 's'}"
        size = "" if self.store_bytes is None else f", {format_bytes(self.store_bytes)}"
        return f'"{self.name}" ({docs}{size})'


class ClusterTargets:
    """The targets of a race in one cluster: names and patterns of indices and data streams, and what is there of them.

    `names` are all that are known, `deleted` those that the tasks of the cluster `name` delete with their documents,
    except by Python of the track or raw requests.
    """

    def __init__(self, options: RaceOptions, raced: RacedTrack, cluster: RaceTarget, name: str) -> None:
        self._options = options
        self._raced = raced
        self._cluster = cluster
        self._name = name
        self._may_be_asked = bool(options.hosts) and not options.any_server  # a cluster of the user's
        self._before: frozenset[str] | None = frozenset()  # UUIDs; None: it could not be found out
        self._kept: set[str] = set()
        tasks = [task for task in raced.challenge.tasks if task.cluster == name]
        self._streams = tuple(dict.fromkeys(name for task in tasks for name in self._deleted_by(task, streams=True)))
        self._indices = tuple(dict.fromkeys(name for task in tasks for name in self._deleted_by(task, streams=False)))
        self.deleted = (*self._indices, *self._streams)
        self.names = tuple(dict.fromkeys((*raced.track.targets, *self.deleted)))

    @property
    def claim(self) -> Claim:
        """The part of its cluster that the race uses, for races beside it."""
        return Claim(self._cluster.info.uuid, tuple(map(str, self._options.hosts)), self.names)

    def check(self) -> tuple[str, ...]:
        """Return a sentence for each index that the race deletes though esbench did not make it.

        Without --replace-indices they are a RaceError, and so is an index that the first step waits for and is not
        there. Raises ClusterError if the cluster does not say which indices it has. Only a cluster of the user's is
        looked at. RaceError for a name that another side on the same node would use, too.
        """
        if self._options.other_prefixes:
            from esbench.race.names_of_others import refuse_names_of_others

            prefix = index_prefix(self._options.track_params)
            refuse_names_of_others(self._raced.track, self._raced.challenge, self.names, prefix)
        if not self._may_be_asked:
            return ()
        self._refuse_missing()
        try:
            self._before = frozenset(each.uuid for each in self._identities(self.names).values())
            deleted, made = self._to_be_deleted(), self._made.uuids()
            unknown = {name: each for name, each in deleted.items() if not (each.marked or each.uuid in made)}
            foreign = self._described(unknown, deleted)
        except ClusterError as error:
            self._before = None
            if self._options.replace_indices or not self.deleted:
                return ()
            what = f"which indices the race would delete cannot be found out: {error}"
            raise ClusterError(what, hint="--replace-indices deletes them unseen") from error
        if not foreign or self._options.replace_indices:
            return tuple(f"the race deletes {index}, which esbench did not make" for index in foreign)
        what = f"the race would delete {first_of([*map(str, foreign)], _NAMED)}, which esbench did not make"
        raise RaceError(what, where=str(self._options.hosts[0]), hint="--replace-indices deletes them anyway")

    def found(self) -> tuple[FoundIndex, ...]:
        """Return the race's indices that are there now in a cluster of the user's. ClusterError if it does not say."""
        if not self._may_be_asked:
            return ()
        deleted = self._to_be_deleted()
        return self._described({**self._identities(self.names), **deleted}, deleted)

    def _described(
        self, identities: Mapping[str, IndexIdentity], deleted: Mapping[str, IndexIdentity]
    ) -> tuple[FoundIndex, ...]:
        if not identities:
            return ()
        made, facts = self._made.uuids(), self._cluster.client.indices_facts(identities, timeout_s=_TIMEOUT_S)
        return tuple(
            FoundIndex(
                name,
                facts.get(name, {}).get("docs"),
                facts.get(name, {}).get("store_bytes"),
                name in deleted,
                each.marked or each.uuid in made,
            )
            for name, each in sorted(identities.items())
        )

    def remember(self, steps: Iterable[Step]) -> Iterator[str]:
        """Remember the indices that the race has made, if one of these steps may have; yield why that was not possible.

        Those of a node that ends with the race are not.
        """
        is_left = self._may_be_asked or self._options.keep_node
        if not is_left or self._before is None or not any(map(self._may_make, (t for s in steps for t in s.tasks))):
            return
        try:
            now = {name: each.uuid for name, each in self._identities(self.names).items()}
            made = {name: uuid for name, uuid in now.items() if uuid not in self._before | self._kept}
            self._made.add(made, self._options.race_id)
            self._kept.update(made.values())
        except EsbenchError as error:
            yield f"the indices that the race made are not remembered as esbench's: {error}"

    @property
    def _made(self) -> MadeIndices:
        return MadeIndices(self._options.home, self._cluster.info.uuid)  # a node has it when it has started

    def _deleted_by(self, task: Task, *, streams: bool) -> tuple[str, ...]:
        if task.operation.python:
            return ()
        kind = kind_of(task.operation)
        try:
            deleted = kind.deleted_by(task.operation.params, self._raced.track)
        except TrackError:
            return ()  # raised again where the task is prepared
        return deleted if (kind.traits.deletes == "data-stream") is streams else ()

    def _may_make(self, task: Task) -> bool:
        traits = kind_of(task.operation).traits
        return bool(task.operation.python or traits.creates or traits.sends_corpora)

    def _identities(self, names: Iterable[str]) -> dict[str, IndexIdentity]:
        return self._cluster.client.identities(names, timeout_s=_TIMEOUT_S)

    def _to_be_deleted(self) -> dict[str, IndexIdentity]:
        """Return the indices that the race deletes; those of data streams are deleted with these only."""
        indices = self._identities(self._indices)
        own = {name: each for name, each in indices.items() if not name.startswith(".ds-")}
        return {**own, **self._identities(self._streams)}

    def _refuse_missing(self) -> None:
        """Raise a RaceError for an index that the first step waits for: no earlier one could have made it."""
        for step in self._raced.challenge.steps[:1]:
            for task in (task for task in step.tasks if task.cluster == self._name):
                index = task.operation.params.get("index")
                waits = not task.operation.python and kind_of(task.operation).traits.waits_for_status
                if not waits or len(step.tasks) > 1 or not isinstance(index, str) or set(index) & set("*,_"):
                    continue
                if not self._identities([index]):
                    what = f'there is no index "{index}" on {self._options.hosts[0]}'
                    raise RaceError(what, where=f'task "{task.name}"', hint="race the tasks that make it, too")


def targets_of(options: RaceOptions, raced: RacedTrack, cluster: RaceTarget) -> tuple[ClusterTargets, ...]:
    """Return the targets of a race in each of its clusters."""
    of_clusters = {DEFAULT_CLUSTER: options, **{name: options.of_other(name) for name in options.others}}
    return tuple(ClusterTargets(own, raced, cluster.clusters[name], name) for name, own in of_clusters.items())


def check_targets(
    targets: Sequence[ClusterTargets], options: RaceOptions, siblings: Collection[str]
) -> tuple[str, ...]:
    """Return sentences about what the race deletes. EsbenchError if it must not, or another race uses its indices."""
    own = {options.race_id, *siblings}
    for race in () if options.kill_running_processes else other_races(options.home, own):
        pairs = product((each.claim for each in targets), race.claims)
        if shared := [name for ours, theirs in pairs for name in ours.shared_with(theirs)]:
            what = f"race {race.race_id} (pid {race.pid}) uses {', '.join(shared)} of the same cluster now"
            raise RaceError(what, hint="wait until it has ended, or end it with --kill-running-processes")
    return tuple(sentence for each in targets for sentence in each.check())


def warn_about_other_races(options: RaceOptions, siblings: Collection[str], progress: Progress) -> Iterator[str]:
    """End the other races if that is asked for, else yield a sentence about them."""
    if options.kill_running_processes:
        for race in end_other_races(options.home, {options.race_id, *siblings}):
            progress.say(f"ended race {race.race_id} (pid {race.pid})")
        return
    races = other_races(options.home, {options.race_id, *siblings})
    if len(races) == 1:
        (race,) = races
        yield (
            f"race {race.race_id} (pid {race.pid}) runs on this host: both will disturb each other "
            "(--kill-running-processes ends it)"
        )
    elif races:
        named = ", ".join(f"race {race.race_id} (pid {race.pid})" for race in races)
        yield (
            f"{len(races)} races run on this host, and will disturb this one: {named} "
            "(--kill-running-processes ends them)"
        )


@contextmanager
def warn_about_concurrent_races(options: RaceOptions, pace: Pace, recording: RecordWriter) -> Iterator[None]:
    """At the end, put into the record which races ran beside this one, however it ends."""
    began_s = time.time()
    try:
        yield
    finally:
        recording.warn(*_beside(options, {options.race_id, *pace.siblings}, recording, began_s))


def _beside(options: RaceOptions, own: Collection[str], recording: RecordWriter, began_s: float) -> Iterator[str]:
    """Yield a sentence about the races of this home, but `own`, that began after this one and ran beside it."""
    said = "\n".join(recording.record.warnings)
    running = [race.race_id for race in other_races(options.home, own)]
    ran = sorted({*running, *RaceStore(options.home).saved_since(began_s)}.difference(own))
    if new := [race_id for race_id in ran if f"race {race_id} " not in said]:
        yield ran_beside(new)


def ran_beside(races: Sequence[str]) -> str:
    """Return one sentence about all races that ran beside a race."""
    if len(races) == 1:
        return f"race {races[0]} ran on this host at the same time: both disturbed each other"
    return f"{len(races)} races ran on this host at the same time, and disturbed this one: {first_of(races, 3)}"
