"""Repositories of tracks at a Git URL: fetched by the `git` of this host, each commit into its own folder.

    $ESBENCH_HOME/cache/tracks/NAME-HASH/COMMIT/NAME/    the files of a commit, which never change
                                         current         the commit that was fetched last

HASH stands for the URL and the revision. Nothing of a repository is run: its hooks are not, nor are git's transports
that start a command, and git never asks for a password.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from esbench.errors import UsageError
from esbench.record.private import private_folder
from esbench.record.reading import read_stored
from esbench.record.store import replace_file

REPOSITORY, REVISION = "--track-repository", "--track-revision"
RALLY_TRACKS = "https://github.com/elastic/rally-tracks"
RALLY_TRACK_NAMES = frozenset(
    """
    big5 cohere_vector dense_vector elastic/apm elastic/endpoint elastic/logs elastic/security elser-ingest-speedtest
    eql esql geonames geopoint geopointshape geoshape github_archive has_privileges has_privileges_bystander http_logs
    joins k8s_metrics metricbeat msmarco-passage-ranking msmarco-v2-vector nested noaa nyc_taxis openai_vector
    percolator pmc random_vector search/mteb/dbpedia so so_vector sql tsdb tsdb_k8s_queries wikipedia
    """.split()  # noqa: SIM905 - a list to read
)
_SCHEMES = ("https", "ssh", "file")
_URL = re.compile(rf"(?:{'|'.join(_SCHEMES)})://[^-\s]\S*|\w[\w.-]*@\w[\w.-]*:\S+")
_LOOKS_LIKE_URL = re.compile(r"[\w+.-]*:(?://|:)|[^/\s]+@[^/\s]+:")
_PASSWORD = re.compile(r"https://[^/@]*@|ssh://[^/@]*:[^/@]*@")
_REVISION = re.compile(r"[\w][\w./+-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ASK_S, _FETCH_S = 30, 900
_OPTIONS = {
    "core.hooksPath": os.devnull,
    "credential.interactive": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "http.lowSpeedLimit": "1000",  # bytes/s
    "http.lowSpeedTime": str(_ASK_S),
}


@dataclass(frozen=True)
class TrackRepository:
    """A folder of tracks; `commit` is that of its files if they were fetched from a URL, else empty."""

    folder: Path
    commit: str = ""


def is_url(repository: str) -> bool:
    """True for a Git URL, or what looks like one; False for a folder."""
    return _LOOKS_LIKE_URL.match(repository) is not None


def track_repository(
    repository: str | None,
    revision: str | None,
    home: Path,
    *,
    offline: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> TrackRepository | None:
    """Return the folder that --track-repository names, or that of its URL's commit, which is fetched if it is missing.

    `revision` is a branch, a tag or a whole commit of a URL, by default its main branch. None without a `repository`.
    `offline` takes the commit that was fetched last. Raises UsageError if that is missing, or git fails.
    """
    if repository is None or not is_url(repository):
        if revision is not None:
            raise UsageError("is for a Git URL", where=REVISION, hint=f"check it out, or {REPOSITORY}={RALLY_TRACKS}")
        return None if repository is None else TrackRepository(Path(repository))
    _check(repository, revision)
    last = re.split(r"[/:]", repository.rstrip("/"))[-1].removesuffix(".git")
    name = re.sub(r"[^\w.-]", "", last).strip(".-") or "tracks"
    key = hashlib.sha256(f"{repository}\0{revision or ''}".encode()).hexdigest()[:16]
    checkouts = _Checkouts(home / "cache" / "tracks" / f"{name}-{key}", name, repository, revision)
    try:
        commit = checkouts.last() if offline else checkouts.fetch(say)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(checkouts.root)) from error
    return TrackRepository(checkouts.root / commit / name, commit)


def _check(url: str, revision: str | None) -> None:
    if not _URL.fullmatch(url):
        hint = f"{', '.join(f'{scheme}://' for scheme in _SCHEMES)} or git@HOST:PATH"
        raise UsageError(f'"{url}" cannot be fetched', where=REPOSITORY, hint=hint)
    if _PASSWORD.match(url):
        raise UsageError(
            "a user or password in the URL would be stored with races",
            where=REPOSITORY,
            hint="leave it out: git's credential helpers know it",
        )
    if revision is not None and not _REVISION.fullmatch(revision):
        raise UsageError(f'"{revision}" is not a branch, tag or commit', where=REVISION)


@dataclass(frozen=True)
class _Checkouts:
    """The commits of a URL's revision that were fetched, each in a folder below `root`."""

    root: Path
    name: str
    url: str
    revision: str | None

    def last(self) -> str:
        """Return the commit that was fetched last. Raises UsageError if it is missing."""
        try:
            commit = read_stored(self.root / "current").decode("ascii", "replace").strip()
        except (OSError, ValueError):
            commit = ""
        if not _COMMIT.fullmatch(commit) or not (self.root / commit).is_dir():
            at = f" at {self.revision}" if self.revision else ""
            raise UsageError(
                f"{self.url}{at} was not fetched yet", where=REPOSITORY, hint="run it once without --offline"
            )
        return commit

    def fetch(self, say: Callable[[str], None]) -> str:
        """Return the commit that the revision has now, which is fetched unless it is there."""
        wanted, commit = self._asked()
        if not (self.root / commit).is_dir():
            say(f"fetching {self.url} ({commit[:12]})")
            commit = self._fetched(wanted)
        replace_file(self.root / "current", f"{commit}\n".encode())
        return commit

    def _asked(self) -> tuple[str, str]:
        """Return the name of the revision on the server, and its commit."""
        private_folder(self.root)
        if self.revision is not None and _COMMIT.fullmatch(self.revision):
            return self.revision, self.revision
        names = ("HEAD",) if self.revision is None else (f"refs/heads/{self.revision}", f"refs/tags/{self.revision}")
        # the commit of an annotated tag has a name of its own
        listed = self._git("ls-remote", "--", self.url, *(each for name in names for each in (name, f"{name}^{{}}")))
        commits = {name: commit for commit, _, name in (line.partition("\t") for line in listed.splitlines())}
        for name in names:
            if commit := commits.get(f"{name}^{{}}") or commits.get(name):
                return name, commit
        what = f'{self.url} has no branch or tag "{self.revision}"' if self.revision else f"{self.url} is empty"
        raise UsageError(what, where=REVISION if self.revision else REPOSITORY, hint="or give a whole commit")

    def _fetched(self, wanted: str) -> str:
        """Fetch a revision into the folder of its commit, and return the commit."""
        with tempfile.TemporaryDirectory(dir=self.root, prefix="fetching-", ignore_cleanup_errors=True) as folder:
            files = str(Path(folder) / self.name)
            self._git("init", "--quiet", "--template=", "--", files)
            self._git("-C", files, "fetch", "--quiet", "--depth=1", "--no-tags", "--", self.url, wanted)
            self._git("-C", files, "checkout", "--quiet", "--detach", "FETCH_HEAD")
            commit = self._git("-C", files, "rev-parse", "HEAD").strip()
            shutil.rmtree(Path(files) / ".git")
            try:
                Path(folder).rename(self.root / commit)
            except OSError:
                if not (self.root / commit).is_dir():  # else another process was faster
                    raise
        return commit

    def _git(self, *arguments: str) -> str:
        """Run git without prompts, hooks and transports that start commands, and return its output.

        Raises UsageError if it fails.
        """
        options = (word for name, value in _OPTIONS.items() for word in ("-c", f"{name}={value}"))
        try:
            done = subprocess.run(
                ["git", *options, *arguments],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_ASK_S if arguments[0] == "ls-remote" else _FETCH_S,
                check=False,
            )
        except FileNotFoundError:
            hint = f"install it, or download the tracks: {REPOSITORY}=FOLDER"
            raise UsageError("git is not installed", where=REPOSITORY, hint=hint) from None
        except subprocess.TimeoutExpired as error:
            raise self._failed(f"no answer within {error.timeout:g} s") from None
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            told = [line for line in said if line.startswith(("fatal:", "error:", "ERROR:"))]
            raise self._failed(next(iter(told or said), f"git ended with status {done.returncode}"))
        return done.stdout

    def _failed(self, reason: str) -> UsageError:
        text = re.sub(r"^(?:fatal|error|ERROR): ", "", reason.strip()).rstrip(".")
        has_one = (self.root / "current").exists()
        hint = "--offline uses what was fetched last" if has_one else ""
        return UsageError(f"{self.url} cannot be fetched: {text}", where=REPOSITORY, hint=hint)


def _environment() -> dict[str, str]:
    """Return this process's environment without what would lead git to another repository, and with no prompts."""
    ours = {name: value for name, value in os.environ.items() if name == "GIT_SSH_COMMAND" or name[:4] != "GIT_"}
    return {
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        **ours,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES),
        "LC_ALL": "C",
    }
