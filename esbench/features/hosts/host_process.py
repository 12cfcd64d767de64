"""The process that ssh starts on a load host: a Dask worker that ends when its standard input does.

    python -m esbench.features.hosts.host_process

Its job is the first line of standard input, in JSON: `scheduler` (its tls:// address), `name`, and the texts of the
host's certificate. It answers with one line, {"address": ...} or {"error": ...} (maybe with a "hint"), and serves until
its input ends, as it does when the race's host, ssh or the network is gone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from esbench.features.hosts.certificate import HostIdentity, security_of
from esbench.features.hosts.settings import LOOPBACK_ONLY, dask_settings
from esbench.load.open_files import raise_limit

INSTALL_HINT = "install this esbench with its extra hosts there (docs/hosts.md)"
_CONNECT_S = 8.0


def local_address(host: str, port: int) -> str:
    """Return the address of this host from which it reaches another. OSError without a route."""
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)  # sends nothing
        found: str = probe.getsockname()[0]
        return found


async def serve(job: Mapping[str, Any], folder: Path) -> None:
    """Connect to the scheduler, say so on standard output, and serve until standard input ends."""
    from distributed import Worker

    scheduler = urlsplit(job["scheduler"])
    worker = Worker(
        job["scheduler"],
        name=job["name"],
        nthreads=1,
        host=local_address(scheduler.hostname or "", scheduler.port or 0),
        security=security_of(HostIdentity(**job["identity"]).write(folder)),
        local_directory=str(folder),
        memory_limit=0,
        death_timeout=_CONNECT_S,
        **LOOPBACK_ONLY,
    )
    async with asyncio.timeout(_CONNECT_S):
        await worker
    print(json.dumps({"address": worker.address}), flush=True)
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.buffer.read)
    closed = asyncio.ensure_future(worker.finished())
    await asyncio.wait([ended, closed], return_when=asyncio.FIRST_COMPLETED)


def main() -> None:
    """Serve one race, and end without waiting: load workers end when their sockets are closed."""
    raise_limit()
    logging.disable(logging.CRITICAL)
    job = json.loads(sys.stdin.readline())
    with tempfile.TemporaryDirectory(prefix="esbench-") as folder:
        try:
            import dask

            with dask.config.set(dask_settings()):
                asyncio.run(serve(job, Path(folder)))
        except ImportError as error:
            print(json.dumps({"error": f"{error.name} is not installed", "hint": INSTALL_HINT}), flush=True)
        except (OSError, TimeoutError) as error:
            print(json.dumps({"error": f"cannot connect to {job['scheduler']}: {error or 'no answer'}"}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
