"""How the keys of a track become the model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from track_files import load, write_track

from esbench.errors import UsageError
from esbench.model import Objective, Schedule, Stage, ThinkSpread, Variable
from esbench.track.features import finds_thai_words, needs_of
from esbench.track.library import find_track
from esbench.units import Rate


def one_task(tmp_path: Path, keys: str) -> object:
    track = load(write_track(tmp_path, f"schedule:\n  - {{operation: refresh, {keys}}}\n"))
    return track.challenges[0].tasks[0]


@pytest.mark.parametrize(
    ("keys", "attribute", "expected"),
    [
        ("clients: 4", "clients", 4),
        ("iterations: 10, warmup-iterations: 5", "iterations", 10),
        ("iterations: 10, warmup-iterations: 5", "warmup_iterations", 5),
        ("requests: 1000", "requests", 1000),
        ("warmup-time-period: 0", "is_time_based", True),
        ("iterations: 3", "is_time_based", False),
        ("time-period: 500ms", "time_period_s", 0.5),
        ("warmup-time-period: 5m", "warmup_time_s", 300.0),
        ("time-period: 60, ramp-down-time-period: 30", "schedule", Schedule(ramp_down_s=30.0)),
        ("think-time: 100ms", "think_time_s", 0.1),
        ("think-time: 100ms", "think_spread", None),
        ("think-time: {from: 200ms, to: 1s}", "think_time_s", 0.6),
        ("think-time: {from: 200ms, to: 1s}", "think_spread", ThinkSpread("uniform", 0.4)),
        ("think-time: {mean: 1s, deviation: 0.25}", "think_spread", ThinkSpread("normal", 0.25)),
        ("think-time: {mean: 2}", "think_spread", ThinkSpread("exponential", 2.0)),
        ("within-ms: [3, 50]", "within_ms", (3.0, 50.0)),
        ('objectives: ["p99<50ms", "p99 < 50 ms"]', "objectives", (Objective("percentile", "<", 50.0, 99.0),)),
        ('objectives: ["p99<50ms", "within 5ms>9%"], within-ms: [50, 3]', "limits_ms", (3.0, 5.0, 50.0)),
        ("tags: [setup, load]", "tags", ("setup", "load")),
        ("tags: setup", "tags", ("setup",)),
        ("ignore-response-error-level: non-fatal", "ignore_response_error_level", "non-fatal"),
        ("target-throughput: 1000", "schedule", Schedule(rate=Rate(1000.0, "ops"))),
        ('target-throughput: "1000 ops/s"', "schedule", Schedule(rate=Rate(1000.0, "ops"))),
        ('target-throughput: "100"', "schedule", Schedule(rate=Rate(100.0, "ops"))),
        ("target-interval: 12", "schedule", Schedule(rate=Rate(1 / 12, "ops"))),
        ("target-interval: 500ms", "schedule", Schedule(rate=Rate(2.0, "ops"))),
        ("requests: 10, warmup-iterations: 5", "warmup_iterations", 5),
        ('target-throughput: "none"', "schedule", Schedule()),
        ('target-throughput: ""', "schedule", Schedule()),
        ("target-throughput: 5, schedule: poisson", "schedule", Schedule("poisson", Rate(5.0, "ops"))),
        (
            "warmup-time-period: 60, ramp-up-time-period: 30",
            "schedule",
            Schedule(ramp_up_s=30.0),
        ),
        (
            "stages: [{for: 1m, target-throughput: 100}, {for: 30, target-throughput: 200}]",
            "schedule",
            Schedule(stages=(Stage(60.0, Rate(100.0, "ops")), Stage(30.0, Rate(200.0, "ops")))),
        ),
        ('"#COMMENT": why, color: red', "params", {"#COMMENT": "why", "color": "red"}),
    ],
)
def test_task_key(tmp_path: Path, keys: str, attribute: str, expected: object) -> None:
    assert getattr(one_task(tmp_path, keys), attribute) == expected


def test_operation_is_found_by_name_before_by_type(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        """
operations:
  - {name: index, operation-type: bulk, bulk-size: 5000, include-in-reporting: false, meta: {a: 1}}
