"""Senders: how requests of a task are made and sent, by the kind of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from esbench.corpus.prepared import PreparedDocuments
from esbench.load.client import Client, Route
from esbench.load.clients import client_of
from esbench.load.loops import Length, TaskLoop
from esbench.load.messages import HTTP, Assignment, Target
from esbench.load.recorder import Recorder
from esbench.measure.verdict import Verdict
from esbench.operations import OperationTypes
from esbench.operations.base import TaskContext, kind_of
from esbench.requests.programs import Program
from esbench.tables import SENDERS, load


class Sender(Protocol):
    """A maker of the programs and clients of a task, for its target."""

    def program(self, context: TaskContext) -> Program:
        """Compile a task's operation. Raises TrackError if servers of this kind do not have it."""

    def client(self, slot: int, route: Route, made: Any, params: Mapping[str, Any]) -> Client:
        """Return the client of a slot, not connected; `made` is what the program made for the slot."""

    def files(self, documents: PreparedDocuments) -> Iterator[Path]:
        """Yield the files that a worker reads besides the prepared documents themselves."""


class CodeSender(Sender, Protocol):
    """A sender of tasks of a track that has Python, for one step; `types` of operations are with its runners."""

    types: OperationTypes

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
    ) -> TaskLoop:
        """Return the loop of a task whose due times come from a scheduler of the track."""


class HttpSender(Sender):
    """The sender to servers of HTTP."""

    def program(self, context: TaskContext) -> Program:
        return kind_of(context.task.operation).compile(context)

    def client(self, slot: int, route: Route, made: Any, params: Mapping[str, Any]) -> Client:
        return client_of(slot, route, made, params)

    def files(self, documents: PreparedDocuments) -> Iterator[Path]:
        return iter(())


def sender_to(target: Target) -> Sender:
    """Return the sender to a target, by its kind."""
    return HttpSender() if target.kind == HTTP else load(SENDERS[target.kind])(target)
