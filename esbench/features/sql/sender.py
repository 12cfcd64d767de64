"""The sender to SQL servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from esbench.corpus.prepared import PreparedDocuments
from esbench.features.sql.client import SqlClient
from esbench.features.sql.operations import program_of
from esbench.features.sql.tuples import RowDocuments
from esbench.load.client import Client, Route
from esbench.load.messages import Target
from esbench.load.senders import Sender
from esbench.operations.base import TaskContext
from esbench.requests.programs import Program


class SqlSender(Sender):
    """A sender of statements over connections of MySQL's protocol."""

    def __init__(self, target: Target) -> None:
        self._options = target.options

    def program(self, context: TaskContext) -> Program:
        return program_of(context)

    def client(self, slot: int, route: Route, made: Any, params: Mapping[str, Any]) -> Client:
        return SqlClient(slot, route, made, params, self._options)

    def files(self, documents: PreparedDocuments) -> Iterator[Path]:
        rows = RowDocuments.of(documents)
        yield from (rows.file, rows.offsets_path)
