"""Races of vectors from their track to their record, on a server whose hits are known."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Races

from esbench.features.vectors.relevance import read_judgements
from esbench.record.series import read_seconds
from esbench.record.store import RaceStore

HIT = "42"  # the id of the only hit that the null server has
TRACK = """
version: 2
description: Photos and their neighbours
indices: [{name: photos, body: index.json}]
operations:
  - {name: bulk, operation-type: bulk-vector-data-set, field: v, data: DATA}
  - {name: near, operation-type: knn-search, field: v, k: 10, data: DATA}
schedule:
  - {operation: {operation-type: create-index}}
  - {operation: bulk}
  - {name: near, operation: near, clients: 2, requests: 400}
"""
WRITING = """
  - parallel:
      tasks:
        - {name: meanwhile, operation: near, requests: 20}
        - {name: write, operation: bulk}
"""
DATA = "{generate: {count: 60, queries: 30, dimensions: 4}}"
INDEX = '{"mappings": {"properties": {"v": {"type": "dense_vector", "dims": 4, "similarity": "cosine"}}}}'


@pytest.fixture
def races(tmp_path: Path) -> Races:
    races = Races(tmp_path)
    (races.track / "track.yml").write_text((TRACK + WRITING).replace("DATA", DATA))
    (races.track / "index.json").write_text(INDEX)
    return races


def test_the_recall_of_timed_replies_is_in_record_seconds_and_tables(
    races: Races, null_server: NullServerFactory
) -> None:
    outcome = races.run(null_server({"version": "8.19.4"}))
    assert outcome.code == 0, outcome.stderr
    record = races.record()
    near = next(task for task in record.tasks if task.name == "near")
    (file,) = (races.home / "cache" / "vectors").glob("*/judgements-cosine-10-*.txt")
    judged = read_judgements(file)
    found = {query: HIT in near_ones for query, near_ones in judged.items()}
    scores = near.scores
    assert scores is not None
    assert (scores.name, len(judged)) == ("recall@10", 30)
    assert 0 < scores.scored <= 400
    assert 0 <= scores.min <= scores.mean <= 0.1  # one hit of ten
    if scores.scored == 400:  # every query as often as the others, but for one
        assert scores.mean == pytest.approx(sum(found.values()) / 30 / 10, abs=0.01)
    lines = list(read_seconds(RaceStore(races.home).folder("last").seconds_file))
    counted = [line.scores for line in lines if line.task == "near" and line.scores is not None]
    assert sum(each.count for each in counted) == scores.scored
    assert sum(each.count * each.mean for each in counted) == pytest.approx(scores.scored * scores.mean, abs=1e-3)
    assert "recall@10" in outcome.stdout
    assert "Scores of timed replies" in outcome.stdout
    assert next(task for task in record.tasks if task.operation_type == "bulk").units == 60


def test_recall_while_documents_are_written_is_unknown_and_that_is_said(
    races: Races, null_server: NullServerFactory
) -> None:
    outcome = races.run(null_server({"version": "8.19.4"}))
    record = races.record()
    assert next(task for task in record.tasks if task.name == "meanwhile").scores is None
    (said,) = [warning for warning in record.warnings if "recall is unknown" in warning]
    assert said.startswith("meanwhile: its recall is unknown: write writes at the same time")
    assert said in " ".join(outcome.stderr.split()) + " ".join(outcome.stdout.split())


def test_scores_are_figures_of_the_csv(races: Races, null_server: NullServerFactory) -> None:
    outcome = races.run(null_server({"version": "8.19.4"}), "--report-format=csv")
    rows = list(csv.reader(io.StringIO(outcome.stdout)))
    assert {"recall@10", "p10 recall@10", "min recall@10", "scored replies"} <= {row[0] for row in rows if row}
