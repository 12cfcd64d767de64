"""Small corpora for the tests of document files, feeds and samplers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.corpus.locate import Origin
from esbench.corpus.preparation import prepare
from esbench.corpus.prepared import PreparedDocuments
from esbench.model import Corpus, Documents

if TYPE_CHECKING:
    from esbench.features.synthetic.generate.generator import Generator

SPEC: dict[str, Any] = {
    "id": "key",
    "routing": "user",
    "fields": {
        "key": {"type": "permuted", "of": "[0-9]{12}"},
        "user": {"type": "zipf", "from": 1, "to": 5000, "format": "u%04d"},
        "at": {"type": "object", "fields": {"n": {"type": "range", "from": 0, "to": 10**9}}},
        "note": {"type": "words", "count": [0, 9]},
    },
}


def generated(folder: Path, count: int, spec: dict[str, Any] | None = None, **documents: Any) -> PreparedDocuments:
    corpus = Corpus("small", (Documents(count, generate=spec or SPEC, **documents),))
    return prepare([corpus], cache=folder, track_dir=folder)[0]


def from_file(folder: Path, name: str, count: int | None, **documents: Any) -> PreparedDocuments:
    corpus = Corpus("filed", (Documents(count, source_file=name, **documents),))
    return prepare([corpus], cache=folder / "cache", track_dir=folder, origin=Origin(offline=True))[0]


def lines(count: int) -> list[bytes]:
    return [json.dumps({"n": n, "text": "x" * (n * 7 % 90)}).encode() for n in range(count)]


def bulk_lines(generator: Generator, first: int, count: int, action: str = "index") -> list[bytes]:
    """The action lines and documents first .. first + count - 1 of a generated corpus, in turn."""
    return b"".join(generator.bulk_groups(first, count, count, action)).splitlines()


def actions_of(generator: Generator, first: int, count: int, action: str = "index") -> list[bytes]:
    return bulk_lines(generator, first, count, action)[::2]


def bodies_of(generator: Generator, first: int, count: int) -> list[bytes]:
    return bulk_lines(generator, first, count)[1::2]
