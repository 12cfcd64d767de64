"""The engine for a cluster that esbench does not run: `--target-hosts`.

Checked before the race, otherwise untouched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from esbench.cluster.client import SERVERLESS, Cluster, ClusterInfo, known_form
from esbench.cluster.failures import explain_connection_failure
from esbench.cluster.options import ClientOptions, Host
from esbench.engine.base import Endpoint
from esbench.errors import ClusterError, EsbenchError
from esbench.errors.short import first_of

REQUEST_LIMIT_S = 2.0
CHECK_LIMIT_S = 2.8  # all hosts at once; an unreachable host is an error within 3 s
_NAMED_INDICES = 5


class ExternalEngine:
    """The engine of the pipeline benchmark-only: checks hosts that already serve a cluster."""

    pipeline = "benchmark-only"

    def __init__(self, hosts: Sequence[Host], options: ClientOptions) -> None:
        self._hosts = tuple(hosts)
        self._options = options

    def start(self) -> Endpoint:
        """Check within 3 s that all hosts answer, belong to one cluster, and that it is not red; else ClusterError."""
        infos = self._ask_all_hosts()
        self._check_same_cluster(infos)
        urls = tuple(host.url for host in self._hosts)
        if infos[0].build_flavor != SERVERLESS:  # where no health can be asked for
            with Cluster(urls, replace(self._options, timeout_s=REQUEST_LIMIT_S)) as cluster:
                _check_not_red(cluster)
        return Endpoint(urls)

    def stop(self) -> None:
        """Do nothing: the cluster is not run by esbench."""

    def _ask_all_hosts(self) -> list[ClusterInfo]:
        self._options.access()  # a bad certificate, or no keys: one error, not one of each host
        answers: dict[Host, ClusterInfo | BaseException] = {}

        def ask(host: Host) -> None:
            try:
                with Cluster([host.url], replace(self._options, timeout_s=REQUEST_LIMIT_S)) as cluster:
                    answers[host] = cluster.info()
            except BaseException as error:  # noqa: BLE001 - raised again by _info_of, in the caller's thread
                answers[host] = error

        # Daemons: the lookup of a host name cannot be interrupted, and must not delay the exit.
        checks = [threading.Thread(target=ask, args=(host,), daemon=True) for host in self._hosts]
        for check in checks:
            check.start()
        deadline = time.monotonic() + CHECK_LIMIT_S
        for check in checks:
            check.join(max(0.0, deadline - time.monotonic()))
        return [_info_of(host, answers.get(host)) for host in self._hosts]

    def _check_same_cluster(self, infos: Sequence[ClusterInfo]) -> None:
        first = infos[0]
        for host, info in zip(self._hosts, infos, strict=True):
            if info.uuid and first.uuid and info.uuid != first.uuid:
                raise ClusterError(
                    f'belongs to another cluster ("{info.name}") than {self._hosts[0]} ("{first.name}")',
                    where=str(host),
                    hint="--target-hosts are the nodes of one cluster",
                )


def _info_of(host: Host, answer: ClusterInfo | BaseException | None) -> ClusterInfo:
    """Return the host's answer; raise its error with the host's name, or a ClusterError if no answer has come."""
    if isinstance(answer, ClusterInfo):
        return answer
    if answer is None:
        raise explain_connection_failure(TimeoutError(), host.url, CHECK_LIMIT_S)
    if isinstance(answer, EsbenchError) and str(host) not in answer.where:
        raise type(answer)(f"{answer.where}: {answer.what}", where=str(host), hint=answer.hint) from answer
    raise answer


def _check_not_red(cluster: Cluster) -> None:
    health = cluster.health(level="indices")
    if health["status"] != "red":
        return
    with known_form("/_cluster/health"):
        red = sorted(name for name, index in health.get("indices", {}).items() if index["status"] == "red")
    raise ClusterError(
        f"the cluster is red{': ' if red else ''}{first_of(red, _NAMED_INDICES)}",
        where=cluster.urls[0],
        hint="shards are missing: wait until it has recovered, or delete these indices",
    )
