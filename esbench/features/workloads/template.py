"""A JSON file with Jinja in it, as pieces of its text: values can be read and taken out without rendering it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[^\s{}\[\],:\"]+")
_TAG_WORD = re.compile(r"\{%[-+]?\s*(\w+)")
_WITHOUT_TEXT = ("with", "endwith", "set", "import", "from")  # tags that render to nothing, whatever the parameters are
_OPENERS, _CLOSERS = "{[", "}]"
_CLOSED_BY = {"{": "}", "[": "]"}
_BRANCHES = ("if", "for")
_OTHER_BRANCHES = ("else", "elif")
_ENDS = ("endif", "endfor")


@dataclass(eq=False)
class TemplatePiece:
    """A piece of a template's text: a bracket, a comma, a colon, text in quotes, another word, blanks, or Jinja's.

    `kind` is the bracket, comma or colon itself, or "string", "word", "space", "comment", "tag" or "output"; a tag that
    includes a file is an output. `line` counts from 1.
    """

    kind: str
    text: str
    line: int
    gone: bool = False

    @property
    def word(self) -> str:
        """The word of a tag: if, set, include."""
        match = _TAG_WORD.match(self.text)
        return match[1] if match else ""

    @property
    def is_blank(self) -> bool:
        """True if it renders to nothing."""
        is_silent = self.kind == "tag" and self.word in _WITHOUT_TEXT
        return self.gone or self.kind in ("space", "comment") or is_silent


@dataclass(eq=False)
class Value:
    """A value of a template: an object, an array, or another; `first` and `last` are indices of its pieces.

    `key` is that of the member which it is the value of, `key_piece` the index of that. `holder` is the object or array
    around it, or the file, whose own is None.
    """

    kind: str  # "{", "[" or ""
    first: int
    last: int
    holder: Value | None
    key: str | None = None
    key_piece: int | None = None
    items: list[Value] = field(default_factory=list)


class WorkloadTemplate:
    """The pieces of a template, and its values where brackets are balanced; `root` is None where they are not."""

    def __init__(self, text: str) -> None:
        self.pieces = list(_pieces(text))
        self.root = _tree(self.pieces)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces if not piece.gone)

    @property
    def is_empty(self) -> bool:
        """True if nothing that renders to text is left."""
        return all(piece.is_blank for piece in self.pieces)

    def values(self) -> Iterator[Value]:
        """Yield all values that are left, outer ones first."""
        todo = list(self.root.items) if self.root is not None else []
        while todo:
            value = todo.pop(0)
            if not self.is_gone(value):
                yield value
                todo[:0] = value.items

    def is_gone(self, value: Value) -> bool:
        return self.pieces[value.first].gone

    def member(self, value: Value, key: str) -> Value | None:
        """Return the value of an object's first key that is left and has this name."""
        return next((item for item in value.items if item.key == key and not self.is_gone(item)), None)

    def string(self, value: Value | None) -> str | None:
        """Return the text in the quotes of a value, as it is written; None if it is anything else."""
        if value is None or value.first != value.last or self.pieces[value.first].kind != "string":
            return None
        return self.pieces[value.first].text[1:-1]

    def line(self, value: Value) -> int:
        return self.pieces[value.first].line

    def cut(self, value: Value) -> bool:
        """Take a value out, with its key and one comma; return False if it has none that is certainly its own."""
        first = value.first if value.key_piece is None else value.key_piece
        after, before = self._next(value.last + 1, 1), self._next(first - 1, -1)
        comma = next((index for index in (after, before) if self._kind(index) == ","), None)
        if comma is None and (self._kind(after) not in ("", *_CLOSERS) or self._kind(before) not in ("", *_OPENERS)):
            return False
        for piece in self.pieces[first : value.last + 1]:
            piece.gone = True
        if comma is not None:
            self.pieces[comma].gone = True
        if first and self.pieces[first - 1].kind == "space":
            self.pieces[first - 1].gone = True  # those after it stay
        return True

    def _next(self, index: int, step: int) -> int:
        while 0 <= index < len(self.pieces) and self.pieces[index].is_blank:
            index += step
        return index

    def _kind(self, index: int) -> str:
        """Return the kind of a piece; an empty text before the first and after the last one."""
        return self.pieces[index].kind if 0 <= index < len(self.pieces) else ""


