"""Load hosts: load workers on other machines, behind the same seam as those of this host.

One thread runs an event loop with Dask's client in it. An agent on each host starts its workers and passes messages on
in batches; it is asked for news all the time, and a host that says nothing for LOST_S is lost.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, TypeVar

from esbench.errors import EsbenchError, RaceError
from esbench.features.hosts.agent import Agent, HostFacts, News, packages
from esbench.features.hosts.clock import ClockReading, HostClock
from esbench.features.hosts.files import CopiedFiles, Places
from esbench.features.hosts.frames import Frame, inbound, outbound
from esbench.features.hosts.scheduler import START_S, FoundHosts
from esbench.features.hosts.settings import dask_settings
from esbench.load.hot import clock_ns
from esbench.load.messages import Hello, Message, Prepare
from esbench.record.host import esbench_facts, host_class
from esbench.record.private import open_private, private_folder

LOST_S = 3.0
_READINGS, _READINGS_BETWEEN = 30, 5  # round trips: before and after a step, and during it
_COMPARE_EVERY_S = 10.0  # so that clocks that drift apart by 50 ppm are half a millisecond off
_CLOSE_S = 5.0
_DELAY_NS, _DELAY_OF_A_HOST_NS = 50_000_000, 2_000_000
T = TypeVar("T")


class LoadHosts:
    """Starts load workers on several hosts through Dask, as many on each."""

    def __init__(
        self,
        found: AbstractAsyncContextManager[FoundHosts],
        *,
        workers: int,
        home: Path,
        race_id: str,
        log: Path,
    ) -> None:
        """Create the launcher of `workers` on each of the hosts that `found` brings up.

        0 is half of the cores of the smallest one. `home` is esbench's home folder on this host,
        `log` the file to which the workers' output is appended at the end.
        """
        self.log = str(log)
        self._log_file = log
        self.start_delay_ns = _DELAY_NS
        self._found = found
        self._count = workers
        self._home = home
        self._race_id = race_id
        self._hosts: dict[str, _Host] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="load-hosts", daemon=True)
        self._stack = AsyncExitStack()

    def start(self) -> list[RemoteWorker]:
        """Bring up the hosts and their workers. Raises RaceError for one that cannot start, or has another esbench."""
        self._thread.start()
        self._run(self._bring_up())
        self.start_delay_ns = _DELAY_NS + _DELAY_OF_A_HOST_NS * len(self._hosts)
        return [worker for host in self._hosts.values() for worker in host.workers.values()]

    def close(self) -> None:
        """End the agents with their workers, and what was started for them."""
        if not self._thread.is_alive():
            return
        try:
            self._run(self._leave())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def compare_clocks(self) -> None:
        hosts = [host for host in self._hosts.values() if host.lost is None]
        self._run(_all(host.compare_clock(_READINGS) for host in hosts))

    def clock_uncertainty_ms(self, host: str) -> float:
        return self._hosts[host].clock.bound_ms()

    def stolen_s(self) -> Mapping[Hashable, float]:
        return {(name, cpu): s for name, host in self._hosts.items() for cpu, s in host.stolen_s.items()}

    def warnings(self) -> tuple[str, ...]:
        ours = packages()
        found = []
        for name, host in self._hosts.items():
            others = [
                f"{package} {host.facts.packages.get(package, 'none')} ({version} here)"
                for package, version in ours.items()
                if host.facts.packages.get(package) != version
            ]
            if others:
                found.append(f"load host {name} has other packages than this host: {', '.join(others)}")
        return tuple(found)

    def host_facts(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(
            {"name": name, "host_class": host_class(host.facts.facts), **host.facts.facts}
            for name, host in self._hosts.items()
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop's thread; if this thread is interrupted meanwhile, it is cancelled."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    async def _bring_up(self) -> None:
        import dask
        import distributed  # noqa: F401 - it sets its own configuration, and the level of its logs, when it is imported

        dask.config.set(dask_settings())  # of the process: sides that are raced at once share it
        for name in ("distributed", "tornado"):  # what goes wrong there is a host that is lost
            logging.getLogger(name).setLevel(logging.CRITICAL)
        found = await self._stack.enter_async_context(self._found)
        try:
            # an actor belongs to the client that is current when it is called first
            async with asyncio.timeout(START_S):
                with found.client.as_current():
                    agents = await _all(self._agent(found, name) for name in found.workers)
                    facts = await _all(agent.facts() for agent in agents)
        except TimeoutError:
            raise RaceError(f"no agent within {START_S:.0f} s", where="load hosts") from None
        for name, of_host in zip(found.workers, facts, strict=True):
            refuse_other_versions(name, of_host)
        count = self._count or max(1, min(of_host.facts["cpu_cores"] for of_host in facts) // 2)
        for name, agent, of_host in zip(found.workers, agents, facts, strict=True):
            places = Places(self._home, of_host.home, of_host.race_folder)
            self._hosts[name] = _Host(name, agent, of_host, CopiedFiles(agent, places), self._loop)
        await _all(host.start(count, count * number) for number, host in enumerate(self._hosts.values()))
        await _all(host.compare_clock(_READINGS) for host in self._hosts.values())

    async def _agent(self, found: FoundHosts, name: str) -> Any:
        try:
            made = found.client.submit(
                Agent,
                self._race_id,
                actor=True,
                workers=[found.workers[name]],
                allow_other_workers=False,
                pure=False,
                key=f"esbench-{self._race_id}-{name}",
            )
            self._stack.callback(made.release)
            return await made
        except Exception as error:  # of the host's own Python, whatever it raises
            hint = "install there, from the same sources, what is installed here: pip install '.[hosts]'"
            raise RaceError(f"it cannot run esbench: {error}", where=f"load host {name}", hint=hint) from error

    def _keep(self, outputs: Mapping[str, bytes]) -> None:
        """Append the output of the hosts' workers, by name, to the log."""
        if any(outputs.values()):
            private_folder(self._log_file.parent)
            with open_private(self._log_file, "ab") as log:
                log.writelines(f"load host {name}:\n".encode() + output for name, output in outputs.items() if output)

    async def _leave(self) -> None:
        for host in self._hosts.values():
            host.stop()
        closing = {
            host: asyncio.ensure_future(_quietly(host.close())) for host in self._hosts.values() if not host.lost
        }
        if closing:
            await asyncio.wait(closing.values(), timeout=_CLOSE_S)
        self._keep({host.name: closed.result() or b"" for host, closed in closing.items() if closed.done()})
        await _quietly(self._stack.aclose())
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class _Host:
    """A load host: its agent, its clock, and the messages on their way to it and from it.

    All but `send` and what it reads run in the loop's thread.
    """

    def __init__(
        self, name: str, agent: Any, facts: HostFacts, files: CopiedFiles, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.name = name
        self.facts = facts
        self.clock = HostClock()
        self.stolen_s: Mapping[int, float] = {}
        self.workers: dict[int, RemoteWorker] = {}
        self.lost: str | None = None
        self._asked = self._provided = 0  # messages with files: sent, and arrived with them
        self._agent = agent
        self._files = files
        self._loop = loop
        self._unsent: asyncio.Queue[tuple[int, Message]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, count: int, first: int) -> None:
        pids = await self._agent.start(count, first)
        self.workers = {number: RemoteWorker(number, self, pid) for number, pid in pids.items()}
        self._tasks = [self._loop.create_task(self._guarded(work)) for work in (self._listen, self._speak, self._clock)]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> bytes:
        output: bytes = await self._agent.close()
        return output

    def send(self, number: int, message: Message) -> None:
        """Send a message to a worker, from any thread. OSError if the host is lost."""
        if self.lost is not None:
            raise BrokenPipeError(self.lost)
        if isinstance(message, Prepare):
            self._asked += 1
        self._loop.call_soon_threadsafe(self._unsent.put_nowait, (number, message))

    @property
    def is_provided_for(self) -> bool:
        """True if no files are on their way to the host."""
        return self._asked == self._provided

    def kill(self, number: int) -> None:
        """Kill a worker, from any thread."""
        asyncio.run_coroutine_threadsafe(_quietly(self._agent.kill(number)), self._loop)

    async def compare_clock(self, count: int) -> None:
        """Take readings of the host's clock. A host that does not answer is lost."""
        readings = []
        try:
            async with asyncio.timeout(LOST_S):
                for _ in range(count):
                    sent_ns = clock_ns()
                    theirs_ns = await self._agent.clock()
                    readings.append(ClockReading(sent_ns, theirs_ns, clock_ns()))
        except Exception as error:  # noqa: BLE001 - whatever Dask raises for a connection that is gone
            self._lose(error)
        if readings:
            self.clock.compare(readings)

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever Dask raises for a connection that is gone
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        if self.lost is not None:
            return
        is_silent = isinstance(error, TimeoutError)
        reason = f"no word from it for {LOST_S:.0f} s" if is_silent else "its connection is gone"
        self.lost = f"load host {self.name} was lost: {reason}"
        for worker in self.workers.values():
            worker.hang_up()
        self.stop()

    async def _listen(self) -> None:
        while True:
            news: News = await asyncio.wait_for(_awaited(self._agent.take()), LOST_S)
            self.stolen_s = news.stolen_s
            for number, content in news.frames:
                self.workers[number].deliver(content)
            for number, how in news.ended.items():
                self.workers[number].hang_up(how)

    async def _speak(self) -> None:
        while True:
            batch = [await self._unsent.get()]
            while not self._unsent.empty():
                batch.append(self._unsent.get_nowait())
            frames = [await self._frame(number, message) for number, message in batch]
            await self._agent.put([frame for frame in frames if frame is not None])
            self._provided += sum(isinstance(message, Prepare) for _, message in batch)

    async def _frame(self, number: int, message: Message) -> Frame | None:
        """Return a message as it is sent, its files brought; if that fails, the coordinator is given the error."""
        if not isinstance(message, Prepare):
            return outbound(number, message, self.clock)
        try:
            return outbound(number, await self._files.bring(message), self.clock)
        except (EsbenchError, OSError) as error:
            if isinstance(error, OSError):
                if error.filename is None:
                    raise  # of the connection, not of a file
                what = f"cannot copy {error.filename}: {error.strerror}"
                error = RaceError(what, where=f"load host {self.name}")
            answer = Hello(number, 0, "", message.step, error)
            self.workers[number].deliver(bytes(ForkingPickler.dumps(answer)))
            return None

    async def _clock(self) -> None:
        while True:
            await asyncio.sleep(_COMPARE_EVERY_S)
            await self.compare_clock(_READINGS_BETWEEN)


class RemoteWorker:
    """A load worker of a load host. Messages arrive in the loop's thread and are received in the coordinator's.

    A socket pair holds one byte while there are any, so that the coordinator can wait for several workers at once.
    """

    def __init__(self, number: int, host: _Host, pid: int) -> None:
        self.number = number
        self.host = host.name
        self.pid = pid
        self._host = host
        self._arrived: deque[bytes] = deque()
        self._how: str | None = None
        self._changed = threading.Condition()
        self._ours, self._theirs = socket.socketpair()

    def deliver(self, content: bytes) -> None:
        """Let a message arrive."""
        with self._changed:
            if not self._arrived and self._how is None:
                self._theirs.send(b"\0")
            self._arrived.append(content)

    def hang_up(self, how: str | None = None) -> None:
        """Let the connection end: no message will arrive any more. `how`: the worker has ended, by default lost."""
        with self._changed:
            if self._how is None:
                self._how = how or self._host.lost or "its connection is gone"
                self._theirs.close()
            self._changed.notify_all()

    def fileno(self) -> int:
        return self._ours.fileno()

    def send(self, message: Message) -> None:
        if self._how is not None:
            raise BrokenPipeError(self._how)
        self._host.send(self.number, message)

    def receive(self) -> Message:
        with self._changed:
            if not self._arrived:
                raise EOFError
            content = self._arrived.popleft()
            if not self._arrived and self._how is None:
                self._ours.recv(1)
        return inbound(content, self._host.clock)

    def has_message(self) -> bool:
        return bool(self._arrived)

    def ended(self, within_s: float = 0.0) -> str | None:
        deadline_s = time.monotonic() + within_s
        with self._changed:
            while self._how is None and (left_s := deadline_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
            # what has arrived is received first, as from the pipe of a process that has ended
            return None if self._arrived and not within_s else self._how

    @property
    def is_host_lost(self) -> bool:
        return self._host.lost is not None

    @property
    def is_stopped(self) -> bool:
        return False

    @property
    def is_provided_for(self) -> bool:
        return self._host.is_provided_for

    def kill(self) -> None:
        if self._how is None:
            self._host.kill(self.number)

    def close(self) -> None:
        self.hang_up("closed")
        self._ours.close()


def refuse_other_versions(name: str, host: HostFacts) -> None:
    """Raise a RaceError for a load host with another esbench, or another minor version of Python, than this one."""
    where, ours, minor = f"load host {name}", esbench_facts(), platform.python_version_tuple()[:2]
    for fact, value in ours.items():
        if host.esbench.get(fact, value) != value:
            what = f"it has esbench {fact} {host.esbench[fact]}, and this host {value}"
            raise RaceError(what, where=where, hint="install the same on both")
    if tuple(host.python.split(".")[:2]) != minor:
        what = f"it has Python {host.python}, and this host {platform.python_version()}"
        raise RaceError(what, where=where, hint=f"install esbench there under Python {'.'.join(minor)}")


async def _awaited(future: Any) -> Any:
    """Await what is awaitable, such as a call of an actor, as a coroutine."""
    return await future


async def _all(work: Any) -> list[Any]:
    """Await several things at once; the first error ends it."""
    return list(await asyncio.gather(*(_awaited(each) for each in work)))


async def _quietly(work: Any) -> Any:
    """Return what something returns that may fail because the other side is gone: then None."""
    try:
        return await work
    except Exception:  # noqa: BLE001 - it is gone, which is what was asked for
        return None
