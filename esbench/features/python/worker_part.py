"""The Python part of a track in a load worker: its operation types, clients and loops."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from typing import Any

from esbench.features.python.client import PythonClient
from esbench.features.python.custom_runners import RunnerTurns
from esbench.features.python.loading import Plugins, keep_names, load_plugins
from esbench.features.python.operations import TrackOperationTypes
from esbench.features.python.param_source_programs import DrawnScript
from esbench.features.python.scheduled_loop import ScheduledLoop, make_schedulers
from esbench.features.python.task_sources import TrackCode
from esbench.features.python.view import TrackView
from esbench.load.client import Client, Route
from esbench.load.loops import Length
from esbench.load.messages import Assignment, PackedView, Target
from esbench.load.recorder import Recorder
from esbench.load.senders import HttpSender
from esbench.measure.verdict import Verdict
from esbench.operations import OperationTypes
from esbench.requests.exchange import ClientProgram, Script
from esbench.requests.programs import Program


def import_plugins(view: PackedView) -> Plugins:
    """Import the Python part of a track into a worker; its modules can import those of `esrally` when they run."""
    if view.libraries is not None:
        sys.path.append(str(view.libraries))  # last: the packages of a track replace no package of esbench
    plugins = load_plugins(view.root)
    keep_names()  # a worker has no other use for them
    return plugins


def unpacked(plugins: Plugins, view: PackedView) -> TrackView:
    """Unpickle the view of a track whose Python part is loaded in this process."""
    with plugins.running("its Python part", str(plugins.folder)):
        opened: TrackView = pickle.loads(view.content)  # of the coordinator that started this process  # nosec B301
    return opened if view.moved is None else opened.moved(view.moved)


class WorkerCode:
    """The Python part of a track, imported into a worker once."""

    def __init__(self, view: PackedView) -> None:
        self._plugins = import_plugins(view)

    def sender(self, view: PackedView, types: OperationTypes, target: Target) -> WorkerPart:
        """Return the sender of a step, whose tasks see the track as `view` has it."""
        return WorkerPart(self._plugins, view, types, target)


class WorkerPart(HttpSender):
    """The Python part of a track in a worker, which sends for it, for the assignments of one step."""

    def __init__(self, plugins: Plugins, view: PackedView, types: OperationTypes, target: Target) -> None:
        self._code = TrackCode(plugins, unpacked(plugins, view), types)
        self._target = target
        self.types = TrackOperationTypes(types, self._code)

    def client(
        self, slot: int, route: Route, made: ClientProgram | Script | RunnerTurns, params: Mapping[str, Any]
    ) -> Client:
        """Return the client of a slot: a PythonClient for a runner, else that of HTTP."""
        if isinstance(made, RunnerTurns):
            return PythonClient(slot, route, made, self._target)
        client = super().client(slot, route, made, params)
        if isinstance(made, DrawnScript):
            client.draw = made.draw
        return client

    def loop(
        self,
        assignment: Assignment,
        program: Program,
        clients: list[Client],
        recorder: Recorder,
        length: Length,
        *,
        ended: Callable[[], None],
        failed: Callable[[Verdict], None],
    ) -> ScheduledLoop:
        """Return the loop of a task whose due times come from a scheduler of the track."""
        sources = getattr(program, "sources", {})
        own = {client: sources.get(client.slot) for client in clients}
        schedulers = make_schedulers(assignment.task, self._code, own, assignment.per_request)
        return ScheduledLoop(clients, recorder, length, ended=ended, failed=failed, schedulers=schedulers)
