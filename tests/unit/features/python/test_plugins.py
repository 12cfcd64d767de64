"""The Python part of a track: what it may import and register, and what is said when it is wrong."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import pytest
from track_files import PYTHON_TRACK, load, task_named, write_track

from esbench.errors import TrackCodeError, TrackError
from esbench.features.python.esrally import MmapSource
from esbench.features.python.loading import NamedSource, Plugins, load_plugins
from esbench.features.python.operations import TrackOperationTypes
from esbench.features.python.track_processors import PythonCode
from esbench.features.python.view import view_of
from esbench.model import Track
from esbench.operations import builtin_operations
from esbench.track.python_part import python_entry, python_files

CODE = """
from esrally import exceptions
from esrally.driver import runner
from esrally.track import loader, params

class Mine(params.ParamSource):
    def params(self):
        return {"index": None, "body": {"query": {"match_all": {}}}, "cache": self._params["cache"]}

async def ping(es, params):
    return params["depth"], "pings"

def register(registry):
    registry.register_param_source("mine", Mine)
    registry.register_runner("ping", ping, async_runner=registry.meta_data["async_runner"])
"""


def track_of(folder: Path, code: str = CODE, text: str = PYTHON_TRACK, **files: str) -> Track:
    return load(write_track(folder, text, track__py=code, **files))


def plugins_in(folder: Path, code: str, **files: str) -> Plugins:
    return load_plugins(write_track(folder, PYTHON_TRACK, track__py=code, **files))


def source(plugins: Plugins, track: Track, name: str = "mine", **params: object) -> NamedSource:
    return plugins.new_source(name, view_of(track), params, 'task "find"')


def test_operations_that_the_tracks_own_code_runs_or_draws_are_marked(tmp_path: Path) -> None:
    track = track_of(tmp_path)
    assert task_named(track, "find").operation.python == "source"
    assert task_named(track, "own").operation.python == "runner"
    assert task_named(track, "own").operation.params == {"depth": 2}


def test_requests_of_sources_are_the_same_each_time_and_a_source_that_needs_documents_is_left_out(
    tmp_path: Path,
) -> None:
    code = """
import random

def drawn(track, params, **kwargs):
    return {"body": {"query": {"term": {"n": random.randint(1, 1000)}}}}

class Reader:
    def __init__(self, track, params, **kwargs):
        self.first = track.corpora[0].documents[0]
    def params(self):
        return {}

class Once:
    infinite = False
    def __init__(self, track, params, **kwargs):
        self.left = [params]
    def params(self):
        return self.left.pop() if self.left else next(iter(()))

def register(registry):
    for name, source in {"drawn": drawn, "reader": Reader, "once": Once}.items():
        registry.register_param_source(name, source)
"""
    operations = [f"{{operation: {{name: {name}, operation-type: search, index: a, param-source: {name}}}}}" for name in
                  ("drawn", "reader", "once")]  # fmt: skip
    root = write_track(tmp_path, f"schedule: [{', '.join(operations)}]\n", track__py=code)
    track, plugins = load(root), load_plugins(root)
    own = PythonCode(plugins, view_of(track), "", TrackOperationTypes(builtin_operations()))
    requests = own.requests_of_sources(track.challenges[0])
    assert len(requests) == 50 + 1
    assert requests == own.requests_of_sources(track.challenges[0])


def test_a_registered_runner_wins_over_an_operation_type(tmp_path: Path) -> None:
    code = "async def mine(es, params): ...\ndef register(registry): registry.register_runner('search', mine)"
    track = track_of(tmp_path, code, "schedule: [operation: search]\n")
    assert task_named(track, "search").operation.python == "runner"


def test_the_names_of_rally_are_there_only_while_a_track_is_loaded(tmp_path: Path) -> None:
    track_of(tmp_path)
    assert not [name for name in sys.modules if name.partition(".")[0] == "esrally"]
    assert str(tmp_path) not in sys.path


def test_every_name_that_tracks_import_is_provided(tmp_path: Path) -> None:
    code = """
