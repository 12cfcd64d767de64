"""Ctrl-C while steps run, and between them."""

from __future__ import annotations

import signal

import pytest

from esbench.race.interrupts import Interrupts, InterruptsByOthers


def test_an_interrupt_raises_or_calls_what_stands_in_its_place() -> None:
    calls: list[str] = []
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        interrupts.call_instead(lambda: calls.append("cancel"))
        signal.raise_signal(signal.SIGINT)
        assert calls == ["cancel"]


def test_an_interrupt_in_the_last_moment_of_a_step_is_not_lost() -> None:
    """The step has ended, and does not look for it any more: a session would go on with its next race."""
    with Interrupts() as interrupts:
        interrupts.call_instead(lambda: None)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.raise_again()


def test_a_lost_terminal_interrupts_unless_that_is_ignored() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        with Interrupts():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_without_an_interrupt_nothing_is_raised() -> None:
    with Interrupts() as interrupts:
        interrupts.call_instead(lambda: None)
        interrupts.raise_again()


def test_what_asks_hears_of_an_interrupt_by_another_thread() -> None:
    interrupts = InterruptsByOthers()
    interrupts.check()
    interrupts.interrupt()
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()
