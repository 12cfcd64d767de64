"""Files on a load host: what a step's workers read there is copied once, or made there if it is generated.

A file below $ESBENCH_HOME has the same place below that of the load host, where a later race finds it by its size,
time of change and sum. All others (certificates, files of variables, a track's Python) are copied for one race, into a
folder that only its owner can read and that is removed with the race. Several hosts may share one home folder: each has
its own folder for the race, and writes a file under its own name until it is complete.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.cluster.options import Host
from esbench.corpus.archives import ending_of
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import RaceError
from esbench.features.hosts.sums import FileSums
from esbench.load.messages import Assignment, PackedView, Prepare, Stock, Target
from esbench.load.senders import Sender, sender_to
from esbench.model import Corpus, Task, TrackFile
from esbench.record.private import open_private, private_folder

if TYPE_CHECKING:
    from esbench.features.hosts.agent import Agent

_CHUNK_BYTES = 4 << 20
_LEFT_OUT = {"__pycache__", "node_modules"}
_CERTIFICATES = ("ca_certs", "client_cert", "client_key")


@dataclass(frozen=True)
class WantedFile:
    """A file that a host must have at `path`; `sha256` in hexadecimal digits, "" of no file that is known."""

    path: Path
    size_bytes: int
    mtime_ns: int
    sha256: str = ""


class ReceivedFiles:
    """The files of a race that arrive on this host, below its home folder; other places are refused."""

    def __init__(self, home: Path, folder: Path) -> None:
        """`folder` is the one of the race on this host, below `home`."""
        self._home = home
        self._ending = f"{folder.name}-{secrets.token_hex(4)}"  # of incomplete files: of this host and race alone
        self._incomplete: set[Path] = set()
        self._sums = FileSums(sums_folder(home))

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return those of the files that are not here: another size, time of change or content is another file."""
        return [file for file in files if not self._is_here(file)]

    def _is_here(self, file: WantedFile) -> bool:
        try:
            found = file.path.stat()
            is_like_it = (found.st_size, found.st_mtime_ns) == (file.size_bytes, file.mtime_ns)
            return is_like_it and self._sums.of(file.path) == file.sha256
        except OSError:
            return False

    def write(self, file: WantedFile, chunk: bytes, is_last: bool) -> None:
        """Append a chunk to a file that is lacking. Raises RaceError if it cannot be written, or if its sum is wrong.

        The file gets its name with the last chunk.
        """
        if not file.path.is_relative_to(self._home) or ".." in file.path.parts:
            raise RaceError(f"{file.path} is not below {self._home}", where="load host")
        partial = file.path.with_name(f".{file.path.name}.{self._ending}")
        self._incomplete.add(partial)
        try:
            private_folder(partial.parent)
            with open_private(partial, "ab") as out:
                out.write(chunk)
            if is_last:
                with partial.open("rb") as written:
                    found = hashlib.file_digest(written, "sha256").hexdigest()
                if found != file.sha256:
                    partial.unlink()
                    raise RaceError(f"{file.path} arrived damaged, or was changed on the way", where="load host")
                os.utime(partial, ns=(file.mtime_ns, file.mtime_ns))
                partial.replace(file.path)
                self._incomplete.discard(partial)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise RaceError(f"cannot write {file.path}: {error.strerror}", where="load host") from error

    def discard_incomplete(self) -> None:
        """Delete what has arrived of files whose end has not."""
        while self._incomplete:
            self._incomplete.pop().unlink(missing_ok=True)


def sums_folder(home: Path) -> Path:
    """Return where the sums of files of a host are kept."""
    return home / "cache" / "sums"


def _certificates(target: Target) -> dict[str, Path]:
    given = {name: getattr(target.options, name) for name in _CERTIFICATES}
    return {name: Path(path).absolute() for name, path in given.items() if path is not None}


class Places:
    """The places of this host's files on a load host: below the same home folder, or in the folder of the race."""

    def __init__(self, ours: Path, theirs: Path, race: str) -> None:
        """`ours` and `theirs` are the home folders, `race` the path of the race's folder in `load-host` there."""
        self.ours = ours
        self._theirs = theirs
        self._folder = theirs / "load-host" / race / "files"
        self._folders: dict[Path, Path] = {}

    def keep_together(self, folder: Path) -> None:
        """Let the files below a folder have their places below that of the folder."""
        self._folders.setdefault(folder, self.of(folder))

    def of(self, path: Path) -> Path:
        """Return the place of a file or folder on the load host."""
        if path.is_relative_to(self.ours):
            return self._theirs / path.relative_to(self.ours)
        for folder, place in self._folders.items():
            if path.is_relative_to(folder):
                return place / path.relative_to(folder)
        return self._folder / hashlib.sha256(str(path).encode()).hexdigest()[:16] / path.name


