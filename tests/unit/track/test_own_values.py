"""Templates change the values that they made, as they may in Rally."""

from __future__ import annotations

from pathlib import Path

import pytest
from track_files import context, load, write_track

from esbench.errors import TrackError
from esbench.track.rendering import TrackRenderer

TRACK = """
version: 2
description: '%s'
schedule: [{operation: refresh}]
"""
LIST, MAPPING, SET = "{% set v = [3, 1, 2] %}", '{% set v = {"a": 1, "b": 2} %}', '{% set v = {"a": 1}.keys() - [] %}'


def described(folder: Path, template: str, **params: object) -> str:
    return load(write_track(folder, TRACK % template.replace("'", "''")), **params).description


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ("append(4)", "[3, 1, 2, 4]"),
        ("extend([4, 5])", "[3, 1, 2, 4, 5]"),
        ("insert(0, 4)", "[4, 3, 1, 2]"),
        ("pop()", "[3, 1]"),
        ("remove(1)", "[3, 2]"),
        ("reverse()", "[2, 1, 3]"),
        ("sort()", "[1, 2, 3]"),
        ("clear()", "[]"),
        ("__setitem__(0, 9)", "[9, 1, 2]"),
        ("__delitem__(0)", "[1, 2]"),
        ("__iadd__([4])", "[3, 1, 2, 4]"),
    ],
)
def test_a_template_changes_its_lists(tmp_path: Path, change: str, after: str) -> None:
    assert described(tmp_path, f"{LIST}{{% set _ = v.{change} %}}{{{{ v }}}}") == after


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ('update({"b": 3, "c": 4})', '{"a": 1, "b": 3, "c": 4}'),
        ("update(b=3)", '{"a": 1, "b": 3}'),
        ('setdefault("c", 5)', '{"a": 1, "b": 2, "c": 5}'),
        ('pop("a")', '{"b": 2}'),
        ("popitem()", '{"a": 1}'),
        ("clear()", "{}"),
        ('__setitem__("a", 9)', '{"a": 9, "b": 2}'),
        ('__delitem__("a")', '{"b": 2}'),
        ('__ior__({"c": 1})', '{"a": 1, "b": 2, "c": 1}'),
    ],
)
def test_a_template_changes_its_mappings(tmp_path: Path, change: str, after: str) -> None:
    assert described(tmp_path, f"{MAPPING}{{% set _ = v.{change} %}}{{{{ v | tojson }}}}") == after


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ('add("b")', "a,b"),
        ('update(["b"])', "a,b"),
        ('discard("a")', ""),
        ('remove("a")', ""),
        ("pop()", ""),
        ("clear()", ""),
        ('difference_update(["a"])', ""),
        ('intersection_update(["b"])', ""),
        ('symmetric_difference_update(["b"])', "a,b"),
    ],
)
def test_a_template_changes_its_sets(tmp_path: Path, change: str, after: str) -> None:
    assert described(tmp_path, f'{SET}{{% set _ = v.{change} %}}{{{{ v | sort | join(",") }}}}') == after


def test_ranges_are_as_long_as_in_rally(tmp_path: Path) -> None:
    template = (
        "{% set s = namespace(t=0) %}{% for i in range(200000) %}{% set s.t = s.t + 1 %}{% endfor %}"
        "{{ s.t }} {{ range(10, 0, -4) | list }} {{ range(10**12) | length }} {{ 7 in range(10**12) }}"
        " {{ range(10**12)[-1] }} {{ range(3) }} {{ range(5)[1:3] | list }} {{ range(4) | reverse | list }}"
    )
    assert described(tmp_path, template) == (
        "200000 [10, 6, 2] 1000000000000 True 999999999999 range(0, 3) [1, 2] [3, 2, 1, 0]"
    )


def test_what_a_template_changes_in_a_parameter_stays_within_its_rendering(tmp_path: Path) -> None:
    folder = write_track(tmp_path, TRACK % "{% set _ = sizes.append(3) %}{{ sizes }}")
    own = context(sizes=[1, 2])
    renderer = TrackRenderer(folder, own)
    assert [renderer.render("track.yml").text for _ in range(2)][1].count("[1, 2, 3]") == 1
    assert own.params == {"sizes": [1, 2]}


@pytest.mark.parametrize("suffix", [".yml", ".json"])
@pytest.mark.parametrize(
    "template",
    [
        "{{ nosuch | tojson }}",
        "{{ {'a': [nosuch]} | tojson }}",
        "{% for i in range(nosuch) %}{% endfor %}",
        "{% for i in range(1, nosuch | default(other)) %}{% endfor %}".replace("other", "nosuch"),
        "{{ '%d' % nosuch }}",
        "{{ [1, 2][:nosuch] }}",
        "{{ ('a' * 3) | length + nosuch | length | abs + nosuch }}",
        "{{ [1] | sum(start=nosuch) }}",
        "{{ 'a' | center(nosuch) }}",
        "{{ nosuch | int }}",
        "{{ nosuch.part | length }}",
        "{{ days_ago is defined }}{{ '31-12-2024' | days_ago(nosuch) }}",
    ],
)
def test_an_undefined_parameter_is_named(tmp_path: Path, template: str, suffix: str) -> None:
    folder = write_track(tmp_path, template, suffix)
    with pytest.raises(TrackError, match=r"'nosuch' is undefined .give it a default"):
        TrackRenderer(folder, context()).render(f"track{suffix}")


@pytest.mark.parametrize(
    "index",
    [
        '{"name": "a", "types": [{"name": "b", "documents": "d.json.bz2", "document-count": 3}]}',
        '{"name": "a", "documents": [{"source-file": "d.json"}]}',
    ],
)
def test_documents_of_indices_are_refused(tmp_path: Path, index: str) -> None:
    track = f'{{"version": 2, "indices": [{index}], "schedule": [{{"operation": "refresh"}}]}}'
    with pytest.raises(TrackError, match="have an old format of Rally, and would not be sent"):
        load(write_track(tmp_path, track, ".json"))
    fine = track.replace(index, '{"name": "a", "types": ["b"]}')
    assert load(write_track(tmp_path / "fine", fine, ".json")).indices[0].name == "a"
