"""The page on tracks builds a track step by step: it is put together as printed, and raced."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from documented import ARTICLES, TRACKS_PAGE, build_articles

from esbench.race.loading import load_with_python
from esbench.record.store import RaceStore
from esbench.track.rendering import RenderContext

ESBENCH = str(Path(sys.executable).parent / "esbench")
CONTEXT = RenderContext(params={}, distribution="elasticsearch", version="7.10.2", now=0.0)


def test_every_block_of_yaml_belongs_to_the_track() -> None:
    assert len(ARTICLES) == TRACKS_PAGE.read_text().count("```yaml") >= 6


def test_from_its_first_schedule_on_the_track_loads_after_each_step(tmp_path: Path) -> None:
    tasks = []
    for folder in build_articles(tmp_path / "articles"):
        if (folder / "track.yml").is_file() and "schedule:" in (folder / "track.yml").read_text():
            track = load_with_python(folder, CONTEXT, tmp_path).track
            tasks.append(len(list(track.challenges[0].tasks)))
    assert tasks == sorted(set(tasks))
    assert len(tasks) >= 4


@pytest.mark.node
def test_the_track_of_the_page_races(tmp_path: Path, home: Path, url: str) -> None:
    *_, folder = build_articles(tmp_path / "articles")
    done = subprocess.run(
        [
            *(ESBENCH, "race", f"--track-path={folder}", f"--target-hosts={url.removeprefix('http://')}"),
            *("--test-mode", "--track-params=warmup:0.2,time:0.5"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    record = RaceStore(home).load("last")
    assert record.track.name == "articles"
    assert [task.name for task in record.tasks if task.errors + task.warmup.errors] == []
    assert {"articles-of-an-author", "find-words", "new-articles", "assert-count"} <= {t.name for t in record.tasks}
    assert "percent of requests within so many ms" in done.stdout
