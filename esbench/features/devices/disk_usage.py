"""disk-usage: the disk usage of each field of the track's indices, read once at the end of a race."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from esbench.cluster.client import LENIENT, index_path
from esbench.cluster.replies import count, counted, known_form, mapping
from esbench.errors import ClusterError
from esbench.telemetry.device import IndexDevice, Param, Unseen

_FIELDS_AT_MOST = 100
_INDICES_AT_MOST = 100
_SINCE = (7, 15)
_LIMIT_S = 600.0
_PARAMS = {**LENIENT, "run_expensive_tasks": True, "flush": True}
_INDICES = Param("disk-usage-stats-indices", "names", (), "indices, data streams or patterns; without it the track's")


class DiskUsage(IndexDevice):
    """Reads the disk usage of indices by field after all measurements: the cluster reads all their files for it."""

    name = "disk-usage"
    help = "what each field takes on disk, at the end of the race (Elasticsearch from 7.15)"
    aliases = ("disk-usage-stats",)
    of = _INDICES
    params = (_INDICES,)
    patience_s = _LIMIT_S + 5

    def begin(self) -> None:
        if self.scene.info.distribution != "elasticsearch" or self.scene.info.version_tuple < _SINCE:
            # where the API is missing, 5.x and 6.x would take the request for a document of that type
            server = f"{self.scene.info.distribution} {self.scene.info.version}"
            raise Unseen(f"{server} cannot report the disk usage of fields: Elasticsearch can from 7.15")
        super().begin()

    def end(self) -> Mapping[str, Any]:
        """Return the figures of `usage`, with `took_s` and the file name of the complete `replies`, `disk-usage.json`.

        Empty if no index exists or the cluster does not answer: a note says so.
        """
        if not self.seeing:
            return {}
        begun_s = time.monotonic()
        entries = self._ask()
        took_s = time.monotonic() - begun_s
        if not entries:
            if not self.notes:
                self.note("none of the indices is there at the end")
            return {}
        self.keep("disk-usage.json", json.dumps(entries))
        return {**usage(entries), "took_s": round(took_s, 3), "replies": "disk-usage.json"}

    def _ask(self) -> dict[str, Any]:
        """Return index -> its entry in the replies. One name per request: a failed one does not affect the others."""
        entries: dict[str, Any] = {}
        for name in self.names:
            path = f"{index_path([name])}/_disk_usage"
            try:
                reply = self.scene.cluster.request("POST", path, params=_PARAMS, timeout_s=_LIMIT_S)
                with known_form(path):
                    shards = mapping(mapping(reply).get("_shards"))
                    indices = {index: entry for index, entry in mapping(reply).items() if index != "_shards"}
                    usage(indices)  # its form
                    failed = count(shards.get("failed"))
            except ClusterError as error:
                self.note(str(error))
                continue
            if failed:
                self.note(f"{name}: {failed} of {shards.get('total')} shards did not answer: sizes are too small")
            entries |= indices
        return entries


def usage(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recorded part of replies (index -> entry of `_disk_usage`), the largest first.

    `indices`: {index, store_bytes, total_bytes, further parts as `doc_values_bytes`} of up to 100; `fields`: the same
    with `field`, without `store_bytes`, of up to 100 fields that take space. `other_indices` and `other_fields`:
    `count` and sums of those beyond; absent if there are no others.
    """
    indices: list[dict[str, Any]] = [
        {"index": index, "store_bytes": counted(entry["store_size_in_bytes"]), **_parts(entry["all_fields"])}
        for index, entry in entries.items()
    ]
    fields: list[dict[str, Any]] = [
        {"index": index, "field": field, **parts}
        for index, entry in entries.items()
        for field, sizes in entry["fields"].items()
        if (parts := _parts(sizes))["total_bytes"]
    ]
    indices.sort(key=lambda sizes: (-sizes["total_bytes"], sizes["index"]))
    fields.sort(key=lambda sizes: (-sizes["total_bytes"], sizes["index"], sizes["field"]))
    return {
        "indices": indices[:_INDICES_AT_MOST],
        **_others("other_indices", indices[_INDICES_AT_MOST:]),
        "fields": fields[:_FIELDS_AT_MOST],
        **_others("other_fields", fields[_FIELDS_AT_MOST:]),
    }


def _parts(sizes: Mapping[str, Any]) -> dict[str, int]:
    """Return `total_bytes`, and the other parts that are not empty (`doc_values_bytes` ...).

    `sizes`: `{"total_in_bytes": .., "inverted_index": {"total_in_bytes": ..}, "doc_values_in_bytes": ..}`.
    """
    flat = {name.removesuffix("_in_bytes"): size for name, size in sizes.items() if name.endswith("_in_bytes")}
    nested = {name: value["total_in_bytes"] for name, value in sizes.items() if isinstance(value, Mapping)}
    known = {name: count(size) or 0 for name, size in {**flat, **nested, "total": sizes["total_in_bytes"]}.items()}
    return {f"{name}_bytes": size for name, size in known.items() if size or name == "total"}


def _others(name: str, sizes: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the number and the sums of entries under a name; empty without entries."""
    parts = dict.fromkeys(part for one in sizes for part in one if part.endswith("_bytes"))
    sums = {part: sum(one.get(part, 0) for one in sizes) for part in parts}
    return {name: {"count": len(sizes), **sums}} if sizes else {}
