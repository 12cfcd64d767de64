"""The tracks of the benchmarks that race peers: one track means the same for esbench and for Rally where both can."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from esbench.corpus.preparation import prepare
from esbench.model import Corpus, Documents
from esbench.record.home import esbench_home

BULK_SIZE = 1000
ORDERS = Path(__file__).parents[1] / "tracks" / "orders"
# Rally knows no variables: the ids are drawn by a parameter source.
_RALLY_GET = """
import random
from pathlib import Path

IDS = Path(__file__).with_name("ids.txt").read_text().split()


class AnyId:
    def __init__(self, track, params, **kwargs):
        self.infinite = True

    def partition(self, partition_index, total_partitions):
        return self

    def params(self):
        return {"id": random.choice(IDS)}


async def get(es, params):
    await es.get(index="orders", id=params["id"])
    return 1, "ops"


def register(registry):
    registry.register_param_source("any-id", AnyId)
    registry.register_runner("get-any", get, async_runner=True)
"""


def write_get_tracks(folder: Path, ids: Sequence[str], task: dict[str, Any]) -> tuple[Path, Path]:
    """GETs of any of the documents: a track for esbench, and one for Rally. `task`: clients, time-period ..."""
    ours, rallys = folder / "get", folder / "peer-get"
    operations = {
        ours: {"operation-type": "get", "index": "orders", "id": "$[[id]]"},
        rallys: {"name": "get", "operation-type": "get-any", "param-source": "any-id"},
    }
    for track, operation in operations.items():
        track.mkdir()
        (track / "ids.txt").write_text("\n".join(ids) + "\n")
        content: dict[str, Any] = {"version": 2, "description": "GET by id"}
        if track == ours:
            content |= {"variables": [{"name": "id", "type": "file", "path": "ids.txt"}]}
        content |= {"schedule": [{"name": "get", "operation": operation, **task}]}
        (track / "track.json").write_text(json.dumps(content))
    (rallys / "track.py").write_text(_RALLY_GET)
    return ours, rallys


def write_bulk_track(track: Path, source: Documents, task: dict[str, Any]) -> Path:
    """Bulks of a document file into a new index, ids left to the server; Rally can race it, too. `task`: clients ..."""
    settings = {"index.number_of_shards": 5, "index.number_of_replicas": 0, "index.refresh_interval": "1s"}
    green = {"operation-type": "cluster-health", "request-params": {"wait_for_status": "green"}}
    new_index: list[dict[str, Any]] = [
        {"operation": {"operation-type": "delete-index"}},
        {"operation": {"operation-type": "create-index"}},
        {"operation": {**green, "retry-until-success": True}},
    ]
    bulk = {"operation-type": "bulk", "bulk-size": BULK_SIZE}
    _write_track(track, source, 1, [*new_index, {"name": "bulk", "operation": bulk, **task}])
    (track / "index.json").write_text(json.dumps({"settings": settings, "mappings": _order_mappings()}))
    return track


def write_endless_bulk_tracks(folder: Path, source: Documents, task: dict[str, Any], repeats: int) -> tuple[Path, Path]:
    """The same bulks and no index: a track for esbench, which reads the file some times over, and one for Rally."""
    ours, rallys = folder / "endless", folder / "peer-endless"
    bulk = {"operation-type": "bulk", "bulk-size": BULK_SIZE}
    _write_track(ours, source, repeats, [{"name": "bulk", "operation": bulk, **task}])
    _write_track(rallys, source, 1, [{"name": "bulk", "operation": {**bulk, "looped": True}, **task}])
    return ours, rallys


def _write_track(track: Path, source: Documents, repeats: int, schedule: list[dict[str, Any]]) -> None:
    assert source.source_file is not None
    file = Path(source.source_file)
    part = {"source-file": file.name, "document-count": source.document_count}
    part |= {"uncompressed-bytes": source.uncompressed_bytes}
    content = {
        "version": 2,
        "description": "orders in bulks",
        "indices": [{"name": "orders", "body": "index.json"}],
        "corpora": [{"name": "orders", "documents": [part] * repeats}],
        "schedule": schedule,
    }
    track.mkdir()
    (track / file.name).hardlink_to(file)
    (track / "index.json").write_text("{}")
    (track / "track.json").write_text(json.dumps(content))


def _order_mappings() -> dict[str, Any]:
    """The mapping of the orders track."""
    _, _, mappings = (ORDERS / "index.yml").read_text().partition("mappings:\n")
    found: dict[str, Any] = yaml.safe_load(mappings)
    return found


def write_orders(path: Path, documents: int) -> Documents:
    """The orders corpus as a file without action lines."""
    with path.open("wb") as out:
        out.writelines(_order_lines(documents)[1::2])
        size = out.tell()
    return Documents(documents, source_file=str(path), uncompressed_bytes=size)


def order_ids(documents: int) -> list[str]:
    """The ids of the orders that the orders track loads."""
    return [json.loads(line)["index"]["_id"] for line in _order_lines(documents)[::2]]


def _order_lines(documents: int) -> list[bytes]:
    """Action lines and orders in turn, from the machine's cache."""
    spec = yaml.safe_load((ORDERS / "orders-corpus.yml").read_text())["generate"]
    spec.pop("routing")  # the track's default
    corpus = Corpus("orders", (Documents(documents, generate=spec),))
    (prepared,) = prepare([corpus], cache=esbench_home() / "cache" / "corpora", track_dir=ORDERS)
    with prepared.path.open("rb") as lines:
        return lines.readlines()
