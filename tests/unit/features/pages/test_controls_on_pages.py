"""Control characters and marks of text direction in names are shown on pages and in exports, not carried out."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from races import golden_race

from esbench.cli.main import run
from esbench.errors.printable import for_spreadsheet
from esbench.features.pages.race import race_page
from esbench.features.publish.files import document, interval_log
from esbench.features.publish.prometheus.folding import DEFAULT_BOUNDS, parse_bounds
from esbench.features.publish.prometheus.recorded import exposition
from esbench.measure.histogram import Counts, encode
from esbench.record.series import SecondLine

MARKS = "\x07 \x1b[31m \x9b31m \u202e \u2028"
NAME = f"find {MARKS} it"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069]")


def marked() -> tuple[object, list[SecondLine]]:
    record = golden_race()
    task = replace(record.tasks[1], name=NAME, tags=(NAME,))
    cluster = replace(record.clusters["default"], name=NAME)
    record = replace(
        record,
        tasks=(task,),
        clusters={"default": cluster},
        warnings=(NAME,),
        user_tags={NAME: NAME},
        track=replace(record.track, name=f"{NAME}\n{NAME}"),
    )
    times = Counts()
    times.add(1_000_000)
    return record, [SecondLine(NAME, 0, "measurement", 1, 1, 1, 1.0, service_time=encode(times))]


def test_pages_and_exports_have_no_raw_mark() -> None:
    record, seconds = marked()
    page = race_page(record, seconds, ())  # type: ignore[arg-type]
    assert not RAW.search(page)
    assert "\\u202e" in page
    assert "\\x1b" in page
    for text in (
        interval_log(record, seconds),  # type: ignore[arg-type]
        exposition(record, seconds, parse_bounds(DEFAULT_BOUNDS, "")),  # type: ignore[arg-type]
        document(record, seconds, ()),  # type: ignore[arg-type]
    ):
        assert not RAW.search(text)
        assert re.search(r"x1b\[31m|u001b\[31m", text)


def test_a_valid_track_is_named_without_raw_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    challenges = [{"name": NAME, "default": True, "schedule": [{"operation": "refresh"}]}]
    (tmp_path / "track.json").write_text(json.dumps({"version": 2, "indices": [], "challenges": challenges}))
    assert run(["validate-track", f"--track-path={tmp_path}"]) == 0
    shown = capsys.readouterr().out
    assert not RAW.search(shown)
    assert "\\x1b" in shown


def test_a_log_of_intervals_has_only_lines_of_its_format() -> None:
    record, seconds = marked()
    lines = interval_log(record, seconds).splitlines()  # type: ignore[arg-type]
    assert all(line.startswith(("#[", '"Start', "Tag=")) for line in lines)


@pytest.mark.parametrize("begin", ["=", "\t=", " =", "\n@", "\t +", "\r-"])
def test_a_cell_is_no_formula_whatever_space_stands_before_it(begin: str) -> None:
    out = io.StringIO()
    csv.writer(out).writerow([for_spreadsheet(f"{begin}1+1")])
    assert next(csv.reader(io.StringIO(out.getvalue())))[0][0] in ("'", "\\")
