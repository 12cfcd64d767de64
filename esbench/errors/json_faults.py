"""Explanation of invalid JSON: the first violation of its grammar, the position, and the remedy.

Python's parser reads JSON; its error messages are not shown, since wording and position differ between versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from esbench.numbers import TOO_LARGE, read_number

EMPTY = "it is empty"
NO_VALUE = "a value is missing"
COMMENT = "a comment"
SINGLE_QUOTES = "text is in single quotes"
HALF = "half a character (a surrogate without its other half)"
_REMEDIES = {
    NO_VALUE: "write one, or null",
    COMMENT: "JSON has none: remove it",
    SINGLE_QUOTES: 'write "..."',
    HALF: "write the character itself",
    "a comma is missing": "write a comma between two values",
    "a colon is missing": 'write "key": value',
    "a key is missing": 'write "key": value',
    "a key stands without quotes": 'write "key": value',
    "text follows the document": "the document ends before this",
    "nothing follows this comma": "remove it",
    "text is not closed": 'close it with "',
    "a line break within text": 'write \\n for it, or close the text with "',
    "a control character within text": "write it as \\u and four hexadecimal digits",
    "an unknown escape": "write \\\\ for a backslash",
}
_IN_TEMPLATES = {
    COMMENT: "JSON has none: remove it, or write {# ... #}",
    SINGLE_QUOTES: 'write "...", in a template {{ ... | tojson }}',
    EMPTY: "or its template rendered to nothing: esbench render-track shows it",
    NO_VALUE: "or a template rendered to nothing: esbench render-track shows it",
}
_OF_PYTHON = {"True": "true", "False": "false", "None": "null"}
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_CLOSERS = {"{": "}", "[": "]"}
_PUNCTUATION = "{}[],:"
# Text in quotes is a token as far as it is right. All but the white space of JSON belongs to some token.
_TOKENS = re.compile(
    r'[][{},:/#]|"(?:[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*(?P<end>")?|[^][{},:/#" \t\n\r]+'
)
_HALF = re.compile(r"[\ud800-\udfff]|\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|\\u[dD][c-fC-F]")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")


@dataclass(frozen=True)
class JsonFault:
    """The first error of an invalid JSON text, at `line` (from 1) and `column` (from 0).

    `what` is the message without the position, `hint` the remedy, "" if there is no common one. `opened` is the (line,
    column) of the bracket that the message refers to, if any.
    """

    what: str
    line: int
    column: int
    hint: str = ""
    opened: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"{self.what}, line {self.line} column {self.column + 1}"


def json_fault(text: str | bytes) -> JsonFault:
    """Return the first fault of a text that Python cannot read as JSON; call it for no other text.

    NaN and Infinity are faults, too. Bytes that are not UTF-8 are reported at the text's beginning.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            return JsonFault(f"byte {error.start} is not UTF-8 text", 1, 0, "save it as UTF-8")
    return _Reader(text).read()


def in_template(text: str) -> JsonFault:
    """As `json_fault`, with the remedies of a text that a template was rendered to."""
    fault = json_fault(text)
    return replace(fault, hint=_IN_TEMPLATES.get(fault.what, fault.hint))


