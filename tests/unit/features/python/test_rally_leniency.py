"""Faults of tracks that Rally does not mind: warnings here, and problems where a check is strict."""

from __future__ import annotations

from pathlib import Path

import pytest
from track_files import context, load, write_track

from esbench.errors import TrackError
from esbench.features.authoring.validation import check_track
from esbench.features.python.loading import load_plugins
from esbench.features.python.view import view_of
from esbench.model import Challenge
from esbench.operations import builtin_operations
from esbench.track.selection import warnings_of, with_shared_clients

OPERATIONS = builtin_operations()
SOURCE = """
class Paths:
    def __init__(self, track, params, **kwargs): ...
def register(registry):
    registry.register_param_source("paths", Paths)
"""
TOLERATED = {
    "unknown key": (
        """
composable-templates: [{name: pods, index-pattern: "p*", template: t.json}]
schedule:
  - operation:
      operation-type: create-composable-template
      templates: pods
""",
        "",
        'track.yml:6: unknown key "templates" in operation "create-composable-template" '
        '(it has no effect; did you mean "template"?)',
    ),
    "whole number": (
        """
corpora: [{name: c, target-index: i, documents: [{source-file: d.json, document-count: 5}]}]
schedule:
  - operation:
      operation-type: bulk
      bulk-size: 70.0
""",
        "",
        'track.yml:6: "bulk-size" must be a whole number, not 70.0 (a race takes 70)',
    ),
    "number of a calculation": (
        """
corpora: [{name: c, target-index: i, documents: [{source-file: d.json, document-count: 5}]}]
schedule: [operation: {operation-type: bulk, bulk-size: {{ 100 * 1.1 }}}]
""",
        "",
        'track.yml:3: "bulk-size" must be a whole number, not 110.00000000000001 (a race takes 110)',
    ),
    "number in quotes": (
        "schedule: [operation: {operation-type: refresh, retries: '3'}]",
        "",
        "track.yml:1: \"retries\" must be a whole number, not '3' (a race takes 3)",
    ),
    "source without params": (
        "schedule: [operation: refresh]",
        SOURCE,
        'track.py:3: param-source "paths" has no params() '
        "(it returns the parameters of the next request: no task can use the source without)",
    ),
    "unknown key of a task": (
        "schedule: [{operation: refresh, weight: 3, run-on-serverless: true, iterations: 2}]",
        "",
        'track.yml:1: unknown key "weight" in task "refresh": it has no effect',
    ),
    "clients": (
        "schedule: [parallel: {clients: 2, tasks: [{operation: refresh, clients: 3}]}]",
        "",
        'track.yml:1: task "refresh" has 3 clients, and its "parallel" only 2 '
        '(all 3 run; give the "parallel" 3 clients, or the task 2)',
    ),
}


def tolerated(folder: Path, name: str) -> tuple[Path, str]:
    text, code, warning = TOLERATED[name]
    files = {"track__py": code} if code else {}
    root = write_track(folder, text.lstrip("\n") if text.startswith("schedule") else text, **files)
    (root / "t.json").write_text("{}")
    (root / "d.json").write_text('{"a": 1}\n' * 5)
    return root, f"{root}/{warning}"


@pytest.mark.parametrize("name", TOLERATED)
def test_what_rally_does_not_mind_is_a_warning(tmp_path: Path, name: str) -> None:
    root, warning = tolerated(tmp_path, name)
    assert load(root).warnings == (warning,)
    found = check_track(root / "track.yml", context(), tmp_path)
    assert (found.problems, [str(each) for each in found.warnings]) == ((), [warning])


@pytest.mark.parametrize("name", TOLERATED)
def test_in_a_strict_check_it_is_a_problem(tmp_path: Path, name: str) -> None:
    root, warning = tolerated(tmp_path, name)
    found = check_track(root / "track.yml", context(), tmp_path, strict=True)
    assert ([str(each) for each in found.problems], found.warnings) == ([warning], ())


def test_unknown_keys_are_passed_on_and_what_was_meant_keeps_its_default(tmp_path: Path) -> None:
    (task,) = load(tolerated(tmp_path, "unknown key")[0]).challenges[0].tasks
    assert task.operation.params == {"templates": "pods"}


def test_a_bulk_size_in_quotes_is_as_good_as_one_without(tmp_path: Path) -> None:
    text = "corpora: [{name: c, target-index: i, documents: [{source-file: d.json, document-count: 5}]}]"
    root = write_track(tmp_path, f"{text}\nschedule: [operation: {{operation-type: bulk, bulk-size: '100'}}]")
    assert load(root).warnings == ()


def test_a_key_of_a_task_that_is_almost_a_known_one_is_refused_as_ever(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match='unknown key "client" in schedule'):
        load(write_track(tmp_path, "schedule: [{operation: refresh, client: 1}]"))


def test_a_task_cannot_draw_from_a_source_without_params(tmp_path: Path) -> None:
    root, _ = tolerated(tmp_path, "source without params")
    source = load_plugins(root).new_source("paths", view_of(load(root)), {}, 'task "find"')
    with pytest.raises(TrackError, match='task "find": param-source "paths" has no params'):
        source.partition(0, 1).params()


def challenge(folder: Path, text: str) -> Challenge:
    return load(write_track(folder, text)).challenges[0]


FIRST = "{operation: refresh, name: first, clients: 4}"
SHARED = "{parallel: {clients: 1, tasks: [{operation: refresh, name: a}, {operation: refresh, name: b}]}}"


def test_steps_share_the_clients_of_the_widest_one(tmp_path: Path) -> None:
    steps = with_shared_clients(challenge(tmp_path, f"schedule: [{FIRST}, {SHARED}]")).steps
    assert [step.clients for step in steps] == [4, 4]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (f"[{SHARED}]", []),
        (
            f"[{FIRST}, {SHARED}]",
            [
                'parallel of "a", "b": up to 2 clients run at the same time, not 1: '
                "tasks share clients only beyond the 4 of the widest step"
            ],
        ),
        (f"[{FIRST}, {SHARED.replace('clients: 1', 'clients: 2')}]", []),
    ],
)
def test_a_parallel_whose_tasks_do_not_share_its_clients_is_a_warning(
    tmp_path: Path, schedule: str, expected: list[str]
) -> None:
    track = load(write_track(tmp_path, f"schedule: {schedule}"))
    assert list(warnings_of(track, track.challenges[0])) == expected
