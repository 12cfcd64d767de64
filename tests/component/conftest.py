"""Servers for tests over real sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from esbench.engine.null import NullServer, Script

NullServerFactory = Callable[..., NullServer]


@pytest.fixture
def null_server() -> Iterator[NullServerFactory]:
    """`null_server(script, log=True, ...)` starts a null server that ends with the test."""
    with ExitStack() as stack:

        def start(script: Script | Mapping[str, Any] | None = None, **options: Any) -> NullServer:
            return stack.enter_context(NullServer(script, **options))

        yield start
