"""Unpacked servers: those of the catalog, put together from artifacts, and those that the user downloaded.

All nodes share them. Every user can read them and no user can change them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path, PurePosixPath

from esbench.errors import FREE_SPACE, EngineError, UsageError
from esbench.errors.user_paths import user_path
from esbench.events.progress import Progress
from esbench.features.node.catalog import SUFFIXES, Artifact, Distribution, Module
from esbench.features.node.download import Downloader
from esbench.features.node.folders import built_once, is_open_to_all
from esbench.features.node.server import inspect_server
from esbench.model import leaves_folder
from esbench.units import format_bytes

RECIPE = 1  # raise it when this module assembles something else from the same catalog
GROWING = ("data", "logs")  # of a user's own server: no part of it


def assemble(distribution: Distribution, downloader: Downloader, servers: Path) -> Path:
    """Return the folder of the unpacked server; download and build it if it is missing.

    EngineError if an artifact cannot be had, or the disk refuses.
    """
    target = servers / _folder_name(distribution)
    if target.is_dir():
        return target
    files = downloader.fetch(distribution.artifacts)
    doing, does = f"unpacking {distribution.name}", f"unpacks {distribution.name}"
    with built_once(target, downloader.progress, doing=doing, does=does) as work:
        if work is not None:
            _unpack(files[distribution.archive], work)
            _replace_jars(work, distribution, files)
            for module in distribution.modules:
                _add_module(work, distribution, module, files)
            share_read_only(work)
    return target


def is_assembled(distribution: Distribution, servers: Path) -> bool:
    """True if the server is unpacked already."""
    return (servers / _folder_name(distribution)).is_dir()


def _folder_name(distribution: Distribution) -> str:
    parts = (RECIPE, distribution.archive, distribution.replaces, distribution.modules)
    recipe = hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
    return f"{distribution.name}-{recipe}"


def _replace_jars(home: Path, distribution: Distribution, files: Mapping[Artifact, Path]) -> None:
    if not distribution.replaces:
        return
    for old, jar in distribution.replaces.items():
        (home / old).unlink()
        shutil.copyfile(files[jar], (home / old).with_name(jar.filename))
    for descriptor in home.glob("modules/*/plugin-descriptor.properties"):
        text = descriptor.read_text("utf-8")
        key = rf"^(version|{distribution.product}\.version)=.*$"
        descriptor.write_text(re.sub(key, rf"\1={distribution.version}", text, flags=re.MULTILINE), "utf-8")


def _add_module(home: Path, distribution: Distribution, module: Module, files: Mapping[Artifact, Path]) -> None:
    folder = home / "modules" / module.name
    folder.mkdir()
    for jar in module.jars:
        shutil.copyfile(files[jar], folder / jar.filename)
    (folder / "plugin-descriptor.properties").write_text(_descriptor(distribution, module), "utf-8")
    if module.grants:
        (folder / "plugin-security.policy").write_text(_policy(module), "utf-8")


def _descriptor(distribution: Distribution, module: Module) -> str:
    """Return the plugin-descriptor.properties of a module. Its version is the server's, which refuses any other."""
    lines = {
        "description": module.name,
        "version": distribution.version,
        "name": module.name,
        "classname": module.plugin_class,
        "java.version": "1.8",
        f"{distribution.product}.version": distribution.version,
        "extended.plugins": ",".join(module.extends),
        "has.native.controller": "false",
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _policy(module: Module) -> str:
    """Return the plugin-security.policy of a module, in the syntax of the Java security manager."""
    grants = "".join(f"  permission {grant};\n" for grant in module.grants)
    return f"grant {{\n{grants}}};\n"


def open_local(distribution: str, servers: Path, progress: Progress, *, for_all_users: bool) -> Path:
    """Return the unpacked server of a path: the folder itself, or a copy in `servers`.

    An archive is unpacked once per file; a folder is copied only if `for_all_users` is set and other users cannot enter
    it, and again if a file of it has changed. UsageError if there is no such folder or archive, EngineError if it holds
    no server.
    """
    path = user_path(distribution, distribution).absolute()
    if path.is_dir():
        inspect_server(path)
        if not for_all_users or is_open_to_all(path / "bin"):
            return path
    elif not path.is_file():
        raise UsageError("there is no such folder or archive", where=distribution)
    elif not path.name.lower().endswith(SUFFIXES):
        raise UsageError("this is not an archive of a server", where=distribution, hint=f"known: {', '.join(SUFFIXES)}")
    state = files_of(path) if path.is_dir() else [_state(path)]
    digest = hashlib.sha256("\n".join(state).encode()).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9.]+", "-", path.name)
    target = servers / f"local-{name}-{digest}"
    doing, does = f"unpacking {path.name}", f"unpacks {path.name}"
    with built_once(target, progress, doing=doing, does=does) as work:
        if work is not None:
            progress.say(f"unpacking {path.name}")
            if path.is_dir():
                shutil.copytree(path, work, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*GROWING))
            else:
                _unpack(path, work)
            inspect_server(work)
            share_read_only(work)
    return target


