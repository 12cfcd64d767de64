"""Connections to a MySQL or MariaDB server, by the library asyncmy; its errors in esbench's words."""

from __future__ import annotations

import asyncio
import configparser
from pathlib import Path
from typing import Any

from esbench.cluster.options import ClientOptions, Host
from esbench.errors import ClusterError, EsbenchError, UsageError
from esbench.errors.reasons import reason_of

CONNECT_S = 5.0
_ACCESS_DENIED, _NO_ACCESS, _UNKNOWN_DATABASE = 1045, 1044, 1049
_GONE = (2003, 2006, 2013, 2014, 4031)  # codes of lost connections, of clients and servers


async def connect(host: Host, options: ClientOptions, timeout_s: float = CONNECT_S) -> Any:
    """Return a connection (`asyncmy.Connection`) to a server, which commits each statement.

    Raises UsageError without the library, OSError or TimeoutError if the server cannot be reached, and errors of
    asyncmy for what the server refuses.
    """
    asyncmy = library()
    async with asyncio.timeout(timeout_s):
        try:
            return await asyncmy.connect(
                host=host.address or host.host,
                port=host.port,
                user=options.basic_auth_user or "root",
                password=options.basic_auth_password or "",
                database=host.database or None,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=timeout_s,
                ssl=options.ssl_context(),
            )
        except asyncmy.errors.OperationalError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None
            raise


def library() -> Any:
    """Return the module asyncmy. Raises UsageError if it is not installed."""
    try:
        import asyncmy.errors
    except ImportError:
        what = "the library for MySQL and MariaDB is not installed"
        raise UsageError(what, hint="pip install esbench[sql]") from None
    return asyncmy


def password_in(file: Path) -> str | None:
    """Return the password that an option file of MySQL's programs (~/.my.cnf) gives in [client]; None without one.

    Raises UsageError for a file that cannot be read.
    """
    parser = configparser.RawConfigParser(allow_no_value=True, strict=False)
    try:
        parser.read(file, encoding="utf-8")
    except (OSError, ValueError, configparser.Error) as error:
        raise UsageError(f"cannot be read: {error}", where=str(file)) from None
    password = parser.get("client", "password", fallback=None)
    return None if password is None else password.strip("'\"")


def is_lost(error: Exception) -> bool:
    """True if an error of a statement means that its connection is of no further use."""
    code = error.args[0] if error.args else None
    return isinstance(error, OSError | EOFError) or code in _GONE or type(error).__name__ == "InterfaceError"


def failure_of(error: Exception) -> tuple[str, str]:
    """Return the kind and the text of a failed statement: by its SQL state, or `connection lost`."""
    text = str(error.args[-1]) if error.args else str(error)
    if is_lost(error):
        return "connection lost", text
    state, code = getattr(error, "sqlstate", None) or "HY000", error.args[0] if error.args else 0
    return f"SQL state {state}", f"{text} ({code})"


def explained(error: Exception, host: Host, user: str) -> EsbenchError:
    """Return the error to show for a connection or a statement of esbench's own that failed."""
    code = error.args[0] if error.args else None
    text = str(error.args[-1]) if error.args else str(error)
    if code in (_ACCESS_DENIED, _NO_ACCESS):
        hint = "say mysql://user@host:3306/database, and the password in MYSQL_PWD or in [client] of ~/.my.cnf"
        return ClusterError(f'refuses the user "{user}": {text}', where=str(host), hint=hint)
    if code == _UNKNOWN_DATABASE:
        return ClusterError(f'has no database "{host.database}"', where=str(host), hint="CREATE DATABASE makes it")
    if isinstance(error, OSError | TimeoutError):
        hint = "is it started, and is that its port?"
        return ClusterError(f"cannot be reached: {reason_of(error)}", where=str(host), hint=hint)
    return ClusterError(text, where=str(host))