import esrally.track.params
from esrally.driver.runner import BulkIndex, PutSettings, Runner, mandatory, runner_for, unwrap
from esrally.exceptions import DataError, InvalidSyntax, RallyAssertionError, RallyError, TrackConfigError
from esrally.track import ComponentTemplate, DocumentCorpus, Documents, Index, IndexTemplate, exceptions
from esrally.track.loader import DefaultTrackPreparator, DocumentSetPreparator, TrackProcessor
from esrally.track.params import BulkIndexParamSource, CreateComponentTemplateParamSource
from esrally.track.params import CreateComposableTemplateParamSource, IndexIdConflict, ParamSource, Slice
from esrally import paths
from esrally.utils import io, net
io.MmapSource, esrally.track.params.Slice, net.download, paths.rally_confdir
def register(registry):
    registry.register_track_processor(DefaultTrackPreparator())
"""
    assert len(plugins_in(tmp_path, code).track_processors) == 1


@pytest.mark.parametrize("text", ["", "a\nb\n"])
def test_a_mapped_file_may_be_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "d.json").write_text(text)
    with MmapSource(str(tmp_path / "d.json"), "rt") as source:
        assert source.readlines(3) == [line.encode() for line in text.splitlines(keepends=True)]


def test_modules_of_a_track_import_one_another(tmp_path: Path) -> None:
    code = "from .lib.names import NAME\nfrom shop.lib import names\ndef register(r): r.register_runner(NAME, names.go)"
    lib = "NAME = 'go'\nasync def go(es, params): ..."
    assert "go" in plugins_in(tmp_path, code, lib_in___init____py="", lib_in_names__py=lib).runners


def test_a_package_named_track_serves_as_well(tmp_path: Path) -> None:
    root = write_track(tmp_path, PYTHON_TRACK, track_in_own__py="async def ping(es, params): ...")
    (root / "track" / "__init__.py").write_text(
        "from .own import ping\ndef register(registry): registry.register_runner('ping', ping)"
    )
    assert "ping" in load_plugins(root).runners


def test_another_track_of_the_same_name_is_loaded_anew(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        code = f"async def run(es, params): ...\ndef register(registry): registry.register_runner('{name}', run)"
        assert list(plugins_in(tmp_path / name, code).runners) == [name]


def test_the_code_is_part_of_the_tracks_digest_and_its_folder_is_not_written_to(tmp_path: Path) -> None:
    root = write_track(tmp_path, PYTHON_TRACK, track__py=CODE)
    before = load(root).digest
    assert sorted(path.name for path in root.iterdir()) == ["track.py", "track.yml"]
    (root / "track.py").write_text(CODE + "# changed\n")
    assert load(root).digest != before


def test_packages_beside_the_track_that_its_code_imports_are_part_of_its_digest(tmp_path: Path) -> None:
    (tmp_path / "shared" / "deep").mkdir(parents=True)
    (tmp_path / "shared" / "__init__.py").write_text("import more_shared\n")
    (tmp_path / "shared" / "deep" / "tools.py").write_text("")
    (tmp_path / "more_shared.py").write_text("")
    (tmp_path / "other.py").write_text("")
    root = write_track(tmp_path, PYTHON_TRACK, track__py="from shared.deep import tools\n" + CODE)
    assert [os.path.relpath(path, root) for path in python_files(root)] == [
        "../more_shared.py",
        "../shared/__init__.py",
        "../shared/deep/tools.py",
        "track.py",
    ]
    before = load(root).digest
    (tmp_path / "shared" / "deep" / "tools.py").write_text("x = 1")
    assert load(root).digest != before


def test_an_asynchronous_runner_may_be_decorated_or_partial(tmp_path: Path) -> None:
    code = """
import functools
async def go(depth, es, params): ...
def logged(function):
    @functools.wraps(function)
    def call(*arguments):
        return function(*arguments)
    return call
def register(registry):
    registry.register_runner("partial", functools.partial(go, 3))
    registry.register_runner("decorated", logged(functools.partial(go, 4).func))