schedule:
  - operation: index
  - operation: refresh
  - operation: {operation-type: search, body: {}}
  - {name: count, operation: {name: all, operation-type: search, body: {}}, include-in-reporting: true}
""",
    )
    tasks = load(root).challenges[0].tasks
    assert [(task.name, task.operation.name, task.operation.type) for task in tasks] == [
        ("index", "index", "bulk"),
        ("refresh", "refresh", "refresh"),
        ("search", "search", "search"),
        ("count", "all", "search"),
    ]
    assert tasks[0].operation.params == {"bulk-size": 5000}
    assert [task.operation.include_in_reporting for task in tasks] == [False, None, None, True]


def test_meta_of_track_challenge_operation_and_task_are_merged_in_this_order(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        """
meta: {a: track, b: track, c: track, d: track}
challenge:
  name: main
  meta: {b: challenge, c: challenge, d: challenge}
  schedule:
    - operation: {operation-type: refresh, meta: {c: operation, d: operation}}
      meta: {d: task}
""",
    )
    task = load(root).challenges[0].tasks[0]
    assert task.meta == {"a": "track", "b": "challenge", "c": "operation", "d": "task"}


def test_tasks_in_parallel_take_what_they_lack_from_around_them(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        """
schedule:
  - parallel:
      clients: 4
      warmup-time-period: 10
      time-period: 60
      completed-by: b
      tasks:
        - {operation: refresh, name: a, clients: 4}
        - {operation: refresh, name: b, time-period: 5}
""",
    )
    (step,) = load(root).challenges[0].steps
    assert (step.clients, step.completed_by) == (4, ("b",))
    assert [(task.clients, task.warmup_time_s, task.time_period_s) for task in step.tasks] == [
        (4, 10.0, 60.0),
        (1, 10.0, 5.0),
    ]


def test_variables_of_the_track_and_of_an_operation(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        """
variables: [{name: user, type: range, from: 1, to: 9}]
schedule:
  - operation:
      operation-type: get
      index: a
      id: $[[user]]-$[[n]]
      variables: [{name: n, type: sequence}]
""",
    )
    track = load(root)
    assert track.variables == (Variable("user", "range", {"from": 1, "to": 9}),)
    operation = track.challenges[0].tasks[0].operation
    assert operation.variables == (Variable("n", "sequence", {}),)
    assert "variables" not in operation.params


def test_documents_take_what_they_lack_from_their_corpus(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        """
indices: [{name: a}, {name: b}]
corpora:
  - name: logs
    base-url: https://example.org/logs
    target-index: a
    meta: {x: 1, y: 1}
    documents:
      - {source-file: one.json.bz2, document-count: 10, compressed-bytes: 5, uncompressed-bytes: 50}
      - {source-file: two.json, document-count: 20, target-index: b, meta: {y: 2}}
      - {source-file: three.json, document-count: 30, includes-action-and-meta-data: true}
schedule: [{operation: refresh}]
""",
    )
    one, two, three = load(root).corpora[0].documents
    assert (one.source_file, one.base_url, one.target_index) == ("one.json.bz2", "https://example.org/logs", "a")
    assert (one.compressed_bytes, one.uncompressed_bytes) == (5, 50)
    assert (two.target_index, two.meta) == ("b", {"x": 1, "y": 2})
    assert three.includes_action_and_meta_data


def test_document_files_may_have_a_url_a_sum_a_type_and_no_count(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        f"""
indices: [{{name: a}}]
corpora:
  - name: logs
    target-type: log
    documents:
      - {{source-url: "https://example.org/one.json", sha256: "{"0" * 64}"}}
      - {{source-file: two.json, document-count: null, target-type: other}}
