"""Paths as users write them: `~` and `~NAME` are home folders."""

from __future__ import annotations

from pathlib import Path

from esbench.errors import UsageError


def user_path(written: str | Path, where: str) -> Path:
    """Return a path with the home folder in place of `~` or `~NAME`; another path as it is.

    `where` is the option or variable that errors name. Raises UsageError if there is no such user or home folder.
    """
    try:
        return Path(written).expanduser()
    except RuntimeError:
        name = Path(written).parts[0].removeprefix("~")
        what = f'there is no user "{name}"' if name else "this user has no home folder"
        raise UsageError(what, where=where, hint="" if name else "set HOME") from None