"""
    assert list(plugins_in(tmp_path, code).runners) == ["decorated", "partial"]


RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
WRONG = {
    "raise ValueError('no file')\ndef register(registry): ...": ("track.py:1: ", "failed with ValueError: no file"),
    "def register(registry)\n": ("track.py:1: ", f"this is not valid Python {RUNNING}: def register(registry)"),
    "x = 1\n": ("track.py: ", "there is no function register(registry)"),
    "import numppy\ndef register(registry): ...": ("track.py:1: ", "pip install numppy"),
    "import esrally.mechanic\ndef register(registry): ...": ("track.py:1: ", "esbench provides esrally, "),
    "def f(es, params): ...\ndef register(r): r.register_runner('f', f)": ("", 'runner "f" is not asynchronous'),
    "class R:\n  async def __call__(self, es, p): ...\ndef register(r): r.register_runner('f', R)": (
        "",
        'runner "f" is a class (register an instance: R())',
    ),
    "async def f(es, p): ...\ndef register(r):\n  r.register_runner('f', f)\n  r.register_runner('f', f)": (
        "",
        'runner "f" is registered twice',
    ),
    "def register(r): r.register_param_source('p', {})": ("track.py:1: ", 'param-source "p" is dict {}'),
    "def register(r):\n  r.register_runner('f', 5)\n": ("track.py:2: ", 'runner "f" is int 5 (it must be an async'),
    "import sys\nsys.exit(3)\n": ("track.py:2: ", "failed with SystemExit: 3"),
    "register = 5\n": ("track.py: ", "there is no function register(registry)"),
    "async def register(registry): ...\n": ("track.py:1: ", "register() is asynchronous, and is never awaited"),
    "x = 1\ndef register(): ...\n": ("track.py:2: ", "register(registry) failed with TypeError: register() takes 0"),
    "def register(r):\n  r.register_runer('f', 1)\n": ("track.py:2: ", '(did you mean "register_runner"?)'),
    "def p(t, q):\n  yield {}\ndef register(r): r.register_param_source('p', p)\n": (
        "track.py:3: ",
        '"p" is a generator',
    ),
    "async def p(t, q): ...\ndef register(r): r.register_param_source('p', p)\n": (
        "track.py:2: ",
        '"p" is asynchronous',
    ),
    "def f(n): return f(n)\nf(1)\n": ("track.py:1: ", "failed with RecursionError"),
}


@pytest.mark.parametrize("code", WRONG)
def test_code_that_is_wrong_gets_one_line(tmp_path: Path, code: str) -> None:
    place, what = WRONG[code]
    with pytest.raises(TrackError) as raised:
        plugins_in(tmp_path, code)
    line = str(raised.value).splitlines()[0]
    assert place in line
    assert what in line


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python reads it")
def test_an_f_string_of_a_newer_python_says_so(tmp_path: Path) -> None:
    with pytest.raises(TrackCodeError) as caught:
        plugins_in(tmp_path, 'def register(registry):\n    print(f"{registry["a"]}")\n')
    assert str(caught.value).startswith(f"{tmp_path}/shop/track.py:2: this is not valid Python 3.11: print(f")
    assert "Python 3.12 may read it; this is 3.11" in str(caught.value)


def test_of_a_traceback_only_the_tracks_own_frames_are_shown(tmp_path: Path) -> None:
    code = "import json\nfrom .lib import parse\ndef register(registry):\n    parse('{')\n"
    with pytest.raises(TrackCodeError) as raised:
        plugins_in(tmp_path, code, lib__py="import json\ndef parse(text):\n    return json.loads(text)\n")
    line, *frames = str(raised.value).splitlines()
    assert "lib.py:3: " in line
    assert "JSONDecodeError" in line
    assert [frame.strip() for frame in frames if "File" not in frame] == ["parse('{')", "return json.loads(text)"]
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_frames_of_a_recursion_are_shown_once(tmp_path: Path) -> None:
    with pytest.raises(TrackCodeError) as raised:
        plugins_in(tmp_path, "def f(n): return f(n)\nf(1)\n")
    assert len(str(raised.value).splitlines()) == 1 + 2 * 2


def test_a_file_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    root = write_track(tmp_path, PYTHON_TRACK)
    (root / "track.py").write_bytes(b"a\0b")
    with pytest.raises(TrackCodeError, match=r"shop/track.py: is not text: it has a null byte$"):
        load_plugins(root)


def test_a_source_that_is_not_registered_is_a_did_you_mean(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match=r'track.yml:5: unknown param-source "mime" \(did you mean "mine"\?'):
        track_of(tmp_path, text=PYTHON_TRACK.replace("param-source: mine", "param-source: mime"))


def test_a_source_in_a_track_without_code_says_where_it_should_be(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match=r"registered by a track\.py, and the track has none"):
        load(write_track(tmp_path, PYTHON_TRACK))


def test_an_unknown_operation_type_says_which_runners_there_are(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match=r'unknown operation type "own" \(the runners of its track.py: ping; known: '):
        track_of(tmp_path, text=PYTHON_TRACK.replace("operation-type: ping", "operation-type: own"))


def test_an_unknown_operation_type_names_the_tracks_runners(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match=r'unknown operation type "pign" \(did you mean "ping"\?'):
        track_of(tmp_path, text=PYTHON_TRACK.replace("operation-type: ping", "operation-type: pign"))


def test_a_schedule_of_the_tracks_own_is_known(tmp_path: Path) -> None:
    code = CODE + "    registry.register_scheduler('bursts', object)\n"
    paced = PYTHON_TRACK.replace("- operation: own", "- {operation: own, schedule: bursts}")
    assert task_named(track_of(tmp_path, code, paced), "own").schedule.custom
    with pytest.raises(TrackError, match=r'unknown schedule "brusts" \(did you mean "bursts"\?'):
        (tmp_path / "2").mkdir()
        track_of(tmp_path / "2", code, paced.replace("bursts", "brusts"))


# Parameter sources


def test_a_source_draws_from_the_operations_parameters(tmp_path: Path) -> None:
    root = write_track(tmp_path, PYTHON_TRACK, track__py=CODE)
    made = source(load_plugins(root), load(root), cache=True).partition(0, 2)
    assert made.infinite
    assert made.params() == {"index": None, "body": {"query": {"match_all": {}}}, "cache": True}


def test_a_source_can_be_a_function(tmp_path: Path) -> None:
    code = """