schedule: [{{operation: refresh}}]
""",
    )
    one, two = load(root).corpora[0].documents
    assert (one.source_file, one.source_url, one.sha256) == (None, "https://example.org/one.json", "0" * 64)
    assert (one.document_count, one.target_type) == (None, "log")
    assert (two.document_count, two.target_type) == (None, "other")


def test_the_default_challenge_is_the_only_one_or_the_marked_one(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        """
challenges:
  - {name: a, schedule: [{operation: refresh}]}
  - {name: b, default: true, schedule: [{operation: refresh}]}
""",
    )
    assert [(challenge.name, challenge.default) for challenge in load(root).challenges] == [("a", False), ("b", True)]


def test_a_single_challenge_is_the_default_whatever_it_says(tmp_path: Path) -> None:
    root = write_track(tmp_path, "challenge: {name: a, default: false, schedule: [{operation: refresh}]}")
    assert load(root).challenges[0].default


def test_yaml_has_the_types_of_json(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        "schedule: [{operation: refresh, d: 2024-01-01, t: 12:30:00, n: no, o: 010, e: 1e3, 1: x, z: null, b: true}]",
    )
    assert load(root).challenges[0].tasks[0].params == {
        "d": "2024-01-01",
        "t": "12:30:00",
        "n": "no",
        "o": 10,
        "e": 1000.0,
        "1": "x",
        "z": None,
        "b": True,
    }


def test_yaml_anchors_and_merge_keys_are_resolved(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        """
common: &common {clients: 4, iterations: 3}
schedule:
  - {operation: refresh, <<: *common}
  - {operation: refresh, name: again, <<: *common, clients: 2}
""",
    )
    assert [(task.clients, task.iterations) for task in load(root).challenges[0].tasks] == [(4, 3), (2, 3)]


@pytest.mark.parametrize(
    ("body", "features"),
    [
        ("{mappings: {properties: {t: {type: text, analyzer: english}}}}", ("language-analyzers",)),
        ("{mappings: {properties: {t: {type: text, analyzer: standard}}}}", ()),
        ("{settings: {analysis: {analyzer: {mine: {type: german}}}}}", ("language-analyzers",)),
        (
            "{settings: {analysis: {analyzer: {mine: {tokenizer: standard, filter: [lowercase, kstem]}}}}}",
            ("language-analyzers",),
        ),
        ("{settings: {analysis: {analyzer: {mine: {tokenizer: thai}}}}}", ("language-analyzers",)),
        ("{settings: {analysis: {tokenizer: {mine: {type: thai}}}}}", ("language-analyzers",)),
        ("{mappings: {properties: {q: {type: percolator}}}}", ("percolator",)),
        ("{mappings: {properties: {english: {type: keyword}}}}", ()),
        ("{mappings: {properties: {place: {type: geo_shape}, at: {type: geo_point}}}}", ("geo-shapes",)),
        ("{mappings: {properties: {a: {type: scaled_float}, b: {type: join}}}}", ("field-mappers", "parent-join")),
        ("{mappings: {properties: {type: {properties: {type: {type: keyword}}}}}}", ()),
    ],
)
def test_features_are_read_from_index_bodies(tmp_path: Path, body: str, features: tuple[str, ...]) -> None:
    root = write_track(tmp_path, f"indices: [{{name: a, body: {body}}}]\nschedule: [{{operation: refresh}}]")
    assert load(root).requires == features


@pytest.mark.parametrize(
    ("body", "thai"),
    [
        ("{mappings: {properties: {t: {type: text, analyzer: thai}}}}", True),
        ("{settings: {analysis: {analyzer: {mine: {type: custom, tokenizer: thai}}}}}", True),
        ("{mappings: {properties: {t: {type: text, analyzer: english}, thai: {type: keyword}}}}", False),
    ],
)
def test_thai_words_are_seen_in_indices_and_templates(tmp_path: Path, body: str, thai: bool) -> None:
    made = {
        "index": f"indices: [{{name: a, body: {body}}}]",
        "template": f"templates: [{{name: a, index-pattern: a*, template: {body}}}]",
    }
    for kind, text in made.items():
        root = write_track(tmp_path / kind, f"{text}\nschedule: [{{operation: refresh}}]")
        assert finds_thai_words(load(root)) == thai


def test_scripts_need_painless_only_in_the_challenge_that_has_them(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        """
requires: [percolator]
challenges:
  - {name: plain, default: true, schedule: [{operation: refresh}]}
  - name: scripted
    schedule:
      - operation:
          operation-type: search
          index: a
          body: {query: {script_score: {script: {source: "1"}}}}
