"""`python -m esbench.null_server`: serves until SIGTERM, or until its stdin closes."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import ssl
import sys
from pathlib import Path

import msgspec

from esbench.errors import EngineError, EsbenchError
from esbench.errors.reasons import reason_of
from esbench.load.open_files import raise_limit
from esbench.null_server.script import ServerScript, read_script
from esbench.null_server.server import NullServerState

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]


def main() -> int:
    options = _options()
    raise_limit()
    try:
        script = read_script(options.script) if options.script else ServerScript()
        tls = _tls(options.tls_cert, options.tls_key)
        factory = None if uvloop is None or options.loop == "asyncio" else uvloop.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_serve(options, script, tls))
    except EsbenchError as error:
        print(f"esbench.null_server: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m esbench.null_server", description="A server that answers like Elasticsearch."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--script", type=Path, help="JSON file: what the server does besides answering at once")
    parser.add_argument("--log", type=Path, help="write one JSON line per request to this file")
    parser.add_argument("--tls-cert", type=Path)
    parser.add_argument("--tls-key", type=Path)
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the process that started it")
    return parser.parse_args()


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise EngineError(f"cannot use the certificate: {reason_of(error)}", where=str(certificate)) from None
    return context


async def _serve(options: argparse.Namespace, script: ServerScript, tls: ssl.SSLContext | None) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if options.until_stdin_closes:
        loop.add_reader(0, lambda: None if os.read(0, 4096) else ended.set())
    try:
        server = NullServerState(script, log=options.log, tls=tls)
        port = await server.start(options.host, options.port)
    except OSError as error:
        raise EngineError(f"cannot serve: {reason_of(error)}", where=f"{options.host}:{options.port}") from None
    # A collection would stall every reply. What the server makes dies by its reference counts (plain asyncio
    # leaves 1 kB for each connection).
    gc.collect()
    gc.freeze()
    gc.disable()
    host = f"[{options.host}]" if ":" in options.host else options.host
    ready = {"url": f"{'https' if tls else 'http'}://{host}:{port}", "pid": os.getpid()}
    print(msgspec.json.encode(ready).decode(), flush=True)
    await ended.wait()
    if options.until_stdin_closes:
        loop.remove_reader(0)
    await server.stop()


if __name__ == "__main__":
    sys.exit(main())
