"""Reasons of failed calls, derived from facts: error numbers, OpenSSL's names, types of errors.

The messages of Python's own exceptions differ between versions and between event loops; they are the last resort.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import ssl

# What a peer that just closes looks like in a TLS handshake: before Python 3.11.4 also a ZeroReturn.
TLS_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError)


def reason_of(error: BaseException) -> str:  # noqa: PLR0911 - one line for each
    """Return the reason why a connection could not be opened or used, or a file not be read.

    For an error of another kind it is the message, or the type's name if there is no message.
    """
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError() if isinstance(error, TLS_CLOSED):
            return "the host closed the connection during the TLS handshake"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or type(error).__name__}"
        case socket.gaierror():
            return "this name cannot be resolved"
        case OSError() if error.errno:
            return os.strerror(error.errno).lower()
        case TimeoutError():
            return "no answer in time"
        case ConnectionResetError():
            return os.strerror(errno.ECONNRESET).lower()
    return str(error) or type(error).__name__


class WrongType(ValueError):  # noqa: N818 - it is no fault of a program
    """A value of another type than it should be, as a sentence for people."""


def form_fault(error: BaseException) -> str:
    """Return a description of an error raised by data of an unknown form."""
    if isinstance(error, WrongType):
        return str(error)
    if isinstance(error, KeyError):
        return f"{json.dumps(error.args[0], default=str)} is missing"
    return "parts of it are not what they should be"
