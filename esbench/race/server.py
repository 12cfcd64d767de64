"""An HTTP server of a race: it is sent the track's requests, and asked nothing else."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from esbench.cluster.addresses import addresses_by_name, hosts_to_reach
from esbench.cluster.client import Cluster, ClusterInfo
from esbench.cluster.failures import explain_connection_failure
from esbench.cluster.options import Host
from esbench.errors import UsageError
from esbench.load.messages import Target
from esbench.model import Challenge, Track
from esbench.operations.approximate import NotComparable
from esbench.operations.base import TaskContext, kind_of
from esbench.race.cluster import RaceTarget, WatchedRace
from esbench.race.options import RaceOptions
from esbench.race.recording import RecordWriter
from esbench.race.reread import AskedRequest
from esbench.record.model import HTTP, ClusterFacts
from esbench.telemetry.watch import Telemetry

_CONNECT_S = 3.0


class RacedServer(RaceTarget):
    """Any HTTP server for the length of a race. It has no version, no telemetry and no indices.

    Raises UsageError without hosts.
    """

    info = ClusterInfo(HTTP, "")

    def __init__(self, options: RaceOptions) -> None:
        if not options.hosts:
            raise UsageError(f"--pipeline={HTTP} needs --target-hosts")
        self._options = options
        self._hosts: tuple[Host, ...] = ()

    @property
    def client(self) -> Cluster:
        """Raises UsageError: only requests of the track are sent."""
        raise UsageError(
            "this needs an Elasticsearch or OpenSearch, and esbench sends any other server only the track's requests",
            where=f"--pipeline={HTTP}",
            hint="leave --pipeline out",
        )

    def require(self, track: Track, challenge: Challenge) -> None:
        """Raise a UsageError for a task that asks for more than an HTTP server."""
        for task in challenge.tasks:
            if not kind_of(task.operation).traits.any_server:
                what = f'task "{task.name}" ({task.operation.type}) is for Elasticsearch'
                raise UsageError(what, where=f"--pipeline={HTTP}", hint="leave the option out, or the task")

    def start(self, recording: RecordWriter) -> Target:
        """Check that all hosts can be reached; return what load workers need. Raises a ClusterError if one cannot."""
        proxy = self._options.client_options.proxy
        self._hosts = hosts_to_reach(self._options.hosts, proxy)
        for host in () if proxy else self._hosts:
            try:
                socket.create_connection((host.address or host.host, host.port), timeout=_CONNECT_S).close()
            except OSError as error:
                raise explain_connection_failure(error, host.url, _CONNECT_S) from error
        return Target(self._hosts, self._options.client_options, self.info.dialect, any_server=True)

    def telemetry(self, race: WatchedRace) -> Telemetry:
        """Return a telemetry that watches nothing."""
        return Telemetry(None, (), (), race.clock, lambda device, reading, time_s: None)

    def questions(self, context: TaskContext) -> Sequence[AskedRequest]:
        """Raise NotComparable: the form of replies is not known."""
        raise NotComparable("an HTTP server's replies have no known form")

    def facts(self) -> Mapping[str, ClusterFacts]:
        """Return the facts about the server for the record: its hosts."""
        facts = ClusterFacts(
            pipeline=HTTP,
            hosts=tuple(host.url for host in self._options.hosts),
            distribution=self.info.distribution,
            version=self.info.version,
            addresses=addresses_by_name(self._hosts),
        )
        return {self.name: facts}
