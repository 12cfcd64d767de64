"""Two ways to a Dask cluster: one that a race brings up over ssh, its scheduler in our process, or one that runs.

Either is an asynchronous context manager that yields a client and the addresses of a Dask worker on each load host.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from esbench.cluster.options import Host
from esbench.errors import RaceError
from esbench.errors.reasons import reason_of
from esbench.features.hosts.certificate import Authority, security_of
from esbench.features.hosts.host_process import INSTALL_HINT, local_address
from esbench.features.hosts.settings import LOOPBACK_ONLY

START_S = 10.0  # for a host to be there
_END_S = 2.0  # for ssh to end by itself
_SSH_PORT = 22


@dataclass(frozen=True)
class FoundHosts:
    """A connected client of Dask, and the address of a Dask worker on each load host, by the host's name."""

    client: Any
    workers: Mapping[str, str]


@dataclass(frozen=True)
class SshHost:
    """A load host that is reached over ssh: `name` as the user gave it, [USER@]HOST[:PORT]."""

    name: str

    @property
    def _parts(self) -> Any:
        return urlsplit(f"ssh://{self.name}")

    @property
    def host(self) -> str:
        """The host's name or address."""
        return self._parts.hostname or ""

    @property
    def command(self) -> list[str]:
        """The command that starts the host's process."""
        user = f"{self._parts.username}@" if self._parts.username else ""
        port = ["-p", str(self._parts.port)] if self._parts.port else []
        start = f"exec {shlex.quote(sys.executable)} -P -m esbench.features.hosts.host_process"
        options = ["BatchMode=yes", f"ConnectTimeout={START_S:.0f}", "ServerAliveInterval=2", "ServerAliveCountMax=2"]
        return ["ssh", "-T", *(word for each in options for word in ("-o", each)), *port, f"{user}{self.host}", start]


@asynccontextmanager
async def ssh_hosts(names: Sequence[str]) -> AsyncIterator[FoundHosts]:
    """Start a scheduler in this process, and over ssh a Dask worker on each host, all with TLS made for this race.

    Keys go through ssh's standard input, into files that only their owner can read. Raises RaceError, within START_S,
    for a host that cannot be reached or cannot start.
    """
    from distributed import Client, Scheduler

    hosts, authority = [SshHost(name) for name in names], Authority()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="esbench-")))
        security = security_of(authority.identity("esbench").write(folder))
        ours = {host.name: await _our_address(host) for host in hosts}
        listen = next(iter(ours.values())) if len(set(ours.values())) == 1 else None
        scheduler = Scheduler(host=listen, port=0, protocol="tls", security=security, **LOOPBACK_ONLY)
        await stack.enter_async_context(scheduler)
        port = urlsplit(scheduler.address).port or 0
        starting = [
            asyncio.ensure_future(_started(stack, host, Host(ours[host.name], port, "tls").url, authority))
            for host in hosts
        ]
        try:
            workers = await asyncio.gather(*starting)
        except BaseException:  # the others must not begin while all is taken down
            for other in starting:
                other.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            raise
        client = Client(
            scheduler.address, security=security, asynchronous=True, set_as_default=False, direct_to_workers=True
        )
        yield FoundHosts(await stack.enter_async_context(client), dict(zip(names, workers, strict=True)))


