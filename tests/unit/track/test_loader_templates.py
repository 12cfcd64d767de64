"""What the Jinja templates of a track can do."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from track_files import context, load, write_track

from esbench.errors import UsageError
from esbench.operations import builtin_operations
from esbench.track.features import needs_of
from esbench.track.loader import load_track, read_track
from esbench.track.rendering import takes_parameter
from esbench.track.selection import choose_challenge

RALLY_TRACKS = os.environ.get("ESBENCH_TEST_RALLY_TRACKS")


def extras(tmp_path: Path, text: str, suffix: str = ".json", version: str = "7.10.2", **files: str) -> dict[str, Any]:
    """The further keys of the only task of a track that consists of it."""
    root = write_track(tmp_path, text, suffix, **files)
    return dict(load(root, version=version).challenges[0].tasks[0].params)


def json_task(keys: str) -> str:
    return f'{{"schedule": [{{"operation": "refresh", {keys}}}]}}'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("{{ version_major }}", 7),
        ("{{ version_minor }}", 10),
        ('"{{ distribution }} {{ build_flavor }}"', "elasticsearch default"),
        ("{{ serverless_operator | tojson }}", False),
        ("{{ '22-12-2024' | days_ago(now) }}", 10),
        ("{{ '2024/12/22' | days_ago('2024/12/25', '%Y/%m/%d') }}", 3),
        ('"{{ now | get_start_date }}"', "2025-01-01"),
        ('"{{ now | get_end_date(3) }}"', "2025-01-04"),
        ("\"{{ '2024-12-31' | get_end_date }}\"", "2025-01-01"),
        ("\"{{ now | get_start_date('%d.%m.%Y') }}\"", "01.01.2025"),
        ("{{ missing | default([1, 2]) | tojson }}", [1, 2]),
        ('"{{ missing }}"', ""),
    ],
)
def test_globals_and_filters(tmp_path: Path, expression: str, expected: object) -> None:
    assert extras(tmp_path, json_task(f'"x": {expression}')) == {"x": expected}


def test_track_parameter_cannot_take_the_place_of_a_given_name(tmp_path: Path) -> None:
    root = write_track(tmp_path, json_task('"x": "{{ build_flavor }} {{ flavor }}"'), ".json")
    assert dict(load(root, flavor="mine").challenges[0].tasks[0].params) == {"x": "default mine"}
    with pytest.raises(UsageError, match='has no parameter "build_flavor"'):
        load(root, build_flavor="serverless")


def test_version_without_a_minor_number_has_minor_zero(tmp_path: Path) -> None:
    assert extras(tmp_path, json_task('"x": {{ version_minor }}'), version="9") == {"x": 0}


def test_parts_are_collected_in_order_and_see_what_the_track_sets(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        '{% import "rally.helpers" as rally with context %}{% set n = 4 %}\n'
        '{"schedule": [{{ rally.collect(parts="tasks/*.json") }}]}',
        ".json",
        tasks_in_b__json='{"operation": "refresh", "name": "b", "clients": {{ n }}}',
        tasks_in_a__json='{{ rally.collect(parts="deep/*.json") }}',
        tasks_in_deep_in_c__json='{"operation": "refresh", "name": "c"}',
    )
    assert [(task.name, task.clients) for task in load(root).challenges[0].tasks] == [("c", 1), ("b", 4)]


def test_parts_named_by_an_expression_are_collected_too(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        '{% import "rally.helpers" as rally with context %}{% set where = "tasks" %}\n'
        '{"schedule": [{{ rally.collect(parts=where ~ "/*.json") }}]}',
        ".json",
        tasks_in_a__json='{"operation": "refresh", "name": "a"}',
        tasks_in_b__json='{"operation": "refresh", "name": "b"}',
    )
    assert [task.name for task in load(root).challenges[0].tasks] == ["a", "b"]


def test_parameters_of_parts_named_by_an_expression_are_known(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        '{% import "rally.helpers" as rally with context %}{% set where = "tasks" %}\n'
        '{"schedule": [{{ rally.collect(parts=where ~ "/*.json") }}]}',
        ".json",
        tasks_in_a__json='{"operation": "refresh", "clients": {{ n | default(1) }}}',
    )
    assert load(root, n=4).challenges[0].tasks[0].clients == 4


def test_exists_set_param_writes_a_setting_only_when_it_has_a_value(tmp_path: Path) -> None:
    macro = (
        '"first": 1 {{ rally.exists_set_param("a", given) }} {{ rally.exists_set_param("b", missing) }}'
        '{{ rally.exists_set_param("c", missing, default_value="x") }}'
    )
    text = '{% import "rally.helpers" as rally with context %}{% set given = 5 %}' + json_task(macro)
    assert extras(tmp_path, text) == {"first": 1, "a": 5, "c": "x"}


def test_index_body_is_rendered_with_the_parameters_alone(tmp_path: Path) -> None:
    root = write_track(
        tmp_path,
        '{% set shards = 9 %}{"indices": [{"name": "a", "body": "a.json"}], "schedule": [{"operation": "refresh"}]}',
        ".json",
        a__json='{"settings": {"number_of_shards": {{ shards | default(1) }}}}',
    )
    assert load(root).indices[0].body == {"settings": {"number_of_shards": 1}}
    assert load(root, shards=3).indices[0].body == {"settings": {"number_of_shards": 3}}


@pytest.mark.skipif(RALLY_TRACKS is None, reason="ESBENCH_TEST_RALLY_TRACKS names no folder of Rally's tracks")
def test_rallys_percolator_track_loads_unchanged() -> None:
    track = load(Path(str(RALLY_TRACKS)) / "percolator", number_of_replicas=1)
    challenge = choose_challenge(track, None)
    assert challenge.name == "append-no-conflicts"
    assert len(challenge.tasks) == 16
    assert track.indices[0].body["settings"]["index.number_of_replicas"] == 1
    assert track.corpora[0].document_count == 2_000_000
    assert tuple(needs_of(track, challenge)) == ("language-analyzers", "percolator")
    index = challenge.tasks[3]
    assert (index.name, index.operation.type, index.clients, index.warmup_time_s) == ("index", "bulk", 8, 10.0)
    ignore_me = challenge.tasks[-2]
    assert ignore_me.schedule.rate is not None
    assert ignore_me.schedule.rate.value == pytest.approx(1 / 12)


@pytest.mark.skipif(RALLY_TRACKS is None, reason="ESBENCH_TEST_RALLY_TRACKS names no folder of Rally's tracks")
@pytest.mark.parametrize(("name", "tasks"), [("noaa", 16), ("metricbeat", 12)])
def test_rallys_search_tracks_load_unchanged(name: str, tasks: int) -> None:
    track = load(Path(str(RALLY_TRACKS)) / name, test_mode=True)
    assert len(choose_challenge(track, None).tasks) == tasks


@pytest.mark.parametrize(("flavor", "left"), [("default", ["a", "b", "c", "d"]), ("serverless", ["b", "d"])])
def test_tasks_that_must_not_run_on_serverless_are_left_out_there(tmp_path: Path, flavor: str, left: list[str]) -> None:
    text = (
        "schedule:\n"
        "  - {name: a, operation: refresh, run-on-serverless: false}\n"
        "  - parallel: {tasks: [{name: b, operation: refresh},"
        " {name: c, operation: {operation-type: refresh, run-on-serverless: false}}]}\n"
        "  - {name: d, operation: refresh, run-on-serverless: true}\n"
    )
    root = write_track(tmp_path, text)
    document = read_track(root / "track.yml", replace(context(), build_flavor=flavor))
    track = load_track(document, builtin_operations())
    assert [task.name for task in track.challenges[0].tasks] == left


@pytest.mark.parametrize(
    ("text", "takes"),
    [
        ('indices: [{name: "{{ index_prefix | default("") }}orders"}]', True),
        ('# {% set index_prefix = index_prefix | default("") %}', True),
        ('{% include "part.yml" %}', True),
        ("indices: [{name: index_prefix}]", False),
        ('{% set index_prefix = "mine" %}indices: [{name: "{{ index_prefix }}"}]', False),
        ("{% if", False),
    ],
)
def test_a_track_takes_the_parameters_that_its_templates_ask_for(tmp_path: Path, text: str, takes: bool) -> None:
    root = write_track(tmp_path, text, part__yml='index: {{ index_prefix | default("") }}orders')
    assert takes_parameter(root / "track.yml", "index_prefix") is takes
