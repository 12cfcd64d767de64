"""Reading of Loadgen's DSL: request lines with bodies, and what comments say of them, as JSON with the same lines.

Source of the format: Loadgen's documentation (https://docs.infinilabs.com/loadgen/main/, Usage of Variables and below),
and its published examples. A request is a line `METHOD URL`, then the lines of its body up to an empty line or a
comment. A comment has `key: value` pairs, with values as in JSON5; or what the reply must be: a status, a JSON object
of its body, or both. Comments before the first request are about the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from esbench.errors import TrackError
from esbench.numbers import read_number
from esbench.operations.conditions import CONDITION_NAMES

SUFFIX = ".dsl"
_OF_FILE = ("env", "runner", "variables")
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.$-]))
    |(?P<name>[\w$][\w$.-]*)
    |(?P<sign>[{}\[\](),:])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_STATUS, _BODY = "_ctx.response.status", "_ctx.response.body_json"


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


@dataclass(frozen=True)
class _Value:
    """A value of a comment with its line: a scalar, a dict or list of values, or a tuple of them."""

    content: Any
    line: int

    @property
    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.content, dict):
            return {key: value.plain for key, value in self.content.items()}
        if isinstance(self.content, list | tuple):
            return [value.plain for value in self.content]
        return self.content


@dataclass
class _Request:
    """A request with its line, the lines of its body, and what comments say of it."""

    method: str
    url: str
    line: int
    body: list[str] = field(default_factory=list)
    said: dict[str, _Value] = field(default_factory=dict)


def as_json(path: Path, text: str) -> str:
    """Return a file of the DSL as JSON of a Loadgen file, whose values stand in the lines that they have in it.

    Raises TrackError for what cannot be read, with its place.
    """
    of_file: dict[str, _Value] = {}
    requests: list[_Request] = []
    for kind, line, lines in _blocks(text):
        if kind == "request":
            method, _, url = lines[0].strip().partition(" ")
            if not url.strip():
                what = f'"{method[:80]}" is not a request'
                raise TrackError(what, where=f"{path}:{line}", hint="say METHOD URL; a body ends with its empty line")
            body = [each.removesuffix("\r") for each in lines[1:]]
            requests.append(_Request(method.upper(), url.strip(), line, body))
            continue
        owner = requests[-1].said if requests else of_file
        for key, value in _Comment(path, "\n".join(lines), line).pairs():
            (of_file if key in _OF_FILE else owner)[key] = value
    return _Writer().document(of_file, requests)


def _blocks(text: str) -> Iterator[tuple[str, int, Sequence[str]]]:
    """Yield each request and each comment of a file: what it is, its line from 1, and its lines."""
    kind, first, block = "", 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        found = "comment" if line.lstrip().startswith("#") else "request" if line.strip() else ""
        if block and found != kind:
            yield kind, first, block
            block = []
        if found:
            kind, first = found, first if block else number
            block.append(re.sub(r"^\s*#", "", line) if found == "comment" else line)
    if block:
        yield kind, first, block


class _Comment:
    """A comment, read token by token. Faults are TrackErrors with the line."""

    def __init__(self, path: Path, text: str, line: int) -> None:
        self._path = path
        self._tokens = list(self._split(text, line))
        self._place = 0

    def _split(self, text: str, line: int) -> Iterator[_Token]:
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                self._fail(line, f"{text[position : position + 20].splitlines()[0]!r} cannot be read")
            if match.lastgroup != "space":
                yield _Token(str(match.lastgroup), match[0], line)
            line += match[0].count("\n")
            position = match.end()
        self._end = _Token("end", "the end of the comment", line)

    def _fail(self, line: int, what: str, hint: str = "say key: value, or 200, or {...}") -> NoReturn:
        raise TrackError(what, where=f"{self._path}:{line}", hint=hint)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place] if self._place < len(self._tokens) else self._end

    def _take(self, text: str = "") -> _Token:
        token = self._next
        if text and token.text != text:
            self._fail(token.line, f'"{text}" should stand before {token.text}')
        self._place += 1
        return token

    def pairs(self) -> Iterator[tuple[str, _Value]]:
        """Yield what the comment says: its keys and values; of a status and a body that are expected, an assert."""
        if not self._tokens:
            return
        if self._next.kind == "number" or self._next.text == "{":
            line = self._next.line
            parts = [self._value()] if self._next.kind == "number" else [_Value(None, line)]
            parts += [self._value()] if self._next.text == "{" else []
            if self._next is not self._end:
                self._fail(self._next.line, f"{self._next.text} follows what the reply must be")
            yield "assert", self._expected(_Value(tuple(parts), line))
            return
        while self._next is not self._end:
            key = self._key()
            self._take(":")
            value = self._value()
            yield key, self._expected(value) if key == "assert" else value
            if self._next is not self._end:
                self._take(",")

    def _key(self) -> str:
        token = self._take()
        if token.kind not in ("name", "string", "number"):
            self._fail(token.line, f"{token.text} is not a key")
        return _unquoted(token.text) if token.kind == "string" else token.text

    def _value(self) -> _Value:
        token = self._take()
        content: Any
        if token.kind == "string":
            content = _unquoted(token.text)
        elif token.kind == "number":
            content = self._number(token)
        elif token.kind == "name":
            content = _WORDS.get(token.text, token.text)
        elif token.text == "{":
            content = self._object()
        elif token.text in ("[", "("):
            content = self._list("]" if token.text == "[" else ")")
        else:
            self._fail(token.line, f"a value should stand before {token.text}")
        return _Value(content, token.line)

    def _number(self, token: _Token) -> int | float:
        try:
            return read_number(token.text)
        except ValueError as error:
            self._fail(token.line, str(error))

    def _object(self) -> dict[str, _Value]:
        found: dict[str, _Value] = {}
        while self._next.text != "}":
            key = self._key()
            self._take(":")
            found[key] = self._value()
            if self._next.text != "}":
                self._take(",")
        self._take("}")
        return found

    def _list(self, end: str) -> list[_Value] | tuple[_Value, ...]:
        found: list[_Value] = []
        while self._next.text != end:
            found.append(self._value())
            if self._next.text != end:
                self._take(",")
        self._take(end)
        return found if end == "]" else tuple(found)

    def _expected(self, said: _Value) -> _Value:
        """Return the conditions of an `assert`: an object of values by path, or a status and an object of the body."""
        if isinstance(said.content, dict):
            if said.content and all(key in CONDITION_NAMES for key in said.content):
                return said  # written as in YAML
            return _all_of(_equal(said, ""), said.line)
        if not isinstance(said.content, tuple) or not 1 <= len(said.content) <= 2:
            hint = "say {_ctx.response.status: 200} or (200, {...})"
            self._fail(said.line, "an assert is an object, or a status and an object of the body", hint)
        status, *body = said.content
        if not isinstance(status.content, int | None):
            self._fail(status.line, f"{status.plain} is not a status", "say (200, {...})")
        conditions = [] if status.content is None else [_is(_STATUS, status)]
        if body and not isinstance(body[0].content, dict):
            self._fail(body[0].line, "what a body must be is an object", "say (200, {key: value})")
        return _all_of([*conditions, *(_equal(body[0], _BODY) if body else ())], said.line)


def _unquoted(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(plain, text[1:-1])


def _is(path: str, wanted: _Value) -> _Value:
    return _Value({"equals": _Value({path: wanted}, wanted.line)}, wanted.line)


def _equal(wanted: _Value, path: str) -> list[_Value]:
    """Return a condition for each scalar within a value: what stands at its path must equal it."""
    inside: Any
    if isinstance(wanted.content, dict):
        inside = wanted.content.items()
    elif isinstance(wanted.content, list):
        inside = enumerate(wanted.content)
    else:
        return [_is(path, wanted)]
    return [each for key, value in inside for each in _equal(value, f"{path}.{key}".removeprefix("."))]


def _all_of(conditions: list[_Value], line: int) -> _Value:
    return conditions[0] if len(conditions) == 1 else _Value({"and": _Value(conditions, line)}, line)


class _Writer:
    """A writer of JSON that begins a line for each line of the values that it writes."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._line = 1

    def document(self, of_file: Mapping[str, _Value], requests: Sequence[_Request]) -> str:
        """Return what a file says as JSON."""
        self._pieces.append("{")
        for key, value in of_file.items():
            self._pair(key, value)
            self._pieces.append(",")
        self._pieces.append('"requests":[')
        for number, request in enumerate(requests):
            self._pieces.append("," if number else "")
            self._request(request)
        self._pieces.append("]}")
        return "".join(self._pieces)

    def _request(self, request: _Request) -> None:
        said = dict(request.said)
        more = said.pop("request", None)
        self._to(request.line)
        fields = {"method": request.method, "url": request.url, "body": "".join(f"{line}\n" for line in request.body)}
        self._pieces.append('{"request":')
        self._write(_Value({key: _Value(text, request.line) for key, text in fields.items()}, request.line), more)
        for key, value in said.items():
            self._pieces.append(",")
            self._pair(key, value)
        self._pieces.append("}")

    def _to(self, line: int) -> None:
        self._pieces.append("\n" * (line - self._line))
        self._line = max(self._line, line)

    def _pair(self, key: str, value: _Value) -> None:
        self._to(value.line)
        self._pieces.append(f"{_text(key)}:")
        self._write(value)

    def _write(self, value: _Value, more: _Value | None = None) -> None:
        """Write a value; an object with the keys of `more`, too."""
        self._to(value.line)
        if isinstance(value.content, dict):
            pairs = {**value.content, **(more.content if more is not None and isinstance(more.content, dict) else {})}
            self._pieces.append("{")
            for number, (key, inner) in enumerate(pairs.items()):
                self._pieces.append("," if number else "")
                self._pair(key, inner)
            self._pieces.append("}")
        elif isinstance(value.content, list | tuple):
            self._pieces.append("[")
            for number, inner in enumerate(value.content):
                self._pieces.append("," if number else "")
                self._write(inner)
            self._pieces.append("]")
        else:
            self._pieces.append(_text(value.content))


def _text(scalar: Any) -> str:
    return json.dumps(scalar, ensure_ascii=False)
