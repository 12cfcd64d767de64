"""Races of SQL servers that are none: refused, silent, closed at once; each is one line, and soon."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def race(home: Path, port: int, *more: str, code: int = 1) -> str:
    """What a race of a server on a port of loopback prints."""
    command = [sys.executable, "-m", "esbench.cli.main", "race", "--track=order-analytics", "--test-mode"]
    done = subprocess.run(
        [*command, f"--target-hosts=mysql://root@127.0.0.1:{port}/shop", *more],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "ESBENCH_HOME": str(home), "MYSQL_PWD": ""},
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that does that with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                serve(link)

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


def test_a_port_that_refuses(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert f"127.0.0.1:{port}: cannot be reached" in race(tmp_path, port)


def test_a_server_that_says_nothing(tmp_path: Path) -> None:
    kept: list[socket.socket] = []
    began_s = time.monotonic()
    with serving(kept.append) as port:
        assert "cannot be reached" in race(tmp_path, port)
    assert time.monotonic() - began_s < 15


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 64])
def test_a_server_of_another_kind(tmp_path: Path, reply: bytes) -> None:
    def answer(link: socket.socket) -> None:
        link.sendall(reply)
        link.close()

    with serving(answer) as port:
        assert f"127.0.0.1:{port}: " in race(tmp_path, port)


def test_options_of_elasticsearch_are_refused(tmp_path: Path) -> None:
    assert "a SQL server takes no api_key" in race(tmp_path, 1, "--client-options=api_key:abc", code=2)
    assert "takes no proxy" in race(tmp_path, 1, "--client-options=proxy:'http://10.0.0.9:3128'", code=2)
    assert "unpacked" in race(tmp_path, 1, "--corpus-cache=stream", code=2)
