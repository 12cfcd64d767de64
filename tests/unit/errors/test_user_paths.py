"""Home folders in paths: those of users that exist, and one line for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from esbench.cli.main import run
from esbench.errors import UsageError
from esbench.errors.user_paths import user_path


def test_a_home_folder_stands_for_its_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_path("~/a", "") == tmp_path / "a"
    assert user_path("a/~b", "") == Path("a/~b")


def test_an_unknown_user_is_one_line() -> None:
    with pytest.raises(UsageError) as caught:
        user_path("~no-such-user/a", "--track-path")
    assert str(caught.value) == '--track-path: there is no user "no-such-user"'


@pytest.mark.parametrize(
    "option",
    [
        "--track-path=~no-such-user/t",
        "--track-repository=~no-such-user/t",
        "--track-params=~no-such-user/p.json",
        "--node-plugins=~no-such-user/p.zip",
        "--java-home=~no-such-user/jdk",
        "--distribution=~no-such-user/es",
        "--target-hosts=a --client-options=ca_certs:~no-such-user/ca.pem",
    ],
)
def test_an_unknown_user_in_an_option_is_one_line(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    track = [] if option.startswith("--track-path") else ["--track=orders"]
    assert run(["race", *track, *option.split(), "--dry-run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(': there is no user "no-such-user"')


def test_the_home_of_esbench_may_not_be_that_of_an_unknown_user(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESBENCH_HOME", "~no-such-user/esbench")
    assert run(["list", "races"]) == 2
    assert capsys.readouterr().err == 'esbench: ESBENCH_HOME: there is no user "no-such-user"\n'