""",
    )
    track = load(root)
    assert [tuple(needs_of(track, challenge)) for challenge in track.challenges] == [
        ("percolator",),
        ("painless", "percolator"),
    ]


def test_digest_changes_with_any_source_and_with_nothing_else(tmp_path: Path) -> None:
    text = "{% if big %}{% include 'big.yml' %}{% endif %}\nschedule: [{operation: refresh}]\n"
    root = write_track(tmp_path, text, big__yml="x: 1", README__md="one")
    before = load(root).digest
    (root / "README.md").write_text("two")
    assert load(root).digest == before
    (root / "big.yml").write_text("x: 2")
    assert load(root).digest != before


def test_digest_changes_with_the_file_of_a_variable(tmp_path: Path) -> None:
    text = "variables: [{name: word, type: file, path: words.txt}]\nschedule: [{operation: refresh}]\n"
    root = write_track(tmp_path, text, words__txt="a\n")
    before = load(root).digest
    (root / "words.txt").write_text("b\n")
    assert load(root).digest != before


def test_track_is_found_by_folder_or_file_and_named_after_it(tmp_path: Path) -> None:
    root = write_track(tmp_path, '{"schedule": [{"operation": "refresh"}]}', ".json")
    shutil.copy(root / "track.json", root / "small.json")
    assert find_track(None, root) == root / "track.json"
    assert load(root).name == "shop"
    assert load(root / "small.json").name == "small"


@pytest.mark.parametrize(
    ("name", "path", "message"),
    [
        ("ordres", None, 'unknown track "ordres" (did you mean "orders"?'),
        (None, None, "no track was named (say --track=NAME or --track-path=FOLDER)"),
        ("", None, "no track was named (say --track=NAME or --track-path=FOLDER)"),
        ("geonames", None, 'esbench does not ship the track "geonames" (it is one of rally-tracks: add --track-repo'),
        ("Logs", None, 'esbench does not ship the track "elastic/logs" (it is one of rally-tracks: add --track-repo'),
        (None, "missing", 'missing" does not exist'),
        (None, ".", "holds no track (looked for track.yml, track.yaml, track.json)"),
        (None, "notes.txt", "is not a track file"),
    ],
)
def test_a_track_that_cannot_be_found(tmp_path: Path, name: str | None, path: str | None, message: str) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageError) as caught:
        find_track(name, None if path is None else tmp_path / path)
    assert message in str(caught.value)


def test_a_folder_given_as_a_name_hints_at_track_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="say --track-path="):
        find_track(str(tmp_path), None)


def test_parameters_of_the_track_are_those_of_each_challenge_unless_it_has_its_own(tmp_path: Path) -> None:
    text = """
    parameters: {size: 1, days: 2}
    challenges:
      - {name: first, default: true, parameters: {size: 3}, schedule: [operation: refresh]}
      - {name: second, schedule: [operation: refresh]}
    """
    first, second = load(write_track(tmp_path, text)).challenges
    assert first.params == {"size": 3, "days": 2}
    assert second.params == {"size": 1, "days": 2}


def test_a_schedule_without_a_challenge_has_the_parameters_of_the_track(tmp_path: Path) -> None:
    (only,) = load(write_track(tmp_path, "parameters: {size: 1}\nschedule: [operation: refresh]")).challenges
    assert only.params == {"size": 1}
