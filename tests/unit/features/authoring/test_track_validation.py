"""validate-track's check: all that is wrong is found at once, and nothing that can be written makes it fail."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from track_files import context, write_track

from esbench.features.authoring.validation import Findings, check_track
from esbench.operations import builtin_operations
from esbench.track.library import find_track, list_tracks

RALLY_TRACKS = os.environ.get("ESBENCH_TEST_RALLY_TRACKS")
OPERATIONS = builtin_operations()
TRACK: dict[str, Any] = {
    "version": 2,
    "description": "x",
    "meta": {"a": 1},
    "requires": ["percolator"],
    "variables": [{"name": "n", "type": "range", "from": 1, "to": 5}],
    "indices": [{"name": "orders", "body": {"settings": {"number_of_replicas": 0}}}],
    "composable-templates": [{"name": "t", "index-pattern": "o*", "template": {"template": {"settings": {}}}}],
    "corpora": [
        {"name": "c", "documents": [{"source-file": "d.json", "document-count": 5}]},
        {
            "name": "g",
            "target-index": "orders",
            "documents": [{"document-count": 5, "generate": {"id": "i", "fields": {"i": {"type": "sequence"}}}}],
        },
    ],
    "operations": [
        {"name": "load", "operation-type": "bulk", "bulk-size": 5, "corpora": ["c"]},
        {"name": "ask", "operation-type": "search", "body": {"query": {"term": {"x": "$[[n]]"}}}},
    ],
    "challenges": [
        {
            "name": "one",
            "default": True,
            "schedule": [
                {"operation": "load", "clients": 2, "warmup-time-period": 1, "tags": ["setup"]},
                {
                    "parallel": {
                        "completed-by": "a",
                        "tasks": [
                            {"name": "a", "operation": "ask", "iterations": 3, "target-throughput": "5 ops/s"},
                            {"name": "b", "operation": {"operation-type": "refresh", "retries": 2}, "requests": 3},
                        ],
                    }
                },
                {"name": "c", "operation": "ask", "stages": [{"for": 5, "target-throughput": 1}], "within-ms": [5]},
            ],
        },
        {"name": "two", "schedule": [{"operation": "refresh"}]},
    ],
}


def check(folder: Path, track: Any) -> Findings:
    root = folder / "shop"
    if not root.is_dir():
        write_track(folder, "", ".json")
    (root / "track.json").write_text(json.dumps(track))
    return check_track(root / "track.json", context(), folder)


def places(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, *path, key)


def replaced(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    track = copy.deepcopy(TRACK)
    holder: Any = track
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return track


def test_the_track_itself_is_good(tmp_path: Path) -> None:
    found = check(tmp_path, TRACK)
    assert found.problems == ()
    assert [str(warning) for warning in found.warnings] == [
        f'{tmp_path}/shop/track.json:1: the document file "d.json" is not there (put it into {tmp_path}/shop)'
    ]


@pytest.mark.parametrize("value", ["x", {}, [None]], ids=repr)
def test_whatever_stands_at_any_place_is_told_or_tolerated(tmp_path: Path, value: Any) -> None:
    for path in places(TRACK):
        check(tmp_path, replaced(path, value))


def test_a_corpus_that_is_defined_twice_is_told_with_other_faults(tmp_path: Path) -> None:
    track = copy.deepcopy(TRACK)
    first = track["corpora"][0]
    track["corpora"].append({**first, "documents": first["documents"] * 2})
    assert [problem.what for problem in check(tmp_path, track).problems] == ['the corpus "c" is defined twice']


def test_a_composable_template_in_the_older_form_is_told(tmp_path: Path) -> None:
    track = replaced(("composable-templates", 0, "template"), {"template": "logs-*"})
    (problem,) = check(tmp_path, track).problems
    assert problem.what == '"template" must be a mapping of settings, mappings and aliases'


def test_faults_of_structure_do_not_hide_those_of_meaning(tmp_path: Path) -> None:
    track = replaced(("challenges", 0, "schedule", 0, "clients"), "two")
    track["challenges"][0]["schedule"][2]["operation"] = "aks"
    track["challenges"][1]["schedule"][0]["client"] = 5
    track["corpora"][1]["documents"][0]["generate"]["id"] = "j"
    track["operations"][1]["body"]["query"] = {"term": {"x": "$[[m]]"}}
    track["requires"] = ["percolater"]
    told = " | ".join(problem.what for problem in check(tmp_path, track).problems)
    for part in ("must be a whole number", '"aks"', '"client"', '"id" names no field', "$[[m]]", '"percolater"'):
        assert part in told


def test_each_operation_type_that_nobody_knows_is_told_at_its_place(tmp_path: Path) -> None:
    track = replaced(("operations", 0, "operation-type"), "blk")
    track["operations"][1]["operation-type"] = "serch"
    told = [problem.what for problem in check(tmp_path, track).problems]
    assert told == ['unknown operation type "blk"', 'unknown operation type "serch"']


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"i": {"type": "sequenc"}}, 'field "i": unknown type "sequenc" (did you mean "sequence"?'),
        ({"i": {"type": "permuted", "of": "[0-3]"}}, "there are only 4 different documents, not 5"),
        ({"i": {"type": "range", "from": 1}}, 'field "i": "to" is missing'),
    ],
)
def test_generators_that_mean_nothing_are_told(tmp_path: Path, fields: Any, expected: str) -> None:
    found = check(tmp_path, replaced(("corpora", 1, "documents", 0, "generate", "fields"), fields))
    (problem,) = map(str, found.problems)
    assert problem.startswith(f"{tmp_path}/shop/track.json:1: {expected}")


@pytest.mark.parametrize("version", ["5.6.16", "7.5.2", "8.19.4"])
def test_bundled_tracks_are_valid(tmp_path: Path, version: str) -> None:
    for track in list_tracks().tracks:
        found = check_track(find_track(track.name, None), context(version), tmp_path)
        assert (track.name, found.problems) == (track.name, ())


@pytest.mark.skipif(RALLY_TRACKS is None, reason="ESBENCH_TEST_RALLY_TRACKS names no folder of Rally's tracks")
def test_rallys_tracks_are_valid(tmp_path: Path) -> None:
    found = list_tracks(Path(str(RALLY_TRACKS)))
    assert len(found.tracks) >= 5
    assert found.problems == ()
    for track in found.tracks:
        path = find_track(track.name, None, Path(str(RALLY_TRACKS)))
        for strict in (False, True):
            checked = check_track(path, context("8.19.4"), tmp_path, strict=strict)
            assert (track.name, checked.problems) == (track.name, ())


def test_a_template_of_a_body_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    text = "composable-templates: [{name: t, index-pattern: o, template: t.json}]\nschedule: [operation: refresh]"
    root = write_track(tmp_path, text)
    (root / "t.json").write_text('{"a": {{%- if x -%}1{%- endif -%}}}')
    findings = check_track(root / "track.yml", context(), tmp_path)
    assert [str(problem).splitlines()[0] for problem in findings.problems] == [
        f"{root}/t.json:1: the template fails: unexpected '%' (each {{% if %}} and {{% for %}} has its {{% end... %}}, "
        "tags end in %} and expressions in }})"
    ]


def test_a_task_of_several_indices_must_say_which_it_asks(tmp_path: Path) -> None:
    text = """
