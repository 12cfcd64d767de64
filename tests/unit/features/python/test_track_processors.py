"""What a track's processors change is raced, shown and judged, or it is refused with one line; validators refuse."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from track_files import context, load, task_named, write_track

from esbench.corpus.preparation import prepare as prepare_corpora
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import TrackError
from esbench.features.authoring.describe import describe
from esbench.features.authoring.validation import check_track
from esbench.features.python.loading import load_plugins
from esbench.features.python.operations import TrackOperationTypes
from esbench.features.python.track_processors import PythonCode, own_code_of, packed
from esbench.features.python.view import view_of
from esbench.model import ANY_TASK, Challenge, Corpus, Documents, Objective, Task, Track
from esbench.operations import builtin_operations
from esbench.track.library import find_track, list_tracks
from esbench.track.selection import choose_challenge
from esbench.units import Rate

OPERATIONS = TrackOperationTypes(builtin_operations())
TRACK = """
indices: [{name: docs, body: {settings: {number_of_shards: 1}}}]
corpora:
  - name: docs
    documents: [{source-file: docs.json, document-count: 10, source-url: "http://a/b", sha256: SHA, target-type: t}]
  - {name: made, documents: [{document-count: 10, generate: {fields: {n: {type: sequence}}}, synthetic: true}]}
operations:
  - {name: ask, operation-type: search, body: {size: 1}}
  - {name: own, operation-type: ping, depth: 1}
challenges:
  - name: first
    default: true
    parameters: {size: 3}
    schedule:
      - {operation: own, iterations: 5}
      - {name: paced, operation: ask, time-period: 5, target-throughput: 5 ops/s, within-ms: [5], objectives: [p99<5ms],
         cluster: there}
      - {name: load, operation: {operation-type: bulk, bulk-size: 5}, target-throughput: 100 docs/s}
      - parallel:
          completed-by: left
          tasks: [{name: left, operation: ask, requests: 3}, {name: right, operation: refresh}]
  - name: second
    schedule: [operation: refresh]
""".replace("SHA", "a" * 64)
CODE = """
from copy import copy, deepcopy
from esrally.track import ComponentTemplate, IndexTemplate, loader

class Change(loader.TrackProcessor):
    def on_after_load_track(self, track):
        challenge = track.selected_challenge_or_default
        tasks = {task.name: task for element in challenge.schedule for task in element}
        AFTER
    def on_prepare_track(self, track, data_root_dir):
        tasks = {task.name: task for element in track.selected_challenge.schedule for task in element}
        PREPARE

async def ping(es, params): ...
def draw(track, params): return {}
def check(track):
    CHECK
def register(registry):
    registry.register_track_processor(Change())
    registry.register_runner("ping", ping)
    registry.register_param_source("draw", draw)
    registry.register_validator("first", check)
"""


def coded(folder: Path, after: str = "pass", prepare: str = "pass", check: str = "pass") -> Path:
    """The track; its processor's line is the 8th of track.py, 11th for on_prepare_track()."""
    code = CODE.replace("AFTER", after).replace("PREPARE", prepare).replace("CHECK", check)
    return write_track(folder, TRACK, track__py=code)


def processed(folder: Path, after: str, challenge: str = "first") -> Track:
    root = coded(folder, after)
    return own_code_of(load(root), load_plugins(root), challenge, OPERATIONS)[0]


def no_documents(corpus: Corpus) -> tuple[PreparedDocuments, ...]:
    raise AssertionError(f"nobody reads {corpus.name}")


def first(track: Track) -> Challenge:
    return next(challenge for challenge in track.challenges if challenge.name == "first")


def changed_task(folder: Path, name: str, after: str) -> Task:
    return task_named(first(processed(folder, after)), name)


def test_a_track_that_a_processor_leaves_alone_stays_as_it_was(tmp_path: Path) -> None:
    root = coded(tmp_path)
    before = load(root)
    after, _ = own_code_of(before, load_plugins(root), "first", OPERATIONS)
    assert after == before


