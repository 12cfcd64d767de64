"""The nodes that --keep-node left running: a file for each, by which it can be listed and ended.

    $ESBENCH_HOME/running/nodes/RACE-ID.NODE.json

The guard of a kept node holds the lock of its file, and removes the file when the node has ended, its logs are saved
and its folder is removed. A process is signalled only if it began when the file says so, never for its pid alone. The
file names no folder: a home may come from elsewhere, and what is removed or written follows from race and node.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from esbench.errors import EngineError, UsageError, did_you_mean
from esbench.features.node.folders import Folders
from esbench.features.node.guard import clean_up, end_group
from esbench.features.node.guarded import GRACE_S, GUARD_PATIENCE_S
from esbench.record.host import process_fields
from esbench.record.locks import is_held, is_running
from esbench.record.private import private_folder
from esbench.record.reading import read_stored
from esbench.record.store import LAST, RaceFolder, RaceStore, check_race_id, replace_file

_POLL_S = 0.05
_NAME = re.compile(r"node-\d{1,3}")


@dataclass(frozen=True)
class KeptNode:
    """A kept node. `group` is its process group, `processes` maps pids of it to `start_of` each."""

    race_id: str
    name: str
    distribution: str  # elasticsearch-7.10.2
    url: str
    heap_bytes: int
    kept_at: str  # a time of day, as records have it
    user: int  # a uid: of esbench, not of the node
    group: int
    processes: Mapping[int, str]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f'"{self.name}" is not the name of a node')
        check_race_id(self.race_id)

    @property
    def is_running(self) -> bool:
        """True if one of its processes is there, and no other that has got its pid."""
        return any(start and start_of(pid) == start for pid, start in self.processes.items())


class KeptNodes:
    """The kept nodes of an esbench home. `nodes` has a folder for each race, and in it one for each of its nodes."""

    def __init__(self, home: Path, nodes: Path | None = None) -> None:
        self._home = home
        self._folder = home / "running" / "nodes"
        self._nodes = Folders.of(home).nodes if nodes is None else nodes

    def file(self, race_id: str, name: str) -> Path:
        """Return the file of a node of a race; it need not exist."""
        return self._folder / f"{race_id}.{name}.json"

    def folder(self, node: KeptNode) -> Path:
        """Return the folder of a node, which is removed with it."""
        return self._nodes / node.race_id / node.name

    def logs(self, node: KeptNode) -> Path:
        """Return the folder of the race that a node's logs are saved to."""
        return RaceFolder(RaceStore(self._home).races_folder / node.race_id).logs / node.name

    def add(self, node: KeptNode) -> None:
        """Write the file of a node. Raises EngineError or RecordError if it cannot be written."""
        try:
            private_folder(self._folder)
        except OSError as error:
            raise EngineError(f"cannot be written: {error.strerror}", where=str(self._folder)) from error
        replace_file(self.file(node.race_id, node.name), json.dumps(asdict(node), indent=2).encode() + b"\n")

    def all(self) -> list[KeptNode]:
        """Return the kept nodes in the order in which they were kept. EngineError for a file that cannot be read."""
        found = []
        for file in self._folder.glob("*.json"):
            try:
                node = msgspec.json.decode(read_stored(file), type=KeptNode)
            except FileNotFoundError:  # ended meanwhile
                continue
            except (OSError, ValueError, RecursionError, UsageError) as error:
                raise EngineError("is not the file of a kept node", where=str(file), hint="remove it") from error
            if self.file(node.race_id, node.name) != file or node.group not in node.processes:
                raise EngineError("is the file of another node", where=str(file), hint="remove it")
            found.append(node)
        return sorted(found, key=lambda node: (node.kept_at, node.name))

    def named(self, text: str) -> list[KeptNode]:
        """Return the nodes that a text names: RACE, all of a race, or RACE/NODE. RACE is an id, its beginning or
        `last`.

        Raises UsageError if it names none, or nodes of several races.
        """
        nodes = self.all()
        race, slash, name = text.partition("/")
        ids = list(dict.fromkeys(node.race_id for node in nodes))
        if race == LAST:
            matches = ids[-1:]
        else:
            matches = [race] if race in ids else [each for each in ids if race and each.startswith(race.lower())]
        found = [node for node in nodes if node.race_id in matches and (not slash or node.name == name)]
        if not found:
            hint = did_you_mean(text, ids) if ids else "none is kept"
            raise UsageError(f'there is no kept node "{text}"', hint=hint)
        if len(matches) > 1:
            raise UsageError(f'"{text}" is the beginning of {len(matches)} races', hint=", ".join(matches[-5:]))
        return found

    def end(self, node: KeptNode, grace_s: float = GRACE_S) -> None:
        """End a node: SIGTERM, and SIGKILL after `grace_s`; return when its logs are saved and its folder is removed.

        Raises EngineError for a node of another user or of a race that is still running, and for one that does not end.
        """
        what = f"{node.name} of race {node.race_id}"
        if node.user != os.geteuid():
            raise EngineError(f"{what} belongs to another user (uid {node.user})")
        if is_running(self._home, node.race_id):
            raise EngineError(f"{what} is being raced", hint="end the race first")
        if node.is_running:
            end_group(node.group, grace_s)
        deadline = time.monotonic() + GUARD_PATIENCE_S
        while node.is_running or not self.clean_up(node):
            if time.monotonic() > deadline:
                raise EngineError(f"{what} does not end (pids {', '.join(map(str, node.processes))})")
            time.sleep(_POLL_S)

    def clean_up(self, node: KeptNode) -> bool:
        """Save the logs and remove the folder of a node that does not run, if its guard cannot do so any more.

        Returns False if that is left to the guard, or to another user; else True.
        """
        file = self.file(node.race_id, node.name)
        if node.user != os.geteuid() or is_held(file, remove=False):
            return False
        clean_up(self.folder(node), self.logs(node))
        file.unlink(missing_ok=True)
        return True


def start_of(pid: int) -> str:
    """Return the moment at which a process began, as text that no other process with this pid has; "" if it has ended.

    It is the id of the machine's boot, and the field starttime of /proc/PID/stat (proc(5)).
    """
    fields = process_fields(pid)
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    return "" if not fields or fields[0] in "ZX" else f"{boot} {fields[19]}"
