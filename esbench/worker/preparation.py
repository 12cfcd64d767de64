"""Preparation of a worker's share of a task: its operation compiled, its clients connected, before any clock starts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from esbench.errors import ClusterError
from esbench.load.assignment import no_end
from esbench.load.client import Client, Route
from esbench.load.contexts import context_of
from esbench.load.failures import Failures
from esbench.load.hosts import Hosts
from esbench.load.hot import Inbox
from esbench.load.messages import HTTP, Assignment, Prepare
from esbench.load.senders import CodeSender, sender_to
from esbench.load.transport import header_lines
from esbench.measure.schedule import measured_period_s
from esbench.operations import builtin_operations
from esbench.operations.parameters import seconds
from esbench.record.secrets import Redactor
from esbench.requests.exchange import RequestFailed
from esbench.requests.ledger import Ledger
from esbench.tables import PYTHON, load
from esbench.worker.worker_task import TaskShare

_RETRY_S = 0.1  # while a step that begins has no host


class Preparation:
    """The maker of task shares in one process; it keeps the Python part of the track that it imports for them."""

    def __init__(self) -> None:
        self._types = builtin_operations()
        self._inbox = Inbox()
        self._code: Any = None  # of the track, once it is imported

    async def shares(self, message: Prepare, hosts: Mapping[str, Hosts], ledger: Ledger) -> Sequence[TaskShare]:
        """Return a worker's shares of the tasks of a step, ready to begin. Raises an EsbenchError if that fails.

        `hosts` are by cluster. What the tasks write is entered into `ledger`.
        """
        python = self._python_of(message)
        return [
            await self._share(each, message, hosts[each.task.cluster], ledger, python) for each in message.assignments
        ]

    async def _share(
        self, assignment: Assignment, message: Prepare, hosts: Hosts, ledger: Ledger, python: CodeSender | None
    ) -> TaskShare:
        types = self._types if python is None else python.types
        task = replace(assignment.task, operation=types.bind(assignment.task.operation))
        target = message.target.clusters[task.cluster]
        context = context_of(
            task,
            target,
            message.stock,
            seed=message.seed,
            race_id=message.race_id,
            slots=assignment.slots,
            stripe=assignment.stripe,
            stripes=assignment.stripes,
            before=message.ledger.of(task.cluster),
            ledger=ledger.of(task.cluster),
        )
        sender = python if python is not None and target.kind == HTTP else sender_to(target)
        program = sender.program(context)
        has_end = program.finite or measured_period_s(task) is not None or assignment.may_be_endless
        if task.is_time_based and not has_end:
            raise no_end(context.where)
        timeout_s = seconds(task.operation.params, "request-timeout", target.options.timeout_s)
        access = target.options.access()
        failures = Failures(Redactor(target.options.secrets()))
        clients: list[Client] = []
        for slot in assignment.slots:
            headers = header_lines(hosts.home(slot), target.options)
            route = Route(hosts, access, headers, timeout_s, failures, target.options.http_compress, self._inbox)
            clients.append(sender.client(slot, route, program.client(slot, headers), task.operation.params))
        await asyncio.gather(*(_connect(client, hosts, message, context.where) for client in clients))
        return TaskShare(assignment, program, clients, python)

    def _python_of(self, message: Prepare) -> CodeSender | None:
        """Return the sender of the track's own Python, imported once in this process; None for a track without any."""
        if (view := message.stock.view) is None:
            return None
        self._code = self._code or load(PYTHON["worker"])(view)
        sender: CodeSender = self._code.sender(view, self._types, message.target)
        return sender


async def _connect(client: Client, hosts: Hosts, message: Prepare, where: str) -> None:
    """Connect a client to its host, or, where the race goes on after errors, to any host that can be reached.

    Raises ClusterError if that fails; for a client that has one host, after the time that a race may be without any.
    """
    gives_up_s = asyncio.get_running_loop().time() + hosts.grace_s
    while True:
        try:
            await client.connect()
            return
        except RequestFailed as failure:
            is_final = message.abort_on_error or isinstance(failure.__cause__, ssl.SSLError)
            while hosts.none_left and not hosts.given_up and not is_final:
                await asyncio.sleep(_RETRY_S)
            is_late = not hosts.none_left and asyncio.get_running_loop().time() > gives_up_s
            if not is_final and not hosts.given_up and not is_late:
                await asyncio.sleep(_RETRY_S)
            else:
                names = ", ".join(host.label for host in hosts.all)
                raise ClusterError(f"cannot connect: {failure.detail}", where=f"{where}, {names}") from failure
