"""Servers for tests over real sockets, and the event loop of the workers that load them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from driver import Driver, NullServerFactory, documents

from esbench.corpus.prepared import PreparedDocuments
from esbench.null_server import NullServer, ServerScript


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def event_loop_name(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Tests (and fixtures) that ask for it run twice: child processes have uvloop, and as if it were not installed."""
    with pytest.MonkeyPatch.context() as environment:
        if request.param == "asyncio":
            folder = tmp_path_factory.mktemp("without-uvloop")
            (folder / "uvloop.py").write_text('raise ImportError("not in this test")\n')
            environment.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield request.param


@contextmanager
def _servers() -> Iterator[NullServerFactory]:
    with ExitStack() as stack:

        def start(script: ServerScript | Mapping[str, Any] | None = None, **options: Any) -> NullServer:
            return stack.enter_context(NullServer(script, **options))

        yield start


@pytest.fixture
def null_server() -> Iterator[NullServerFactory]:
    """`null_server(script, log=True, ...)` starts a null server that ends with the test."""
    with _servers() as start:
        yield start


@pytest.fixture(scope="module")
def null_servers() -> Iterator[NullServerFactory]:
    """The same for servers that end with the module."""
    with _servers() as start:
        yield start


@pytest.fixture(scope="module")
def servers(null_servers: NullServerFactory) -> NullServer:
    """The module's null server, as `server` has it; a module that reads its log makes one with a log instead."""
    return null_servers()


@pytest.fixture
def server(servers: NullServer) -> NullServer:
    """The module's null server, without a script and with nothing counted."""
    servers.use({})
    return servers


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Two workers, which all tests of the module share."""
    with Driver(tmp_path_factory.mktemp("driver"), workers=2) as driver:
        yield driver


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> PreparedDocuments:
    """2,000 prepared documents."""
    return documents(tmp_path_factory.mktemp("corpus"), 2_000)


@pytest.fixture
def unused_url() -> Iterator[str]:
    """The address of a port at which nobody listens, and nobody else will."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
