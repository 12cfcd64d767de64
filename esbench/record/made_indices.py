"""The indices that races of a home made in a cluster: a file for each cluster, which only grows.

A line is a JSON object of `uuid`, `index` and `race`. An index that is deleted leaves its line behind: no other index
gets its UUID.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from esbench.errors import RecordError
from esbench.record.private import open_private, private_folder

_UUID = re.compile(r"[A-Za-z0-9_-]{4,64}")  # it names a file


class MadeIndices:
    """The memory of a home for one cluster; a cluster without a UUID is not remembered."""

    def __init__(self, home: Path, cluster_uuid: str) -> None:
        self._file = home / "made" / f"{cluster_uuid}.jsonl" if _UUID.fullmatch(cluster_uuid) else None

    def uuids(self) -> frozenset[str]:
        """Return the UUIDs of the indices that were made. A line that was not finished is ignored.

        RecordError if the file cannot be read.
        """
        if self._file is None:
            return frozenset()
        try:
            lines = self._file.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return frozenset()
        except OSError as error:
            raise RecordError(f"cannot be read: {error.strerror}", where=str(self._file)) from error
        return frozenset(uuid for line in lines if (uuid := _uuid_of(line)))

    def add(self, indices: Mapping[str, str], race_id: str) -> None:
        """Remember indices, name -> UUID, as made by a race; they are on disk on return. RecordError if that fails."""
        if self._file is None or not indices:
            return
        made = [{"uuid": uuid, "index": name, "race": race_id} for name, uuid in indices.items()]
        try:
            private_folder(self._file.parent)
            with open_private(self._file, "ab") as file:  # in one write: races beside it add lines, too
                file.write("".join(f"{json.dumps(each)}\n" for each in made).encode())
        except OSError as error:
            raise RecordError(f"cannot be written: {error.strerror}", where=str(self._file)) from error


def _uuid_of(line: str) -> str:
    try:
        found = json.loads(line)["uuid"]
    except (ValueError, TypeError, KeyError):
        return ""
    return found if isinstance(found, str) else ""