class _Reader:
    """A tokenizer that reads a text up to its first JSON error."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[int] = []  # offsets of brackets
        self._expected = "value"  # or "key", "colon", or "end": what may follow a value
        self._last = ""
        self._last_offset = 0

    def read(self) -> JsonFault:
        for token in _TOKENS.finditer(self._text):
            word, offset = token[0], token.start()
            if not self._take(word, offset):
                return self._unexpected(word, offset)
            if word[0] == '"' and not token["end"]:
                return self._within_text(offset, token.end())
            if _is_too_large(word):
                return self._fault(TOO_LARGE, offset)
            self._last, self._last_offset = word, offset
        end = len(self._text.rstrip())
        if end == 0:
            return self._fault(EMPTY, 0)
        if self._open:
            what = f"it ends too early, and does not close the {self._opener}"
            return self._fault(what, end, f"write {_CLOSERS[self._opener]}", self._open[-1])
        half = _HALF.search(self._text)
        return self._fault(HALF, half.start()) if half else self._fault("it is nested too deeply", 0)

    def _fault(self, what: str, offset: int, hint: str = "", opener: int | None = None) -> JsonFault:
        """Return the fault at an offset; `opener` is the offset of the bracket that the message refers to."""
        opened = None if opener is None else self._line_and_column(opener)
        return JsonFault(what, *self._line_and_column(offset), hint or _REMEDIES.get(what, ""), opened)

    def _line_and_column(self, offset: int) -> tuple[int, int]:
        return self._text.count("\n", 0, offset) + 1, offset - self._text.rfind("\n", 0, offset) - 1

    @property
    def _opener(self) -> str:
        return self._text[self._open[-1]] if self._open else ""

    def _take(self, word: str, offset: int) -> bool:
        """Advance past a token; return False if the token is not allowed here."""
        match self._expected, word:
            case ("end", "}" | "]") | ("key", "}") | ("value", "]"):
                if not self._open or word != _CLOSERS[self._opener]:
                    return False
                if self._expected != "end" and self._last != self._opener:
                    return False  # after a comma
                self._open.pop()
                self._expected = "end"
            case "end", ",":
                if not self._open:
                    return False
                self._expected = "key" if self._opener == "{" else "value"
            case "colon", ":":
                self._expected = "value"
            case "value", "{" | "[":
                self._open.append(offset)
                self._expected = "key" if word == "{" else "value"
            case "key", _ if word[0] == '"':
                self._expected = "colon"
            case "value", _ if word[0] == '"' or _SCALAR.fullmatch(word):
                self._expected = "end"
            case _:
                return False
        return True

    def _unexpected(self, word: str, offset: int) -> JsonFault:
        if self._open and word in ("}", "]"):
            return self._wrong_closer(word, offset)
        if word[0] == "'":
            return self._fault(SINGLE_QUOTES, offset)
        if word in ("/", "#"):
            return self._fault(COMMENT, offset)
        if word in _OF_PYTHON:
            return self._fault(f"{word} is written {_OF_PYTHON[word]}", offset, "in a template: {{ ... | tojson }}")
        if word in _NO_NUMBERS:
            return self._fault(f"{word} is not a number there", offset, "write a number, or null")
        return self._fault(self._missing(word), offset)

    def _wrong_closer(self, word: str, offset: int) -> JsonFault:
        closer = _CLOSERS[self._opener]
        if word != closer:
            hint = f"write {closer} before it, or remove it"
            return self._fault(f"this {word} does not close the {self._opener}", offset, hint, self._open[-1])
        if self._last == ",":
            return self._fault("nothing follows this comma", self._last_offset)
        return self._fault(self._missing(word), offset)

    def _missing(self, word: str) -> str:
        is_word = word not in _PUNCTUATION
        match self._expected:
            case "end":
                return "a comma is missing" if self._open else "text follows the document"
            case "colon":
                return "a colon is missing"
            case "key":
                return "a key stands without quotes" if is_word else "a key is missing"
        return f"{_shown(word)} is not a value" if is_word else NO_VALUE

    def _within_text(self, offset: int, end: int) -> JsonFault:
        match self._text[end : end + 1]:
            case "":
                return self._fault("text is not closed", offset)
            case "\\":
                return self._fault("an unknown escape", end)
            case "\n" | "\r":
                return self._fault("a line break within text", end)
        return self._fault("a control character within text", end)


def _is_too_large(word: str) -> bool:
    """True for a number, as a token that may stand where it does, which no float holds."""
    if word[0] not in "-0123456789":
        return False
    try:
        read_number(word)
    except ValueError:
        return True
    return False


def _shown(word: str) -> str:
    return word[:40] if word.isprintable() else ascii(word)[1:-1]
