"""Reachability of a cluster's hosts, as one worker sees it: clients of a lost host use the others meanwhile.

A host is lost when a connection to it cannot be opened, and back when it answers a request for `/` (any HTTP server:
when a connection can be opened). A client keeps an
open connection to a lost host, which may still be answered: a cluster is given up only when nothing is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from esbench.cluster.options import Access, ClientOptions, Host
from esbench.load.hot import Inbox, clock_ns
from esbench.load.messages import Loss
from esbench.load.transport import OneReply, ask, connect, header_lines
from esbench.requests.exchange import RequestFailed

NS = 1_000_000_000
CONNECT_TIMEOUT_S = 5.0
GRACE_S = 10.0  # without any host
_PROBE_EVERY_S = 1.0
_CONNECTING = 64  # at a time, in a worker


class HostChoice(Protocol):
    """The hosts that a client may connect to, as `Hosts` has them."""

    all: tuple[Host, ...]
    connecting: asyncio.Semaphore

    def home(self, slot: int) -> Host: ...
    def choose(self, slot: int) -> Host: ...
    def lose(self, host: Host, reason: str, /) -> None: ...
    @property
    def none_left(self) -> bool: ...


class Hosts:
    """The hosts of a cluster; client slots are dealt to them in turn.

    `grace_s` is how long a race may be without any host. `lost` and `back` are called when a host is lost or back. A
    client holds `connecting` while it opens its connection: thousands at once would time out in their handshakes.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        options: ClientOptions,
        *,
        lost: Callable[[], None],
        back: Callable[[], None],
        any_server: bool = False,
    ) -> None:
        self.all = tuple(hosts)
        self._any_server = any_server
        self.grace_s = min(options.timeout_s, GRACE_S)
        self._options = options
        self._tell_lost, self._tell_back = lost, back
        self._lost: dict[Host, Loss] = {}
        self._heard_ns = 0
        self.connecting = asyncio.Semaphore(_CONNECTING)
        self._probes: set[asyncio.Task[None]] = set()

    @property
    def lost(self) -> Mapping[str, Loss]:
        """The lost hosts by name, each with its time and reason."""
        return {host.label: loss for host, loss in self._lost.items()}

    def home(self, slot: int) -> Host:
        """Return the host that a client slot was dealt to."""
        return self.all[slot % len(self.all)]

    def choose(self, slot: int) -> Host:
        """Return the host that a client slot uses now: its own one, or one of the others, in turn, if that is lost.

        If all are lost, it is its own one.
        """
        home = self.home(slot)
        if home not in self._lost:
            return home
        left = [host for host in self.all if host not in self._lost]
        return left[slot // len(self.all) % len(left)] if left else home

    def lose(self, host: Host, reason: str) -> None:
        """Mark a host as lost, since a connection to it could not be opened, and probe it until it is back."""
        if host in self._lost:
            return
        self._lost[host] = Loss(clock_ns(), reason)
        probe = asyncio.get_running_loop().create_task(self._probe(host))
        self._probes.add(probe)
        probe.add_done_callback(self._probes.discard)
        self._tell_lost()

    @property
    def none_left(self) -> bool:
        """True if all hosts are lost."""
        return len(self._lost) == len(self.all)

    def hear(self, at_ns: int) -> None:
        """Record that a host, lost or not, has sent something at `at_ns`: open connections may still be answered."""
        self._heard_ns = max(self._heard_ns, at_ns)

    @property
    def given_up(self) -> bool:
        """True if all hosts are lost, and none has answered anything for longer than `grace_s`."""
        if not self.none_left:
            return False
        since_ns = max(self._heard_ns, *(loss.since_ns for loss in self._lost.values()))
        return clock_ns() - since_ns > self.grace_s * NS

    def close(self) -> None:
        for probe in self._probes:
            probe.cancel()

    async def _probe(self, host: Host) -> None:
        access = self._options.access()
        every_s = min(_PROBE_EVERY_S, self.grace_s / 4)
        while True:
            await asyncio.sleep(every_s)
            if await _answers(
                host, access, self._options, min(CONNECT_TIMEOUT_S, self._options.timeout_s), asked=not self._any_server
            ):
                break
        del self._lost[host]
        self._tell_back()


class OneHost:
    """One host of several, for connections that no other one may take."""

    def __init__(self, hosts: HostChoice, position: int) -> None:
        self.all = hosts.all[position : position + 1]
        self.connecting = hosts.connecting
        self.lose = hosts.lose
        self._hosts = hosts

    def home(self, slot: int) -> Host:
        return self.all[0]

    def choose(self, slot: int) -> Host:
        return self.all[0]

    @property
    def none_left(self) -> bool:
        return self._hosts.none_left


async def _answers(host: Host, access: Access, options: ClientOptions, timeout_s: float, *, asked: bool) -> bool:
    """True if a host replies to a GET of `/` with a status below 500; if it is not `asked`, if it can be reached."""
    try:
        if not asked:
            (await connect(OneReply(), Inbox(), host, access, timeout_s)).close()
            return True
        request = [b"GET / HTTP/1.1\r\n", header_lines(host, options), b"\r\n"]
        return (await ask(host, access, request, timeout_s)).status < 500
    except (OSError, TimeoutError, RequestFailed):
        return False
