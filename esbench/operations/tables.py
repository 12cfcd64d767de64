"""Answers of ES|QL, and of Elasticsearch's and OpenSearch's SQL: the rows of their tables (docs/verdicts.md).

Rows are compared in any order. Of a table that was cut short, by a limit or at the end of a page, only what its order
decides belongs to the answer: which of the rows that tie with its last one it has is a matter of chance.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

from esbench.operations.approximate import NotComparable
from esbench.record.answers import ERROR, OPEN_ROWS, ROWS, SAMPLED, SCORE_TOLERANCE

ESQL_PATH = "/_query"
SQL_PATHS = ("/_sql", "/_xpack/sql", "/_plugins/_sql", "/_opendistro/_sql")
_JSON_FORMATS = ("json", "jdbc")
_ESQL_LIMIT = 1_000  # of a query that says none
# Texts and comments: nothing in them is a word of the language.
_ESQL_APART = re.compile(r'"""(?:.*?)"""|"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SQL_APART = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
_TIME_OF_DAY = re.compile(
    r"\b(?:NOW|CURDATE|CURTIME|TODAY|GETDATE|SYSDATE)\s*\(|\bCURRENT_(?:DATE|TIME|TIMESTAMP)\b", re.IGNORECASE
)
_OF_CHANCE = re.compile(r"(?:^|\|)\s*(?:SAMPLE|RERANK|COMPLETION)\b|\b(?:RAND|RANDOM|CATEGORIZE|SAMPLE)\s*\(", re.I)
_ROW_BY_ROW = ("KEEP", "DROP", "RENAME", "EVAL", "GROK", "DISSECT", "ENRICH")  # commands that neither choose nor order
_SAMPLING = (
    r"(?:COUNT_DISTINCT|PERCENTILE_RANK|PERCENTILES?|MEDIAN_ABSOLUTE_DEVIATION|MEDIAN|MAD|COUNT\s*\(\s*DISTINCT)\b"
)
_IS_SAMPLED = re.compile(_SAMPLING, re.IGNORECASE)
_ESQL_NAMED = re.compile(rf"([\w.@`]+)\s*=\s*[^=,|]*?{_SAMPLING}", re.IGNORECASE)
_SQL_NAMED = re.compile(rf"{_SAMPLING}[^,]*?\)\s+(?:AS\s+)?[\"`]?(?!FROM\b)([\w.@]+)", re.IGNORECASE)
_ORDER_BY = re.compile(r"\bORDER\s+BY\b(.*?)(?:\bLIMIT\b|\bFETCH\b|;|$)", re.IGNORECASE | re.DOTALL)
_SQL_LIMIT = re.compile(r"\b(?:LIMIT|TOP|FETCH\s+(?:FIRST|NEXT))\s+(\d{1,9})(?:\s*,\s*(\d{1,9}))?", re.IGNORECASE)
_DIRECTION = re.compile(r"\s+(?:ASC|DESC)\b|\s+NULLS\s+(?:FIRST|LAST)\b", re.IGNORECASE)
_SCORES = ("_score", "SCORE()")  # they depend on more than the documents
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(\.\d+)?(?:Z|\+00:?00)?)?", re.ASCII)


@dataclass(frozen=True)
class _Query:
    """A query, as far as it matters to its table: the most rows that it may have, the columns that order them (a
    number: the place among all columns), and those with sampled figures."""

    limit: int | None
    order: tuple[str | int, ...]
    sampled: frozenset[str]


def is_table(path: str) -> bool:
    """True for the path of a request that is answered with a table."""
    return path == ESQL_PATH or path in SQL_PATHS


def check_query(target: str, body: bytes | None) -> None:
    """Raise NotComparable for a request whose table is not compared."""
    path, _, query_string = target.partition("?")
    _read(path, _decoded(body))
    formats = [_decoded(body).get("format"), dict(parse_qsl(query_string)).get("format")]
    if any(each not in (None, *_JSON_FORMATS) for each in formats):
        raise NotComparable("its replies are not JSON")


def table_answer(reply: Mapping[str, Any], path: str, body: bytes | None) -> dict[str, Any] | None:
    """Return the answer in a reply to a request that `check_query` has let pass; None if it holds no table.

    Raises KeyError, TypeError or ValueError for a table of an unknown form.
    """
    columns = reply.get("columns", reply.get("schema"))
    if columns is None:
        return None
    if reply.get("is_partial"):
        return {ERROR: "partial"}
    content = _decoded(body)
    query = _read(path, content)
    rows: Sequence[Sequence[Any]] = next(reply[key] for key in ("rows", "datarows", "values") if key in reply)
    if content.get("columnar"):
        rows = list(zip(*rows, strict=True))
    names = _unlike([str(each.get("alias") or each["name"]) for each in columns])
    is_cut = bool(reply.get("cursor")) or (query.limit is not None and len(rows) >= query.limit)
    open_from = _open_from(rows, names, query.order) if is_cut and rows else len(rows)
    found = [_row(names, row, query.sampled) for row in rows[:open_from]]
    if open_from < len(rows):
        last = _row(names, rows[-1], query.sampled)
        found.append(
            {OPEN_ROWS: len(rows) - open_from}
            | {name: last[name] for name in _ordering(names, query.order) if name in last}
        )
    return {ROWS: found}


def _decoded(body: bytes | None) -> dict[str, Any]:
    try:
        content = json.loads(body or b"")
    except ValueError:
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("query"), str):
        raise NotComparable("replies of this kind are not compared")
    return content


def _read(path: str, content: Mapping[str, Any]) -> _Query:
    is_esql = path == ESQL_PATH
    apart = _ESQL_APART if is_esql else _SQL_APART
    code = apart.sub(lambda text: text[0][0] * 2 if text[0][0] in "\"'" else " ", content["query"])
    if _TIME_OF_DAY.search(code):
        raise NotComparable("its requests depend on the time of day")
    if _OF_CHANCE.search(code):
        raise NotComparable("its answers are approximate, or drawn")
    return _esql(code) if is_esql else _sql(code)


def _esql(code: str) -> _Query:
    commands = [command.strip() for command in _split(code, "|")]
    kinds = [command.split(None, 1)[0].upper() if command else "" for command in commands]
    cut = kinds.index("LIMIT") if "LIMIT" in kinds else len(kinds)
    if any(kind not in (*_ROW_BY_ROW, "LIMIT") for kind in kinds[cut:]):
        raise NotComparable("a LIMIT before its end chooses rows by chance")
    limits = [int(command.split()[1]) for command in commands[cut:] if re.fullmatch(r"(?i)LIMIT\s+\d{1,9}", command)]
    order: tuple[str | int, ...] = ()
    for command, kind in zip(commands[:cut], kinds[:cut], strict=True):
        if kind == "SORT":
            order = tuple(_names(command[4:]))
        elif kind not in (*_ROW_BY_ROW, "WHERE"):
            order = ()
    sampled = frozenset(name.strip("`") for name in _ESQL_NAMED.findall(code))
    return _Query(min([*limits, _ESQL_LIMIT]), order, sampled)


def _sql(code: str) -> _Query:
    outer = "".join(part for part in _outermost(code))
    if _SQL_LIMIT.search(code) and not _SQL_LIMIT.search(outer):
        raise NotComparable("a LIMIT before its end chooses rows by chance")
    limit, order = _SQL_LIMIT.search(outer), _ORDER_BY.search(code)
    names = [int(name) - 1 if re.fullmatch("[0-9]{1,9}", name) else name for name in _names(order[1])] if order else []
    sampled = frozenset(_SQL_NAMED.findall(code))
    return _Query(int(limit[2] or limit[1]) if limit else None, tuple(names), sampled)


def _outermost(code: str) -> Iterator[str]:
    """Yield the characters of a statement that stand in no parentheses."""
    depth = 0
    for character in code:
        depth += character == "("
        if not depth:
            yield character
        depth -= character == ")"


def _split(code: str, separator: str) -> Iterator[str]:
    """Yield the parts between separators that stand in no brackets."""
    depth, part = 0, ""
    for character in code:
        depth += (character in "([") - (character in ")]")
        if character == separator and not depth:
            yield part
            part = ""
        else:
            part += character
    yield part


def _names(keys: str) -> Iterator[str]:
    for key in _split(keys, ","):
        yield _DIRECTION.sub("", f" {key}").strip().strip('`"')


def _unlike(names: Sequence[str]) -> list[str]:
    """Return names of columns, a second one of the same name with its number."""
    return [name if name not in names[:place] else f"{name}#{place + 1}" for place, name in enumerate(names)]


def _ordering(names: Sequence[str], order: Sequence[str | int]) -> list[str]:
    """Return the columns that order a table, up to the first one that it does not show."""
    found: list[str] = []
    for key in order:
        name = key if isinstance(key, str) else names[key] if 0 <= key < len(names) else ""
        if name not in names:
            break
        found.append(name)
    return found


def _open_from(rows: Sequence[Sequence[Any]], names: Sequence[str], order: Sequence[str | int]) -> int:
    """Return the place of the first row that ties with the last one of a table that was cut short."""
    places = [names.index(name) for name in _ordering(names, order)]
    place = len(rows)
    while place and all(_ties(rows[place - 1][key], rows[-1][key]) for key in places):
        place -= 1
    return place


def _ties(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SCORE_TOLERANCE)
    return bool(one == other)


def _row(names: Sequence[str], row: Sequence[Any], sampled: frozenset[str]) -> dict[str, Any]:
    return {
        name: _cell(value, name in sampled or _IS_SAMPLED.search(name) is not None)
        for name, value in zip(names, row, strict=True)
        if name not in _SCORES
    }


def _cell(value: Any, is_sampled: bool) -> Any:
    if isinstance(value, list):  # a field with several values, which have no order
        return sorted((_cell(each, is_sampled) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    if is_sampled and isinstance(value, int | float) and not isinstance(value, bool):
        return {SAMPLED: float(f"{value:.6g}")}
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else plain_value(value)


def plain_value(value: Any) -> Any:
    """Return a value as both kinds of servers can give it: times of ISO 8601 in UTC, decimals as floats, bytes as text.

    A figure without a fraction is a whole number.
    """
    if isinstance(value, date):  # or datetime
        value = value.isoformat()
    if isinstance(value, Decimal | float):
        return int(value) if float(value).is_integer() else float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is not None and not isinstance(value, str | int):
        return str(value)
    if isinstance(value, str) and (time := _TIME.fullmatch(value)):
        return f"{time[1]}T{time[2] or '00:00:00'}{(time[3] or '').rstrip('.0')}"
    return value
