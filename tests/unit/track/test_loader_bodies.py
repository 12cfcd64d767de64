"""Data streams, templates and dependencies of a track, and the files that their bodies stand in."""

from __future__ import annotations

from pathlib import Path

import pytest
from track_files import load, write_track

from esbench.errors import EsbenchError
from esbench.model import DataStream, Template
from esbench.track.features import needs_of, nodes_needed

TRACK = """
data-streams: [{name: logs-app}]
composable-templates:
  - {name: logs, index-pattern: "logs-*", template: templates/logs.json, delete-matching-indices: false}
component-templates:
  - {name: common, template: all.json, template-path: parts.common}
  - name: inline
    template: {template: {settings: {number_of_replicas: "{{ copies | default(2) }}"}}}
templates:
  - {name: old, index-pattern: "old-*", template: old.yml}
corpora:
  - {name: logs, documents: [{source-file: logs.json, document-count: 5}]}
dependencies: ["numpy", "pytrec_eval==0.5"]
schedule:
  - operation: create-component-template
  - operation: create-composable-template
  - operation: {operation-type: cluster-health, request-params: {wait_for_status: green}}
"""
FILES = {
    "templates_in_logs__json": '{"index_patterns": ["logs-*"], "template": {"settings": {"codec": "{{ codec }}"}}}',
    "all__json": '{"parts": {"common": {"template": {"mappings": {"dynamic": "strict"}}}}}',
    "old__yml": "index_patterns: [old-*]\nmappings: {properties: {b: {type: text, analyzer: english}}}\n",
}


def test_what_a_track_declares_is_read(tmp_path: Path) -> None:
    track = load(write_track(tmp_path, TRACK, **FILES), codec="default")
    assert track.data_streams == (DataStream("logs-app"),)
    assert track.targets == ("logs-app",)
    assert track.dependencies == ("numpy", "pytrec_eval==0.5")
    logs = {"index_patterns": ["logs-*"], "template": {"settings": {"codec": "default"}}}
    assert track.templates.composable == (Template("logs", logs, "logs-*", delete_matching_indices=False),)
    common, inline = track.templates.component
    assert common == Template("common", {"template": {"mappings": {"dynamic": "strict"}}})
    assert inline.body == {"template": {"settings": {"number_of_replicas": "2"}}}
    assert [template.name for template in track.templates.legacy] == ["old"]
    assert track.templates.legacy[0].index_pattern == "old-*"
    assert track.templates.legacy[0].delete_matching_indices


def test_documents_go_to_the_only_data_stream(tmp_path: Path) -> None:
    (documents,) = load(write_track(tmp_path, TRACK, **FILES), codec="x").corpora[0].documents
    assert (documents.target_index, documents.target_data_stream) == (None, "logs-app")


def test_templates_say_what_a_node_must_be_able_to_do(tmp_path: Path) -> None:
    track = load(write_track(tmp_path, TRACK, **FILES), codec="x")
    assert track.requires == ("data-streams", "language-analyzers")
    assert nodes_needed(track, track.challenges[0]) == 3  # two replicas, and green is waited for


@pytest.mark.parametrize(
    ("operation", "feature"),
    [
        ("{operation-type: reindex, body: {source: {index: a}, dest: {index: b}}}", "reindex"),
        ("{operation-type: put-pipeline, id: p, body: {processors: []}}", "ingest-processors"),
        ("{operation-type: search, index: a, body: {sort: {_script: {script: '1'}}}}", "painless"),
        ("{operation-type: search, index: a, body: {f: {script: {source: '1', lang: expression}}}}", "expressions"),
    ],
)
def test_operations_say_what_a_node_must_be_able_to_do(tmp_path: Path, operation: str, feature: str) -> None:
    track = load(write_track(tmp_path, f"schedule: [{{operation: {operation}}}]\n"))
    assert tuple(needs_of(track, track.challenges[0])) == (feature,)


def test_the_parameters_of_template_files_are_known(tmp_path: Path) -> None:
    with pytest.raises(EsbenchError, match=r'no parameter "codek" \(did you mean "codec"'):
        load(write_track(tmp_path, TRACK, **FILES), codek="x")


SCHEDULE = "schedule: [{operation: refresh}]\n"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("templates: [{name: t, template: {}}]\n", 1, '"index-pattern" is missing in templates[0]'),
        ("templates: [{index-pattern: t, template: {}}]\n", 1, '"name" is missing in templates[0]'),
        ("component-templates: [{name: t}]\n", 1, '"template" is missing in component-templates[0]'),
        ("component-templates: [{name: t, template: 5}]\n", 1, "must be text or a mapping, not 5"),
        (
            "component-templates:\n  - name: t\n    template: gone.json\n",
            3,
            'there is no file "gone.json" in the folder of the track',
        ),
        ("component-templates:\n  - name: t\n    template: list.json\n", 1, "a template must be a mapping"),
        (
            "component-templates:\n  - name: t\n    template: {a: {b: 5}}\n    template-path: a.b\n",
            4,
            '"a.b" leads to no mapping of the template',
        ),
        (
            "component-templates:\n  - {name: t, template: {}}\n  - {name: t, template: {}}\n",
            3,
            'the template "t" is defined twice',
        ),
        (
            "templates:\n  - {name: t, template: {}, index-pattern: x, delete-matching-index: true}\n",
            2,
            'did you mean "delete-matching-indices"?',
        ),
        ("data-streams: [logs]\n", 1, "data-streams[0] must be a mapping"),
        ("data-streams:\n  - {name: a}\n  - {name: a}\n", 3, 'the data stream "a" is defined twice'),
        ("dependencies: numpy\n", 1, "dependencies must be a list"),
        (
            "data-streams: [{name: a}, {name: b}]\ncorpora:\n  - name: c\n    documents:\n"
            "      - {source-file: x.json, document-count: 5}\n",
            5,
            'needs "target-data-stream" (the track\'s data streams: a, b)',
        ),
    ],
)
def test_a_meaningless_declaration_is_refused_at_its_line(tmp_path: Path, text: str, line: int, expected: str) -> None:
    with pytest.raises(EsbenchError) as caught:
        load(write_track(tmp_path, text + SCHEDULE, list__json="[]"))
    message = str(caught.value)
    assert f":{line}" in message.partition(": ")[0]
    assert expected in message