def files_of(home: Path) -> Iterator[str]:
    """Yield path, size and time of the files of a user's own server, so that a changed file makes another server."""
    for path in sorted(home.rglob("*")):
        if path.is_file() and path.relative_to(home).parts[0] not in GROWING:
            yield _state(path)


def _state(path: Path) -> str:
    facts = path.stat()
    return f"{path} {facts.st_size} {facts.st_mtime_ns}"


def _refuse_outside(members: Collection[tarfile.TarInfo], archive: Path) -> None:
    """Raise an EngineError for a member that is written, or a link that leads, outside of the archive's folder.

    None may lead through a link either: only the file system knows where that ends.
    """
    links = {os.path.normpath(member.name) for member in members if member.issym() or member.islnk()}
    for member in members:
        names = [PurePosixPath(member.name)]
        if member.issym():
            names.append(names[0].parent / member.linkname)
        elif member.islnk():
            names.append(PurePosixPath(member.linkname))
        ways = {os.path.normpath(folder) for name in names for folder in name.parents}
        if member.islnk():
            ways.add(os.path.normpath(member.linkname))
        if member.isdev() or any(leaves_folder(str(name)) for name in names) or not links.isdisjoint(ways):
            raise EngineError(f"{member.name} leads out of the archive", where=str(archive))


def check_room(archive: Path, sizes: Iterable[int], into: Path) -> None:
    """Raise an EngineError as soon as the sizes of an archive's files, in bytes, are more than the disk has free."""
    free = shutil.disk_usage(into).free
    if any(total > free for total in accumulate(sizes)):
        raise EngineError(
            f"unpacked it has more than the {format_bytes(free)} that are free in {into}",
            where=str(archive),
            hint=FREE_SPACE,
        )


def _unpack(archive: Path, into: Path) -> None:
    """Unpack what is in an archive's single top folder into an empty folder. EngineError if it is unreadable."""
    try:
        if archive.name.endswith(".zip"):
            _unpack_zip(archive, into)
        else:
            with tarfile.open(archive) as tar:
                check_room(archive, (member.size for member in tar), into)
                _refuse_outside(tar.getmembers(), archive)
                tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)  # from Python 3.11.4
                tar.extractall(into)  # each member was checked  # nosec B202
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError) as error:
        raise EngineError("not a readable archive", where=str(archive), hint="download it again") from error
    tops = [entry for entry in into.iterdir() if entry.is_dir()]
    if len(tops) != 1:
        raise EngineError("the archive does not hold one folder with a server", where=str(archive))
    for entry in list(tops[0].iterdir()):
        entry.rename(into / entry.name)
    tops[0].rmdir()


def share_read_only(folder: Path) -> None:
    """Make a folder readable (and its programs runnable) by every user, and its files read-only.

    Folders stay deletable.
    """
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink():
            continue
        if path.is_dir():
            path.chmod(0o755)
        else:
            path.chmod(0o555 if path.stat().st_mode & stat.S_IXUSR else 0o444)


def _unpack_zip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as source:
        check_room(archive, (entry.file_size for entry in source.infolist()), into)
        for entry in source.infolist():
            path = Path(source.extract(entry, into))
            mode = entry.external_attr >> 16
            if mode and path.is_file():
                path.chmod(stat.S_IMODE(mode) | stat.S_IRUSR)