@pytest.mark.parametrize(("after", "rate"), [("", Rate(12.5, "%")), ("task.target_throughput = 40", Rate(40, "%"))])
def test_a_rate_in_percent_is_text_in_the_view(tmp_path: Path, after: str, rate: Rate) -> None:
    seen = "task = tasks['paced']; assert task.target_throughput == task.params['target-throughput'] == '12.5%'"
    root = coded(tmp_path, f"{seen}; {after}")
    file = root / "track.yml"
    paced = "target-throughput: 5 ops/s"
    assert paced in file.read_text()
    file.write_text(file.read_text().replace(paced, "target-throughput: 12.5%"))
    changed, _ = own_code_of(load(root), load_plugins(root), "first", OPERATIONS)
    assert task_named(first(changed), "paced").schedule.rate == rate


@pytest.mark.parametrize("test_mode", [False, True])
@pytest.mark.parametrize("name", [summary.name for summary in list_tracks().tracks])
def test_every_task_is_built_from_its_view_as_from_the_track_file(tmp_path: Path, name: str, test_mode: bool) -> None:
    track = load(find_track(name, None), test_mode=test_mode)
    changing = load_plugins(coded(tmp_path))
    assert own_code_of(track, changing, choose_challenge(track, None).name, OPERATIONS)[0] == track


