"""Servers for tests over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from esbench.engine.null import NullServer, Script

NullServerFactory = Callable[..., NullServer]


@contextmanager
def _servers() -> Iterator[NullServerFactory]:
    with ExitStack() as stack:

        def start(script: Script | Mapping[str, Any] | None = None, **options: Any) -> NullServer:
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


@pytest.fixture
def unused_url() -> Iterator[str]:
    """The address of a port at which nobody listens, and nobody else will."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
