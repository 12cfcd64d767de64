"""How the parameter sources of a track are divided among the clients of a worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from compiled import context
from track_files import PYTHON_TRACK, load, write_track

from esbench.features.python.loading import load_plugins
from esbench.features.python.operations import TrackOperationTypes
from esbench.features.python.parameter_sources import chain
from esbench.features.python.task_sources import TrackCode
from esbench.features.python.view import view_of
from esbench.operations import builtin_operations
from esbench.operations.base import kind_of
from esbench.requests.exchange import Exhausted
from esbench.requests.programs import Program

# A source that hands out one reader to all clients of a worker: it reads from the first part to the last one.
CODE = """
from esrally.track.params import *

class Reader:
    def __init__(self):
        self.parts, self.lines, self.infinite = [], None, False

    def params(self):
        if self.lines is None:
            first, count, _ = bounds(100, min(self.parts), max(self.parts), 10, False)
            self.lines = list(range(first, first + count))
        if not self.lines:
            raise StopIteration
        return {"index": "docs", "body": {"line": self.lines.pop(0)}}

class Mine(ParamSource):
    def __init__(self, track, params, **kwargs):
        super().__init__(track, params, **kwargs)
        self.reader = Reader()

    def partition(self, number, total):
        self.reader.parts.append(number)
        return self.reader

async def ping(es, params):
    return 1, "pings"

def register(registry):
    registry.register_param_source("mine", Mine)
    registry.register_runner("ping", ping, async_runner=True)
"""


def program_of(folder: Path, python: str, slots: tuple[int, ...]) -> Program:
    track = load(write_track(folder, PYTHON_TRACK, track__py=CODE))
    of = context("search" if python == "source" else "ping", {"param-source": "mine"}, clients=10)
    operation = replace(of.task.operation, python=python)
    operations = builtin_operations()
    code = TrackCode(load_plugins(track.path.parent), view_of(track), operations)
    bound = TrackOperationTypes(operations, code).bind(operation)
    return kind_of(bound).compile(replace(of, task=replace(of.task, operation=bound), slots=slots))


@pytest.mark.parametrize("python", ["source", "runner"])
def test_all_parts_of_a_worker_are_made_before_the_first_draw(tmp_path: Path, python: str) -> None:
    program = program_of(tmp_path, python, slots=(2, 3, 4))
    clients = [program.client(slot, b"") for slot in (2, 3, 4)]
    lines = [lines_until_exhausted(client) for client in clients]
    assert sum(lines) == 30


def lines_until_exhausted(client: object) -> int:
    count = 0
    try:
        while True:
            client.draw()  # type: ignore[attr-defined]
            count += 1
    except Exhausted:
        return count


@pytest.mark.parametrize("python", ["source", "runner"])
def test_whether_a_source_ends_is_said_by_its_parts(tmp_path: Path, python: str) -> None:
    assert program_of(tmp_path, python, slots=(0, 1)).finite


def test_iterables_are_chained_each_within_its_context(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("first", "second"))
    first.write_text("a\nb\n")
    second.write_text("c\n")
    assert "".join(chain(first.open(), second.open())) == "a\nb\nc\n"
