"""The recipes for CI, as docs/ci.md shows them: they pass, and fail, when they should.

Nothing is replaced in their commands; the two archives are of null servers, of which the new one may be slower. Further
options only make the races shorter.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from documented import ROOT, Command, commands
from null_nodes import NullNodes

from esbench.cli.main import run
from esbench.null_server import NullServer

_OPERATION = "operations: [{name: search, operation-type: search, index: shop, body: {query: {match_all: {}}}}]"
RECIPES = ROOT / "docs" / "ci.md"
# A track of esbench has this task, whose p99 cannot be judged in the time of a test.
SHORT = (
    *("--include-tasks=type:delete-index,type:create-index,get-by-id", "--track-params=documents:1000"),
    *("--task-time=2s", "--workers=1", "--telemetry=none"),
)


def shown(*words: str) -> Command:
    """The first command of the page that has these words."""
    return next(each for each in commands() if each.page == RECIPES and set(words) <= set(each.words))


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NullNodes]:
    monkeypatch.chdir(tmp_path)
    with NullNodes() as found:
        yield found


def taking(ms: float) -> dict[str, object]:
    return {"path": "/_doc/", "delay": {"type": "constant", "ms": ms}}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("new_ms", "code"), [(20, 0), (40, 3)], ids=["equal", "slower"])
def test_a_change_that_makes_it_slower_fails_the_job(
    new_ms: float, code: int, nodes: NullNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "tracks" / "orders", tmp_path / "bench")
    nodes.write(tmp_path / "old.tar.gz", taking(20))
    nodes.write(tmp_path / "new.tar.gz", taking(new_ms))
    assert run([*shown("duel", "--track-path=bench").words[1:], *SHORT]) == code, capsys.readouterr().err
    said = capsys.readouterr().err
    assert ("--fail-on=throughput<-5%: Mean throughput of get-by-id" in said) is (code == 3)
    suite = ElementTree.parse(tmp_path / "duel.xml").getroot()
    assert len(list(suite.iter("failure"))) == (code == 3)
    assert "get-by-id" in (tmp_path / "duel.html").read_text()
    assert run(["compare", "last:baseline", "last:contender", "--fail-on=slower"]) == code
    assert run(["compare", "last:baseline", "last:contender", "--fail-on=p99>+10%"]) == 4  # it lacks requests
    assert "p99 service time of get-by-id (not judged: " in capsys.readouterr().err


@pytest.mark.alone  # an objective of 50 ms is held where nothing runs beside it
@pytest.mark.parametrize(("ms", "code"), [(5, 0), (100, 3)])
def test_a_task_that_misses_its_objectives_fails_the_job(
    ms: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (task,) = re.findall(r"^```yaml\n(  - name: search\n.*?)^```$", RECIPES.read_text(), re.MULTILINE | re.DOTALL)
    shorter = task.replace("warmup-time-period: 30", "warmup-time-period: 1").replace("period: 120", "period: 6")
    assert shorter.count("period") == 2
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "track.yml").write_text(
        f"version: 2\nindices: [{{name: shop}}]\n{_OPERATION}\nschedule:\n{shorter}"
    )
    words = shown("race", "--track-path=bench").words[1:]
    with NullServer({"rules": [{"path": "_search", "delay": {"type": "constant", "ms": ms}}]}) as server:
        assert run([*words, f"--target-hosts={server.url}", "--workers=1"]) == code, capsys.readouterr().err
    assert (tmp_path / "race.html").is_file()
    assert ("--fail-on=objectives: p99 < 50 ms of search" in capsys.readouterr().err) is (code == 3)
