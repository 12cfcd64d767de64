"""The nodes of two sides: shared, kept over the rounds, or fresh in each of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address

from esbench.comparison.model import RowVerdict
from esbench.comparison.reasons import FASTER, OTHER_DOCUMENTS, OTHER_HOSTS, SAME, SLOWER
from esbench.record.index_prefix import index_prefix, without_prefix
from esbench.record.model import HTTP, RaceRecord

OF_OTHERS = ("benchmark-only", HTTP)  # the pipelines of servers that esbench did not start
FEWEST_ROUNDS, FEWEST_ON_ONE_NODE = 6, 4
_RESTARTS = "starts of one node differ by about 5 %, so a difference below 10 % may vanish with a restart"
Rounds = Sequence[tuple[RaceRecord, RaceRecord]]


@dataclass(frozen=True)
class NodesOfRounds:
    """The nodes of rounds with two sides.

    `shared`: both sides were on one node, with different indices. `kept`: a side had the same nodes in all
    rounds. `strangers`: the sides share no host.
    """

    shared: bool
    kept: bool
    strangers: bool

    @property
    def fresh(self) -> bool:
        """True if each side had nodes that were started for the round: their luck differs between rounds."""
        return not self.shared and not self.kept

    @property
    def fewest_rounds(self) -> int:
        """The number of rounds that a verdict needs."""
        return FEWEST_ON_ONE_NODE if self.shared else FEWEST_ROUNDS


@dataclass(frozen=True)
class TheseClusters:
    """Two clusters that every round had, and that esbench did not start: what is said of them holds for no others.

    `baseline` and `contender` are their addresses. `on_other_hosts`: they share no host, which was not allowed.
    `other_documents`: they hold different documents although each race wrote as many; `of_tasks`: the tasks that read
    indices with different numbers of documents.
    """

    baseline: str
    contender: str
    on_other_hosts: bool = False
    other_documents: bool = False
    of_tasks: tuple[str, ...] = ()

    def refusal(self, label: str) -> RowVerdict | None:
        """Return why a task's figures say nothing of the clusters; None if they do."""
        if self.on_other_hosts:
            return RowVerdict(OTHER_HOSTS)
        if self.other_documents or label in self.of_tasks:
            return RowVerdict(OTHER_DOCUMENTS)
        return None

    def verdict(self, found: RowVerdict) -> RowVerdict:
        """Return a verdict on the sides as one on these clusters."""
        reason = found.reason.of_these_clusters
        if found.word not in (FASTER, SLOWER, SAME) or not reason.has_basis:
            return replace(found, reason=reason)
        says = {FASTER: "is faster than", SLOWER: "is slower than", SAME: "is as fast as"}[found.word]
        text = f"{self.contender} {says} {self.baseline} as they run now; {_RESTARTS}"
        return replace(found, reason=reason, detail=text)


def nodes_of(rounds: Rounds) -> NodesOfRounds:
    """Return what is known of the nodes of two sides' rounds."""
    sides = list(zip(*rounds, strict=True))
    shared = all(share_nodes([one], [other]) for one, other in rounds)
    kept = len({_processes(record) for record in sides[0]}) == 1 if shared else any(map(_are_kept, sides))
    hosts = [_addresses(side) for side in sides]
    return NodesOfRounds(shared, kept, strangers=all(hosts) and hosts[0].isdisjoint(hosts[1]))


def share_nodes(ours: Sequence[RaceRecord], theirs: Sequence[RaceRecord]) -> bool:
    """True if both sides were raced at once on the same nodes, each with its own indices."""
    in_slices = all(
        index_prefix(record.track_params) and any(task.slices for task in record.tasks) for record in (*ours, *theirs)
    )
    return in_slices and _have_common_nodes(ours, theirs)


def kept_apart(ours: Sequence[RaceRecord], theirs: Sequence[RaceRecord]) -> bool:
    """True if a side had the same nodes in all of its races, which esbench did not start, and the other side others:
    whatever distinguishes these nodes is in every race."""
    return not _have_common_nodes(ours, theirs) and (_are_kept(ours) or _are_kept(theirs))


