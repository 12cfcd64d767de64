"""Open files: each connection of a client is one, and the system limits how many a process may have."""

from __future__ import annotations

import errno
import resource

from esbench.errors import RaceError

_OTHERS = 60  # of a load worker without clients: its pipe, its event loop, files of documents, libraries


def raise_limit() -> None:
    """Raise the soft limit of this process and those that it starts, 1024 on most hosts, to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        pass  # macOS has a lower limit for a process, though the hard one is unlimited


def hard_limit() -> int | None:
    """Return the most files that a process may have open; None without a limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if hard == resource.RLIM_INFINITY else hard


def require_for(clients: int, connections: int, limit: int | None, where: str) -> None:
    """Raise a RaceError when the clients of one load worker need more open files than `limit` (None: no limit).

    `connections`: those of all of them. `where` names their tasks in the error.
    """
    needed = connections + _OTHERS
    if limit is not None and needed > limit:
        what = f"{clients:,} clients of a load worker need {needed:,} open files, the limit is {limit:,}"
        raise RaceError(what, where=where, hint=f"ulimit -n {1 << (needed - 1).bit_length()}")


def are_exhausted(error: Exception) -> bool:
    """True if an error says that this process, or its host, can open no further file."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def exhausted() -> RaceError:
    """Return the error of a load worker that can open no further connection."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    what = f"a load worker cannot open another connection: its limit is {soft:,} open files"
    return RaceError(what, hint="raise it (ulimit -n), and see that the host has more (sysctl fs.file-max)")
