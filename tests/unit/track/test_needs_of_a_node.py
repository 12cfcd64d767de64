"""A node that lacks what a track needs is refused with the field, its file and line, and the nodes that have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from track_files import write_track

from esbench.cli.main import run
from esbench.cluster.field_types import KNOWN, OF_FEATURES, OF_SOME
from esbench.features.node.catalog import load_catalog
from esbench.operations.versions import PARTS

TRACK = """\
indices:
  - {name: things, body: index.json}
schedule:
  - operation: {operation-type: search, index: things, body: {}}
"""
BODY = """\
{"mappings": {"properties": {
  "title": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
  "part": {"properties": {
    "shape": {"type": "%s"}}}
}}}
"""


def track(folder: Path, kind: str, text: str = TRACK) -> Path:
    return write_track(folder, text, **{"index.json": BODY % kind})


@pytest.mark.parametrize(
    ("kind", "distribution", "able"),
    [
        ("dense_vector", "elasticsearch-7.10.2", "elasticsearch-8.19.4"),
        ("dense_vector", "opensearch-3.6.0", "elasticsearch-8.19.4"),
        ("flat_object", "8.19.4", "opensearch-2.19.6, opensearch-3.6.0"),
        ("join", "8.19.4", "elasticsearch-7.10.2"),
        ("date_nanos", "6.8.23", "elasticsearch-7.5.2, elasticsearch-7.6.2"),
        ("version", "7.10.2", "opensearch-3.6.0"),
        ("knn_vector", "opensearch-2.19.6", "--target-hosts"),
        ("semantic_text", "8.19.4", "--target-hosts"),
    ],
)
def test_validation_names_field_file_line_and_distributions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, distribution: str, able: str
) -> None:
    file = track(tmp_path, kind)
    assert run(["validate-track", f"--track-path={file}", f"--distribution={distribution}"]) == 2
    said = capsys.readouterr().out.splitlines()[0]
    assert said.startswith(f"{tmp_path / 'shop' / 'index.json'}:4: ")
    assert f'"{kind}" of the field "part.shape"' in said
    assert able in said
    assert run(["validate-track", f"--track-path={file}"]) == 0  # for no distribution
    assert run(["validate-track", f"--track-path={file}", "--distribution=9.1.0"]) == 0  # esbench does not know it


@pytest.mark.parametrize(
    ("kind", "distribution"),
    [
        *(("dense_vector", "8.19.4"), ("flattened", "7.17.29"), ("wildcard", "opensearch-2.19.6")),
        *(("keyword", "5.2.2"), ("percolator", "7.10.2"), ("unheard", "7.10.2")),
    ],
)
def test_what_a_distribution_has_is_valid(tmp_path: Path, kind: str, distribution: str) -> None:
    assert run(["validate-track", f"--track-path={track(tmp_path, kind)}", f"--distribution={distribution}"]) == 0


def test_a_race_is_refused_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = track(tmp_path, "dense_vector")
    assert run(["race", f"--track-path={file}", "--dry-run", "--distribution=7.10.2"]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / 'shop' / 'index.json'}:4: elasticsearch-7.10.2 does not have dense_vector" in said
    assert "--distribution=elasticsearch-8.19.4" in said


@pytest.mark.parametrize(
    ("operation", "feature"),
    [
        ("{operation-type: sql, body: {query: SELECT 1}}", "sql"),
        ("{operation-type: esql, query: FROM a}", "esql"),
        ("{operation-type: create-ilm-policy, policy-name: p, body: {}}", "lifecycle-policies"),
    ],
)
def test_operations_need_features(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], operation: str, feature: str
) -> None:
    file = write_track(tmp_path, f"schedule:\n  - name: mine\n    operation: {operation}\n")
    assert run(["validate-track", f"--track-path={file}", "--distribution=7.10.2"]) == 2
    said = capsys.readouterr().out
    assert f"does not have {feature}" in said
    assert 'of the task "mine"' in said


def test_data_streams_are_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_track(tmp_path, "data-streams:\n  - name: logs\nschedule:\n  - operation: refresh\n")
    assert run(["validate-track", f"--track-path={file}", "--distribution=7.10.2"]) == 2
    assert "opensearch-2.19.6, opensearch-3.6.0" in capsys.readouterr().out
    assert run(["validate-track", f"--track-path={file}", "--distribution=opensearch-3.6.0"]) == 0


def test_a_misspelt_type_is_no_missing_feature(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = track(tmp_path, "keywrod")
    assert run(["validate-track", f"--track-path={file}", "--distribution=7.10.2"]) == 0
    said = capsys.readouterr().out
    assert f"warning: {tmp_path / 'shop' / 'index.json'}:4: " in said
    assert 'did you mean "keyword"?' in said
    assert run(["validate-track", f"--track-path={file}", "--strict"]) == 1


def test_the_catalog_says_of_each_type_who_has_it() -> None:
    catalog = load_catalog()
    assert set(catalog.further) >= OF_SOME
    assert set(OF_FEATURES.values()) <= set(catalog.feature_modules)
    parts = {part.feature.node for part in PARTS} - {None}
    assert set(catalog.further) >= parts
    assert {feature for feature in catalog.further if "_" in feature} - parts <= KNOWN


def test_the_list_shows_what_nodes_can_do_and_are_made_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "distributions", "--format=json"]) == 0
    rows = {row["distribution"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["elasticsearch-7.5.2"]["made_of"] == "archive of 7.5.0 + 7 jars of 7.5.2 + 9 modules"
    assert rows["opensearch-3.6.0"]["made_of"] == "archive of 3.6.0"
    assert [name for name, row in rows.items() if row["vectors"]] == ["elasticsearch-8.19.4"]
    assert [name for name, row in rows.items() if row["data-streams"]] == ["opensearch-2.19.6", "opensearch-3.6.0"]
    assert [name for name, row in rows.items() if row["sql"]] == ["elasticsearch-6.8.23"]
    assert not any(row["security"] for row in rows.values())
    assert {"painless", "ingest"} <= set(rows["elasticsearch-7.10.2"])


def test_an_aggregation_that_the_node_leaves_out_is_told_with_the_nodes_that_have_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
indices: [{name: things}]
schedule:
  - name: top
    operation: {operation-type: search, body: {aggs: {a: {multi_terms: {terms: [{field: b}, {field: c}]}}}}}
"""
    path = write_track(tmp_path, text)
    assert run(["validate-track", f"--track-path={path}", "--distribution=7.17.29"]) == 2
    said = capsys.readouterr().out.splitlines()[0]
    assert "elasticsearch-7.17.29 does not have multi_terms-aggregation" in said
    assert 'the aggregation "multi_terms" of the task "top"' in said
    assert "all that have it: opensearch-2.19.6, opensearch-3.6.0" in said
    for distribution in ("opensearch-2.19.6", "9.1.0"):
        assert run(["validate-track", f"--track-path={path}", f"--distribution={distribution}"]) == 0
