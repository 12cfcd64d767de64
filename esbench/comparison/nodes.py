"""The nodes of two sides that were raced at once: shared, kept over the rounds, or fresh in each of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from esbench.record.index_prefix import index_prefix
from esbench.record.model import HTTP, RaceRecord

OF_OTHERS = ("benchmark-only", HTTP)  # the pipelines of servers that esbench did not start
FEWEST_ROUNDS, FEWEST_ON_ONE_NODE = 6, 4
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
