"""The indices and documents that a null cluster remembers, and its error replies."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

import msgspec

Answer = tuple[int, bytes]


class Refusal(Exception):  # noqa: N818 - an answer, not a failure of this program
    """An error reply of the cluster, raised in place of an answer."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.cause = {"type": kind, "reason": reason}
        self.answer: Answer = (status, error_body(status, kind, reason))


def error_body(status: int, kind: str, reason: str) -> bytes:
    """Return an error reply's body in Elasticsearch's form."""
    cause = {"type": kind, "reason": reason}
    return msgspec.json.encode({"error": {"root_cause": [cause], **cause}, "status": status})


@dataclass(slots=True)
class StoredDocument:
    source: bytes
    version: int


@dataclass(slots=True)
class StoredIndex:
    """An index. `total` documents are acknowledged; `visible` is their number at the last refresh.

    `settings` have no `index.` prefix. Documents are found by id and routing (the id if no routing was given).
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    mappings: dict[str, Any] = field(default_factory=dict)
    total: int = 0
    visible: int = 0
    sequence: int = 0
    uuid: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    documents: dict[tuple[str, str], StoredDocument] = field(default_factory=dict)

    @property
    def shards(self) -> int:
        return int(self.settings.get("number_of_shards", 1))


def new_index(name: str, body: dict[str, Any]) -> StoredIndex:
    """Return an index from the body that creates it. Refusal for a wrong number of shards."""
    settings = flat_settings(body.get("settings", {}))
    shards = settings.get("number_of_shards", 1)
    if not str(shards).isdigit() or int(shards) < 1:
        reason = f"Failed to parse value [{shards}] for setting [index.number_of_shards] must be >= 1"
        raise Refusal(400, "illegal_argument_exception", reason)
    return StoredIndex(name, settings, body.get("mappings", {}))


def flat_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return {"index": {"a": 1}}, {"index.a": 1} and {"a": 1} as {"a": 1}."""
    nested = settings.get("index")
    flat = {**settings, **(nested if isinstance(nested, dict) else {})}
    return {key.removeprefix("index."): value for key, value in flat.items() if key != "index"}