async def _our_address(host: SshHost) -> str:
    """Return the address of this host from which it reaches a load host, whose name may be one of ssh's configuration.

    Raises RaceError for a name that nothing knows, and where ssh is not installed.
    """
    where, pipe = f"load host {host.name}", asyncio.subprocess.PIPE
    try:
        ssh = await asyncio.create_subprocess_exec(
            "ssh", "-G", host.host, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise RaceError("ssh is not installed here", where=where) from error
    known = dict(line.split(" ", 1) for line in (await ssh.communicate())[0].decode().splitlines() if " " in line)
    try:
        return local_address(known.get("hostname", host.host), _SSH_PORT)
    except OSError as error:
        raise RaceError(f"cannot reach it: {error.strerror or error}", where=where) from error


async def _started(stack: AsyncExitStack, host: SshHost, scheduler: str, authority: Authority) -> str:
    """Start a Dask worker on a host, which ends with `stack`; return its address."""
    where, pipe = f"load host {host.name}", asyncio.subprocess.PIPE
    ssh = await asyncio.create_subprocess_exec(
        *host.command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    stack.push_async_callback(_end, ssh)
    identity = authority.identity(host.name)
    job = {"scheduler": scheduler, "name": host.name, "identity": vars(identity)}
    assert ssh.stdin is not None
    ssh.stdin.write(json.dumps(job).encode() + b"\n")
    try:
        async with asyncio.timeout(START_S):
            answer = await _answer(ssh)
    except TimeoutError:
        raise RaceError(f"it did not start within {START_S:.0f} s", where=where, hint=_TRY.format(host.name)) from None
    if "error" in answer:
        raise RaceError(answer["error"], where=where, hint=answer.get("hint", ""))
    return str(answer["address"])


_TRY = "try: ssh {} true"


async def _answer(ssh: asyncio.subprocess.Process) -> Mapping[str, str]:
    """Return the answer of a host's process; lines of the host's own shell before it are ignored."""
    assert ssh.stdout is not None
    assert ssh.stderr is not None
    async for line in ssh.stdout:
        if line.startswith(b'{"'):
            found: Mapping[str, str] = json.loads(line)
            return found
    said = (await ssh.stderr.read()).decode(errors="replace").strip().splitlines()
    status = await ssh.wait()
    reason = said[-1] if said else f"ssh ended with status {status}"
    if "No module named" in reason or status in (126, 127):
        return {"error": reason, "hint": f"{INSTALL_HINT}, so that {sys.executable} has it"}
    return {"error": reason, "hint": "give ssh a key or an agent: it must not ask" if "denied" in reason else ""}


async def _end(ssh: asyncio.subprocess.Process) -> None:
    """Close the input of a host's process, which ends it; an ssh that goes on is killed."""
    assert ssh.stdin is not None
    ssh.stdin.close()
    try:
        async with asyncio.timeout(_END_S):
            with suppress(OSError):  # it may have ended before it read its job
                await ssh.stdin.wait_closed()
            await ssh.wait()
    except TimeoutError:
        ssh.kill()
        await ssh.wait()


@asynccontextmanager
async def cluster_hosts(address: str) -> AsyncIterator[FoundHosts]:
    """Connect to a scheduler that runs, with the certificates of Dask's own configuration; use one worker of each host.

    Raises RaceError if it cannot be reached, or has no workers.
    """
    from distributed import Client
    from distributed.security import Security

    where = f"--load-cluster={address}"
    hint = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ...__CLIENT__CERT and ...__CLIENT__KEY name them"
    security = Security(require_encryption=True)
    try:
        has_certificates = security.get_connection_args("client").get("ssl_context") is not None
    except OSError as error:  # ssl.SSLError is one
        raise RaceError(f"its certificates cannot be used: {reason_of(error)}", where=where, hint=hint) from error
    if not has_certificates:
        raise RaceError("Dask's configuration has no certificates for it", where=where, hint=hint)
    client = Client(address, security=security, asynchronous=True, set_as_default=False, timeout=START_S / 2)
    try:
        try:
            await client
        except (OSError, TimeoutError) as error:
            what = f"no connection to the scheduler: {error or 'no answer'}"
            raise RaceError(what, where=where, hint="is it there, and signed by the same authority?") from error
        workers: dict[str, str] = {}
        known: Any = client.scheduler
        scheduler = await known.identity(n_workers=-1)  # all of them
        for worker, facts in scheduler["workers"].items():
            workers.setdefault(facts["host"], worker)
        if not workers:
            raise RaceError("the scheduler has no workers", where=where, hint="each worker is a load host")
        yield FoundHosts(client, workers)
    finally:
        await client.close()
