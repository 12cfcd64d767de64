"""The agent of a race on a load host: a Dask actor that starts load workers there and passes their messages on.

Its methods run in the event loop of the Dask worker, which does nothing else, and none of them waits there for a worker
or a disk: a host whose loop stands still is lost. The load is sent by load workers, the same as on esbench's own host.
If the race's host says nothing for ALONE_S, the agent ends its workers.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import secrets
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from esbench.cluster.addresses import resolve
from esbench.cluster.options import Host
from esbench.corpus.preparation import made_again
from esbench.corpus.prepared import PreparedDocuments
from esbench.features.hosts.files import ReceivedFiles, WantedFile
from esbench.features.hosts.frames import Frame
from esbench.load.hot import clock_ns
from esbench.load.launcher import LocalLauncher, LocalWorker, end_all
from esbench.load.outbox import LENGTH
from esbench.record.home import esbench_home
from esbench.record.host import esbench_facts, host_facts, stolen_s

TAKE_S = 1.0  # that a host without news waits before it says so: the heartbeat
ALONE_S = 6.0  # without a word of the race's host
_LOG, _MOST_OUTPUT_BYTES = "worker.log", 1 << 20
_LEAVE_S = 0.5  # for workers to end by themselves: their sockets are closed


@dataclass(frozen=True)
class HostFacts:
    """A load host as it describes itself. `facts` are those of the record; `packages` are versions by name.

    `race_folder` is the path of its folder for the race in `load-host` of its home folder, which hosts may share.
    """

    home: Path
    race_folder: str
    esbench: Mapping[str, str]
    python: str
    packages: Mapping[str, str]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class News:
    """The news of a host since they were last taken. `ended`: how workers ended, by number; `stolen_s` by CPU."""

    frames: Sequence[Frame] = ()
    ended: Mapping[int, str] = field(default_factory=dict)
    stolen_s: Mapping[int, float] = field(default_factory=dict)


def packages() -> Mapping[str, str]:
    """Return the versions of the installed packages that esbench and load hosts ask for, by name."""
    asked = [*(requires("esbench") or ()), "dask"]
    names = {re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower() for requirement in asked}
    found = {}
    for name in sorted(names):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


class Agent:
    """The load workers of one race on this host."""

    def __init__(self, race_id: str) -> None:
        self._home = esbench_home()
        self._race_folder = f"{race_id}/{platform.node()}-{secrets.token_hex(4)}"
        self._folder = self._home / "load-host" / self._race_folder
        self._files = ReceivedFiles(self._home, self._folder)
        self._workers: dict[int, LocalWorker] = {}
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._readers: list[asyncio.Task[None]] = []
        self._frames: list[Frame] = []
        self._ended: dict[int, str] = {}
        self._has_news = asyncio.Event()
        self._heard_ns = 0
        self._guard: asyncio.Task[None] | None = None

    async def facts(self) -> HostFacts:
        """Return facts about this host and its Python."""
        return HostFacts(
            home=self._home,
            race_folder=self._race_folder,
            esbench=esbench_facts(),
            python=platform.python_version(),
            packages=packages(),
            facts=await asyncio.to_thread(host_facts, self._home),
        )

    async def clock(self) -> int:
        """Return the monotonic clock of this host, in ns."""
        return clock_ns()

    async def start(self, count: int, first: int) -> dict[int, int]:
        """Start load workers, numbered from `first` on; return their process ids by number."""
        loop = asyncio.get_running_loop()
        for worker in await asyncio.to_thread(LocalLauncher(count, self._folder / _LOG, first).start):
            self._workers[worker.number] = worker
            reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=os.dup(worker.fileno())))
            self._writers[worker.number] = writer
            self._readers.append(loop.create_task(self._read(worker, reader)))
        self._heard_ns = clock_ns()
        self._guard = loop.create_task(self._end_when_alone())
        return {number: worker.pid for number, worker in self._workers.items()}

    async def put(self, frames: Sequence[Frame]) -> None:
        """Pass messages on to workers, which need not read them yet.

        Those to a worker that is gone are dropped, and its end is news.
        """
        self._heard_ns = clock_ns()
        for number, content in frames:
            if not self._writers[number].is_closing():
                self._writers[number].write(LENGTH.pack(len(content)) + content)

    async def take(self) -> News:
        """Wait for news, at most TAKE_S, and return them."""
        self._heard_ns = clock_ns()
        try:
            async with asyncio.timeout(TAKE_S):
                await self._has_news.wait()
        except TimeoutError:
            pass
        self._has_news.clear()
        news = News(tuple(self._frames), dict(self._ended), stolen_s())
        self._frames.clear()
        self._ended.clear()
        return news

    async def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return the files that are not here yet."""
        self._heard_ns = clock_ns()
        return await asyncio.to_thread(self._files.lacking, files)

    async def write(self, file: WantedFile, chunk: bytes, is_last: bool) -> None:
        """Append a chunk to a file; after the last one it gets its name, if its sum is right. Raises RaceError."""
        self._heard_ns = clock_ns()
        await asyncio.to_thread(self._files.write, file, chunk, is_last)

    async def resolve(self, hosts: Sequence[Host]) -> tuple[Host, ...]:
        """Return the hosts of a cluster with the addresses that their names have here. Raises ClusterError."""
        self._heard_ns = clock_ns()
        return await asyncio.to_thread(resolve, hosts)

    async def make(self, documents: PreparedDocuments) -> None:
        """Generate documents that are generated on the race's host, if they are not here. Raises EsbenchError."""
        self._heard_ns = clock_ns()
        making = asyncio.create_task(asyncio.to_thread(made_again, documents, self._home / "cache" / "corpora"))
        while not making.done():
            await asyncio.wait([making], timeout=TAKE_S)
            self._heard_ns = clock_ns()
        await making

    async def kill(self, number: int) -> None:
        """Kill a worker."""
        self._workers[number].kill()

    async def close(self) -> bytes:
        """End the workers, and remove what was written for this race alone; return the end of the workers' output."""
        if self._guard is not None:
            self._guard.cancel()
        workers, self._workers = list(self._workers.values()), {}
        for reading in self._readers:
            reading.cancel()
        for writer in self._writers.values():
            writer.transport.abort()
        for worker in workers:
            worker.close()
        # a closed socket ends a worker; the loop goes on meanwhile
        await asyncio.to_thread(end_all, workers, _LEAVE_S)
        return await asyncio.to_thread(self._remove_files)

    def _remove_files(self) -> bytes:
        """Remove what was written for this race alone; return the end of the workers' output."""
        output = b""
        with suppress(FileNotFoundError):
            output = (self._folder / _LOG).read_bytes()[-_MOST_OUTPUT_BYTES:]
        self._files.discard_incomplete()
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # of other hosts with the same home folder, which remove it after their own ones
            self._folder.parent.rmdir()
        return output

    async def _read(self, worker: LocalWorker, reader: asyncio.StreamReader) -> None:
        """Take the messages of a worker until it ends."""
        try:
            while True:
                (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                self._frames.append((worker.number, await reader.readexactly(length)))
                self._has_news.set()
        except (asyncio.IncompleteReadError, OSError):
            how = await asyncio.to_thread(worker.ended, 1.0)
            self._ended[worker.number] = how or "it closed its connection"
            self._has_news.set()

    async def _end_when_alone(self) -> None:
        while clock_ns() - self._heard_ns < ALONE_S * 1e9:
            await asyncio.sleep(TAKE_S)
        self._guard = None
        await self.close()