indices: [{name: a}, {name: b}]
operations:
  - {name: unused, operation-type: search}
  - {name: both, operation-type: search, index: "a,b"}
schedule: [{operation: both}, {name: blind, operation: {operation-type: get, id: "1"}}]
"""
    root = write_track(tmp_path, text)
    (problem,) = check_track(root / "track.yml", context(), tmp_path / "home").problems
    assert str(problem).startswith(f'{root / "track.yml"}: task "blind": the operation needs "index" (the track has 2')


def test_schedules_are_not_judged_while_the_code_that_has_them_cannot_be_loaded(tmp_path: Path) -> None:
    text = "dependencies: [esbench_has_none]\nschedule: [{operation: own, schedule: bursts, target-throughput: 5}]"
    root = write_track(tmp_path, text, track__py="import esbench_has_none\n")
    findings = check_track(root / "track.yml", context(), tmp_path)
    assert findings.problems == ()
    assert "the track needs the Python package esbench_has_none" in str(findings.warnings[0])


def test_a_parallel_that_can_never_end_is_a_problem(tmp_path: Path) -> None:
    task = "{operation: refresh, name: %s, warmup-time-period: 1}"
    tasks = f"{task % 'a'}, {task % 'b'}"
    text = f"schedule: [{{parallel: {{completed-by: any, tasks: [{tasks}]}}}}]"
    found = check_track(write_track(tmp_path, text) / "track.yml", context(), tmp_path)
    assert [problem.what for problem in found.problems] == ["the task has a warmup, and no end"]


def test_an_operation_that_does_nothing_is_a_warning(tmp_path: Path) -> None:
    text = """
component-templates: [{name: settings, template: t.json}]
composable-templates: [{name: pods, index-pattern: "p*", template: t.json}]
schedule: [{operation: {operation-type: create-component-template, template: pods}}]
"""
    root = write_track(tmp_path, text)
    (root / "t.json").write_text("{}")
    findings = check_track(root / "track.yml", context(), tmp_path)
    assert findings.problems == ()
    (warning,) = findings.warnings
    assert 'the track has no template "pods" of the kind, and the operation no body: it creates nothing' in str(warning)


def test_what_the_version_lacks_is_told_with_a_distribution(tmp_path: Path) -> None:
    operations = """
version: 2
indices: [{name: docs}]
schedule:
  - name: find
    operation: {operation-type: search, body: {runtime_mappings: {}}, request-params: {ignore_throttled: true}}
"""
    track = write_track(tmp_path, operations) / "track.yml"
    found = check_track(track, context("6.2.0"), tmp_path, distribution="elasticsearch-6.2.0")
    assert [str(problem) for problem in found.problems] == [
        'task "find": Elasticsearch 6.2 has no search key "runtime_mappings" '
        "(that needs Elasticsearch 7.11 or later; --exclude-tasks leaves the task out)"
    ]
    assert [str(warning) for warning in found.warnings] == [
        'task "find": the request parameter "ignore_throttled" is left out: Elasticsearch 6.2 does not know it '
        "(Elasticsearch 6.6 or later, or OpenSearch 1.0 or later)"
    ]
    assert check_track(track, context("6.2.0"), tmp_path).problems == ()
