"""Why calls fail, in words that no Python and no event loop chooses."""

from __future__ import annotations

import errno
import re
import socket
import ssl
from pathlib import Path

import pytest

from esbench.errors.reasons import form_fault, reason_of

ESBENCH = Path(__file__).parents[3] / "esbench"


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] some words (_ssl.c:992)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)"), "connection refused"),
        (OSError(errno.EHOSTUNREACH, "words"), "no route to host"),
        (ConnectionResetError("Connection lost"), "connection reset by peer"),
        (TimeoutError(), "no answer in time"),
        (TimeoutError("timed out"), "no answer in time"),
        (socket.gaierror(socket.EAI_NONAME, "words"), "this name cannot be resolved"),
        (tls_error("WRONG_VERSION_NUMBER"), "TLS failed: WRONG_VERSION_NUMBER"),
        (tls_error(""), "TLS failed: SSLError"),
        (ssl.SSLEOFError(8, "words"), "the host closed the connection during the TLS handshake"),
        (ssl.SSLZeroReturnError(6, "words (_ssl.c:992)"), "the host closed the connection during the TLS handshake"),
        (ValueError(), "ValueError"),
    ],
)
def test_reason(error: Exception, expected: str) -> None:
    assert reason_of(error) == expected


def test_of_an_unknown_form_the_missing_key_is_named() -> None:
    assert form_fault(KeyError("heap")) == '"heap" is missing'
    found = form_fault(AttributeError("'list' object has no attribute 'get'"))
    assert found == "parts of it are not what they should be"


def test_no_source_reads_what_json_and_tls_errors_say() -> None:
    """Their words differ from Python to Python: json_faults and reasons stand in their place."""
    said = re.compile(r"JSONDecodeError|\.msg\b|\bas error:\n\s+.*json.*\{error\}")
    found = {file.relative_to(ESBENCH).as_posix() for file in ESBENCH.rglob("*.py") if said.search(file.read_text())}
    # These quote what Python says of a track's own code, and read nothing out of it.
    assert found == {"features/workloads/convert.py", "features/python/loading.py"}
