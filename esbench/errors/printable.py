"""Text from tracks, records, servers and logs, made harmless for terminals and spreadsheets."""

from __future__ import annotations

_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # Unicode TR 9: what follows is shown in another order
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_ESCAPES = _CONTROLS | {code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *_DIRECTIONS)}
_IN_JSON = {code: f"\\u{code:04x}" for code in _ESCAPES if code >= 127}  # JSON has escapes for those below 32
_BEGINS_FORMULA = ("=", "+", "-", "@")


def printable(text: str) -> str:
    r"""Return text with control characters shown as "\x1b", so that a terminal does not carry them out.

    Line breaks and tabs stay.
    """
    return text.translate(_ESCAPES)


def printable_json(text: str) -> str:
    """Return JSON text with the same values, in which control characters and marks of text direction are escaped.

    `text` must be valid JSON. Line breaks between values stay.
    """
    return text.translate(_IN_JSON)


def for_spreadsheet(text: str) -> str:
    """Return text for a cell of CSV: printable, with a ' before text that a spreadsheet would take for a formula,
    as some do after spaces and tabs.

    A lone "-" stays as it is.
    """
    text = printable(text)
    return f"'{text}" if text.lstrip().startswith(_BEGINS_FORMULA) and text != "-" else text
