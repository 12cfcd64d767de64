"""The growing record of a race: its end when it cannot be saved, or the clock was set back meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from races import golden_race

from esbench.errors import RecordError
from esbench.race.recording import RecordWriter
from esbench.record.store import RaceStore

RUNNING = replace(golden_race(race_id="a"), status="running", finished_at=None)


def test_a_race_ends_after_it_began_whatever_the_time_of_day_is(tmp_path: Path) -> None:
    """It began, by the clock of that time, years after now."""
    began = replace(RUNNING, started_at="2096-11-21T10:00:00.000Z")
    with RecordWriter(RaceStore(tmp_path).create("a"), began, lambda: 12.5) as recording:
        recording.finish("complete")
    assert RaceStore(tmp_path).load("a").finished_at == "2096-11-21T10:00:12.500Z"


def test_a_record_that_cannot_be_saved_keeps_its_figures_and_says_why(tmp_path: Path) -> None:
    folder = RaceStore(tmp_path).create("a")
    with RecordWriter(folder, RUNNING, lambda: 1.0) as recording:
        saved = folder.record_file.read_bytes()
        (folder.path / "race.json.part").mkdir()  # nobody can write it
        recording.finish("complete")
        assert (recording.record.status, recording.record.tasks) == ("failed", RUNNING.tasks)
        assert "its record could not be saved: " in str(recording.record.failure)
        assert "race.json.part: cannot be written" in str(recording.record.failure)
    assert folder.record_file.read_bytes() == saved


def test_a_record_is_saved_at_the_end_though_it_could_not_be_before(tmp_path: Path) -> None:
    folder = RaceStore(tmp_path).create("a")
    with RecordWriter(folder, RUNNING, lambda: 1.0) as recording:
        (folder.path / "race.json.part").mkdir()
        recording.save()
        with pytest.raises(RecordError):
            recording.save()  # waits for the first, and raises its error
        (folder.path / "race.json.part").rmdir()
        recording.finish("complete")
    assert RaceStore(tmp_path).load("a").status == "complete"


def test_a_race_that_is_withdrawn_is_not_kept(tmp_path: Path) -> None:
    folder = RaceStore(tmp_path).create("a")
    with RecordWriter(folder, RUNNING, lambda: 1.0) as recording:
        assert folder.is_kept
        recording.withdraw()
    assert not folder.is_kept
