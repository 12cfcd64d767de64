"""Server plugins from archives of a user: reading, checking and installing them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from esbench.errors import EngineError, UsageError
from esbench.errors.reasons import reason_of
from esbench.events.progress import Progress
from esbench.features.node.folders import built_once
from esbench.features.node.server import Server, inspect_server
from esbench.features.node.unpacked import GROWING, check_room, files_of, share_read_only
from esbench.model import leaves_folder

_FLAG = "--node-plugins"
_DESCRIPTOR = "plugin-descriptor.properties"
_DESCRIPTOR_BYTES = 1 << 20  # real ones have one KB
_TOPS = ("", "elasticsearch/")  # up to 6.2 all of an archive is in a folder
_LINE = re.compile(r"^\s*([\w.]+)\s*[=:]\s*(.*?)\s*$", re.MULTILINE)
_NAME = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class Plugin:
    """An archive of a plugin.

    `servers` holds the product and version that it was built for; `top` is the folder of the archive that holds its
    files.
    """

    archive: Path
    name: str
    version: str
    servers: tuple[tuple[str, str], ...]
    top: str
    digest: str  # sha256

    def check(self, product: str, version: str) -> None:
        """Raise a UsageError if the plugin is for another server.

        One that names no server (some of OpenSearch's) passes.
        """
        wanted = dict(self.servers)
        if wanted and wanted.get(product) != version:
            ((other, number),) = wanted.items()
            names = (number, version) if other == product else (f"{other}-{number}", f"{product}-{version}")
            what = f'plugin "{self.name}" is for {names[0]}, the node is {names[1]}'
            raise UsageError(what, where=f"{_FLAG}={self.archive}")

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.digest[:12]})"


def read_plugins(archives: Sequence[Path]) -> tuple[Plugin, ...]:
    """Read the plugins in archives, sorted by name, without unpacking.

    UsageError for a file that is not a plugin archive, and for two plugins of one name.
    """
    plugins = sorted((_read(archive.expanduser().absolute()) for archive in archives), key=lambda one: one.name)
    for plugin, other in pairwise(plugins):
        if plugin.name == other.name:
            raise UsageError(f'plugin "{plugin.name}" is given twice', where=_FLAG)
    return tuple(plugins)


def _read(path: Path) -> Plugin:
    where = f"{_FLAG}={path}"
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            top = next((top for top in _TOPS if f"{top}{_DESCRIPTOR}" in names), None)
            text = "" if top is None else _beginning(archive, f"{top}{_DESCRIPTOR}")
    except OSError as error:
        raise UsageError(f"cannot be read: {reason_of(error)}", where=where) from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise UsageError("is not a zip archive of a plugin", where=where) from error
    if top is None:
        raise UsageError(f"is not an archive of a plugin: it has no {_DESCRIPTOR}", where=where)
    if outside := [name for name in names if not _stays_inside(name)]:
        raise UsageError(f"has a file that would leave the plugin's folder: {outside[0]}", where=where)
    facts = dict(_LINE.findall(text))
    if not _NAME.fullmatch(facts.get("name", "")):
        raise UsageError(f"is not an archive of a plugin: its {_DESCRIPTOR} has no name", where=where)
    servers = tuple(
        (product, facts[f"{product}.version"])
        for product in ("elasticsearch", "opensearch")
        if facts.get(f"{product}.version")
    )
    return Plugin(path, facts["name"], facts.get("version", ""), servers[:1], top, digest)


def _beginning(archive: zipfile.ZipFile, name: str) -> str:
    with archive.open(name) as file:
        return file.read(_DESCRIPTOR_BYTES).decode("utf-8", errors="replace")


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


def with_plugins(server: Server, plugins: Collection[Plugin], servers: Path, progress: Progress) -> Server:
    """Return a server that has the plugins: a copy of `server` in its own folder. `server` stays unchanged.

    Without plugins it is `server` itself. UsageError if the server has one of them already.
    """
    if not plugins:
        return server
    for plugin in plugins:
        if plugin.name in server.plugins:
            raise UsageError(f'the node has a plugin "{plugin.name}" already', where=_FLAG)
    shared = server.home.parent == servers  # read-only: its files may be the same ones
    parts = [str(server.home), *(plugin.digest for plugin in plugins), *([] if shared else files_of(server.home))]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    target = servers / f"plugins-{digest}-{server.home.name}"

    with built_once(target, progress, doing="installing plugins", does="installs the plugins") as work:
        if work is not None:
            shutil.copytree(
                server.home,
                work,
                symlinks=True,
                dirs_exist_ok=True,
                copy_function=_link if shared else shutil.copy2,
                ignore=None if shared else shutil.ignore_patterns(*GROWING),
            )
            for plugin in plugins:
                _install(plugin, work)
            share_read_only(work)
    return inspect_server(target)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another user's file
        shutil.copy2(source, target)


def _install(plugin: Plugin, home: Path) -> None:
    """Unpack a plugin as the server's own installer does, with its `bin` and `config` beside those of the server."""
    folder = home / "plugins" / plugin.name
    folder.mkdir(parents=True)
    with zipfile.ZipFile(plugin.archive) as archive:
        check_room(plugin.archive, (entry.file_size for entry in archive.infolist()), folder)
        for entry in archive.infolist():
            if entry.filename.startswith(plugin.top) and not entry.is_dir():
                name = entry.filename.removeprefix(plugin.top)
                if leaves_folder(name):
                    raise EngineError(f'its entry "{entry.filename}" leads out of it', where=str(plugin.archive))
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as packed, path.open("wb") as file:
                    shutil.copyfileobj(packed, file)
    for name in ("bin", "config"):
        if (folder / name).is_dir():
            (folder / name).rename(home / name / plugin.name)
    for program in (home / "bin" / plugin.name).rglob("*"):
        program.chmod(0o755)
