"""The options of a race: every option of `esbench race` that is not about printing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from esbench.cluster.options import MYSQL, ClientOptions, Host
from esbench.corpus.origin import CorpusCache, Origin
from esbench.race.node_options import NodeOptions
from esbench.record.model import Session
from esbench.telemetry import Chosen


@dataclass(frozen=True)
class OtherCluster:
    """A further cluster of a race: its hosts and the options of their clients."""

    hosts: tuple[Host, ...]
    client_options: ClientOptions = field(default_factory=ClientOptions)


@dataclass(frozen=True)
class RaceOptions:
    """The options of a race: the track, the cluster, the load and the telemetry.

    Without a `challenge` it is the track's default; without `include_tasks` all of its tasks are raced. `node` is used
    if `hosts` is empty.
    """

    home: Path
    race_id: str
    track_path: Path
    track_revision: str = ""  # the commit of a fetched track
    track_params: Mapping[str, Any] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)  # further texts that must never be shown
    challenge: str | None = None
    include_tasks: tuple[str, ...] = ()
    exclude_tasks: tuple[str, ...] = ()
    capacity: str | None = None  # the race that has found it, or "last": target rates are percents of it
    user_tags: Mapping[str, str] = field(default_factory=dict)
    test_mode: bool = False
    install_dependencies: bool = False
    no_python: bool = False
    abort_on_error: bool = True
    # of each task's requests; instead of abort_on_error
    max_error_ratio: float | None = None
    enable_assertions: bool = False
    workers: int = 1  # on each load host; 0: half of the cores of the smallest load host
    load_hosts: tuple[str, ...] = ()  # [USER@]HOST[:PORT] of ssh; none: esbench's own host
    load_cluster: str = ""  # the address of a Dask scheduler instead
    seed: int = 1
    hosts: tuple[Host, ...] = ()  # none: an embedded node
    any_server: bool = False  # the hosts may be any HTTP server: only requests of the track are sent
    client_options: ClientOptions = field(default_factory=ClientOptions)
    others: Mapping[str, OtherCluster] = field(default_factory=dict)  # further clusters, by name
    node: NodeOptions = field(default_factory=NodeOptions)
    keep_node: bool = False
    kill_running_processes: bool = False
    answers: bool = True  # ask read tasks once more for answers that other races can be compared by
    replace_indices: bool = False  # delete also what esbench did not make
    origin: Origin = field(default_factory=Origin)  # of document files
    # of each corpus, generated in place of its files
    synthetic_documents: int | None = None
    corpus_cache: CorpusCache = "auto"
    telemetry: tuple[Chosen, ...] = ()  # the devices that watch the race
    session: Session | None = None  # of which this is one race
    other_prefixes: tuple[str, ...] = ()  # of the names of indices that sides beside it on the same node use

    def of_other(self, cluster: str) -> RaceOptions:
        """Return the options as of a race of another cluster alone, which only devices that ask a cluster watch."""
        other = self.others[cluster]
        asking = tuple(chosen for chosen in self.telemetry if chosen.kind.asks_cluster)
        return replace(self, hosts=other.hosts, client_options=other.client_options, others={}, telemetry=asking)

    @property
    def is_driven_apart(self) -> bool:
        """True if other hosts send the load."""
        return bool(self.load_hosts or self.load_cluster)

    @property
    def is_sql(self) -> bool:
        """True if a SQL server is raced."""
        return self.hosts[0].scheme == MYSQL if self.hosts else self.node.is_database