@pytest.mark.parametrize(
    ("after", "name", "expected"),
    [
        ("tasks['own'].clients = 3", "own", {"clients": 3}),
        ("tasks['own'].iterations, tasks['own'].warmup_iterations = 7, 2", "own", {"iterations": 7}),
        ("tasks['own'].iterations, tasks['own'].time_period = None, '1m'", "own", {"time_period_s": 60.0}),
        ("tasks['own'].time_period = '1m'", "own", {"time_period_s": 60.0, "iterations": None}),
        ("tasks['paced'].time_period = tasks['paced'].warmup_time_period = 9", "paced", {"warmup_time_s": 9.0}),
        ("tasks['paced'].tags = ['slow']", "paced", {"tags": ("slow",)}),
        ("tasks['paced'].params['shape'] = 'sine'", "paced", {"params": {"shape": "sine"}}),
        ("tasks['paced'].name = 'asked'", "asked", {"within_ms": (5.0,), "time_period_s": 5.0}),
        ("tasks['paced'].name = 'kept'", "kept", {"objectives": (Objective("percentile", "<", 5.0, 99.0),)}),
        ("tasks['own'].meta_data['a'] = 1", "own", {"meta": {"a": 1}}),
    ],
)
def test_changes_of_a_task_are_raced(tmp_path: Path, after: str, name: str, expected: dict[str, Any]) -> None:
    task = changed_task(tmp_path, name, after)
    assert {key: getattr(task, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("after", "name", "rate"),
    [
        ("tasks['paced'].params['target-throughput'] *= 2", "paced", Rate(10, "ops")),
        ("tasks['load'].params['target-throughput'] *= 2", "load", Rate(200, "docs")),
        ("tasks['load'].params['target-throughput'] = '7 ops/s'", "load", Rate(7, "ops")),
        ("tasks['paced'].target_throughput = 3", "paced", Rate(3, "ops")),
        ("tasks['paced'].params['target-interval'] = 4", "paced", Rate(0.25, "ops")),
        ("del tasks['paced'].params['target-throughput']", "paced", None),
        ("tasks['own'].params['target-throughput'] = 8", "own", Rate(8, "ops")),
        ("tasks['paced'].target_throughput = '70%'", "paced", Rate(70, "%")),
    ],
)
def test_changes_of_a_target_rate_are_raced(tmp_path: Path, after: str, name: str, rate: Rate | None) -> None:
    assert changed_task(tmp_path, name, after).schedule.rate == rate


def test_a_schedule_can_be_changed(tmp_path: Path) -> None:
    assert changed_task(tmp_path, "paced", "tasks['paced'].schedule = 'poisson'").schedule.kind == "poisson"


@pytest.mark.parametrize(
    ("after", "name", "kind", "python", "params"),
    [
        ("tasks['own'].operation.params['depth'] = 7", "own", "ping", "runner", {"depth": 7}),
        ("tasks['own'].operation = tasks['paced'].operation", "own", "search", "", {"body": {"size": 1}}),
        ("tasks['paced'].operation.type = 'ping'", "paced", "ping", "runner", {"body": {"size": 1}}),
        ("tasks['paced'].operation.param_source = 'draw'", "paced", "search", "source", None),
        ("tasks['paced'].operation.params = {'param-source': 'draw'}", "paced", "search", "source", None),
    ],
)
def test_changes_of_an_operation_are_raced(
    tmp_path: Path, after: str, name: str, kind: str, python: str, params: dict[str, Any] | None
) -> None:
    operation = changed_task(tmp_path, name, after).operation
    assert (operation.type, operation.python) == (kind, python)
    assert operation.params == (operation.params if params is None else params)
    assert operation.params.get("param-source") == ("draw" if python == "source" else None)


def test_tasks_can_be_moved_taken_away_and_copied(tmp_path: Path) -> None:
    after = """challenge.schedule = [tasks['paced'], tasks['own'], challenge.schedule[3]]
        again = copy(tasks['own'])
        again.name = 'again'
        challenge.schedule.append(again)
        tasks['left'].name = 'leading'
        challenge.parameters['size'] *= 2"""
    challenge = first(processed(tmp_path, after))
    assert [[task.name for task in step.tasks] for step in challenge.steps] == [
        ["paced"],
        ["own"],
        ["leading", "right"],
        ["again"],
    ]
    assert challenge.steps[2].completed_by == ("leading",)
    assert challenge.params == {"size": 6}
    assert challenge.steps[3].tasks[0] == replace(challenge.steps[1].tasks[0], name="again")


def test_a_parallel_whose_leader_is_gone_ends_by_itself(tmp_path: Path) -> None:
    challenge = first(processed(tmp_path, "del challenge.schedule[3].tasks[0]"))
    assert challenge.steps[3].completed_by == ()
    assert ANY_TASK not in challenge.steps[3].completed_by


def test_corpora_keep_what_a_view_does_not_show(tmp_path: Path) -> None:
    after = """track.corpora = deepcopy(track.corpora)
        track.corpora[0].documents[0].number_of_documents = 3
        track.corpora[1].documents[0].target_index = 'docs'
        track.corpora[1].meta_data['a'] = 1
        track.corpora[1].documents[0].meta_data['b'] = 2"""
    docs, made = processed(tmp_path, after).corpora
    assert docs.documents[0] == Documents(
        3, "docs.json", source_url="http://a/b", sha256="a" * 64, target_index="docs", target_type="t"
    )
    assert (made.meta, made.documents[0].meta) == ({"a": 1}, {"b": 2})
    assert made.documents[0].generate == {"fields": {"n": {"type": "sequence"}}}
    assert made.documents[0].synthetic


def test_another_document_file_has_not_the_old_ones_checksum(tmp_path: Path) -> None:
    (part,) = processed(tmp_path, "track.corpora[0].documents[0].document_file = 'new.json'").corpora[0].documents
    assert (part.source_file, part.sha256, part.document_count) == ("new.json", None, 10)


def test_indices_and_templates_can_be_changed(tmp_path: Path) -> None:
    after = """track.indices[0].body['settings']['number_of_shards'] = 3
        track.composable_templates = [IndexTemplate('t', 'docs*', {'priority': 1})]
        track.component_templates.append(ComponentTemplate('c', {'template': {}}))"""
    track = processed(tmp_path, after)
    assert track.indices[0].body == {"settings": {"number_of_shards": 3}}
    assert [(each.name, each.index_pattern, each.body) for each in track.templates.composable] == [
        ("t", "docs*", {"priority": 1})
    ]
    assert [(each.name, each.body) for each in track.templates.component] == [("c", {"template": {}})]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("tasks['own'].clients = 0", 'task "own": clients must be at least 1, not 0'),
        ("tasks['own'].iterations = '5'", 'task "own": iterations must be a whole number, not "5"'),
        (
            "tasks['own'].time_period = tasks['own'].warmup_iterations = 5",
            'task "own" has both "time-period" and "iterations" (keep one of them)',
        ),
        ("tasks['paced'].time_period = 'long'", 'task "paced": "time-period": "long" is not a duration'),
        ("tasks['paced'].target_throughput = 'fast'", 'task "paced": "target-throughput": "fast" is not a rate'),
        ("tasks['paced'].schedule = 'poison'", 'unknown schedule "poison" (did you mean "poisson"?'),
        ("tasks['paced'].operation.type = 'serach'", 'task "paced": unknown operation type "serach" (did you mean'),
        ("tasks['paced'].operation.param_source = 'drw'", '"paced": unknown param-source "drw" (did you mean "draw"?'),
        ("tasks['load'].operation.params['bulk-size'] = 'x'", 'task "load": "bulk-size" must be a whole number'),
        ("tasks['own'].params['target-throughput'] = '5 docs/s'", 'task "own": the target rate is in docs/s'),
        ("tasks['paced'].name = 'load'", 'challenge "first" has two tasks named "load"'),
        ("challenge.schedule = []", 'challenge "first" has no task left'),
        (
            "challenge.schedule.append('refresh')",
            "the schedule of challenge \"first\" has 'refresh', which is not a task",
        ),
        ("challenge.name = 'frist'", 'there is no challenge "frist" (did you mean "first"?'),
        ("tasks['own'].clinets", "failed with AttributeError: 'TaskView' object has no attribute 'clinets'"),
    ],
)
def test_a_change_that_means_nothing_is_one_line_at_the_processor(tmp_path: Path, after: str, expected: str) -> None:
    with pytest.raises(TrackError) as caught:
        processed(tmp_path, after)
    line = str(caught.value).splitlines()[0]
    number = 9 if "failed with" in line else 6
    assert line.startswith(f"{tmp_path}/shop/track.py:{number}: ")
    assert "track processor Change" in line
    assert expected in line


