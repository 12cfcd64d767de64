"""Outages of hosts: when each was lost to a race and back, from the reports of its workers. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta

from esbench.load.hot import clock_ns
from esbench.load.messages import Loss
from esbench.record.model import HostEvent, time_text

LOST, BACK = "lost", "back"
Listener = Callable[[HostEvent], None]


class HostOutages:
    """The hosts that the step's workers cannot reach; each change is reported to the step's listener.

    `of_step` are the hosts that were lost at some time of the step.
    """

    def __init__(self) -> None:
        self.of_step: dict[str, Loss] = {}
        self._known: dict[str, Loss] = {}
        self._missed_by: dict[int, Mapping[str, Loss]] = {}
        self._workers: Collection[int] = ()
        self._step = 0
        self._tasks: tuple[str, ...] = ()
        self._listener: Listener

    def begin(self, step: int, tasks: tuple[str, ...], workers: Collection[int], listener: Listener) -> None:
        """Begin a step: its number, tasks, workers and listener. Hosts that are lost stay so."""
        self._step, self._tasks, self._workers, self._listener = step, tasks, workers, listener
        self.of_step = dict(self._known)
        self._missed_by = {}

    def take(self, worker: int, lost: Mapping[str, Loss]) -> None:
        """Take the hosts that a worker of the step cannot reach now, and report the changes.

        A host is back when all workers have reported and none misses it.
        """
        self._missed_by[worker] = lost
        for host, loss in lost.items():
            if host not in self._known:
                self._known[host] = self.of_step[host] = loss
                self._tell(loss.since_ns, host, LOST, loss.reason)
        if len(self._missed_by) < len(self._workers):
            return  # those that have not spoken yet may miss it, too
        for host in [host for host in self._known if not any(host in missed for missed in self._missed_by.values())]:
            del self._known[host]
            self._tell(clock_ns(), host, BACK)

    def _tell(self, at_ns: int, host: str, what: str, reason: str = "") -> None:
        at = datetime.now(UTC) - timedelta(microseconds=(clock_ns() - at_ns) / 1000)
        self._listener(HostEvent(time_text(at), self._step, self._tasks, host, what, reason))
