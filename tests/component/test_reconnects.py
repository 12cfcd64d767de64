"""Connections that are opened again and again: garbage is not collected while tasks run, so they must leave none."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import trustme
import uvloop
from driver import NullServerFactory

from esbench.cluster.options import Access, ClientOptions, parse_hosts
from esbench.load.client import Route, TemplateClient
from esbench.load.hosts import Hosts
from esbench.load.hot import clock_ns
from esbench.load.loops import ClosedLoop, Length
from esbench.load.recorder import Recorder
from esbench.measure.slices import WholeTime
from esbench.measure.verdict import Verdict
from esbench.null_server import NullServer
from esbench.operations.replies import judge_found
from esbench.requests.exchange import Exchange

REQUESTS = {False: 2_000, True: 300}  # over TLS?


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "tls"])
def server(
    request: pytest.FixtureRequest,
    null_servers: NullServerFactory,
    authority: trustme.CA,
    tmp_path_factory: pytest.TempPathFactory,
) -> NullServer:
    if not request.param:
        return null_servers()
    certificate, key = (tmp_path_factory.mktemp("tls") / name for name in ("cert.pem", "key.pem"))
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    return null_servers(tls=(certificate, key))


async def _closed_loop(url: str, tls: ssl.SSLContext | None, requests: int) -> int:
    """Send requests one after the other; the errors among them."""
    hosts = Hosts(parse_hosts([url], None)[0], ClientOptions(), lost=lambda: None, back=lambda: None)
    exchange = Exchange("", lambda drawn: (b"GET /orders/_doc/1 HTTP/1.1\r\nHost: test\r\n\r\n",), judge_found)
    program = SimpleNamespace(exchanges=(exchange,), draw=lambda: None)
    client = TemplateClient(0, Route(hosts, Access(tls), b"", 10), program)  # type: ignore[arg-type]
    await client.connect()
    ended, errors = asyncio.Event(), 0

    def failed(verdict: Verdict) -> None:
        nonlocal errors
        errors += 1

    start_ns = clock_ns()
    recorder = Recorder(WholeTime(start_ns), is_open=False)
    loop = ClosedLoop([client], recorder, Length(requests=requests), ended=ended.set, failed=failed)
    loop.start(start_ns)
    await asyncio.wait_for(ended.wait(), 60)
    loop.close()
    hosts.close()
    return errors


async def _garbage(url: str, tls: ssl.SSLContext | None, requests: int) -> tuple[Counter[str], int]:
    """What a collector finds after so many requests, by type, and how many of them failed."""
    await _closed_loop(url, tls, 20)
    gc.collect()
    gc.disable()
    try:
        errors = await _closed_loop(url, tls, requests)
        await asyncio.sleep(0.05)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return Counter(type(thing).__name__ for thing in gc.garbage), errors
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("ends", ["Connection: close", "fault"])
def test_a_connection_leaves_no_garbage(
    server: NullServer, authority: trustme.CA, new_loop: Callable[[], asyncio.AbstractEventLoop], ends: str
) -> None:
    rule = {"connection_close": True} if ends != "fault" else {"fault": "cut-before"}
    server.use({"rules": [{"path": "_doc", **rule}]})
    is_tls = server.url.startswith("https")
    tls = ssl.create_default_context() if is_tls else None
    if tls is not None:
        authority.configure_trust(tls)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        found, errors = runner.run(_garbage(server.url, tls, REQUESTS[is_tls]))
    assert (errors > 0) == (ends == "fault")
    assert server.counts().connections >= REQUESTS[is_tls]
    assert found["Connection"] + found["TlsConnection"] + found["HttpResponseParser"] <= 4
    if new_loop is uvloop.new_event_loop:  # asyncio's own transports refer to themselves and to what hangs on them
        assert found.total() < REQUESTS[is_tls] / 2, "what a loop of one client leaves, not each connection"
