"""Servers that the user downloaded: a folder or an archive of any Elasticsearch or OpenSearch."""

from __future__ import annotations

import re
import shutil
from collections.abc import Container
from pathlib import Path

from esbench.engine.archives import SUFFIXES, share_read_only, unpack
from esbench.engine.folders import built_once, disk_errors, is_open_to_all
from esbench.engine.server import inspect_server
from esbench.errors import UsageError
from esbench.events.progress import Progress


def is_path(distribution: str, catalog: Container[str]) -> bool:
    """True if a --distribution is a file or folder. A name of the catalog wins over a folder of the same name."""
    if "/" in distribution or distribution.lower().endswith(SUFFIXES):
        return True
    return distribution not in catalog and Path(distribution).is_dir()


def open_local(distribution: str, servers: Path, progress: Progress, *, for_all_users: bool) -> Path:
    """Return the unpacked server of a path: the folder itself, or a copy in `servers`.

    An archive is unpacked once per file; a folder is copied only if `for_all_users` is set and other users cannot enter
    it.
    """
    path = Path(distribution).expanduser().absolute()
    if path.is_dir():
        inspect_server(path)
        if not for_all_users or is_open_to_all(path / "bin"):
            return path
    elif not path.is_file():
        raise UsageError("there is no such folder or archive", where=distribution)
    elif not path.name.lower().endswith(SUFFIXES):
        raise UsageError("this is no archive of a server", where=distribution, hint=f"known: {', '.join(SUFFIXES)}")
    facts = path.stat()
    name = re.sub(r"[^A-Za-z0-9.]+", "-", path.name)
    target = servers / f"local-{name}-{facts.st_size}-{facts.st_mtime_ns}"

    def waiting() -> None:
        progress.say(f"waiting for another esbench that unpacks {path.name}")

    with disk_errors(f"unpacking {path.name}", servers), built_once(target, waiting) as work:
        if work is not None:
            progress.say(f"unpacking {path.name}")
            if path.is_dir():
                shutil.copytree(path, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns("data", "logs"))
            else:
                top = unpack(path, work)
                for entry in list(top.iterdir()):
                    entry.rename(work / entry.name)
                top.rmdir()
            inspect_server(work)
            share_read_only(work)
    return target