def _pieces(text: str) -> Iterator[TemplatePiece]:
    at, line = 0, 1
    while at < len(text):
        kind, end = _piece(text, at)
        piece = TemplatePiece(kind, text[at:end], line)
        if kind == "tag" and piece.word == "include":
            piece.kind = "output"
        yield piece
        line += piece.text.count("\n")
        at = end


def _piece(text: str, at: int) -> tuple[str, int]:
    """Return the kind of the piece that begins at `at`, and where it ends."""
    two, letter = text[at : at + 2], text[at]
    if two == "{#":
        end = text.find("#}", at)
        return "comment", end + 2 if end >= 0 else len(text)
    if two in ("{%", "{{"):
        return "tag" if two == "{%" else "output", _end_of_jinja(text, at)
    if letter == '"':
        return "string", _end_of_string(text, at)
    if letter in "{}[],:":
        return letter, at + 1
    match = _SPACE.match(text, at)
    if match is not None:
        return "space", match.end()
    match = _WORD.match(text, at)
    return "word", match.end() if match else at + 1


def _end_of_jinja(text: str, at: int) -> int:
    """Return where a tag or an output ends: brackets and texts in quotes inside may hold its end as well."""
    closing = "%}" if text[at + 1] == "%" else "}}"
    index, depth, quote = at + 2, 0, ""
    while index < len(text):
        letter = text[index]
        if quote:
            if letter == "\\":
                index += 1
            elif letter == quote:
                quote = ""
        elif letter in "\"'":
            quote = letter
        elif not depth and text.startswith(closing, index):
            return index + 2
        elif letter == "{":
            depth += 1
        elif letter == "}":
            depth = max(0, depth - 1)
        index += 1
    return len(text)


def _end_of_string(text: str, at: int) -> int:
    """Return where a text in quotes ends; Jinja inside may have quotes, too."""
    index = at + 1
    while index < len(text):
        if text[index] == "\\":
            index += 2
        elif text[index] == '"':
            return index + 1
        elif text[index : index + 2] in ("{{", "{%"):
            index = _end_of_jinja(text, index)
        else:
            index += 1
    return len(text)


def _tree(pieces: list[TemplatePiece]) -> Value | None:
    """Return the file as a value, whose items are those that stand in no bracket; None if brackets are unbalanced."""
    reader = _Reader(pieces)
    try:
        for index, piece in enumerate(pieces):
            reader.take(index, piece)
    except _UnbalancedError:
        return None
    return reader.root if reader.inner is reader.root else None


class _UnbalancedError(Exception): ...


class _Reader:
    """The reading of pieces into values: `inner` is the innermost object or array that is open."""

    def __init__(self, pieces: list[TemplatePiece]) -> None:
        self.root = self.inner = Value("", 0, max(0, len(pieces) - 1), None)
        self._pieces = pieces
        self._key: int | None = None
        self._scalar: Value | None = None  # may go on with the next piece
        self._branches: list[Value] = []  # what was open where each began

    def take(self, index: int, piece: TemplatePiece) -> None:
        if piece.kind in ("space", "comment"):
            return
        if piece.kind == "tag":
            self._scalar = None
            self._tag(piece.word)
        elif piece.kind in _CLOSERS:
            self._close(index, piece.kind)
        elif piece.kind == ",":
            self._key = self._scalar = None
        elif piece.kind == ":":
            if self._scalar is not None:
                self._key = self._scalar.first
                self.inner.items.remove(self._scalar)
            self._scalar = None
        elif self._scalar is not None and piece.kind not in _OPENERS:
            self._scalar.last = index
        else:
            self._begin(index, piece.kind if piece.kind in _OPENERS else "")

    def _tag(self, word: str) -> None:
        if word in _BRANCHES:
            self._branches.append(self.inner)
        elif word in _OTHER_BRANCHES or word in _ENDS:
            if not self._branches or self._branches[-1] is not self.inner:
                raise _UnbalancedError  # a branch opens or closes what another one does not
            if word in _ENDS:
                self._branches.pop()

    def _close(self, index: int, bracket: str) -> None:
        if self.inner.holder is None or _CLOSED_BY[self.inner.kind] != bracket:
            raise _UnbalancedError
        self.inner.last, self.inner = index, self.inner.holder
        self._key = self._scalar = None

    def _begin(self, index: int, kind: str) -> None:
        value = Value(kind, index, index, self.inner)
        if self._key is not None:
            value.key, value.key_piece = self._pieces[self._key].text.strip('"'), self._key
        self.inner.items.append(value)
        if kind:
            self.inner, self._key, self._scalar = value, None, None
        else:
            self._scalar = value
