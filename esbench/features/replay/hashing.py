"""Literals of requests as keyed hashes: equal ones stay equal, and none can be read or guessed without the key."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from esbench.features.replay.entries import Entry
from esbench.features.replay.searches import endpoint_of

_KEY_BYTES = 32


@dataclass(frozen=True)
class Hasher:
    """BLAKE2b with a random key, which is kept nowhere. Names of fields and indices, booleans and null stay."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(_KEY_BYTES), repr=False)

    def entry(self, entry: Entry) -> Entry:
        """Return a request with hashed literals in body, parameters, and ids of documents."""
        return replace(entry, path=self._path(entry.path), body=self.value(entry.body))

    def value(self, value: Any) -> Any:
        """Return a JSON value with hashed literals."""
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, bool) or value is None:
            return value
        return self._hash(f"{type(value).__name__}:{value}")

    def _hash(self, text: str) -> str:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self.key, digest_size=12)
        return f"hash-{digest.hexdigest()}"

    def _path(self, path: str) -> str:
        before, mark, query = path.partition("?")
        _, endpoint, further = endpoint_of(before)
        if further and endpoint in ("_doc", "_source"):
            before = f"{before.partition(f'/{endpoint}/')[0]}/{endpoint}/{self._hash(f'str:{further}')}"
        given = parse_qsl(query, keep_blank_values=True)
        return f"{before}?{urlencode([(name, self._hash(f'str:{text}')) for name, text in given])}" if mark else before
