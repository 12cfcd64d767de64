"""Connections to a MySQL or MariaDB server, by the library asyncmy; its errors in esbench's words."""

from __future__ import annotations

import asyncio
import ssl
import struct
from typing import Any

from esbench.cluster.options import ClientOptions, Host
from esbench.cluster.sql_login import user_of
from esbench.errors import ClusterError, EsbenchError, UsageError, hint_to_install
from esbench.errors.reasons import reason_of

CONNECT_S = 5.0
_ACCESS_DENIED, _NO_ACCESS, _UNKNOWN_DATABASE = 1045, 1044, 1049
LIBRARY_ERROR = "SQL library error"  # a statement that asyncmy refuses by itself, on a connection that goes on
OF_LIBRARY = (TypeError, ValueError, ArithmeticError, struct.error)  # what it raises for values that it cannot send
_GONE = (1053, 1927, 2003, 2006, 2013, 2014, 4031)  # codes of lost connections, of clients and servers


async def connect(host: Host, options: ClientOptions, tls: ssl.SSLContext | None) -> Any:
    """Return a connection (`asyncmy.Connection`) to a server, which commits each statement.

    `tls`: the context of the options, None without TLS. Raises UsageError without a library, OSError or TimeoutError if
    the server cannot be reached, and errors of asyncmy for what the server refuses.
    """
    asyncmy = library()
    async with asyncio.timeout(CONNECT_S):
        try:
            return await asyncmy.connect(
                host=host.host if tls else host.address or host.host,  # the certificate is for the name
                port=host.port,
                user=user_of(options),
                password=(options.basic_auth_password or "").encode(),
                database=host.database or None,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=CONNECT_S,
                ssl=tls,
            )
        except asyncmy.errors.OperationalError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None
            raise
        except RuntimeError as error:  # a way to log in for which a library is missing
            raise UsageError(str(error), where=str(host)) from error


def library() -> Any:
    """Return the module asyncmy. Raises UsageError if it is not installed."""
    try:
        import asyncmy.errors
    except ImportError:
        what = "the library for MySQL and MariaDB is not installed"
        raise UsageError(what, hint=hint_to_install("sql")) from None
    return asyncmy


def is_lost(error: Exception) -> bool:
    """True if an error of a statement means that its connection is of no further use."""
    if isinstance(error, OSError | EOFError):
        return True
    if code := _code(error):
        return code in _GONE
    errors = library().errors
    return isinstance(error, errors.MySQLError) and not isinstance(
        error, (errors.ProgrammingError, errors.NotSupportedError, errors.DataError)
    )


def failure_of(error: Exception) -> tuple[str, str]:
    """Return the kind and the text of a failed statement: by its SQL state, `connection lost`, or LIBRARY_ERROR."""
    text = str(error.args[-1]) if error.args else str(error)
    if is_lost(error):
        return "connection lost", text
    if code := _code(error):
        return f"SQL state {getattr(error, 'sqlstate', None) or 'HY000'}", f"{text} ({code})"
    return LIBRARY_ERROR, f"{type(error).__name__}: {error}"


def _code(error: Exception) -> int:
    """Return the number of an error, which servers give; 0 for one of the library's own without any."""
    code = error.args[0] if error.args else None
    return code if isinstance(code, int) else 0


def explained(error: Exception, host: Host, user: str) -> EsbenchError:
    """Return the error to show for a connection or a statement of esbench's own that failed."""
    code = error.args[0] if error.args else None
    text = str(error.args[-1]) if error.args else str(error)
    if code in (_ACCESS_DENIED, _NO_ACCESS):
        hint = "say mysql://user@host:3306/database, and the password in MYSQL_PWD or in [client] of ~/.my.cnf"
        hint += "; use_ssl:true in --client-options if it takes TLS alone"  # MariaDB does not say that it does
        return ClusterError(f'refuses the user "{user}": {text}', where=str(host), hint=hint)
    if code == _UNKNOWN_DATABASE:
        return ClusterError(f'has no database "{host.database}"', where=str(host), hint="CREATE DATABASE makes it")
    if isinstance(error, OSError | TimeoutError):
        hint = "is it started, and is that its port?"
        return ClusterError(f"cannot be reached: {reason_of(error)}", where=str(host), hint=hint)
    return ClusterError(text or "closed the connection", where=str(host))
