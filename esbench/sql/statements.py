"""SQL of a track: `$[[name]]` is a parameter of a prepared statement, whose value is drawn for each request."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from esbench.errors import TrackError
from esbench.requests.context import RequestContext
from esbench.requests.templates import Draw, Encoding, Layout, Slot
from esbench.requests.templates import parse as parse_slots
from esbench.requests.variables import ValueSource, keep_positions, make_sources
from esbench.sql.tuples import parameter

_QUOTED = re.compile(r"""'(\$\[\[[^]]*\]\])'|"(\$\[\[[^]]*\]\])\"""")
_COMMENT = ("--", "#")


@dataclass(frozen=True)
class Statement:
    """A statement with `?` for each of its slots, in order."""

    text: str
    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, text: str, where: str) -> Statement:
        """Return the statement that a track says. Raises TrackError for a `$[[` that is no variable.

        Quotes around a variable are left out: the server knows where its value ends.
        """
        try:
            parts = parse_slots(_QUOTED.sub(lambda match: match[1] or match[2], text), Encoding.JSON_VALUE)
        except TrackError as error:
            raise TrackError(error.what, where=where, hint=error.hint) from None
        slots = tuple(part for part in parts if isinstance(part, Slot))
        return cls("".join("?" if isinstance(part, Slot) else part.decode() for part in parts).strip(), slots)


def statements_in(text: str) -> list[str]:
    """Return the statements of a script: each ends with a `;` at the end of a line that is no comment."""
    found, lines = [], list[str]()
    for line in text.splitlines():
        if not line.lstrip().startswith(_COMMENT):
            lines.append(line.rstrip())
        if lines and lines[-1].endswith(";"):
            found.append("\n".join(lines).removesuffix(";").strip())
            lines = []
    found.append("\n".join(lines).strip())
    return [statement for statement in found if statement]


class Values:
    """The values of a statement's parameters."""

    def __init__(self, statement: Statement, context: RequestContext) -> None:
        layout = Layout(statement.slots)
        self._ledger = context.ledger
        self._by_name = make_sources(layout.fields, context)
        self._sources: Sequence[ValueSource] = [self._by_name[name] for name in layout.variables]
        self._places = [layout.find(slot) for slot in statement.slots]

    def draw(self) -> tuple[Any, ...]:
        """Return the values of the next request: numbers and texts."""
        drawn: Draw = [source.draw() for source in self._sources]
        return tuple(parameter(json.loads(drawn[source][item])) for source, item in self._places)

    def close(self) -> None:
        """Enter into the ledger which numbers of sequences were drawn."""
        keep_positions(self._by_name.values(), self._ledger)


def quoted_name(name: str) -> str:
    """Return the name of a table as SQL takes it, in backticks."""
    return "`" + name.replace("`", "``") + "`"


def counting(table: str) -> str:
    """Return the statement that counts the rows of a table, as its column docs."""
    return f"SELECT COUNT(*) AS docs FROM {quoted_name(table)}"  # the name is in backticks  # nosec B608
