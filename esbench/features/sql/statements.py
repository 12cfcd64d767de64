"""SQL of a track: `$[[name]]` is a parameter of a prepared statement, whose value is drawn for each request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from esbench.errors import TrackError
from esbench.features.sql.tuples import parameter, whole_text
from esbench.requests.context import RequestContext
from esbench.requests.sql_text import Statement
from esbench.requests.templates import Draw, Layout
from esbench.requests.variables import ValueSource, keep_positions, make_sources


class Values:
    """The values of a statement's parameters."""

    def __init__(self, statement: Statement, context: RequestContext) -> None:
        layout = Layout(statement.slots)
        self._ledger = context.ledger
        self._where = context.where
        self._by_name = make_sources(layout.fields, context)
        self._sources: Sequence[ValueSource] = [self._by_name[name] for name in layout.variables]
        self._places = [layout.find(slot) for slot in statement.slots]

    def draw(self) -> tuple[Any, ...]:
        """Return the values of the next request: numbers and texts. Raises TrackError for one that SQL has not."""
        drawn: Draw = [source.draw() for source in self._sources]
        try:
            return tuple(parameter(json.loads(drawn[source][item])) for source, item in self._places)
        except ValueError as error:
            raise TrackError(f"a variable has {error}", where=self._where) from None

    def close(self) -> None:
        """Enter into the ledger which numbers of sequences were drawn."""
        keep_positions(self._by_name.values(), self._ledger)


def quoted_name(name: str) -> str:
    """Return the name of a table as SQL takes it, in backticks."""
    return "`" + whole_text(name).replace("`", "``") + "`"


def counting(table: str) -> str:
    """Return the statement that counts the rows of a table, as its column docs."""
    return f"SELECT COUNT(*) AS docs FROM {quoted_name(table)}"  # the name is in backticks  # nosec B608
