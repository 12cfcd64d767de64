"""Variables of an environment, other people's among them: they change no figure, no exit code, and end nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Races

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
ENVIRONMENTS = {
    "nothing": {},
    "a narrow terminal": {"COLUMNS": "20", "LINES": "3", "TERM": "dumb"},
    "colours": {"NO_COLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color"},
    "a Turkish locale": {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8", "LANGUAGE": "tr"},
    "ASCII": {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "ASCII of Python": {"PYTHONIOENCODING": "ascii:strict"},
    "a Python without asserts": {"PYTHONOPTIMIZE": "2", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "7"},
    "a Python that complains": {"PYTHONWARNINGS": "always", "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"},
    "a proxy that nobody answers at": dict.fromkeys(PROXIES, "http://127.0.0.1:9"),
    "a Java that is none": {"JAVA_HOME": "/nowhere", "ES_JAVA_HOME": "/nowhere", "ES_JAVA_OPTS": "-Xmx1k"},
    "another time zone": {"TZ": "Pacific/Kiritimati"},
}
STEERING = sorted({name for environment in ENVIRONMENTS.values() for name in environment})


@pytest.fixture
def races(tmp_path: Path) -> Races:
    races = Races(tmp_path, deletes_first=True)
    track = races.track / "track.yml"
    track.write_text(track.read_text().replace("A shop", "A Käse-Shop").replace("name: closed", "name: größe"))
    return races


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_race_is_the_same_in_any_environment(
    environment: str, null_server: NullServerFactory, races: Races, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in STEERING:
        monkeypatch.delenv(name, raising=False)
    for name, value in ENVIRONMENTS[environment].items():
        monkeypatch.setenv(name, value)
    outcome = races.run(null_server(), "--exclude-tasks=paced")
    assert (outcome.code, "Traceback" in outcome.stderr) == (0, False), outcome.stderr
    record = races.record()
    assert record.status == "complete"
    requests = {task.name: task.requests for task in record.tasks}
    assert (requests["bulk"], requests["größe"], requests["found"]) == (10, 100, 30)
    for command in (["show", "last", "--all"], ["export", "last", "--csv"]):
        printed = races.ask(*command)
        assert "\x1b" not in printed
        assert "größe" in printed.replace(r"\xf6", "ö").replace(r"\xdf", "ß")
