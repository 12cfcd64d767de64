"""Removal of secrets from text of others (replies, error messages) before it reaches a record or a log.

Known secrets are hidden exactly, and so is whatever looks like credentials. Too much may be hidden, never too little:
an example of a failure is there to be recognised, not to be parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

HIDDEN = "<hidden>"

# Names of parameters and settings, in lower case and with `_` for `-`, whose values are secrets.
_SECRET = re.compile(
    r"(?:^|[._])secret(?:[._]|$)|password|passwd|pwd|passw?(?:[._]|$)|passphrase|api_?key|(?:access|private)_?key|authorization|bearer"
    r"|credential|(?:token|license|licence)$|(?:^|[._])pat$"
)
_LONG = 8  # characters: a known secret as long is hidden wherever it stands, a shorter one as a whole word

# Repetitions that may overlap are bounded: what a server writes must not take more than linear time.
_NAME = (
    r"(?:password|passwd|pwd|credential|passphrase|api[_-]?key|secret[_-]|[_-]secret|authorization|x-[\w-]{0,30}token"
    r"|(?:access|auth|refresh|session)[_-]?token|cookie)[\w.-]{0,40}"
)
_ASSIGNED = rf"{_NAME}\\*[\"']?\s{{0,4}}[:=]\s{{0,4}}"
_SCHEME = r"(?:basic|bearer|apikey|negotiate)"
_PATTERNS = (
    # https://user:password@host
    (re.compile(r"(://)[^\s/\"'<>]*@"), rf"\1{HIDDEN}@"),
    # "password": "...", also inside text that is itself JSON (\"password\": \"...\"); "api_key": {...}
    (re.compile(rf"(?is)({_ASSIGNED}\[?\s{{0,4}})(\\*[\"']).*?(?:(?<!\\)\2|$)"), rf"\1\2{HIDDEN}\2"),
    (re.compile(rf"(?i)({_ASSIGNED})\{{[^}}]*\}}?"), rf"\1{HIDDEN}"),
    # Authorization: Basic dTpw, api_key=abc&..., [Authorization=[ApiKey abc]]
    (re.compile(rf"(?i)({_ASSIGNED}\[?\s{{0,4}})(?:{_SCHEME}\s{{1,4}})?[^\s\"'\\,;&\[\]<>]+"), rf"\1{HIDDEN}"),
    # Basic dTpw wherever it stands; "Basic authentication" is no secret, so the word must not be all lower case
    (re.compile(rf"(?i)\b({_SCHEME}\s{{1,4}})(?-i:(?=[a-z]*[^a-z\s\"'\\,;.:)]))[\w+/=.~-]{{6,}}"), rf"\1{HIDDEN}"),
)


class Secret(str):
    """A text that came from the environment: hidden wherever it is shown, whatever its name."""

    __slots__ = ()


class Redactor:
    """A callable that hides `secrets` in a text, in all their encodings, and whatever looks like credentials."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = tuple(dict.fromkeys(secret for secret in secrets if secret))
        written = sorted({form for secret in self._secrets for form in _forms(secret)}, key=len, reverse=True)
        self._known = re.compile("|".join(map(_anywhere_or_word, written))) if written else None

    def knowing(self, secrets: Iterable[str]) -> Redactor:
        """Return a copy that hides further secrets, too."""
        return Redactor((*self._secrets, *secrets))

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text

    def known_hidden(self, text: str) -> str:
        """Return a text in which the known secrets are hidden, and nothing that only looks like one."""
        return text if self._known is None else self._known.sub(HIDDEN, text)

    def throughout(self, value: Any, own: Collection[str], names: Collection[str]) -> Any:
        """Return a copy of JSON in which known secrets are hidden in all texts and names, but for what is below the
        names in `own`, and for `names`."""
        if self._known is None:
            return value
        if isinstance(value, Mapping):
            return {
                name if name in names else self._known.sub(HIDDEN, str(name)): item
                if name in own
                else self.throughout(item, own, names)
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.throughout(item, own, names) for item in value]
        return self._known.sub(HIDDEN, value) if isinstance(value, str) else value

    def knows_one_of(self, text: str) -> bool:
        """True if a known secret is in the text."""
        return self._known is not None and self._known.search(text) is not None

    def within(self, value: Any) -> Any:
        """Return a copy of JSON in which all texts have their secrets hidden; names and numbers stay."""
        if isinstance(value, Mapping):
            return {name: self.within(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.within(item) for item in value]
        return self(value) if isinstance(value, str) else value


def _forms(secret: str) -> Iterator[str]:
    """Yield the encodings of a secret: as it is, in a URL, in JSON, in JSON inside of JSON, and in Python's repr of
    bytes."""
    yield secret
    yield quote(secret, safe="")
    for ascii_only in (True, False):
        written = secret
        for _ in range(3):
            written = json.dumps(written, ensure_ascii=ascii_only)[1:-1]
            yield written
    yield repr(secret.encode())[2:-1]


def _anywhere_or_word(text: str) -> str:
    return re.escape(text) if len(text) >= _LONG else rf"(?<!\w){re.escape(text)}(?!\w)"


def redact(params: Mapping[str, Any], within: Callable[[str], str] = Redactor()) -> dict[str, Any]:  # noqa: B008
    """Return a copy of `params` in which the value of every secret (db_secret, *password*, *_token ...; a Secret) is
    hidden.

    Letter case does not matter, nor whether words are joined by `_` or `-`; nested mappings and lists are searched too.
    `within` hides secrets within the other texts, by default whatever looks like credentials.
    """
    return {
        name: HIDDEN if _is_secret(name) or isinstance(value, Secret) else _redact_nested(value, within)
        for name, value in params.items()
    }


def _is_secret(name: object) -> bool:
    return _SECRET.search(str(name).lower().replace("-", "_")) is not None


def _redact_nested(value: Any, within: Callable[[str], str]) -> Any:
    if isinstance(value, Mapping):
        return redact(value, within)
    if isinstance(value, list | tuple):
        return [_redact_nested(item, within) for item in value]
    return within(value) if isinstance(value, str) else value


def secret_values(params: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values that `redact` hides, as text."""
    for name, value in params.items():
        yield from _leaves(value) if _is_secret(name) or isinstance(value, Secret) else _nested_secrets(value)


def _nested_secrets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from secret_values(value)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _nested_secrets(item)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield str(value)
