"""A race with its series as one JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from esbench.record.model import RaceRecord
from esbench.record.series import SecondLine, Series
from esbench.record.store import encode_record

VERSION = 1  # of the outer document; the record has its own schema


def document(record: RaceRecord, seconds: Iterable[SecondLine], telemetry: Iterable[Series]) -> str:
    """Return JSON: `export` (a version), `race` (race.json, secrets hidden), and lists `seconds` and `telemetry`."""
    lines = [
        f'"export": {VERSION}',
        f'"race": {encode_record(record).decode().strip()}',
        f'"seconds": {_list(map(SecondLine.as_written, seconds))}',
        f'"telemetry": {_list(map(asdict, telemetry))}',
    ]
    return "{" + ",\n".join(lines) + "}\n"


def _list(items: Iterable[dict[str, Any]]) -> str:
    rows = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f"[\n{rows}]" if rows else "[]"
