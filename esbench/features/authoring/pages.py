"""Reading of all documents of an index or data stream, or a random sample, in slices that can be read in parallel.

All slices see the documents as they were at one moment, through a point in time; on a server without it, each slice
scrolls. Documents stay the bytes that the server sends: a number is never parsed and formatted again.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import msgspec

from esbench.cluster.client import Cluster, ClusterInfo, index_path
from esbench.cluster.replies import known_form
from esbench.errors import ClusterError

KEEP_ALIVE = "5m"  # between two pages
_CLOSE_TIMEOUT_S = 5.0  # what is not closed ends by itself
MOST_SLICES = 1024  # index.max_slices_per_scroll and index.max_slices_per_pit
_SEED = 1


class SourceHit(msgspec.Struct):
    """A document; `source` is its JSON as it was indexed, possibly with line breaks; empty if the index stores none."""

    id: str = msgspec.field(name="_id")
    source: msgspec.Raw = msgspec.field(name="_source", default=msgspec.Raw())
    routing: str | None = msgspec.field(name="_routing", default=None)
    sort: list[Any] | None = None


class _Hits(msgspec.Struct):
    hits: list[SourceHit]
    total: dict[str, Any] | int | None = None


class _Shards(msgspec.Struct):
    failed: int = 0


class _Page(msgspec.Struct):
    hits: _Hits
    shards: _Shards = msgspec.field(name="_shards", default_factory=_Shards)
    timed_out: bool = False
    scroll_id: str | None = msgspec.field(name="_scroll_id", default=None)
    pit_id: str | None = None

    @property
    def total(self) -> int | None:
        total = self.hits.total
        return total.get("value") if isinstance(total, dict) else total


# Made here, before there are threads: two that first ask msgspec for a type at the same time can crash the process.
_PAGES = msgspec.json.Decoder(_Page)


@dataclass(frozen=True)
class Extent:
    """The documents to read: all `documents` of `name`, an index or data stream, or a random sample of `sample` ones.

    `shards` is the number of its primary shards.
    """

    name: str
    documents: int
    shards: int
    sample: int | None = None

    @property
    def wanted(self) -> int:
        """The number of documents to read."""
        return self.documents if self.sample is None else self.sample


def spare(count: int) -> float:
    """Return the number of documents that make up for chance: four standard deviations of a count, and ten."""
    return 4 * math.sqrt(count) + 10


def sample_query(extent: Extent, info: ClusterInfo) -> dict[str, Any]:
    """Return a query for all documents, or for each with the same probability: the sample's number and some to spare.

    The same documents are found each time.
    """
    wanted = extent.sample
    if wanted is None or wanted >= extent.documents:
        return {"match_all": {}}
    ratio = min(1.0, (wanted + spare(wanted)) / extent.documents)
    score: dict[str, Any] = {"seed": _SEED}
    if info.version_tuple >= (6,) or info.distribution == "opensearch":
        score["field"] = "_seq_no"
    return {"function_score": {"random_score": score, "boost_mode": "replace", "min_score": 1 - ratio}}


def open_slices(cluster: Cluster, info: ClusterInfo, extent: Extent, page_size: int, readers: int) -> Slices:
    """Open an extent by a point in time, else by scrolls; the caller closes it.

    `page_size` is the number of documents per page, `readers` that of slices read at the same time. Raises
    ClusterError.
    """
    if extent.shards <= MOST_SLICES and (opened := _open_point_in_time(cluster, info, extent)) is not None:
        return _PointInTime(cluster, info, extent, page_size, opened, readers)
    return _Scrolls(cluster, info, extent, page_size)


@known_form("point in time")
def _open_point_in_time(cluster: Cluster, info: ClusterInfo, extent: Extent) -> str | None:
    """Open a point in time and return its id, or None if the server cannot.

    Servers before 7.12 and 2.4 cannot slice one; 7.x needs x-pack for it.
    """
    path, params = index_path([extent.name]), {"keep_alive": KEEP_ALIVE}
    if info.distribution == "opensearch":
        if info.version_tuple < (2, 4):
            return None
        reply = cluster.request("POST", f"{path}/_search/point_in_time", params=params)
        return str(reply["pit_id"])
    if info.version_tuple < (7, 12):
        return None
    reply = cluster.request("POST", f"{path}/_pit", params=params, ignore=(400, 405))
    return str(reply["id"]) if isinstance(reply, dict) and "id" in reply else None


class Slices(ABC):
    """The documents of an extent in `count` slices; safe to read from several threads."""

    def __init__(self, cluster: Cluster, info: ClusterInfo, extent: Extent, page_size: int) -> None:
        self._cluster = cluster
        self._extent = extent
        self._search: dict[str, Any] = {"size": page_size, "query": sample_query(extent, info)}
        self._params: dict[str, Any] = {}
        if info.distribution == "opensearch" or info.version_tuple >= (7,):
            self._params = {"allow_partial_search_results": False, "track_total_hits": True}
        if info.distribution == "elasticsearch" and info.version_tuple >= (9, 2):
            self._search["_source"] = {"exclude_vectors": False}  # left out there, unless asked for
        self.count = min(extent.shards, MOST_SLICES)

    def pages(self, number: int) -> Generator[list[SourceHit]]:
        """Yield the documents of slice `number` (from 0), page by page. ClusterError if the server leaves some out."""
        read, total = 0, None
        with contextlib.closing(self._replies(number)) as replies:
            for page in replies:
                if page.timed_out or page.shards.failed:
                    what = "timed out" if page.timed_out else f"failed on {page.shards.failed} shards"
                    raise ClusterError(f"a search {what}: documents would be missing", where=self._extent.name)
                total = page.total if total is None else total
                if not page.hits.hits:
                    break
                read += len(page.hits.hits)
                if total is not None and read > total:
                    break
                yield page.hits.hits
        if total is not None and read != total:
            what = f"the server gave {read:,} of the {total:,} documents of a slice"
            raise ClusterError(what, where=self._extent.name, hint="try again")

    @abstractmethod
    def _replies(self, number: int) -> Generator[_Page]:
        """Yield the pages of a slice; the one after the last documents is empty."""

    @abstractmethod
    def close(self) -> None:
        """Release what the server keeps for the slices."""

    def _of_slice(self, number: int) -> dict[str, Any]:
        return {**self._search, "slice": {"id": number, "max": self.count}} if self.count > 1 else self._search

    def _page(self, path: str, params: dict[str, Any], body: dict[str, Any]) -> _Page:
        try:
            page: _Page = self._cluster.request("POST", path, params=params, body=body, decode=_PAGES.decode)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ClusterError(f"the reply has an unknown form ({error})", where=f"POST {path}") from error
        return page

    def _let_go(self, path: str, body: dict[str, Any]) -> None:
        with contextlib.suppress(ClusterError):
            self._cluster.request("DELETE", path, body=body, timeout_s=_CLOSE_TIMEOUT_S)


class _PointInTime(Slices):
    """Slices of a point in time.

    A shard has several slices if the server cuts them by Lucene's document numbers, else one: cutting by `_id` would
    cost the server a pass over all ids for each page.
    """

    def __init__(
        self, cluster: Cluster, info: ClusterInfo, extent: Extent, page_size: int, opened: str, readers: int
    ) -> None:
        super().__init__(cluster, info, extent, page_size)
        self._is_opensearch = info.distribution == "opensearch"
        if not self._is_opensearch and info.version_tuple >= (7, 15):
            self.count = min(extent.shards * -(-readers // extent.shards), MOST_SLICES)
        # A slice reads one shard, in which document numbers are unique: OpenSearch has no other cheap order.
        self._search["sort"] = ["_doc" if self._is_opensearch else "_shard_doc"]
        self._id = opened

    def _replies(self, number: int) -> Generator[_Page]:
        body, params = self._of_slice(number), self._params
        while True:
            body = {**body, "pit": {"id": self._id, "keep_alive": KEEP_ALIVE}}
            page = self._page("/_search", params, body)
            if page.pit_id is not None:
                self._id = page.pit_id
            yield page
            params = {**params, "track_total_hits": False}
            body["search_after"] = page.hits.hits[-1].sort

    def close(self) -> None:
        if self._is_opensearch:
            self._let_go("/_search/point_in_time", {"pit_id": [self._id]})
        else:
            self._let_go("/_pit", {"id": self._id})


class _Scrolls(Slices):
    """Slices that scroll, one for each shard."""

    def _replies(self, number: int) -> Generator[_Page]:
        path = f"{index_path([self._extent.name])}/_search"
        page = self._page(path, {**self._params, "scroll": KEEP_ALIVE}, {**self._of_slice(number), "sort": ["_doc"]})
        try:
            while True:
                yield page
                page = self._page("/_search/scroll", {}, {"scroll": KEEP_ALIVE, "scroll_id": page.scroll_id})
        finally:
            self._let_go("/_search/scroll", {"scroll_id": [page.scroll_id]})

    def close(self) -> None:
        """Do nothing: each scroll ends with its slice."""
