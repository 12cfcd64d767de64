"""Operations on the cluster as a whole: its health, its nodes' statistics, and leaving it alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.administrative import (
    QUERY,
    AdministrativeType,
    Call,
    RequestType,
    query_of,
    seconds,
    segment,
)
from esbench.operations.base import TaskContext
from esbench.operations.parameters import SECONDS, Parameter, flag
from esbench.operations.scripts import ask
from esbench.operations.traits import ADMINISTRATIVE, MEASURED
from esbench.requests.exchange import RequestFailed
from esbench.requests.script import Script, Session

_STATUSES = ("red", "yellow", "green")
_AT_WORK = (
    "initializing_shards",
    "relocating_shards",
    "delayed_unassigned_shards",
    "number_of_pending_tasks",
    "number_of_in_flight_fetch",
)
_PATIENCE_S = 20.0  # so long may a cluster do nothing about shards that it has to assign
UNHEALTHY = "cluster not healthy"


class ClusterHealth(AdministrativeType):
    name = "cluster-health"
    traits = replace(ADMINISTRATIVE, waits_for_status=True)
    doc = "Wait until the cluster is as healthy as the request asks."
    parameters = {
        "index": Parameter("only these indices", (str, list)),
        "request-params": Parameter("wait_for_status, wait_for_no_relocating_shards, timeout ...", (dict,)),
    }

    def script(self, context: TaskContext) -> Script:
        index = context.params.get("index")
        path = f"/_cluster/health/{segment(index)}" if index else "/_cluster/health"
        return Health(path, query_of(context.params))


class Health:
    """Asks once; gives up when the cluster has done nothing about its unassigned shards, or has none, for a while."""

    def __init__(self, path: str, params: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._params = params
        self._clock = clock
        self._idle_since_s: float | None = None

    async def run(self, session: Session) -> Verdict:
        asked_s = self._clock()
        health = (await ask(session, "GET", self._path, params=self._params, accept=(408,))).json()
        if health["status"] not in _STATUSES:
            raise RequestFailed("bad response", f"not a cluster's status: {health['status']}")
        wanted = str(self._params.get("wait_for_status", "red")).lower()
        relocating = health.get("relocating_shards", 0)
        ok = _STATUSES.index(health["status"]) >= (_STATUSES.index(wanted) if wanted in _STATUSES else 0)
        if ok and not (flag(self._params.get("wait_for_no_relocating_shards")) and relocating):
            return Verdict()
        unassigned = health.get("unassigned_shards", 0)
        state = f"the cluster is {health['status']} (wanted: {wanted}), {unassigned} shards are unassigned"
        is_empty = "active_shards" in health and not health["active_shards"]
        if (unassigned or is_empty) and not any(health.get(key) for key in _AT_WORK):
            self._idle_since_s = asked_s if self._idle_since_s is None else self._idle_since_s
            if self._clock() - self._idle_since_s >= _PATIENCE_S:
                nodes = health.get("number_of_data_nodes")
                raise RequestFailed(
                    UNHEALTHY,
                    f"{state}, none is being assigned, and there are {nodes} data nodes: a replica needs a "
                    "node of its own"
                    if unassigned
                    else f"{state}, and none is there: no index is named so, or none could be created",
                )
        else:
            self._idle_since_s = None
        return Verdict(0, UNHEALTHY, f"{state}, {relocating} relocating")


class NodeStats(RequestType):
    name = "node-stats"
    traits = MEASURED
    doc = "The statistics of all nodes."
    parameters = {"request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        yield Call("GET", "/_nodes/stats", query_of(context.params))


class Sleep(AdministrativeType):
    name = "sleep"
    traits = replace(ADMINISTRATIVE, in_composite=True)
    doc = "Do nothing for a while."
    parameters = {"duration": Parameter("seconds", SECONDS, required=True, duration=True)}

    def script(self, context: TaskContext) -> Script:
        return _Pause(seconds(context.params, "duration", 0.0))


@dataclass(frozen=True)
class _Pause:
    duration_s: float

    async def run(self, session: Session) -> Verdict:
        await session.pause(self.duration_s)
        return GOOD
