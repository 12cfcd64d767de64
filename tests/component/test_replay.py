"""A log is sent to a server: every search once, with account and likeness; a missing index stops it before."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from driver import NullServerFactory

from esbench.cli.main import run
from esbench.null_server import NullServer
from esbench.record.store import RaceStore

BEGIN = datetime(2026, 11, 20, 9, tzinfo=UTC)
COUNT = 150


def log_of(folder: Path) -> Path:
    """150 searches of two shapes within half a second, a write, and lines that cannot be read."""
    lines = []
    for number in range(COUNT):
        kind = "term" if number % 3 else "match"
        lines.append(
            {
                "@timestamp": (BEGIN + timedelta(milliseconds=3 * number)).isoformat(timespec="microseconds"),
                "method": "POST",
                "path": "/orders/_search",
                "body": {"query": {kind: {"status": number}}},
                "took_ms": 2 + number % 2,
                "hits": 1,
            }
        )
    lines.append({**lines[-1], "path": "/orders/_bulk", "body": None})
    path = folder / "searches.log"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + "not JSON\n")
    return path


@pytest.fixture
def server(null_server: NullServerFactory) -> NullServer:
    from urllib.request import Request, urlopen

    started = null_server(log=True)
    urlopen(Request(f"{started.url}/orders", method="PUT")).close()
    started.reset()
    return started


def test_a_replay_is_a_race_with_an_account(
    server: NullServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESBENCH_HOME", str(tmp_path / "home"))
    words = ["replay", str(log_of(tmp_path)), f"--target-hosts={server.url}", "--race-id=again", "--no-answers"]
    assert run([*words, "--speed=2", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert f"{COUNT} searches were sent" in shown
    for title, count in (
        ("lines", COUNT + 2),
        ("sent and answered", COUNT),
        ("left out: writes", 1),
        ("not parsable", 1),
    ):
        assert [title, str(count)] in [part.rsplit(maxsplit=1) for part in shown.splitlines() if part.startswith(title)]
    record = RaceStore(tmp_path / "home").load("again")
    assert {task.name: task.requests for task in record.tasks} == {"term on orders": 100, "match on orders": 50}
    assert all(task.schedule == "recorded" and task.meta["recorded"]["took_count"] for task in record.tasks)
    assert record.tasks[0].meta["replay"]["to be sent"] == COUNT
    assert "term on orders" in shown.partition("Race ID")[0]


def test_an_index_that_is_not_there_is_named_before_anything_is_sent(
    server: NullServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESBENCH_HOME", str(tmp_path / "home"))
    words = ["replay", str(log_of(tmp_path)), f"--target-hosts={server.url}", "--index-map=ord*:gone", "--quiet"]
    assert run(words) == 2
    error = capsys.readouterr().err
    assert "gone: no such index is there" in error
    assert error.count("\n") == 1
    assert server.counts().by_class.get("search", 0) == 0
    assert not (tmp_path / "home" / "races").exists()