# Preparing


def test_a_processor_prepares_files_and_its_view_reaches_the_workers(tmp_path: Path) -> None:
    prepare = "return [(self.write, {'folder': data_root_dir})]"
    root = coded(tmp_path, "track.selected_challenge.parameters['id'] = 'abc'", prepare)
    code = (root / "track.py").read_text()
    write = "def write(self, folder):\n        open(folder + '/written', 'w').close()\n"
    (root / "track.py").write_text(code.replace("\nasync def", f"    {write}\nasync def"))
    plugins = load_plugins(root)
    track, own = own_code_of(load(root), plugins, "first", OPERATIONS)
    assert own.prepare(track, tmp_path, no_documents) == (track, ())
    assert (tmp_path / "written").exists()
    sent = pickle.loads(own.packed(()).content)
    assert sent.selected_challenge_or_default.parameters == {"size": 3, "id": "abc"}


def test_code_reads_document_files_as_the_track_lists_them(tmp_path: Path) -> None:
    (tmp_path / "plain.json").write_text('{"n": 1}\n{"n": 2}\n')
    (tmp_path / "actions.json").write_text('{"index": {}}\n{"n": 3}\n')
    corpus = Corpus(
        "docs",
        (
            Documents(None, source_file="plain.json", target_index="docs"),
            Documents(None, source_file="actions.json", includes_action_and_meta_data=True, target_index="docs"),
        ),
    )
    documents = prepare_corpora([corpus], cache=tmp_path / "cache", track_dir=tmp_path)
    track = replace(load(coded(tmp_path)), corpora=(corpus,))
    view = pickle.loads(packed(view_of(track), documents, "first").content)
    plain, actions = view.corpora[0].documents
    assert (plain.number_of_lines, actions.number_of_lines) == (2, 2)
    assert Path(plain.document_file).read_text() == '{"n": 1}\n{"n": 2}\n'
    assert Path(actions.document_file).read_text() == '{"index": {}}\n{"n": 3}\n'


READING = """
indices: [{name: docs}]
corpora:
  - {name: read, documents: [{source-file: read.json, document-count: 10}]}
  - {name: unread, documents: [{source-file: unread.json, document-count: 10}]}
schedule: [{operation: {operation-type: search, param-source: draw}}]
"""


