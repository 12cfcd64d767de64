"""Operations on the cluster as a whole: waiting for its health, and sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.administrative import (
    AdministrativeType,
    Run,
    query_of,
    seconds,
    segment,
)
from esbench.operations.base import TaskContext
from esbench.operations.parameters import SECONDS, Parameter, flag
from esbench.operations.scripts import ask
from esbench.operations.traits import ADMINISTRATIVE
from esbench.requests.exchange import RequestFailed
from esbench.requests.script import Session

_STATUSES = ("red", "yellow", "green")
_AT_WORK = (
    "initializing_shards",
    "relocating_shards",
    "delayed_unassigned_shards",
    "number_of_pending_tasks",
    "number_of_in_flight_fetch",
)
_PATIENCE_S = 20.0  # the longest time without progress on shards to assign
UNHEALTHY = "cluster not healthy"


def _health(context: TaskContext) -> Run:
    index = context.params.get("index")
    return Health(f"/_cluster/health/{segment(index)}" if index else "/_cluster/health", query_of(context.params)).run


class Health:
    """The script of cluster-health: one request per run, judged against the wanted status.

    Raises RequestFailed after 20 s in which shards were unassigned, or there were none, and nothing was being done.
    """

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


def _sleep(context: TaskContext) -> Run:
    duration_s = seconds(context.params, "duration", 0.0)

    async def run(session: Session) -> Verdict:
        await session.pause(duration_s)
        return GOOD

    return run


TYPES = (
    AdministrativeType(
        "cluster-health",
        "Wait until the cluster is as healthy as the request asks.",
        {
            "index": Parameter("only these indices", (str, list)),
            "request-params": Parameter("wait_for_status, wait_for_no_relocating_shards, timeout ...", (dict,)),
        },
        _health,
        traits=replace(ADMINISTRATIVE, waits_for_status=True),
    ),
    AdministrativeType(
        "sleep",
        "Do nothing for a while.",
        {"duration": Parameter("seconds", SECONDS, required=True, duration=True)},
        _sleep,
        traits=replace(ADMINISTRATIVE, in_composite=True),
    ),
)
