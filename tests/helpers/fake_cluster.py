"""A cluster of indices in memory that answers what making a track asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from http import HTTPStatus
from random import Random
from typing import Any
from urllib.parse import parse_qsl, unquote

from answering import AnsweringCluster
from raw_server import RawServer, Request, reply

from esbench.cluster.client import ClusterInfo


@dataclass
class FakeIndex:
    """`documents` are (id, routing, JSON as it was sent)."""

    documents: list[tuple[str, str | None, str]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    mappings: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, Any] = field(default_factory=dict)
    shards: int = 1
    closed: bool = False


class FakeCluster(AnsweringCluster):
    """Serves points in time or scrolls, whichever is asked for; `lost` documents of each slice never come."""

    def __init__(self, info: ClusterInfo, indices: Mapping[str, FakeIndex], lost: int = 0, failed: int = 0) -> None:
        super().__init__()
        self._info, self.indices, self.lost, self.failed = info, indices, lost, failed
        self.templates: dict[str, dict[str, Any]] = {}
        self.components: dict[str, dict[str, Any]] = {}
        self.streams: dict[str, tuple[str, str]] = {}  # backing index and template by name
        self.open: set[str] = set()
        self.slices: set[tuple[int, int]] = set()
        self.asked: list[str] = []

    def info(self, *, timeout_s: float | None = None) -> ClusterInfo:
        return self._info

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> tuple[int, Any]:  # noqa: PLR0911
        self.asked.append(f"{method} {path}")
        if path == "/_alias":
            return 200, {name: {"aliases": index.aliases} for name, index in self.indices.items()}
        if path.startswith(("/_data_stream", "/_index_template/", "/_component_template/")):
            return self._declared(*path.removeprefix("/").partition("/")[::2])
        if method == "DELETE":
            self.open -= {body["id"]} if "id" in body else set(body.get("pit_id") or body["scroll_id"])
            return 200, {}
        if path in ("/_search", "/_search/scroll"):
            return self._search(*(body.get("pit") or {"id": body["scroll_id"]})["id"].split("|"), body=body)
        name, _, action = path.removeprefix("/").partition("/")
        name = self.streams.get(name, (name, ""))[0]
        indices = self.indices.items()
        found = {key: index for key, index in indices if any(fnmatch(each, name) for each in (key, *index.aliases))}
        if not found and "*" not in name:
            return 404, {"error": {"type": "index_not_found_exception"}, "status": 404}
        if action == "_settings":
            return 200, {key: {"settings": {"index": {"uuid": "u"}}} for key in found}
        if any(index.closed for index in found.values()):
            return 400, {"error": {"type": "index_closed_exception"}, "status": 400}
        if action == "":
            return 200, {key: _described(index) for key, index in found.items()}
        (key, index) = next(iter(found.items()))
        if action == "_count":
            return 200, {"count": len(index.documents)}
        if action in ("_pit", "_search/point_in_time"):
            self.open.add(f"{key}|-1|0|1")
            return 200, {"id" if action == "_pit" else "pit_id": f"{key}|-1|0|1"}
        if "scroll" in params:
            part = body.get("slice", {"id": 0, "max": 1})
            return self._search(key, "0", str(part["id"]), str(part["max"]), body=body)
        routed = sum(routing is not None for _, routing, _ in index.documents)
        return 200, {"hits": {"total": {"value": routed, "relation": "eq"}, "hits": []}}

    def _declared(self, kind: str, name: str) -> tuple[int, Any]:
        """Data streams by name or pattern, templates by name."""
        if kind == "_data_stream":
            found = [
                {"name": stream, "indices": [{"index_name": backing}], "template": template}
                for stream, (backing, template) in self.streams.items()
                if fnmatch(stream, name or "*")
            ]
            return (200, {"data_streams": found}) if found or "*" in name else (404, {"status": 404})
        if kind == "_index_template":
            return 200, {"index_templates": [{"name": name, "index_template": self.templates[name]}]}
        if name not in self.components:
            return 404, {"status": 404}
        return 200, {"component_templates": [{"name": name, "component_template": self.components[name]}]}

    def _search(self, key: str, first: str, number: str, of: str, *, body: Mapping[str, Any]) -> tuple[int, Any]:
        """A page, its documents in the order of their places; a point in time's id has -1 for the place."""
        part = body.get("slice", {"id": int(number), "max": int(of)})
        self.slices.add((part["id"], part["max"]))
        places = [place for place in range(len(self.indices[key].documents)) if place % part["max"] == part["id"]]
        least = body.get("query", {}).get("function_score", {}).get("min_score", 0)  # of a sample
        places = [place for place in places if Random(place).random() >= least]
        start = body.get("search_after", [int(first) - 1])[0] + 1 if int(first) < 0 else int(first)
        size = body.get("size", 2)
        rest = [place for place in places[: len(places) - self.lost] if place >= start]
        hits = ",".join(self._hit(key, place) for place in rest[:size])
        following = rest[size] if len(rest) > size else len(self.indices[key].documents)
        scroll = f"{key}|{following}|{part['id']}|{part['max']}"
        if int(first) >= 0:
            self.open = {*self.open - {f"{key}|{first}|{number}|{of}"}, scroll}
        head = f'{{"_scroll_id":"{scroll}","_shards":{{"failed":{self.failed}}},"timed_out":false,'
        total = len(places) if self._info.version_tuple[0] < 7 else json.dumps({"value": len(places)})
        return 200, f'{head}"hits":{{"total":{total},"hits":[{hits}]}}}}'

    def _hit(self, key: str, place: int) -> str:
        id_, routing, source = self.indices[key].documents[place]
        routed = "" if routing is None else f'"_routing":{json.dumps(routing)},'
        return f'{{"_id":{json.dumps(id_)},{routed}"_source":{source},"sort":[{place}]}}'


def _described(index: FakeIndex) -> dict[str, Any]:
    own = {"uuid": "u", "creation_date": "1", "number_of_shards": str(index.shards), "number_of_replicas": "1"}
    return {
        "settings": {"index": {**own, **index.settings}},
        "mappings": index.mappings,
        "aliases": index.aliases,
    }


def cluster_of(version: str, indices: Mapping[str, FakeIndex], **faults: int) -> FakeCluster:
    """`version` as `elasticsearch-7.10.2`."""
    distribution, _, number = version.partition("-")
    assert re.fullmatch(r"[\d.]+", number)
    return FakeCluster(ClusterInfo(distribution, number), indices, **faults)


def served(cluster: FakeCluster) -> RawServer:
    """The cluster on a socket."""

    def answer(_: int, request: Request) -> Sequence[bytes]:
        path, _, query = unquote(request.target).partition("?")
        info = cluster.info()
        version = {"number": info.version, "build_hash": "0", "distribution": info.distribution}
        status, body = 200, {"cluster_name": "c", "cluster_uuid": "u", "version": version}
        if path != "/":
            sent = json.loads(request.body or b"null")
            status, body = cluster.answer(request.method, path, dict(parse_qsl(query)), sent)
        text = body if isinstance(body, str) else json.dumps(body)
        headers = ("Content-Type: application/json", "X-elastic-product: Elasticsearch")
        return [reply(text, f"{status} {HTTPStatus(status).phrase}", *headers)]

    return RawServer(answer)
