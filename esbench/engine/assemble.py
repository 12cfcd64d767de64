"""Assembly of a server of the catalog from its artifacts, once, in a folder that all nodes share."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from esbench.engine.archives import share_read_only, unpack
from esbench.engine.catalog import Artifact, Distribution, Module
from esbench.engine.download import Downloader
from esbench.engine.folders import built_once, disk_errors

RECIPE = 1  # raise it when this module assembles something else from the same catalog


def assemble(distribution: Distribution, downloader: Downloader, servers: Path, left_out: tuple[str, ...]) -> Path:
    """Return the folder of the unpacked server without the modules `left_out`; download and build it if missing."""
    target = servers / _folder_name(distribution, left_out)
    if target.is_dir():
        return target
    files = downloader.fetch(distribution.artifacts)

    def waiting() -> None:
        downloader.progress.say(f"waiting for another esbench that unpacks {distribution.name}")

    with disk_errors(f"unpacking {distribution.name}", servers), built_once(target, waiting) as work:
        if work is not None:
            top = unpack(files[distribution.archive], work)
            for entry in list(top.iterdir()):
                entry.rename(work / entry.name)
            top.rmdir()
            _replace_jars(work, distribution, files)
            for module in distribution.modules:
                if module.name not in left_out:
                    _add_module(work, distribution, module, files)
            for name in left_out:
                shutil.rmtree(work / "modules" / name, ignore_errors=True)
            share_read_only(work)
    return target


def is_assembled(distribution: Distribution, servers: Path) -> bool:
    """True if the server is unpacked already, with all of its modules or without those left out on a reduced Java."""
    variants = {distribution.left_out_on(thai_break_iterator=full) for full in (True, False)}
    return any((servers / _folder_name(distribution, left_out)).is_dir() for left_out in variants)


def _folder_name(distribution: Distribution, left_out: tuple[str, ...]) -> str:
    parts = (RECIPE, distribution.archive, distribution.replaces, distribution.modules, left_out)
    recipe = hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
    without = "".join(f"-without-{name}" for name in left_out)
    return f"{distribution.name}{without}-{recipe}"


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
    (folder / "plugin-descriptor.properties").write_text(descriptor(distribution, module), "utf-8")
    if module.grants:
        (folder / "plugin-security.policy").write_text(policy(module), "utf-8")


def descriptor(distribution: Distribution, module: Module) -> str:
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


def policy(module: Module) -> str:
    """Return the plugin-security.policy of a module, in the syntax of the Java security manager."""
    grants = "".join(f"  permission {grant};\n" for grant in module.grants)
    return f"grant {{\n{grants}}};\n"
