"""Users of SQL servers, and their passwords: found where MySQL's own programs find them."""

from __future__ import annotations

import configparser
import getpass
import os
import sys
from dataclasses import replace
from pathlib import Path

from esbench.cluster.options import ClientOptions
from esbench.errors import UsageError
from esbench.errors.reasons import reason_of

_PASSWORD = "MYSQL_PWD"  # of the environment, as MySQL's own programs read it  # nosec B105
_OPTION_FILE = Path("~/.my.cnf")


def user_of(options: ClientOptions) -> str:
    """Return the user to log in as."""
    return options.basic_auth_user or "root"


def with_password(options: ClientOptions) -> ClientOptions:
    """Return the options with the password of their user, as MySQL's own programs find it.

    It comes from the environment, the option file of the user, or is asked for on a terminal; "" without any. Raises
    UsageError for an option file that cannot be read.
    """
    if options.basic_auth_password is not None:
        return options
    user, password = user_of(options), os.environ.get(_PASSWORD)
    if password is None:
        password = password_in(_OPTION_FILE.expanduser())
    if password is None and sys.stdin.isatty() and sys.stderr.isatty():
        password = getpass.getpass(f"password of {user}: ", sys.stderr)
    return replace(options, basic_auth_user=user, basic_auth_password=password or "")


def password_in(file: Path) -> str | None:
    """Return the password that an option file of MySQL's programs gives in [client]; None without one.

    Raises UsageError for a file that cannot be read.
    """
    parser = configparser.RawConfigParser(allow_no_value=True, strict=False)
    try:
        parser.read_string(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"cannot be read: {reason_of(error)}", where=str(file)) from None
    except (ValueError, configparser.Error):
        raise UsageError(
            "is not a MySQL option file", where=str(file), hint="[client] and a line password=..."
        ) from None
    password = parser.get("client", "password", fallback=None)
    return None if password is None else password.strip("'\"")
