"""The Python packages that a track's code depends on: finding them, and installing them on request.

They are installed into a separate folder, which comes last on the path, so that no package of esbench is replaced.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import invalidate_caches, metadata
from importlib.util import find_spec
from pathlib import Path

from esbench.errors import DependencyError
from esbench.record.private import private_folder
from esbench.track.document import DocumentNode

_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:$|[\[<>=!~;@ ])")
_URL = re.compile(r"(?:(?P<vcs>[a-z]+)\+)?(?P<url>[a-z]+://[^#\s]+)(?:#\S*)?")
_TIME_LIMIT_S = 1800


@dataclass(frozen=True)
class Libraries:
    """The folder of packages for tracks; `install`: missing ones are installed there by pip. `say` shows a message."""

    folder: Path
    install: bool = False
    say: Callable[[str], None] = lambda text: None

    def provide(self, dependencies: DocumentNode | None) -> None:
        """Make the `dependencies` of a track importable: add the folder to `sys.path`, and install what is missing.

        Raises DependencyError for missing ones unless `install`, TrackError if pip cannot install them or if one names
        no package.
        """
        if str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))
        missing = missing_dependencies(dependencies)
        if not missing or dependencies is None:
            return
        if not self.install:
            plural = "s" if len(missing) > 1 else ""
            raise DependencyError(
                f"the track needs the Python package{plural} {', '.join(missing)}",
                where=dependencies.where,
                hint="esbench race --install-dependencies installs what is missing",
            )
        private_folder(self.folder)  # what lies in it is imported
        self.say(f"installing {', '.join(missing)} for the track")
        try:
            done = subprocess.run(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--upgrade",
                    f"--target={self.folder}",
                    *missing,
                ],
                capture_output=True,
                text=True,
                timeout=_TIME_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            dependencies.fail(f"pip did not install {', '.join(missing)} within {_TIME_LIMIT_S // 60} minutes")
        if done.returncode:
            dependencies.fail(f"pip cannot install {', '.join(missing)}: {_reason(done.stderr)}")
        invalidate_caches()
        if still := missing_dependencies(dependencies):
            dependencies.fail(f"pip has installed them, and they are not there: {', '.join(still)}")


def _reason(said: str) -> str:
    """Return the reason why pip failed, in one line: the last line of the package's build, or pip's first error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ends = [number for number, line in enumerate(lines) if line.startswith("[end of output]")]
    if ends and ends[0]:
        return lines[ends[0] - 1]
    errors = [line for line in lines if "error" in line.lower()]  # a warning of a retry may name one, too
    told = next((line for line in errors if line.startswith("ERROR")), errors[0] if errors else None)
    return told or (lines[-1] if lines else "no reason")


def libraries_folder(home: Path) -> Path:
    """Return the folder in which packages for tracks are installed, for this version of Python."""
    return home / "libraries" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def missing_dependencies(dependencies: DocumentNode | None) -> tuple[str, ...]:
    """Return those of a track's `dependencies` of which no version is installed, as the track spells them.

    Wanted versions are not compared. Empty for None and for what is not a list; raises TrackError for a text that names
    no package.
    """
    if dependencies is None or not isinstance(dependencies.value, list):  # the structure is checked elsewhere
        return ()
    return tuple(spec.value for spec in dependencies if not _is_installed(spec))


def _is_installed(spec: DocumentNode) -> bool:
    if (address := _URL.fullmatch(str(spec.value).strip())) is not None:
        url = re.sub(r"@[^/]*$", "", address["url"]) if address["vcs"] else address["url"]
        return any(_origin(distribution) == url for distribution in metadata.distributions())
    name = _NAME.match(str(spec.value))
    if name is None:
        spec.fail(f'"{spec.value}" names no Python package', 'say "numpy", "numpy==2.0" or the URL of a package')
    try:
        metadata.version(name[1])
    except metadata.PackageNotFoundError:
        # a package of another name may have the module: pytrec_eval-terrier has pytrec_eval
        module = find_spec(re.sub(r"[-.]", "_", name[1]))
        return module is not None and module.origin is not None  # a folder of that name is no module
    return True


def _origin(distribution: metadata.Distribution) -> str | None:
    """Return the URL that a package was installed from (PEP 610); None for a package from an index."""
    said = distribution.read_text("direct_url.json")
    return None if said is None else json.loads(said).get("url")
