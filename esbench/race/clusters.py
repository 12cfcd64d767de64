"""The clusters of a race that has several: the default one, to which a task goes unless it names another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from esbench.cluster.client import Cluster
from esbench.errors import TrackError, did_you_mean
from esbench.load.messages import Target
from esbench.model import DEFAULT_CLUSTER, Track
from esbench.operations.base import TaskContext
from esbench.race.cluster import RacedCluster, RaceTarget, StepTelemetry, WatchedRace
from esbench.race.recording import RecordWriter
from esbench.race.reread import AskedRequest
from esbench.record.model import ClusterFacts
from esbench.telemetry.device import Pulse, TaskSpan
from esbench.telemetry.watch import Said


class RacedClusters(RaceTarget):
    """Several clusters of the user's, by name, for the length of a race; what is asked of one is asked of the default.

    The track is rendered for the default one's version.
    """

    def __init__(self, clusters: Mapping[str, RacedCluster]) -> None:
        self._clusters = clusters
        self._default = clusters[DEFAULT_CLUSTER]
        self.info = self._default.info

    @property
    def clusters(self) -> Mapping[str, RaceTarget]:
        return self._clusters

    @property
    def client(self) -> Cluster:
        return self._default.client

    @property
    def health(self) -> str:
        return self._default.health

    def start(self, recording: RecordWriter) -> Target:
        targets = {name: cluster.start(recording) for name, cluster in self.clusters.items()}
        return replace(targets.pop(DEFAULT_CLUSTER), others=targets)

    def questions(self, context: TaskContext) -> Sequence[AskedRequest]:
        return self.clusters[context.task.cluster].questions(context)

    def settle(self) -> None:
        for cluster in self.clusters.values():
            cluster.settle()

    @contextmanager
    def telemetry(self, race: WatchedRace) -> Iterator[Telemetries]:
        with ExitStack() as stack:
            yield Telemetries([stack.enter_context(cluster.telemetry(race)) for cluster in self.clusters.values()])

    def finish(self, recording: RecordWriter, track: Track) -> None:
        for cluster in self.clusters.values():
            cluster.finish(recording, track)

    def facts(self) -> Mapping[str, ClusterFacts]:
        return {name: facts for cluster in self.clusters.values() for name, facts in cluster.facts().items()}


class Telemetries:
    """The telemetry of several clusters; what it says of a task is what its own cluster's says."""

    def __init__(self, clusters: Sequence[StepTelemetry]) -> None:
        self._clusters = clusters

    @property
    def follows_seconds(self) -> bool:
        return any(telemetry.follows_seconds for telemetry in self._clusters)

    def begin_step(self, step: int, tasks: Sequence[str]) -> None:
        for telemetry in self._clusters:
            telemetry.begin_step(step, tasks)

    def pulse(self, pulse: Pulse) -> None:
        for telemetry in self._clusters:
            telemetry.pulse(pulse)

    def end_step(self, step: int, spans: Sequence[TaskSpan], *, cut_short: bool = False) -> None:
        for telemetry in self._clusters:
            telemetry.end_step(step, spans, cut_short=cut_short)

    def news(self) -> Said:
        found: Said = {}
        for telemetry in self._clusters:
            for task, said in telemetry.news().items():
                found.setdefault(task, {}).update(said)
        return found


def no_such_cluster(task: str, cluster: str, known: Sequence[str]) -> TrackError:
    """Return the error for a task that is for a cluster which the race does not have."""
    what = f'the race has no cluster "{cluster}"'
    hint = did_you_mean(cluster, known) if len(known) > 1 else ""
    return TrackError(
        what,
        where=f'task "{task}"',
        hint=hint or f"""--target-hosts='{{"{DEFAULT_CLUSTER}": [...], "{cluster}": [...]}}'""",
    )
