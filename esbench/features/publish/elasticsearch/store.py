"""A metrics store: keeps the documents of races, each race once, in data streams if the cluster has them.

A data stream takes new documents only, and an id is unique in one of its backing indices, not in the stream. So the ids
alone would not keep a race from being stored twice: the race's document, which is written last, shows by its digest
that all of this very record is stored. Documents of an earlier state of the record are removed first.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from esbench.cluster.client import Cluster
from esbench.cluster.replies import known_form
from esbench.errors import ClusterError, UsageError
from esbench.features.publish.elasticsearch.bulk import Pause, send
from esbench.features.publish.elasticsearch.documents import RaceDocuments, StoreDocument
from esbench.features.publish.elasticsearch.templates import KINDS, has_data_streams, name_of, put_templates

DEFAULT_PREFIX = "esbench"
_PREFIX = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_LENIENT = {"ignore_unavailable": True, "allow_no_indices": True}
_PAGE = 5_000  # of a scroll over what is removed
_KEEP_ALIVE = "5m"
_CREATED, _CONFLICT, _DELETED, _MISSING = 201, 409, 200, 404


@dataclass(frozen=True)
class Stored:
    """Document counts of a stored race: all, new, already there; and removed ones of an earlier state of the record."""

    documents: int
    created: int = 0
    already_there: int = 0
    removed: int = 0


class MetricsStore:
    """Stores races in a cluster, in indices or data streams with a common prefix.

    Every failure of the cluster is a ClusterError. `pause` sleeps for seconds, before a bulk request is sent again.
    """

    def __init__(self, cluster: Cluster, prefix: str = DEFAULT_PREFIX, pause: Pause = time.sleep) -> None:
        """Check that the cluster answers, and put the templates into it. UsageError if no index can have the prefix."""
        self._cluster = cluster
        self._prefix = check_prefix(prefix)
        self._pause = pause
        self._dialect = cluster.info().dialect
        put_templates(cluster, self._dialect, prefix, streams=has_data_streams(cluster, prefix))

    @known_form("the store")
    def keep(self, race: RaceDocuments) -> Stored:
        """Store a race; if this very record is stored already, change nothing and count all documents as already there.

        Documents of an earlier state of the record are removed first. Raises RecordError if a file of the race is
        damaged.
        """
        digest = race.digest()
        self._refresh()
        if (documents := self._documents_of(race.race_id, digest)) is not None:
            return Stored(documents, already_there=documents)
        removed = self._remove(race.race_id)
        created = conflicts = 0
        kinds = {"tasks": race.tasks, "seconds": race.seconds, "telemetry": race.telemetry}
        for kind, documents_of_kind in kinds.items():
            new, there = self._create(kind, documents_of_kind())
            created, conflicts = created + new, conflicts + there
        last = race.race()
        total = created + conflicts + 1
        new, there = self._create(
            "races", [StoreDocument(last.id, {**last.fields, "digest": digest, "documents": total})]
        )
        self._refresh()
        return Stored(total, created + new, conflicts + there, removed)

    def _refresh(self) -> None:
        names = ",".join(name_of(self._prefix, kind) for kind in KINDS)
        self._cluster.request("POST", f"/{names}/_refresh", params=_LENIENT)

    def _documents_of(self, race_id: str, digest: str) -> int | None:
        """Return the race's document count if this state of its record is stored, else None."""
        query = {"bool": {"filter": [{"term": {"race_id": race_id}}, {"term": {"digest": digest}}]}}
        found = self._search(name_of(self._prefix, "races"), {"query": query})
        return next((int(hit["_source"]["documents"]) for hit in found["hits"]["hits"]), None)

    def _search(self, names: str, body: Mapping[str, Any], scroll: str | None = None) -> dict[str, Any]:
        """Search all shards of those of the names that exist.

        ClusterError if a shard fails: a race must not be missed.
        """
        reply: dict[str, Any] = self._cluster.request(
            "POST", f"/{names}/_search", params={**_LENIENT, "scroll": scroll}, body=body
        )
        if failed := reply.get("_shards", {}).get("failed"):
            raise ClusterError(f"{failed} shards could not be searched", where=f"/{names}", hint="is a node missing?")
        return reply

    def _create(self, kind: str, documents: Iterable[StoreDocument]) -> tuple[int, int]:
        """Create documents; return counts of those created and of those that another process has just stored."""
        actions = (_action("create", {"_id": each.id}) + _line(each.fields) for each in documents)
        path = self._dialect.bulk_path(name_of(self._prefix, kind))
        statuses = send(self._cluster, path, actions, fine=(_CREATED, _CONFLICT), pause=self._pause)
        return statuses[_CREATED], statuses[_CONFLICT]

    def _remove(self, race_id: str) -> int:
        """Remove the documents of a race and return their number.

        Searches for their ids, which every version can do without any module. The race's own document goes first: if
        this is interrupted, the rest must not look complete.
        """
        removed = 0
        for kind in reversed(KINDS):
            actions = self._deletions(name_of(self._prefix, kind), race_id)
            statuses = send(self._cluster, "/_bulk", actions, fine=(_DELETED, _MISSING), pause=self._pause)
            removed += statuses[_DELETED]
        self._refresh()
        return removed

    def _deletions(self, index: str, race_id: str) -> Iterator[bytes]:
        names = ("_index", "_type", "_id") if self._dialect.typed else ("_index", "_id")
        body = {"query": {"term": {"race_id": race_id}}, "size": _PAGE, "sort": ["_doc"], "_source": False}
        page = self._search(index, body, scroll=_KEEP_ALIVE)
        try:
            while hits := page["hits"]["hits"]:
                for hit in hits:
                    yield _action("delete", {name: hit[name] for name in names})
                body = {"scroll": _KEEP_ALIVE, "scroll_id": page["_scroll_id"]}
                page = self._cluster.request("POST", "/_search/scroll", body=body)
        finally:
            if "_scroll_id" in page:  # none is begun over nothing
                body = {"scroll_id": [page["_scroll_id"]]}
                self._cluster.request("DELETE", "/_search/scroll", body=body, ignore=(404,))


def check_prefix(prefix: str) -> str:
    """Return `prefix` if index names can begin with it, else raise a UsageError."""
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(
            f'no index can be called "{prefix}-races"',
            where="--store-prefix",
            hint="lower case letters, digits, . _ and -, at most 100",
        )
    return prefix


def _action(name: str, what: dict[str, str]) -> bytes:
    return _line({name: what})


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
