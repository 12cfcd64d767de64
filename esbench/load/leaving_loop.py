"""A closed loop whose clients leave one after the other at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from esbench.load.client import Client
from esbench.load.hot import NEVER_NS, clock_ns
from esbench.load.loops import NS, ClosedLoop, Length
from esbench.load.recorder import Recorder
from esbench.measure.verdict import Verdict


class LeavingLoop(ClosedLoop):
    """A closed loop whose `length` has a ramp-down. Client i of N (`clients_in_all`) leaves at (N - i)/N of it.

    Nothing that is sent in it is measured: it counts as warmup.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        recorder: Recorder,
        length: Length,
        *,
        ended: Callable[[], None],
        failed: Callable[[Verdict], None],
        think_s: Callable[[], float] | None = None,
        stagger_s: float = 0.0,
        clients_in_all: int,
    ) -> None:
        super().__init__(clients, recorder, length, ended=ended, failed=failed, think_s=think_s, stagger_s=stagger_s)
        assert length.ramp_down_ns is not None
        assert length.end_ns is not None
        self._ramp_down_ns = length.ramp_down_ns
        step_ns = (length.end_ns - length.ramp_down_ns) / clients_in_all
        self._leaves_ns = {
            client: self._ramp_down_ns + round((clients_in_all - client.slot) * step_ns) for client in clients
        }
        self._ramp_down: asyncio.TimerHandle | None = None

    def start(self, start_ns: int) -> None:
        super().start(start_ns)
        delay_s = max(0, self._ramp_down_ns - clock_ns()) / NS
        self._ramp_down = asyncio.get_running_loop().call_later(delay_s, self._begin_ramp_down)

    def close(self) -> None:
        if self._ramp_down is not None:
            self._ramp_down.cancel()
        super().close()

    def _begin_ramp_down(self) -> None:
        """Measure nothing more, and ask before each further request of a client whether it has left."""
        self.recorder.repeats = False
        self.recorder.warmup_end_ns = NEVER_NS

    def _enter_slice(self, at_ns: int) -> None:
        super()._enter_slice(at_ns)
        if at_ns >= self._ramp_down_ns:
            self.recorder.warmup_end_ns = NEVER_NS

    def _next(self, client: Client, now_ns: int) -> None:
        if now_ns < self._leaves_ns[client] or self._stopping:
            super()._next(client, now_ns)
