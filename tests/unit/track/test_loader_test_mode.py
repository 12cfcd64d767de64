"""Test mode: every task small and quick, target rates kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from track_files import load, write_track

from esbench.model import Schedule, ThinkSpread
from esbench.units import Rate


@pytest.mark.parametrize(
    ("keys", "attribute", "expected"),
    [
        ("clients: 2, iterations: 100, warmup-iterations: 50", "iterations", 2),
        ("clients: 2, iterations: 100, warmup-iterations: 50", "warmup_iterations", 2),
        ("clients: 8, iterations: 3", "iterations", 3),
        ("requests: 100000", "requests", 100),
        ("requests: 100000, warmup-iterations: 50, clients: 4", "warmup_iterations", 1),
        ("requests: 100000, clients: 256", "requests", 256),
        ("time-period: 300, warmup-time-period: 60", "time_period_s", 3.0),
        ("time-period: 300, warmup-time-period: 60", "warmup_time_s", 1.0),
        ("time-period: 2", "time_period_s", 2.0),
        ("time-period: 2", "warmup_time_s", None),
        ("time-period: 9, ramp-down-time-period: 5", "schedule", Schedule(ramp_down_s=1.0)),
        ("think-time: 5", "think_time_s", 1.0),
        ("think-time: {from: 2, to: 6}", "think_spread", ThinkSpread("uniform", 0.5)),
    ],
)
def test_lengths_are_capped(tmp_path: Path, keys: str, attribute: str, expected: object) -> None:
    root = write_track(tmp_path, f"schedule: [{{operation: refresh, {keys}}}]")
    task = load(root, test_mode=True).challenges[0].tasks[0]
    assert getattr(task, attribute) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("target-throughput: 50", Rate(50.0, "ops")),
        ("target-interval: 12", Rate(1.0, "ops")),
        ("target-throughput: 100 docs/s", Rate(1000.0, "docs")),  # a bulk of 1,000 documents a second
        ("target-throughput: 5000 docs/s", Rate(5000.0, "docs")),
        ("target-throughput: 1 KB/s", Rate(1 / 1024, "MB")),  # how many bulks that is, the corpus says
        ("target-throughput: 70%", Rate(70.0, "%")),
    ],
)
def test_target_rates_stay_with_gaps_of_a_second_at_most(tmp_path: Path, target: str, expected: Rate) -> None:
    root = write_track(tmp_path, f"schedule: [{{operation: {{operation-type: bulk, bulk-size: 1000}}, {target}}}]")
    assert load(root, test_mode=True).challenges[0].tasks[0].schedule.rate == expected


def test_stages_keep_their_proportions(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        "schedule:\n  - operation: refresh\n    warmup-time-period: 60\n"
        "    stages: [{for: 1m, target-throughput: 10}, {for: 2m, target-throughput: 20}]\n",
    )
    schedule = load(root, test_mode=True).challenges[0].tasks[0].schedule
    assert [stage.duration_s for stage in schedule.stages] == pytest.approx([1.0, 2.0])


def test_a_ramp_up_is_as_long_as_the_warmup_at_most(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        "schedule: [{operation: refresh, warmup-time-period: 60, ramp-up-time-period: 30, target-throughput: 5}]",
    )
    assert load(root, test_mode=True).challenges[0].tasks[0].schedule.ramp_up_s == 1.0


def test_of_large_document_files_a_thousand_documents_are_enough(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        "indices: [{name: a}]\ncorpora:\n  - name: c\n    documents:\n"
        "      - {source-file: d.json.bz2, document-count: 5000, compressed-bytes: 9}\n"
        "      - {source-file: e.json}\n"
        "      - {source-file: tiny.json, document-count: 10, uncompressed-bytes: 99}\n"
        "schedule: [{operation: refresh}]\n",
    )
    large, unknown, tiny = load(root, test_mode=True).corpora[0].documents
    assert (large.source_file, large.document_count, large.sample) == ("d.json.bz2", 1000, 1000)
    assert (unknown.document_count, unknown.sample) == (1000, 1000)
    assert (tiny.source_file, tiny.document_count, tiny.sample) == ("tiny.json", 10, None)
