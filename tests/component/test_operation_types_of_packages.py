"""Operation types that an installed package brings are raced as those of esbench are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from driver import NullServerFactory
from racing import DOCUMENTS, Races

MODULE = """
from dataclasses import replace

from esbench.operations.base import MEASURED, OperationType
from esbench.operations.bulk import Bulk


class Archive(OperationType):
    name = "archive"
    traits = replace(MEASURED, sends_corpora=True)
    doc = "Send the documents of corpora."
    unit = "docs"

    def ends(self, params):
        return True

    def compile(self, context):
        return Bulk().compile(context)


ARCHIVE = Archive()
"""
TRACK = """
version: 2
indices: [{name: orders, body: index.json}]
corpora:
  - {name: orders, documents: [{document-count: 500, source-file: orders.json}]}
  - {name: elsewhere, documents: [{document-count: 9, source-file: missing.json}]}
schedule:
  - {operation: {operation-type: create-index}}
  - {name: load, operation: {operation-type: archive, bulk-size: 50, corpora: orders}, clients: 2}
  - {operation: {operation-type: assert-count, expected: acknowledged}}
"""


@pytest.fixture
def races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Races]:
    packages = tmp_path / "packages"
    info = packages / "archiving-1.dist-info"
    info.mkdir(parents=True)
    (packages / "archiving.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: archiving\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[esbench.operations.v1]\narchive = archiving:ARCHIVE\n")
    monkeypatch.setenv("PYTHONPATH", str(packages), prepend=os.pathsep)
    races = Races(tmp_path)
    (races.track / "track.yml").write_text(TRACK)
    yield races
    races.end()


def test_the_corpora_that_such_a_type_sends_are_prepared_and_sent(races: Races, null_server: NullServerFactory) -> None:
    server = null_server()
    outcome = races.run(server)
    assert outcome.code == 0, outcome.stderr
    record = races.record()
    assert [corpus.name for corpus in record.corpora] == ["orders"]  # what it does not send is not asked for
    load = next(task for task in record.tasks if task.name == "load")
    assert (load.operation_type, load.units) == ("archive", DOCUMENTS)
    with urlopen(f"{server.url}/orders/_count") as reply:
        assert json.load(reply)["count"] == DOCUMENTS
