"""Small corpora for the tests of document files, feeds and samplers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from esbench.corpus.locate import Origin
from esbench.corpus.preparation import prepare
from esbench.corpus.prepared import PreparedDocuments
from esbench.model import Corpus, Documents

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
