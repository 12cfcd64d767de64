"""Ctrl-C at any moment: the command ends, and nobody sees Python's traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from esbench.cli.command import raised_interrupts

CANCELLED_BY_SHELL = -signal.SIGINT


@pytest.fixture
def default_sigint() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


class _Made:
    """A descriptor whose class is interrupted while it is made."""

    def __set_name__(self, owner: type, name: str) -> None:
        interrupt()


def make_a_class() -> None:
    type("Cut", (), {"made": _Made()})


def end_of_a_weak_reference() -> None:
    class Thing:
        pass

    thing = Thing()
    reference = weakref.ref(thing, lambda _: interrupt())
    del thing
    assert reference() is None
    signal.pause()  # the interrupt that was dropped comes again


def an_import_that_fails() -> None:
    with suppress(KeyboardInterrupt):  # as C code does that imports a capsule
        interrupt()
    raise ImportError("could not import")


@pytest.mark.usefixtures("default_sigint")
@pytest.mark.parametrize("cut", [interrupt, make_a_class, end_of_a_weak_reference, an_import_that_fails])
def test_an_interrupt_is_one_whatever_python_makes_of_it(
    cut: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), raised_interrupts():
        cut()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("default_sigint")
def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(OSError, match="full"), raised_interrupts():
        raise OSError("full")


def entered(before: str) -> subprocess.Popen[str]:
    """The command's entry in a process of its own, stopped where the first module of the command is imported."""
    code = f"""
import builtins, os, runpy, signal, sys
{before}
whole = builtins.__import__
def stopping(name, *rest, **named):
    if name == "esbench.cli.main":
        print("here", flush=True)
        sys.stdin.readline()
    return whole(name, *rest, **named)
builtins.__import__ = stopping
sys.argv = ["esbench", "--version"]
runpy.run_module("esbench", run_name="__main__")
"""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


def test_the_process_ends_without_a_traceback_while_the_command_is_imported() -> None:
    with entered("") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == CANCELLED_BY_SHELL


def test_a_sigint_that_is_ignored_stays_ignored() -> None:
    with entered("signal.signal(signal.SIGINT, signal.SIG_IGN)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate("\n", timeout=30)
    assert (process.returncode, errors) == (0, "")
    assert told.startswith("esbench ")