def draw(track, params, **kwargs):
    return {"index": track.index_names()[0], **params}
def register(registry):
    registry.register_param_source("mine", draw)
"""
    root = write_track(tmp_path, "indices: [{name: docs}]\nschedule: [operation: refresh]\n", track__py=code)
    made = source(load_plugins(root), load(root), size=3)
    assert made.partition(1, 4).params() == {"index": "docs", "size": 3}


FINITE = """
class Part:
    infinite = False
    def __init__(self, track, params, first=0, step=1):
        self.numbers = iter(range(first, 5, step))
    def partition(self, number, total):
        return Part(None, None, number, total)
    def params(self):
        return {"n": next(self.numbers)}
def register(registry):
    registry.register_param_source("mine", Part)
"""


def test_a_finite_source_ends_with_stop_iteration(tmp_path: Path) -> None:
    root = write_track(tmp_path, "schedule: [operation: refresh]\n", track__py=FINITE)
    whole = source(load_plugins(root), load(root))
    part = whole.partition(1, 2)
    assert not whole.infinite
    assert [part.params() for _ in range(3)] == [{"n": 1}, {"n": 3}, None]


def test_a_source_that_cannot_be_made_gets_its_line(tmp_path: Path) -> None:
    made = "\nclass S:\n    def __init__(self): ...\n    def params(self): ...\n"
    code = f"{made}def register(r): r.register_param_source('mine', S)"
    root = write_track(tmp_path, "schedule: [operation: refresh]\n", track__py=code)
    with pytest.raises(TrackError, match=r'track.py:3: task "find": param-source "mine" failed with TypeError: S.__in'):
        source(load_plugins(root), load(root))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("return None", r"params\(\) of param-source \"mine\" returned NoneType None \(it returns a dict"),
        ("raise KeyError('x')", "track.py:2: .*param-source \"mine\" failed with KeyError: 'x'"),
    ],
)
def test_a_source_that_draws_nonsense_gets_one_line(tmp_path: Path, body: str, what: str) -> None:
    code = f"def draw(track, params):\n    {body}\ndef register(r): r.register_param_source('mine', draw)"
    root = write_track(tmp_path, "schedule: [operation: refresh]\n", track__py=code)
    with pytest.raises(TrackError, match=what):
        source(load_plugins(root), load(root)).params()


def test_a_track_without_code_has_no_plugins(tmp_path: Path) -> None:
    assert python_entry(write_track(tmp_path, "schedule: [operation: refresh]\n")) is None
