"""Bulks that a track's own code draws: the parts of clients, documents that come again, corpora that start over."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from corpora import from_file, lines

from esbench.errors import TrackError
from esbench.features.python.parameter_sources import BulkIndexParamSource
from esbench.features.python.view import DocumentCorpus, DocumentsView, TrackView

DOCUMENTS = 100


def track_of(folder: Path, **keys: Any) -> TrackView:
    (folder / "docs.json").write_bytes(b"\n".join(lines(DOCUMENTS)))
    part = DocumentsView("bulk", target_index="docs", prepared=from_file(folder, "docs.json", DOCUMENTS, **keys))
    return TrackView("shop", str(folder), corpora=[DocumentCorpus("docs", [part])])


def drawn(track: TrackView, clients: int = 1, most: int = 1000, **params: Any) -> list[list[dict[str, Any]]]:
    """The bulks of each client."""
    random.seed(1)
    source = BulkIndexParamSource(track, {"bulk-size": 10, **params})
    parts = [source.partition(number, clients) for number in range(clients)]
    return [list(islice(_bulks(part), most)) for part in parts]


def _bulks(part: BulkIndexParamSource) -> Any:
    while True:
        try:
            yield dict(part.params())
        except StopIteration:
            return


def actions(bulks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(line) for bulk in bulks for line in bulk["body"].splitlines()[::2]]


def test_each_client_has_its_part_once(tmp_path: Path) -> None:
    parts = drawn(track_of(tmp_path), clients=2)
    assert [[bulk["bulk-size"] for bulk in part] for part in parts] == [[10] * 5] * 2
    sent = [line for part in parts for bulk in part for line in bulk["body"].splitlines()[1::2]]
    assert sent == lines(DOCUMENTS)


@pytest.mark.parametrize("looped", [True, "true"])
def test_a_looped_source_starts_over_and_never_ends(tmp_path: Path, looped: object) -> None:
    track = track_of(tmp_path)
    (bulks,) = drawn(track, most=25, looped=looped)
    assert len(bulks) == 25
    assert bulks[0]["body"] == bulks[10]["body"] == bulks[20]["body"]
    assert BulkIndexParamSource(track, {"bulk-size": 10, "looped": looped}).infinite
    assert not BulkIndexParamSource(track, {"bulk-size": 10}).infinite


def test_ids_come_again_and_never_those_of_another_client(tmp_path: Path) -> None:
    track = track_of(tmp_path)
    parts = drawn(track, clients=2, conflicts="random", **{"conflict-probability": 50})
    used = [{action["index"]["_id"] for action in actions(part)} for part in parts]
    assert not used[0] & used[1]
    assert all(10 < len(ids) < 45 for ids in used)
    assert parts == drawn(track, clients=2, conflicts="random", **{"conflict-probability": 50})


def test_conflicts_can_be_updates(tmp_path: Path) -> None:
    params: dict[str, Any] = {"conflict-probability": 100, "on-conflict": "update"}
    (bulks,) = drawn(track_of(tmp_path), conflicts="sequential", **params)
    kinds = [next(iter(action)) for action in actions(bulks)]
    assert kinds == ["index"] + ["update"] * (DOCUMENTS - 1)


def test_documents_with_ids_of_their_own_cannot_have_conflicts(tmp_path: Path) -> None:
    pairs = b"".join(b'{"index": {"_id": "%d"}}\n%b\n' % (n, line) for n, line in enumerate(lines(5)))
    (tmp_path / "own.json").write_bytes(pairs)
    prepared = from_file(tmp_path, "own.json", 5, includes_action_and_meta_data=True)
    corpus = DocumentCorpus("docs", [DocumentsView("bulk", target_index="docs", prepared=prepared)])
    with pytest.raises(TrackError, match='"conflicts" needs documents without ids'):
        drawn(TrackView("shop", str(tmp_path), corpora=[corpus]), conflicts="random")
