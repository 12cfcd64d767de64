"""Preparing a worker's share of a task: its operation compiled, its clients connected, before any clock starts."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from esbench.errors import ClusterError
from esbench.load.assignment import no_end
from esbench.load.client import Client, Route, TemplateClient
from esbench.load.failures import Failures
from esbench.load.hosts import Hosts
from esbench.load.hot import Inbox
from esbench.load.messages import Assignment, Prepare, Target
from esbench.load.script_client import ScriptClient
from esbench.load.transport import header_lines
from esbench.measure.schedule import measured_period_s
from esbench.operations.assertions import asserting
from esbench.operations.base import OperationType, TaskContext, TrackCode
from esbench.rally_python.custom_runners import RunnerTurns
from esbench.rally_python.loading import Plugins, keep_names, load_plugins, unpacked
from esbench.rally_python.operations import operation_type
from esbench.rally_python.param_source_programs import DrawnScript
from esbench.record.secrets import Redactor
from esbench.registry import Registry
from esbench.requests.exchange import RequestFailed
from esbench.requests.ledger import Ledger
from esbench.requests.script import Script
from esbench.units import parse_duration
from esbench.worker.worker_task import TaskShare

_RETRY_S = 0.1  # while a step that begins has no host


class Preparation:
    """Makes shares of tasks in one process, and keeps the Python part of the track that it imports for them."""

    def __init__(self, operations: Registry[OperationType]) -> None:
        self._operations = operations
        self._inbox = Inbox()
        self._plugins: Plugins | None = None
        self._code: tuple[Prepare, TrackCode] | None = None  # of the step that was prepared last

    async def share(self, assignment: Assignment, message: Prepare, hosts: Hosts, ledger: Ledger) -> TaskShare:
        """A worker's share of a task, ready to begin; raises an EsbenchError.

        What the task writes is entered into `ledger`.
        """
        task, target, stock = assignment.task, message.target, message.stock
        context = TaskContext(
            task=task,
            dialect=target.dialect,
            indices=stock.indices,
            corpora=stock.corpora,
            documents=stock.documents,
            variables=stock.variables,
            seed=message.seed,
            race_id=message.race_id,
            slots=assignment.slots,
            stripe=assignment.stripe,
            stripes=assignment.stripes,
            before=message.ledger,
            ledger=ledger,
            compress=target.options.http_compress,
            code=(code := self._code_of(message)),
            data_streams=stock.data_streams,
            templates=stock.templates,
        )
        program = operation_type(task.operation, self._operations).compile(context)
        has_end = program.finite or measured_period_s(task) is not None or assignment.may_be_endless
        if task.is_time_based and not has_end:
            raise no_end(context.where)
        timeout_s = parse_duration(task.operation.params.get("request-timeout", target.options.timeout_s))
        tls = target.options.ssl_context()
        failures = Failures(Redactor(target.options.secrets()))
        clients: list[Client] = []
        for slot in assignment.slots:
            headers = header_lines(hosts.home(slot), target.options)
            route = Route(hosts, tls, headers, timeout_s, failures, target.options.http_compress, self._inbox)
            made = program.client(slot, route.headers)
            if isinstance(made, RunnerTurns):
                clients.append(_python_client(slot, route, made, target))
                continue
            compiled = asserting(made, task.operation.params)
            if isinstance(compiled, Script):
                clients.append(client := ScriptClient(slot, route, compiled))
                if isinstance(made, DrawnScript):
                    client.draw = made.draw
            else:
                clients.append(TemplateClient(slot, route, compiled))
        await asyncio.gather(*(_connect(client, hosts, message, context.where) for client in clients))
        return TaskShare(assignment, program, clients, code)

    def _code_of(self, message: Prepare) -> TrackCode | None:
        """The Python part of the track, imported once in this process; None of a track without."""
        view = message.stock.view
        if view is None:
            return None
        if self._plugins is None:
            self._plugins = load_plugins(Path(view.root))
            keep_names()  # a worker has no other use for them
        if self._code is None or self._code[0] is not message:
            self._code = message, TrackCode(self._plugins, unpacked(self._plugins, view), self._operations)
        return self._code[1]


async def _connect(client: Client, hosts: Hosts, message: Prepare, where: str) -> None:
    """Connect a client to its host; where the race goes on after errors, to whatever host there is."""
    while True:
        try:
            await client.connect()
            return
        except RequestFailed as failure:
            is_final = message.abort_on_error or isinstance(failure.__cause__, ssl.SSLError)
            while hosts.none_left and not hosts.given_up and not is_final:
                await asyncio.sleep(_RETRY_S)
            if hosts.given_up or is_final:
                names = ", ".join(host.label for host in hosts.all)
                raise ClusterError(f"cannot connect: {failure.detail}", where=f"{where}, {names}") from failure


def _python_client(slot: int, route: Route, turns: RunnerTurns, target: Target) -> Client:
    from esbench.rally_python.client import PythonClient

    return PythonClient(slot, route, turns, target)
