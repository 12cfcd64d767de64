"""Inserts of single documents: a statement for each set of fields that documents have, and what is said of many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiled import context
from corpora import from_file

from esbench.errors import TrackError
from esbench.features.sql.client import SqlSession
from esbench.features.sql.operations import SqlProgram, program_of
from esbench.measure.verdict import GOOD


class Connection:
    """A connection that takes every statement."""

    def __init__(self) -> None:
        self.prepared: list[str] = []

    async def prepare(self, text: str) -> Connection:
        self.prepared.append(text)
        return self

    async def execute(self, args: tuple[Any, ...]) -> None:
        pass

    async def close(self) -> None:
        pass


def inserting(folder: Path, documents: list[dict[str, Any]], clients: int) -> SqlProgram:
    (folder / "orders.json").write_text("".join(json.dumps(document) + "\n" for document in documents))
    made = from_file(folder, "orders.json", len(documents))
    program = program_of(context("index", {}, documents=[made], clients=clients))
    assert isinstance(program, SqlProgram)
    return program


@pytest.mark.parametrize(("shapes", "says"), [(20, False), (21, True)])
async def test_more_sets_of_fields_than_a_connection_keeps_are_said(tmp_path: Path, shapes: int, says: bool) -> None:
    documents = [{"id": number, f"f{number % shapes}": number} for number in range(5 * shapes)]
    program = inserting(tmp_path, documents, clients=800)  # so that each connection keeps 20 statements
    turns = program.client(0, b"")
    connection = Connection()
    session = SqlSession(connection, turns.most_prepared)
    for _ in documents:
        assert await turns.run(session, turns.draw()) == GOOD
    assert len(connection.prepared) == (len(documents) if says else shapes)
    assert [text.split(":")[0] for text in program.notes] == ['task "t"'] * says
    assert all("more than 20 different sets of fields" in text for text in program.notes)
    program.close()


def test_a_document_with_a_number_that_sql_has_not_ends_the_race_with_one_line(tmp_path: Path) -> None:
    program = inserting(tmp_path, [{"id": 1, "price": float("nan")}], clients=1)
    with pytest.raises(TrackError, match="a document has a number that SQL and JSON do not have"):
        program.client(0, b"").draw()
