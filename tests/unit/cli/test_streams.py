"""The standard streams of a command in a process of its own: its exit code is the same, whoever is there to read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from races import golden_race, keep

COMMANDS = {"--help": 0, "show last --all": 0, "show nothing": 2}
BUFFERING = {"buffered": "", "unbuffered": "1"}


@pytest.fixture
def races(esbench_home: Path) -> None:
    keep(esbench_home, golden_race())


@contextmanager
def without_a_reader(opened: Callable[[], tuple[int, int]]) -> Iterator[int]:
    ours, theirs = opened()
    os.close(ours)
    yield theirs
    os.close(theirs)


@contextmanager
def full_disk() -> Iterator[int]:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    descriptor = os.open("/dev/full", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


def code_of(
    words: Sequence[str], buffering: str, stdout: int = subprocess.DEVNULL, stderr: int = subprocess.DEVNULL
) -> int:
    command = [sys.executable, "-m", "esbench", *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": BUFFERING[buffering]}
    return subprocess.run(command, stdout=stdout, stderr=stderr, env=environment, check=False).returncode


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("buffering", BUFFERING)
@pytest.mark.parametrize("opened", [os.pipe, os.openpty], ids=["closed pipe", "terminal that is gone"])
def test_an_exit_code_does_not_depend_on_who_reads(
    opened: Callable[[], tuple[int, int]], buffering: str, command: str, races: None
) -> None:
    with without_a_reader(opened) as descriptor:
        assert code_of(command.split(), buffering, stdout=descriptor) == COMMANDS[command]
        assert code_of(command.split(), buffering, stdout=descriptor, stderr=descriptor) == COMMANDS[command]


@pytest.mark.parametrize("buffering", BUFFERING)
def test_messages_that_cannot_be_written_change_no_exit_code(buffering: str, races: None) -> None:
    with full_disk() as descriptor:
        assert {command: code_of(command.split(), buffering, stderr=descriptor) for command in COMMANDS} == COMMANDS


@pytest.mark.parametrize("command", ["show last", "--help", "compare --help", "--version"])
def test_a_result_that_cannot_be_written_is_one_line(command: str, races: None) -> None:
    with full_disk() as descriptor:
        words = [sys.executable, "-m", "esbench", *command.split()]
        done = subprocess.run(words, stdout=descriptor, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "esbench: stdout: cannot be written: No space left on device\n"
    assert done.returncode == 1


def test_a_reader_that_goes_away_is_no_error(races: None) -> None:
    command = f'"{sys.executable}" -m esbench.cli.main show last | head -n 1'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("orders on elasticsearch")
    assert done.stderr == ""


def test_closed_outputs_are_no_fault() -> None:
    command = f'"{sys.executable}" -m esbench list sessions >&- 2>&-'
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}])
def test_an_argument_that_the_locale_cannot_read_is_one_line(locale: dict[str, str]) -> None:
    argument = b"--user-tags=a:\xff" if not locale else "--user-tags=a:ö".encode()
    words = [sys.executable, "-m", "esbench", "race", "--track=orders", argument]
    done = subprocess.run(words, env={**os.environ, **locale}, capture_output=True, text=True, check=False)
    assert done.stderr.startswith(f"esbench: not {'ascii' if locale else 'utf-8'} text: --user-tags=a:\\udc")
    assert done.returncode == 2
