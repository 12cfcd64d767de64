"""The text of SQL: where values stand in a statement, and where the statements of a script end.

Texts, names in backticks and comments are found as MySQL and MariaDB find them by default (`sql_mode` without
ANSI_QUOTES and NO_BACKSLASH_ESCAPES): https://dev.mysql.com/doc/refman/8.4/en/language-structure.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from esbench.errors import TrackError
from esbench.model import SQL
from esbench.requests.templates import Encoding, Slot
from esbench.requests.templates import parse as parse_slots

# What is no code, each up to its end or that of all. What begins with /*! or /*M! is code of some servers.
_NO_CODE = re.compile(
    r"""(?P<text>    ' (?:[^'\\] | \\. | '')* (?:'|\Z)  |  " (?:[^"\\] | \\. | "")* (?:"|\Z) )
      | (?P<name>    ` [^`]* (?:`|\Z) )
      | (?P<line>    ^[ \t]* (?:--|\#) [^\n]* (?:\n|\Z) )
      | (?P<comment> (?: --(?=\s|\Z) | \# ) [^\n]*  |  /\* (?!!|M!) .*? (?:\*/|\Z) )""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_SLOT_ALONE = re.compile(r"""(['"])(\$\[\[[^]]*\]\])\1""")
_ENDS_A_LINE = re.compile(r"[ \t]*(?:(?:--|#)[^\n]*|/\*[^\n]*?\*/[ \t]*)?(?:\n|\Z)")
_CONCAT = "CONCAT('%', $[[name]], '%') makes a text of several parts"
_WHERE_NO_VALUE_STANDS = {
    "text": ("inside of a quoted text", _CONCAT),
    "name": ("inside of a name in backticks", "a server takes names with the statement: write the name"),
    "line": ("inside of a comment", "take it out of the comment"),
    "comment": ("inside of a comment", "take it out of the comment"),
}


@dataclass(frozen=True)
class Statement:
    """A statement with `?` for each of its slots, in order."""

    text: str
    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, text: str, where: str) -> Statement:
        """Return the statement that a track says. Raises TrackError for a `$[[` that is no variable, or that stands
        where a server takes no value, and for a `?`.

        Quotes around a variable are left out: the server knows where its value ends.
        """
        found, slots = "", list[Slot]()
        for kind, part in _parts(text):
            if kind and (kind != "text" or not (alone := _SLOT_ALONE.fullmatch(part))):
                if "$[[" in part:
                    place, hint = _WHERE_NO_VALUE_STANDS[kind]
                    raise TrackError(f"has a variable {place}: {_short(part)}", where=where, hint=hint)
                found += part
                continue
            if not kind and "?" in part:
                what = f"has a ? of its own, for which there is no value: {_short(part)}"
                raise TrackError(what, where=where, hint="a value is a variable: $[[name]]")
            try:
                parsed = parse_slots(alone[2] if kind and alone else part, Encoding.JSON_VALUE)
            except TrackError as error:
                raise TrackError(error.what, where=where, hint=error.hint) from None
            slots += [each for each in parsed if isinstance(each, Slot)]
            found += "".join("?" if isinstance(each, Slot) else each.decode() for each in parsed)
        return cls(found.strip(), tuple(slots))


def check_statement(params: Mapping[str, Any], where: str) -> None:
    """Raise TrackError for an operation whose `sql` cannot be sent to any server."""
    if isinstance(params.get(SQL), str):
        Statement.of(params[SQL], f"{where}: {SQL}" if where else SQL)


def statements_in(text: str) -> list[str]:
    """Return the statements of a script: each ends with a `;` at the end of a line, not inside of a text or comment.

    Comments up to the end of a line are left out.
    """
    found, statement, has_code, position = list[str](), "", False, 0
    for kind, part in _parts(text):
        position += len(part)
        if kind == "line" or (kind == "comment" and not part.startswith("/*")):
            continue
        if kind:
            statement += part
            has_code = has_code or kind != "comment"
            continue
        pieces = part.split(";")
        for number, piece in enumerate(pieces):
            statement += piece
            has_code = has_code or bool(piece.strip())
            if number == len(pieces) - 1:
                break
            behind = position - len(";".join(pieces[number + 1 :]))
            if not _ENDS_A_LINE.match(text, behind):
                statement += ";"
                continue
            found += [statement] if has_code else []
            statement, has_code = "", False
    found += [statement] if has_code else []
    return [each.strip() for each in found]


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text in order, each with its kind: a group of _NO_CODE, or "" for code."""
    position = 0
    for part in _NO_CODE.finditer(text):
        if part.start() > position:
            yield "", text[position : part.start()]
        yield part.lastgroup or "", part[0]
        position = part.end()
    if position < len(text):
        yield "", text[position:]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."
