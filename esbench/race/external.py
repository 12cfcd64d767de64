"""The engine for a cluster that esbench does not run: `--target-hosts`.

Checked before the race, otherwise untouched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from esbench.cluster.client import SERVERLESS, Cluster, ClusterInfo
from esbench.cluster.failures import explain_connection_failure
from esbench.cluster.options import ClientOptions, Host
from esbench.cluster.replies import known_form
from esbench.errors import ClusterError, EsbenchError
from esbench.errors.short import first_of
from esbench.race.node_options import Endpoint

SOON_S = 3.0  # then it is said who has not answered yet
_NAMED_HOSTS = _NAMED_INDICES = 5


class ExternalEngine:
    """The engine of the pipeline benchmark-only: checks hosts that already serve a cluster.

    `say` shows which hosts are waited for when they take longer than SOON_S.
    """

    pipeline = "benchmark-only"

    def __init__(
        self, hosts: Sequence[Host], options: ClientOptions, say: Callable[[str], None] = lambda message: None
    ) -> None:
        self._hosts = tuple(hosts)
        self._options = options
        self._say = say

    def start(self) -> Endpoint:
        """Check that all hosts answer, belong to one cluster, and that it is not red; else ClusterError.

        A host has as long to answer as the option `timeout` gives a request.
        """
        infos = self._ask_all_hosts()
        self._check_same_cluster(infos)
        urls = tuple(host.url for host in self._hosts)
        if infos[0].build_flavor != SERVERLESS:  # where no health can be asked for
            with Cluster(urls, self._options) as cluster:
                _check_not_red(cluster)
        return Endpoint(urls)

    def stop(self) -> None:
        """Do nothing: the cluster is not run by esbench."""

    def _ask_all_hosts(self) -> list[ClusterInfo]:
        self._options.access()  # a bad certificate, or no keys: one error, not one of each host
        answers: dict[Host, ClusterInfo | BaseException] = {}

        def ask(host: Host) -> None:
            try:
                with Cluster([host.url], self._options) as cluster:
                    answers[host] = cluster.info()
            except BaseException as error:  # noqa: BLE001 - raised again by _info_of, in the caller's thread
                answers[host] = error

        # Daemons: the lookup of a host name cannot be interrupted, and must not delay the exit.
        checks = [threading.Thread(target=ask, args=(host,), daemon=True) for host in self._hosts]
        for check in checks:
            check.start()
        begin = time.monotonic()
        _join(checks, begin + min(SOON_S, self._options.timeout_s))
        if late := [str(host) for host, check in zip(self._hosts, checks, strict=True) if check.is_alive()]:
            hint = "--client-options=timeout:5 gives up after 5 s"
            self._say(
                f"waiting for {first_of(late, _NAMED_HOSTS)} to answer, up to {self._options.timeout_s:g} s ({hint})"
            )
        _join(checks, begin + self._options.timeout_s)
        return [_info_of(host, answers.get(host), self._options.timeout_s) for host in self._hosts]

    def _check_same_cluster(self, infos: Sequence[ClusterInfo]) -> None:
        first = infos[0]
        for host, info in zip(self._hosts, infos, strict=True):
            if info.uuid and first.uuid and info.uuid != first.uuid:
                raise ClusterError(
                    f'belongs to another cluster ("{info.name}") than {self._hosts[0]} ("{first.name}")',
                    where=str(host),
                    hint="--target-hosts are the nodes of one cluster",
                )


def _join(threads: Sequence[threading.Thread], deadline_s: float) -> None:
    for thread in threads:
        thread.join(max(0.0, deadline_s - time.monotonic()))


def _info_of(host: Host, answer: ClusterInfo | BaseException | None, limit_s: float) -> ClusterInfo:
    """Return the host's answer; raise its error with the host's name, or a ClusterError if no answer has come."""
    if isinstance(answer, ClusterInfo):
        return answer
    if answer is None:
        raise explain_connection_failure(TimeoutError(), host.url, limit_s)
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
