"""A client whose requests are coroutines on a client library; the connections are the library's."""

from __future__ import annotations

from esbench.load.client import Client, Route
from esbench.measure.verdict import Verdict

_STOPPED = Verdict(0, "cancelled", "the race was stopped")


class CoroutineClient(Client):
    """The base of clients of a library. One task runs request after request, for as long as its loop begins them.

    Subclasses have `turn`. What has to be given up is cancelled, and `given_up` is the verdict on it.
    """

    def __init__(self, slot: int, route: Route) -> None:
        super().__init__(slot, route)
        self.given_up: Verdict
        self._begun: tuple[int, bool] | None = None
        self._is_running = False

    async def turn(self, due_ns: int, warmup: bool) -> None:
        """Send the request in `drawn`, and count it, good or failed; `due_ns` and `warmup` are those of `begin`."""
        raise NotImplementedError

    def begin(self, due_ns: int, warmup: bool) -> None:
        self._begun = due_ns, warmup
        if not self._is_running:
            self._is_running = True
            self._spawn(self._run())

    async def _run(self) -> None:
        while self._begun is not None:
            (due_ns, warmup), self._begun = self._begun, None
            self.given_up = _STOPPED
            await self.turn(due_ns, warmup)
            self.loop.freed(self)  # which may begin the next one
        self._is_running = False

    def return_home(self) -> None:
        """Do nothing: the library chooses among the hosts."""

    def sweep(self, now_ns: int) -> None:
        """Do nothing: the library has its own timeouts."""

    def give_up(self, kind: str, detail: str) -> None:
        if self._is_running and self._task is not None:
            self.given_up = Verdict(0, kind, detail)
            self._task.cancel()