def these_clusters(
    ours: Sequence[RaceRecord],
    theirs: Sequence[RaceRecord],
    of_tasks: Iterable[str],
    *,
    hosts_may_differ: bool,
    documents_may_differ: bool,
) -> TheseClusters | None:
    """Return the clusters of two sides if these are all that their races can tell of (`kept_apart`), else None.

    `of_tasks`: the tasks that read indices with different numbers of documents.
    """
    if not kept_apart(ours, theirs):
        return None
    one, other = (", ".join(sorted(_hosts(records))) for records in (ours, theirs))
    hosts = [_addresses(side) for side in (ours, theirs)]
    apart = all(hosts) and hosts[0].isdisjoint(hosts[1]) and not hosts_may_differ
    if documents_may_differ:
        return TheseClusters(one, other, apart)
    return TheseClusters(one, other, apart, _hold_other_documents(ours[-1], theirs[-1]), tuple(of_tasks))


def _hold_other_documents(one: RaceRecord, other: RaceRecord) -> bool:
    """True if indices of the same name hold another number of documents, and not because tasks wrote more of them."""
    written = [[(task.name, task.units) for task in race.tasks if task.unit == "docs"] for race in (one, other)]
    if written[0] != written[1]:
        return False
    ours, theirs = (dict(_documents(race)) for race in (one, other))
    return any(ours[name] != theirs[name] for name in ours.keys() & theirs.keys())


def _documents(record: RaceRecord) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the number of documents at the end of a race by cluster and index, without the race's prefix."""
    for name, cluster in record.clusters.items():
        for index, facts in without_prefix(cluster.indices, index_prefix(record.track_params)).items():
            if isinstance(count := facts.get("documents"), int):
                yield (name, index), count


def _are_kept(records: Sequence[RaceRecord]) -> bool:
    return all(map(_is_of_others, records)) and len({_nodes(record) for record in records}) == 1


def _have_common_nodes(ours: Sequence[RaceRecord], theirs: Sequence[RaceRecord]) -> bool:
    return bool(_hosts(ours) & _hosts(theirs) or _node_ids(ours) & _node_ids(theirs))


def _node_ids(records: Sequence[RaceRecord]) -> set[tuple[str, str]]:
    """Return the ids of nodes with their hosts: nodes that begin with a copy of one's data have the same id."""
    clusters = (cluster for record in records for cluster in record.clusters.values())
    return {(node.id, node.host) for cluster in clusters for node in cluster.nodes if node.id}


def _hosts(records: Sequence[RaceRecord]) -> set[str]:
    return {host for record in records for cluster in record.clusters.values() for host in cluster.hosts}


def _is_of_others(record: RaceRecord) -> bool:
    return all(cluster.pipeline in OF_OTHERS for cluster in record.clusters.values())


def _nodes(record: RaceRecord) -> tuple[object, ...]:
    """Return what identifies the nodes of a race: their ids, or else the addresses of their clusters."""
    return tuple(
        (name, cluster.pipeline, frozenset(node.id for node in cluster.nodes if node.id) or frozenset(cluster.hosts))
        for name, cluster in sorted(record.clusters.items())
    )


def _processes(record: RaceRecord) -> tuple[object, ...]:
    """Return what identifies the processes of a race's nodes: `_nodes`, and their numbers where they are known."""
    numbers = (tuple(cluster.settings.get("pids") or ()) for _, cluster in sorted(record.clusters.items()))
    return _nodes(record), *numbers


def _addresses(records: Iterable[RaceRecord]) -> frozenset[str]:
    """Return the addresses of the nodes of a side; empty if one is not known, or says nothing to others."""
    hosts = {node.host for record in records for cluster in record.clusters.values() for node in cluster.nodes}
    return frozenset(hosts) if hosts and all(map(_is_public, hosts)) else frozenset()


def _is_public(host: str) -> bool:
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return False
