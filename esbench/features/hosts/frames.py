"""Messages on their way to and from a load host: pickled once, with their times shifted where they cross."""

from __future__ import annotations

import pickle
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler

from esbench.features.hosts.clock import HostClock
from esbench.load.messages import Hello, Loss, Message, RunStep, TaskEnd, Tick

Frame = tuple[int, bytes]  # the number of a worker, and a pickled message to or from it


def outbound(number: int, message: Message, clock: HostClock) -> Frame:
    """Return a message to a worker, its times on the clock of the worker's host."""
    if isinstance(message, RunStep):
        message = replace(message, time=replace(message.time, start_ns=clock.theirs_ns(message.time.start_ns)))
    return number, bytes(ForkingPickler.dumps(message))


def inbound(content: bytes, clock: HostClock) -> Message:
    """Return a message of a worker, its times on our clock."""
    message: Message = pickle.loads(content)  # of a worker that showed the race's certificate  # nosec B301
    if isinstance(message, Tick):
        ended = tuple(_ended(end, clock) for end in message.ended)
        lost = {name: _loss(loss, clock) for name, loss in message.lost.items()}
        return replace(message, at_ns=clock.ours_ns(message.at_ns), ended=ended, lost=lost)
    if isinstance(message, Hello):
        return replace(message, lost={name: _loss(loss, clock) for name, loss in message.lost.items()})
    return message


def _ended(end: TaskEnd, clock: HostClock) -> TaskEnd:
    def ours(at_ns: int | None) -> int | None:
        return None if at_ns is None else clock.ours_ns(at_ns)

    return replace(
        end,
        start_ns=ours(end.start_ns),
        end_ns=clock.ours_ns(end.end_ns),
        first_measured_ns=ours(end.first_measured_ns),
        last_measured_received_ns=ours(end.last_measured_received_ns),
    )


def _loss(loss: Loss, clock: HostClock) -> Loss:
    return replace(loss, since_ns=clock.ours_ns(loss.since_ns))