def test_corpora_that_a_source_says_it_reads_are_needed(tmp_path: Path) -> None:
    code = """
class Reads:
    infinite = True
    def __init__(self, track, params, **kwargs):
        self.corpora = track.corpora[:1]
    def params(self):
        return {"body": {}}
def register(registry):
    registry.register_param_source("draw", Reads)
"""
    root = write_track(tmp_path, READING, track__py=code)
    plugins, track = load_plugins(root), load(root)
    assert PythonCode(plugins, view_of(track), "", OPERATIONS).corpora_of_sources(track.challenges[0]) == {"read"}


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        ("tasks['own'].clients = 3", "changes tasks when they are in place already (change them in on_after_load"),
        ("return ['write']", "on_prepare_track() of Change returned 'write' (it returns a list of (function, {"),
        ("return 5", "track processor Change failed with TypeError: 'int' object is not iterable"),
        ("return [(len, {'n': 1})]", "track processor Change failed with TypeError: "),
    ],
)
def test_preparing_that_means_nothing_is_one_line(tmp_path: Path, prepare: str, expected: str) -> None:
    root = coded(tmp_path, prepare=prepare)
    plugins = load_plugins(root)
    track, own = own_code_of(load(root), plugins, "first", OPERATIONS)
    with pytest.raises(TrackError) as caught:
        own.prepare(track, tmp_path, no_documents)
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/shop")
    assert "\n" not in str(caught.value)


# Validators


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("return 'too deep'", 'challenge "first": too deep'),
        ("return ['too deep', 'too wide']", 'challenge "first": too deep; too wide'),
        ("return False", None),
        ("return 5", 'the validator of challenge "first" returned 5 (it returns what is wrong: text, a list of it)'),
        (
            "import esrally.exceptions as e; raise e.TrackConfigError('too old')",
            'challenge "first": too old',
        ),
        ("return None if type(track) is dict and track == {} else 'no parameters'", None),
        ("raise ValueError('no')", 'the validator of challenge "first" failed with ValueError: no'),
    ],
)
def test_a_validator_says_what_is_wrong(tmp_path: Path, check: str, expected: str | None) -> None:
    root = coded(tmp_path, check=check)
    plugins = load_plugins(root)
    _, own = own_code_of(load(root), plugins, "first", OPERATIONS)
    if expected is None:
        own.validate()
        return
    with pytest.raises(TrackError) as caught:
        own.validate()
    assert str(caught.value).startswith(f"{tmp_path}/shop/track.py:1")
    assert expected in str(caught.value)


# For authors


def test_info_shows_each_challenge_as_it_is_raced(tmp_path: Path) -> None:
    root = coded(tmp_path, "challenge.schedule[0].clients = 5\n        track.corpora.clear()")
    told = describe(root / "track.yml", context(), tmp_path)
    assert [challenge.name for challenge in told.challenges] == ["first", "second"]
    assert [challenge.tasks[0].clients for challenge in told.challenges] == [5, 5]
    assert told.track.corpora == ()
    one = describe(root / "track.yml", context(), tmp_path, "second")
    assert [challenge.name for challenge in one.challenges] == ["second"]


def test_validation_asks_processors_and_validators(tmp_path: Path) -> None:
    root = coded(tmp_path, "tasks['refresh'].clients = 0", check="return 'too deep'")
    (root / "docs.json").touch()
    problems = [str(each) for each in check_track(root / "track.yml", context(), tmp_path).problems]
    assert len(problems) == 2
    assert problems[0].endswith("clients must be at least 1, not 0") or "KeyError" in problems[0]


def test_what_a_view_is_made_of_is_not_shared_with_the_track(tmp_path: Path) -> None:
    root = coded(tmp_path, "tasks['paced'].operation.params['body']['size'] = 9")
    before = load(root)
    text = json.dumps(before.challenges, default=str)
    after, _ = own_code_of(before, load_plugins(root), "first", OPERATIONS)
    assert task_named(first(after), "paced").operation.params == {"body": {"size": 9}}
    assert json.dumps(before.challenges, default=str) == text
