"""The servers' own slow logs: thresholds on the track's indices during a race, and the number of entries.

Changed settings are restored at the end, however the race ends; only a killed esbench leaves its thresholds behind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from esbench.cluster.client import LENIENT, index_path
from esbench.cluster.replies import known_form, mapping, text
from esbench.errors import ClusterError
from esbench.telemetry.device import Device, Param, Scene, Unseen
from esbench.telemetry.processes import GrowingFile

# Of the levels the highest, whose threshold is looked at first: whatever a log's level is, it takes these entries.
SETTINGS = {
    "slowlog-query": "index.search.slowlog.threshold.query.warn",
    "slowlog-fetch": "index.search.slowlog.threshold.fetch.warn",
    "slowlog-index": "index.indexing.slowlog.threshold.index.warn",
}
_AT_ONCE = 20  # indices in a request, whose line has limits
# Who logged an entry: a search's query phase otherwise. JSON of 7.x and OpenSearch, and of 8.x; text.
_FETCH = re.compile(
    rb'"component": "i\.s\.s\.fetch"|"log\.logger":"index\.search\.slowlog\.fetch"'
    rb"|\[(?:i\.s\.s|index\.search\.slowlog)\.fetch *\]"
)
_ELSEWHERE = (
    "the slow requests are in the slow logs of the cluster's own nodes (*_index_search_slowlog.*, "
    "*_index_indexing_slowlog.*): they cannot be counted from here"
)

Values = dict[str, str | None]


class Slowlog(Device):
    """Makes the nodes log searches, fetches and indexing operations that take longer than a threshold.

    The thresholds are set on the track's indices; on indices that the race creates, at the begin of the next step. A
    task's figures count the entries logged during its step: `query`, `fetch` (shards' parts of searches), `index`
    (documents).
    """

    name = "slowlog"
    help = "slow logs of searches and indexing, whose thresholds are set for the race"
    params = (
        Param("slowlog-query", "duration", 0.1, "log the query phase of a search on a shard from this duration on"),
        Param("slowlog-fetch", "duration", 0.05, "log the fetch phase of a search on a shard from this duration on"),
        Param("slowlog-index", "duration", 0.1, "log the indexing of a document from this duration on"),
    )
    patience_s = 5.0
    restores = True

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._wanted: Values = {setting: _time(params[name]) for name, setting in SETTINGS.items()}
        self._before: dict[tuple[str, str], Values] = {}  # (index, its uuid) -> what was set
        self._set_on: set[str] = set()  # names of indices
        self._is_refused = False
        self._folders: dict[str, Path] = {}  # node of esbench's own -> its logs
        self._files: dict[tuple[str, Path], GrowingFile] = {}  # by node and path
        self._logged: Counter[str] = Counter()

    def begin(self) -> None:
        if not self.scene.targets:
            raise Unseen("the track names no indices: there is nothing whose slow log could be set")
        if self.scene.pids:
            reply = self.scene.cluster.request("GET", "/_nodes/settings", params={"flat_settings": True})
            settings = {node["name"]: node["settings"] for node in reply["nodes"].values()}
            self._folders = {name: Path(settings[name]["path.logs"]) for name in self.scene.pids if name in settings}
        else:
            self.note(_ELSEWHERE)
        self._set_thresholds()

    def begin_step(self, step: int, tasks: tuple[str, ...]) -> None:
        self._set_thresholds()
        self._count()  # what others had logged before, and what came late

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        counts = self._count()
        self._logged.update(counts)
        return counts if self._files else {}

    def end(self) -> Mapping[str, Any]:
        """Restore the previous thresholds, null if there were none; a failure is noted.

        Returns `thresholds` (setting -> value; empty if none were set), the number of `indices` that had them,
        `entries` (query, fetch, index -> number logged during steps) and the paths of the log `files` in the race's
        folder: none if its nodes are of other races, too.
        """
        self._put_back()
        files = () if self.scene.shares_nodes else self._files
        return {
            "thresholds": self._wanted if self._set_on else {},
            "indices": len(self._set_on),
            "entries": dict(self._logged),
            "files": sorted(f"logs/{node}/{path.name}" for node, path in files),
        }

    def _put_back(self) -> None:
        before, self._before = self._before, {}
        try:
            present = self._present() if before else {}
        except ClusterError as error:
            self.note(f"the thresholds of slow logs were not put back: {error}")
            return
        groups: dict[tuple[tuple[str, str | None], ...], list[str]] = {}
        for key, values in before.items():
            if present.get(key, values) != values:  # neither deleted meanwhile nor as it was
                groups.setdefault(tuple(values.items()), []).append(key[0])
        for items, names in groups.items():
            try:
                for some in _few(names):
                    self._put(some, dict(items))
            except ClusterError as error:
                self.note(f"the thresholds of the slow logs of {', '.join(names)} were not put back: {error}")

    def _set_thresholds(self) -> None:
        """Set the thresholds on those of the track's indices that exist and lack them."""
        if self._is_refused:
            return
        new = {key: values for key, values in self._present().items() if key not in self._before}
        if not new:
            return
        self._before |= new  # also of a request that will have been half done
        try:
            for names in _few([index for index, _ in new]):
                self._put(names, self._wanted)
                self._set_on.update(names)
        except ClusterError as error:
            self._is_refused = True
            raise Unseen(f"the thresholds of slow logs were not set: {error}") from error

    def _present(self) -> dict[tuple[str, str], Values]:
        """Return (index, its uuid) -> its thresholds; None for one that was never set."""
        indices = index_path(self.scene.targets)
        if not indices:
            return {}
        params = {**LENIENT, "flat_settings": True}  # which 5.x refuses where settings are named
        path = f"{indices}/_settings"
        reply = self.scene.cluster.request("GET", path, params=params)
        with known_form(path):
            return {
                (index, text(entry["settings"]["index.uuid"])): {
                    setting: text(entry["settings"].get(setting)) or None for setting in SETTINGS.values()
                }
                for index, entry in mapping(reply).items()
            }

    def _put(self, indices: Sequence[str], values: Values) -> None:
        self.scene.cluster.request("PUT", f"{index_path(indices)}/_settings", params=LENIENT, body=values)

    def _count(self) -> dict[str, int]:
        """Return kind -> number of new entries since the last call."""
        counts = dict.fromkeys(("query", "fetch", "index"), 0)
        self._find_files()
        for (_, path), file in self._files.items():
            for line in file.new_lines():
                if line.startswith((b"{", b"[")):  # others go on with a document that was logged in several lines
                    counts[_kind(line, path)] += 1
        return counts

    def _find_files(self) -> None:
        """Find the slow logs of the nodes; if a log is written in two formats, only the JSON one."""
        for node, folder in self._folders.items():
            for stem in ("_index_search_slowlog", "_index_indexing_slowlog"):
                for path in list(folder.glob(f"*{stem}.json")) or folder.glob(f"*{stem}.log"):
                    self._files.setdefault((node, path), GrowingFile(path))


def _few(indices: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the indices, as many at once as a request may name."""
    for first in range(0, len(indices), _AT_ONCE):
        yield indices[first : first + _AT_ONCE]


def _kind(line: bytes, path: Path) -> str:
    if "_index_indexing_" in path.name:
        return "index"
    return "fetch" if _FETCH.search(line) else "query"


def _time(seconds: float) -> str:
    """Return a threshold in the servers' format; under a microsecond it is `0ms`, which logs everything."""
    micros = round(seconds * 1_000_000)
    return f"{micros}micros" if micros % 1000 else f"{micros // 1000}ms"
