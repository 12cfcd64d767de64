"""What a pattern of collected parts matches is read, or it is an error: links, folders, and links to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from track_files import load, write_track

from esbench.errors import TrackError

TRACK = """\
{% import "rally.helpers" as rally with context %}
{"schedule": [{{ rally.collect(parts=PATTERN) }}]}
"""
PART = '{"operation": {"operation-type": "refresh", "name": "refresh-%s"}}'
NAMED = pytest.mark.parametrize("pattern", ['"parts/*"', '"parts" ~ "/*"'], ids=["text", "expression"])


def track(folder: Path, pattern: str) -> Path:
    files = {"parts_in_a__json": PART % "a", "shared__json": PART % "b"}
    return write_track(folder, TRACK.replace("PATTERN", pattern), ".json", **files)


@NAMED
def test_links_are_followed(tmp_path: Path, pattern: str) -> None:
    root = track(tmp_path, pattern)
    (root / "parts" / "b.json").symlink_to("../shared.json")
    assert [task.name for task in load(root).challenges[0].tasks] == ["refresh-a", "refresh-b"]


@NAMED
def test_a_link_to_nothing_is_an_error(tmp_path: Path, pattern: str) -> None:
    root = track(tmp_path, pattern)
    (root / "parts" / "b.json").symlink_to("gone.json")
    with pytest.raises(TrackError, match=r"parts/b\.json"):
        load(root)


@NAMED
def test_a_folder_is_an_error(tmp_path: Path, pattern: str) -> None:
    root = track(tmp_path, pattern)
    (root / "parts" / "more").mkdir()
    with pytest.raises(TrackError, match="parts/more"):
        load(root)
