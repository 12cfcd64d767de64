"""Download of Maven artifacts into the cache: whole and with the right sha256, or not at all."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from esbench.errors import EngineError, hint_to_install
from esbench.events.progress import Progress
from esbench.features.node.catalog import Artifact
from esbench.features.node.folders import disk_errors, locked, open_folder

if TYPE_CHECKING:
    from jgo.maven import MavenContext

TIMEOUT_S = 30


def is_downloaded(artifacts: Iterable[Artifact], downloads: Path) -> bool:
    """True if the file of every artifact is in the cache; whether it is intact is not checked."""
    return all((downloads / artifact.cached_as).is_file() for artifact in artifacts)


class Downloader:
    """A cache of artifacts that downloads what is missing. Of several processes, one downloads and the others wait.

    With `offline`, a missing artifact is an error.
    """

    def __init__(
        self,
        cache: Path,
        progress: Progress,
        *,
        offline: bool = False,
        repositories: Mapping[str, str] | None = None,
    ) -> None:
        """`repositories` maps names to URLs of Maven repositories; None means the resolver's default."""
        self.cache = cache
        self.progress = progress
        self.offline = offline
        self.repositories = repositories

    def fetch(self, artifacts: Iterable[Artifact]) -> dict[Artifact, Path]:
        """Return the file of each artifact; download those that are missing or damaged in the cache.

        EngineError if one cannot be downloaded or written, has another sha256, or is missing offline.
        """
        files = {artifact: self.cache / artifact.cached_as for artifact in artifacts}

        def missing() -> list[Artifact]:
            return [artifact for artifact, path in files.items() if not _is_intact(artifact, path)]

        with disk_errors("writing to the cache of distributions", self.cache):
            if missing():
                with locked(self.cache / ".lock", self.progress, "downloads"):
                    self._download(missing())
        return files

    def _download(self, artifacts: list[Artifact]) -> None:
        if not artifacts:
            return
        if self.offline:
            raise EngineError(
                f"--offline: {artifacts[0].filename} has not been downloaded yet",
                where=str(self.cache),
                hint="run once without --offline",
            )
        try:
            from jgo.maven import MavenContext, PythonResolver
        except ImportError:
            raise EngineError("downloading a node needs the package jgo", hint=hint_to_install("embedded")) from None
        logging.getLogger("jgo").setLevel(logging.ERROR)  # its checksum warning; the check below is stricter
        others = f" and {len(artifacts) - 1} more" if len(artifacts) > 1 else ""
        self.progress.say(f"downloading {artifacts[0].filename}{others}")
        partial = self.cache / ".partial"
        shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
        context = MavenContext(
            resolver=PythonResolver(progress_callback=self.progress.download),
            repo_cache=partial,
            remote_repos=dict(self.repositories) if self.repositories is not None else None,
            timeout=TIMEOUT_S,
        )
        try:
            for artifact in artifacts:
                path = _resolve(context, artifact)
                target = self.cache / artifact.cached_as
                open_folder(target.parent)
                path.replace(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _resolve(context: MavenContext, artifact: Artifact) -> Path:
    """Download an artifact to the context's folder. EngineError if it is truncated, altered or not available."""
    component = context.project(artifact.group, artifact.artifact).at_version(artifact.version)
    try:
        path = Path(component.artifact(packaging=artifact.packaging).resolve())
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's, not the network's: requests' errors carry no errno
        raise _failed(artifact, error) from error
    if not _is_intact(artifact, path):
        raise EngineError(
            f"checksum mismatch: the sha256 of the downloaded {artifact.filename} is not {artifact.sha256[:12]}...",
            hint="nothing was kept; run it again. If it happens again, a proxy may be altering downloads",
        )
    return path


def _failed(artifact: Artifact, error: Exception) -> EngineError:
    reason = str(error).split("\n")[0]
    if isinstance(error, RuntimeError):
        return EngineError(f"{artifact.filename} was not found in the Maven repositories", hint=reason[:200])
    return EngineError(
        f"{artifact.filename} could not be downloaded: {type(error).__name__}",
        hint="check the network and its proxy settings, or name a downloaded archive with --distribution",
    )


def _is_intact(artifact: Artifact, path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256
