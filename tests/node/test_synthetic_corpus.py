"""Synthetic documents on real nodes: none of any type is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from esbench.record.store import RaceStore

pytestmark = pytest.mark.node

PLAIN = [
    *("text", "keyword", "completion", "boolean", "date", "ip", "binary", "geo_point"),
    *("byte", "short", "integer", "long", "half_float", "float", "double"),
    *("integer_range", "float_range", "long_range", "double_range", "date_range", "ip_range"),
]
FURTHER = {  # types that not every version has
    "elasticsearch-5.6.16": ["geo_shape"],
    "elasticsearch-7.10.2": ["date_nanos"],
    "elasticsearch-8.19.4": ["date_nanos", "dense_vector"],
}
DEFAULT = "elasticsearch-7.10.2"
TRACK = """
indices: [{name: things, body: index.json}]
corpora: [{name: things, documents: [{source-file: things.json, document-count: 3000}]}]
schedule:
  - operation: {operation-type: create-index}
  - {operation: {operation-type: bulk, bulk-size: 500}}
  - operation: {operation-type: assert-count, expected: 1200}
"""


@pytest.mark.parametrize("name", os.environ.get("ESBENCH_TEST_DISTRIBUTIONS", DEFAULT).split(","))
def test_a_node_takes_documents_of_every_type(
    request: pytest.FixtureRequest, home: Path, tmp_path: Path, name: str
) -> None:
    fields: dict[str, object] = {f"a_{kind}": {"type": kind} for kind in [*PLAIN, *FURTHER.get(name, ())]}
    if "a_dense_vector" in fields:
        fields["a_dense_vector"] = {"type": "dense_vector", "dims": 32, "index": True, "similarity": "dot_product"}
    inner = {"n": {"type": "long"}, "a_date": {"type": "date", "format": "dd/MM/yyyy HH:mm:ss"}}
    fields |= {"an_object": {"properties": inner}, "nested": {"type": "nested", "properties": inner}}
    (tmp_path / "track.yml").write_text(TRACK)
    (tmp_path / "index.json").write_text(json.dumps({"mappings": {"dynamic": "strict", "properties": fields}}))
    if name == DEFAULT:  # the shared node
        node = f"--target-hosts={request.getfixturevalue('url').removeprefix('http://')}"
    else:
        node = f"--distribution={name}"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "esbench.cli.main", "race", f"--track-path={tmp_path}"),
            *(node, "--synthetic-corpus", "--synthetic-documents=1200"),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (corpus,) = RaceStore(home).load("last").corpora
    assert (corpus.documents, corpus.synthetic) == (1200, True)
