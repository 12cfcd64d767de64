"""Operations on the cluster as a whole: its health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from esbench.operations.base import OperationType, Parameter, Program, Session, TaskContext, Verdict, flag
from esbench.operations.programs import ScriptProgram
from esbench.operations.scripts import Retrying, ask

_STATUSES = ("red", "yellow", "green")


class ClusterHealth(OperationType):
    name = "cluster-health"
    doc = "Wait until the cluster is as healthy as the request asks."
    admin = True
    parameters = {
        "index": Parameter("only these indices"),
        "request-params": Parameter("wait_for_status, wait_for_no_relocating_shards, timeout ...", (dict,)),
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        index = params.get("index")
        path = f"/_cluster/health/{index}" if index else "/_cluster/health"
        return ScriptProgram(Retrying(_Health(path, dict(params.get("request-params") or {})), params), params)


@dataclass(frozen=True)
class _Health:
    path: str
    params: Mapping[str, Any]

    async def run(self, session: Session) -> Verdict:
        health = (await ask(session, "GET", self.path, params=self.params, accept=(408,))).json()
        wanted = str(self.params.get("wait_for_status", "red")).lower()
        relocating = health.get("relocating_shards", 0)
        ok = _STATUSES.index(health["status"]) >= (_STATUSES.index(wanted) if wanted in _STATUSES else 0)
        if ok and not (flag(self.params.get("wait_for_no_relocating_shards")) and relocating):
            return Verdict()
        return Verdict(
            0,
            "cluster not healthy",
            f"the cluster is {health['status']} (wanted: {wanted}), {health.get('unassigned_shards', 0)} shards are "
            f"unassigned, {relocating} relocating",
        )
