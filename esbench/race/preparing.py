"""The preparations of a race: its options with their secrets, the target, the track, and the load workers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import LackedFeatureError
from esbench.events.progress import Progress
from esbench.load.coordinator import Coordinator
from esbench.load.launcher import Launcher, LocalLauncher
from esbench.model import DEFAULT_CLUSTER
from esbench.operations.base import kind_of
from esbench.race.cluster import RacedCluster, RaceTarget
from esbench.race.hook import Hook
from esbench.race.host_limits import check_clients, check_workers
from esbench.race.options import RaceOptions
from esbench.race.track import RacedTrack
from esbench.record.index_prefix import index_prefix
from esbench.record.model import CorpusFacts
from esbench.record.secrets import secret_values
from esbench.record.store import RaceFolder
from esbench.tables import LAUNCHERS, SERVERS, load

if TYPE_CHECKING:
    from esbench.race.node_engine import Engine


def hide_secrets(options: RaceOptions) -> RaceOptions:
    """Return the options with the secrets of track parameters and node settings, which errors then hide, too.

    Each of several clusters hides those of the others: one may repeat what it was sent about another.
    """
    secrets = (*options.secrets, *secret_values(options.track_params), *secret_values(options.node.node_settings))
    secrets += tuple(secret_values(options.user_tags))
    for each in (options.client_options, *(other.client_options for other in options.others.values())):
        secrets += each.secrets()
    others = {
        name: replace(other, client_options=replace(other.client_options, other_secrets=secrets))
        for name, other in options.others.items()
    }
    return replace(options, client_options=replace(options.client_options, other_secrets=secrets), others=others)


def check_worker_count(options: RaceOptions) -> tuple[str, ...]:
    """Return the warnings about the number of load workers of this host; those of load hosts are not known yet."""
    return () if options.is_driven_apart else check_workers(options.workers)


def open_target(
    options: RaceOptions,
    progress: Progress,
    folder: RaceFolder,
    stack: ExitStack,
    node: Engine | None = None,
) -> RaceTarget:
    """Return what the options race: any HTTP server, a SQL server, or a cluster of Elasticsearch or OpenSearch."""
    if options.any_server:
        from esbench.race.server import RacedServer

        return RacedServer(options)
    if options.is_sql:
        return load(SERVERS["sql"])(options, progress, folder, stack)  # type: ignore[no-any-return]
    default = RacedCluster(options, progress, folder, stack, node)
    if not options.others:
        return default
    from esbench.race.clusters import RacedClusters

    others = {name: RacedCluster(options.of_other(name), progress, folder, stack, name=name) for name in options.others}
    return RacedClusters({DEFAULT_CLUSTER: default, **others})


def reach(
    options: RaceOptions, progress: Progress, folder: RaceFolder, stack: ExitStack, hook: Hook
) -> tuple[RaceTarget, RacedTrack]:
    """Return what is raced, and the track, loaded for it. EsbenchError as `load_track`.

    Where no distribution is asked for, and the track needs what the default node lacks, it is the last node of the
    catalog that has it, and the track has a warning.
    """
    cluster = open_target(options, progress, folder, stack, hook.node)
    try:
        return cluster, load_track(options, cluster, progress, hook)
    except LackedFeatureError as error:
        if options.node.distribution or hook.node is not None or not error.able:
            raise
        able, lacks = error.able[-1], error.what
    cluster = open_target(replace(options, node=replace(options.node, distribution=able)), progress, folder, stack)
    raced = load_track(options, cluster, progress, hook)
    raced.warnings += (f"raced on {able}, since the default node {lacks.partition(' ')[2]}",)
    return cluster, raced


def load_track(options: RaceOptions, cluster: RaceTarget, progress: Progress, hook: Hook) -> RacedTrack:
    """Load the track for the cluster's version. EsbenchError if the cluster or this host lacks what it needs."""
    raced = RacedTrack(options, cluster.info, progress)
    raced.challenge = hook.tasks(raced.challenge, raced)
    raced.warnings += hook.warnings
    raced.challenge = hook.pace.shaped(raced.challenge)
    if options.session is not None:
        from esbench.race.recorded import part_of

        raced.challenge = part_of(raced.challenge, options.session.round)
    for task in raced.challenge.tasks:
        if task.cluster not in cluster.clusters:
            from esbench.race.clusters import no_such_cluster

            raise no_such_cluster(task.name, task.cluster, list(cluster.clusters))
    cluster.require(raced.track, raced.challenge)
    if not (options.any_server or options.is_sql):
        raced.fit({name: each.info.dialect for name, each in cluster.clusters.items()})
    check_clients(options, raced.challenge)
    raced.check_sizes()
    return raced


def _launcher(options: RaceOptions, log: Path) -> Launcher:
    """Return what starts the load workers: on this host, or on load hosts."""
    if not options.is_driven_apart:
        return LocalLauncher(options.workers, log)
    return load(LAUNCHERS["hosts"])(options, log)  # type: ignore[no-any-return]


def coordinator_of(options: RaceOptions, folder: RaceFolder, epoch_ns: int) -> Coordinator:
    return Coordinator(
        _launcher(options, folder.logs / "worker.log"),
        abort_on_error=options.abort_on_error,
        max_error_ratio=options.max_error_ratio,
        seed=options.seed,
        race_id=options.race_id,
        epoch_ns=epoch_ns,
        index_prefix=index_prefix(options.track_params),
    )


def count_what_is_there(raced: RacedTrack, clusters: RaceTarget, coordinator: Coordinator) -> None:
    """Count documents that the race does not write itself, in each cluster whose operations compare counts."""
    for cluster, target in clusters.clusters.items():
        tasks = [task for task in raced.challenge.tasks if task.cluster == cluster]
        traits = [kind_of(task.operation).traits for task in tasks]
        if not any(each.compares_counts for each in traits) or any(each.creates or each.deletes for each in traits):
            continue
        for name in raced.track.targets:
            if (count := target.client.count(name)) is not None:
                coordinator.count_as_acknowledged(name, count, cluster)


def corpus_facts(part: PreparedDocuments) -> CorpusFacts:
    return CorpusFacts(
        part.corpus, part.digest, part.document_count, part.synthetic, streamed=part.streamed is not None
    )