class CopiedFiles:
    """Copies the files of steps to one load host, and maps local paths and names to remote ones."""

    def __init__(self, agent: Agent, places: Places) -> None:
        self._agent = agent
        self._places = places
        self._sums = FileSums(sums_folder(places.ours))
        self._brought: set[Path] = set()
        self._hosts: dict[tuple[Host, ...], tuple[Host, ...]] = {}

    async def bring(self, message: Prepare) -> Prepare:
        """Bring the files that a step needs; return its message with their places on the host.

        Raises an EsbenchError for a file that cannot be read here, or written or made there.
        """
        stock, target, assignments = message.stock, message.target, message.assignments
        certificates = [path for each in target.clusters.values() for path in _certificates(each).values()]
        folders = () if stock.view is None else (stock.view.root, stock.view.libraries)
        new = [folder for folder in folders if folder is not None and folder not in self._brought]
        for folder in new:
            self._places.keep_together(folder)
        made = [each for each in stock.documents if each.generate is not None]
        for documents in made:
            if documents.path not in self._brought:
                await self._agent.make(self._moved(documents))
                self._brought.add(documents.path)
        trees = chain.from_iterable(_tree(folder, stock.corpora) for folder in new)
        declared = (*stock.variables, *chain.from_iterable(each.task.operation.variables for each in assignments))
        lists = [Path(each.params["path"]) for each in declared if "path" in each.params]
        lists += [file.path for each in assignments for file in _track_files(each.task)]
        await self._copy((*certificates, *_files_of(stock, sender_to(target)), *lists, *trees))
        self._brought.update(new)
        return replace(
            message,
            assignments=tuple(self._assignment(each) for each in assignments),
            target=await self._reached(target),
            stock=replace(
                stock,
                documents=tuple(self._moved(each) for each in stock.documents),
                variables=tuple(self._variable(each) for each in stock.variables),
                view=None if stock.view is None else self._view(stock.view),
            ),
        )

    async def _reached(self, target: Target) -> Target:
        """Return a target as the load host reaches it: with its own addresses and places of certificates."""
        moved: dict[str, Any] = {name: str(self._places.of(path)) for name, path in _certificates(target).items()}
        others = {name: await self._reached(other) for name, other in target.others.items()}
        hosts, options = await self._resolved(target.hosts), replace(target.options, **moved)
        return replace(target, hosts=hosts, options=options, others=others)

    async def _resolved(self, hosts: tuple[Host, ...]) -> tuple[Host, ...]:
        """Return the hosts of a cluster with the addresses that their names have on the load host."""
        if hosts not in self._hosts:
            names = tuple(dict.fromkeys(replace(host, address="") for host in hosts))
            self._hosts[hosts] = await self._agent.resolve(names) if names != hosts else hosts
        return self._hosts[hosts]

    def _moved(self, documents: PreparedDocuments) -> PreparedDocuments:
        return documents.moved(self._places.of)

    def _assignment(self, assignment: Assignment) -> Assignment:
        task = assignment.task
        variables = tuple(self._variable(each) for each in task.operation.variables)
        params = {name: self._track_file(value) for name, value in task.operation.params.items()}
        if (recorded := task.schedule.recorded) is not None:
            recorded = replace(recorded, file=self._track_file(recorded.file))
        operation = replace(task.operation, variables=variables, params=params)
        schedule = replace(task.schedule, recorded=recorded)
        return replace(assignment, task=replace(task, operation=operation, schedule=schedule))

    def _track_file(self, value: Any) -> Any:
        return replace(value, path=self._places.of(value.path)) if isinstance(value, TrackFile) else value

    def _variable(self, variable: Any) -> Any:
        if "path" not in variable.params:
            return variable
        path = self._places.of(Path(variable.params["path"]))
        return replace(variable, params={**variable.params, "path": str(path)})

    def _view(self, view: PackedView) -> PackedView:
        libraries = None if view.libraries is None else self._places.of(view.libraries)
        return replace(view, root=self._places.of(view.root), libraries=libraries, moved=self._places.of)

    async def _copy(self, paths: Iterable[Path]) -> None:
        wanted = {}
        for path in paths:
            if path not in self._brought:
                found, place = path.stat(), self._places.of(path)
                sha256 = await asyncio.to_thread(self._sums.of, path)
                wanted[place] = path, WantedFile(place, found.st_size, found.st_mtime_ns, sha256)
        if not wanted:
            return
        for file in await self._agent.lacking([file for _, file in wanted.values()]):
            await self._send(wanted[file.path][0], file)
        self._brought.update(path for path, _ in wanted.values())

    async def _send(self, path: Path, file: WantedFile) -> None:
        left = file.size_bytes
        with path.open("rb") as content:
            while True:
                chunk = content.read(_CHUNK_BYTES)
                left -= len(chunk)
                is_last = not chunk or left <= 0
                await self._agent.write(file, chunk, is_last)
                if is_last:
                    return


def _files_of(stock: Stock, sender: Sender) -> Iterator[Path]:
    """Yield the files of documents that workers read, but those that are generated again.

    Each may come twice.
    """
    for documents in (file for each in stock.documents for file in each.files):
        if documents.generate is None:
            if documents.streamed is None:
                yield from (documents.path, documents.offsets_path)
            else:
                yield documents.streamed.path
                if documents.offsets_path.exists():
                    yield documents.offsets_path
        yield from sender.files(documents)


def _tree(folder: Path, corpora: Sequence[Corpus]) -> Iterator[Path]:
    """Yield the files of a track's folder or of its packages; not hidden ones, nor document files, packed or not."""
    named = [Path(part.source_file).name for corpus in corpora for part in corpus.documents if part.source_file]
    documents = {*named, *(name.removesuffix(ending_of(name)) for name in named)}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        is_left_out = any(part in _LEFT_OUT or part.startswith(".") for part in inside)
        if path.is_file() and not is_left_out and path.name not in documents:
            yield path


def _track_files(task: Task) -> list[TrackFile]:
    recorded = task.schedule.recorded
    values = (*task.operation.params.values(), None if recorded is None else recorded.file)
    return [value for value in values if isinstance(value, TrackFile)]
