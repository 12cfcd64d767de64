"""Parts of a record that features keep, of features that are absent, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from races import GOLDEN, golden_race, keep
from searches import usual

from esbench.features.capacity.record import KnownCapacity
from esbench.record.model import RaceRecord
from esbench.record.parts import PARTS
from esbench.record.store import RaceStore, decode_record, encode_record
from esbench.report.race_summary import short_summary, summary
from esbench.report.render import render

FUTURE = {"rate": "inf", "of": [1, 2.5, None]}

# Resaves and shows a race without the modules that declare parts.
WITHOUT_FEATURES = """
import sys
from pathlib import Path
for module in {modules!r}:
    sys.modules[module] = None
from esbench.cli.main import run
from esbench.record.store import RaceStore
folder = RaceStore(Path({home!r})).folder("searched")
before = folder.record_file.read_bytes()
folder.save(RaceStore(Path({home!r})).load("searched"))
assert folder.record_file.read_bytes() == before
assert run(["list", "races"]) == run(["show", "searched"]) == run(["show", "searched", "--all"]) == 0
"""


def with_future(record: RaceRecord) -> bytes:
    """A record in which a feature that is not known has kept something."""
    document = json.loads(encode_record(record))
    after = {key: document.pop(key) for key in ("load_hosts", "damage")}
    return json.dumps(document | {"future": FUTURE} | after).encode()


def test_a_record_with_its_parts_is_written_as_it_was() -> None:
    document = json.loads(GOLDEN.read_bytes())
    assert document["capacity"]
    known = KnownCapacity("a", "orders", "get-by-id", "get-by-id", 4210.0, "precise")
    document["capacity_of"] = asdict(known)
    del document["sums"]
    record = decode_record(json.dumps(document).encode())
    assert record.parts["capacity_of"] == known
    written = json.loads(encode_record(record))
    assert json.dumps(written) == json.dumps(document | {"damage": ""})


def test_a_part_of_an_unknown_feature_is_kept_as_it_was() -> None:
    payload = with_future(usual())
    record = decode_record(payload)
    assert record.parts["future"] == FUTURE
    again = encode_record(record)
    assert json.dumps(json.loads(again)) == payload.decode()
    assert decode_record(again) == record


def test_a_part_of_an_unknown_feature_is_not_shown() -> None:
    for document in (summary, short_summary):
        known, unknown = document(golden_race()), document(decode_record(with_future(golden_race())))
        assert render(known, "text") == render(unknown, "text")


def test_a_long_part_of_an_unknown_feature_moves_to_a_file_of_its_own(tmp_path: Path) -> None:
    folder = RaceStore(tmp_path).create("long")
    record = decode_record(with_future(golden_race(race_id="long")))
    folder.save(long := RaceRecord(**{**vars(record), "parts": {"future": ["x" * 1000] * 1200}}))
    assert json.loads(folder.record_file.read_bytes())["elsewhere"] == ["future"]
    assert (folder.path / "race.future.json").exists()
    assert RaceStore(tmp_path).load("long") == long


@pytest.mark.parametrize("key", ["../../x", "x/y", "sums", "status", ""])
def test_only_the_name_of_a_part_is_a_file_of_a_race(tmp_path: Path, key: str) -> None:
    keep(tmp_path, golden_race(race_id="named"))
    file = RaceStore(tmp_path).folder("named").record_file
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"elsewhere": [key]}))
    assert RaceStore(tmp_path).load("named").race_id == "named"


def test_races_of_features_that_are_absent_are_listed_shown_and_saved_again(tmp_path: Path) -> None:
    keep(tmp_path, usual(race_id="searched"))
    modules = sorted({place.partition(":")[0] for place in PARTS.values()})
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FEATURES.format(modules=modules, home=str(tmp_path))],
        env={**os.environ, "ESBENCH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "searched" in done.stdout
    assert "Capacity" not in done.stdout
