"""What a null cluster answers: its indices, its documents, its canned replies. No sockets, no clocks."""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from esbench.engine.null.script import BulkErrors
from esbench.engine.null.versions import Version

_decode = msgspec.json.decode
_encode = msgspec.json.encode

Answer = tuple[int, bytes]
RefuseItem = Callable[[], BulkErrors | None]
_Handler = Callable[["Cluster", list[str], str, bytes, RefuseItem | None], Answer]
# the request's class (`GET /*/_doc/*`), its method, the parts of its path, what answers it
Route = tuple[str, str, list[str], _Handler | None]

_SOURCE = (
    '{"order_id":"000000000000000042","user_id":"u0000137","merchant":"m-0073","status":"shipped",'
    '"sku":["sku-11","sku-73","sku-209"],"qty":7,"amount":129.95,"currency":"EUR","city":"Rotterdam",'
    '"note":"a canned document of about four hundred bytes, the size of an order, so that reading a reply '
    "costs what it costs with a real one; nothing in it depends on what was asked for, and nothing was ever "
    'indexed to be found here","created":"2024-03-01T12:00:00Z"}'
)
_FOUND = f'"_version":1,"_seq_no":0,"_primary_term":1,"found":true,"_source":{_SOURCE}}}'
_SHARDS = '"_shards":{"total":1,"successful":1,"failed":0}'
_ACKNOWLEDGED = b'{"acknowledged":true}'
_WITH_BODY = {b"index", b"create", b"update"}


class Refusal(Exception):  # noqa: N818 - an answer, not a failure of this program
    """An error reply of the cluster."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.answer: Answer = (status, error_body(status, kind, reason))


def error_body(status: int, kind: str, reason: str) -> bytes:
    """An error as Elasticsearch words it."""
    cause = {"type": kind, "reason": reason}
    return _encode({"error": {"root_cause": [cause], **cause}, "status": status})


@dataclass(slots=True)
class Document:
    source: bytes
    version: int


@dataclass(slots=True)
class Index:
    """`total` documents are acknowledged, `visible` of them since the last refresh."""

    name: str
    body: dict[str, Any] = field(default_factory=dict)
    total: int = 0
    visible: int = 0
    sequence: int = 0
    documents: dict[tuple[str, str], Document] = field(default_factory=dict)

    def setting(self, name: str, default: str) -> str:
        settings = self.body.get("settings", {})
        nested = settings.get("index", {})
        for place, key in ((settings, name), (settings, f"index.{name}"), (nested, name)):
            if isinstance(place, dict) and key in place:
                return str(place[key])
        return default

    @property
    def shards(self) -> int:
        return int(self.setting("number_of_shards", "1"))


class Cluster:
    """One node's worth of answers. With `store`, documents are remembered and only those are found."""

    def __init__(self, version: Version, *, store: bool = False, bulk_items: bool = True) -> None:
        self.documents = 0  # acknowledged writes of documents, deletes not among them
        self._version = version
        self._store = store
        self._bulk_items = bulk_items
        self._indices: dict[str, Index] = {}
        self._type = version.type_field
        self._generated_ids = 0
        self._root = _encode(version.root())
        hit = f'"_index":"%s",{self._type}"_id":"42","_score":1.0,"_source":{_SOURCE}'
        total = '{"value":1,"relation":"eq"}' if not version.typed_paths else "1"
        self._search = (
            '{"took":1,"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0},'
            f'"hits":{{"total":{total},"max_score":1.0,"hits":[{{{hit}}}]}}}}'
        )

    def route(self, method: str, path: str) -> Route:
        """Where a request goes; nothing is done yet."""
        parts = path[1:].split("/")
        if len(parts) == 3 and parts[1] == "_doc":
            shape = "/*/_doc/*"
        else:
            if parts[-1] == "" and len(parts) > 1:
                parts.pop()
            if self._version.typed_paths:
                _drop_type(parts)
            shape = _shape(parts)
        return f"{method} {shape}", method, parts, _HANDLERS.get((method, shape))

    def answer(self, route: Route, query: str, body: bytes, refuse_item: RefuseItem | None = None) -> Answer:
        """Carry out a request; `refuse_item` says which items of a bulk fail."""
        _, method, parts, handler = route
        try:
            if handler is not None:
                return handler(self, parts, query, body, refuse_item)
            return self._other(method, parts, query)
        except Refusal as refusal:
            return refusal.answer

    # documents

    def _get(self, parts: list[str], query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        identifier = parts[2] if parts[2].isalnum() else unquote(parts[2])
        index = parts[0]
        if not self._store:
            return 200, f'{{"_index":"{index}",{self._type}"_id":{_text(identifier)},{_FOUND}'.encode()
        where = self._index(index)
        document = where.documents.get((identifier, _option(query, "routing") or identifier))
        head = f'{{"_index":"{index}",{self._type}"_id":{_text(identifier)},'
        if document is None:
            return 404, f'{head}"found":false}}'.encode()
        return 200, (
            f'{head}"_version":{document.version},"_seq_no":0,"_primary_term":1,"found":true,"_source":'.encode()
            + document.source
            + b"}"
        )

    def _put(self, parts: list[str], query: str, body: bytes, _refuse: RefuseItem | None) -> Answer:
        identifier = unquote(parts[2]) if len(parts) > 2 and parts[2] else self._new_id()
        create = parts[1] == "_create" or _option(query, "op_type") == "create"
        index = self._index(parts[0], create=True)
        status, item = self._write(index, identifier, _option(query, "routing"), body, create=create)
        _refresh_if_asked(index, query)
        return status, item.encode()

    def _delete(self, parts: list[str], query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        index = self._index(parts[0])
        status, item = self._remove(index, unquote(parts[2]), _option(query, "routing"))
        _refresh_if_asked(index, query)
        return status, item.encode()

    def _write(
        self, index: Index, identifier: str, routing: str | None, source: bytes, *, create: bool
    ) -> tuple[int, str]:
        version = 1
        if self._store:
            key = (identifier, routing or identifier)
            old = index.documents.get(key)
            if old is not None:
                if create:
                    reason = f"[{identifier}]: version conflict, document already exists"
                    raise Refusal(409, "version_conflict_engine_exception", reason)
                version = old.version + 1
            index.documents[key] = Document(bytes(source), version)
        self.documents += 1
        index.sequence += 1
        index.total += version == 1
        result, status = ("created", 201) if version == 1 else ("updated", 200)
        return status, self._item(index, identifier, version, result)

    def _remove(self, index: Index, identifier: str, routing: str | None) -> tuple[int, str]:
        index.sequence += 1
        if self._store and index.documents.pop((identifier, routing or identifier), None) is None:
            return 404, self._item(index, identifier, 1, "not_found")
        index.total -= 1
        return 200, self._item(index, identifier, 2, "deleted")

    def _item(self, index: Index, identifier: str, version: int, result: str) -> str:
        return (
            f'{{"_index":"{index.name}",{self._type}"_id":{_text(identifier)},"_version":{version},'
            f'"result":"{result}",{_SHARDS},"_seq_no":{index.sequence - 1},"_primary_term":1}}'
        )

    def _new_id(self) -> str:
        self._generated_ids += 1
        return f"null{self._generated_ids:016d}"

    # bulk

    def _bulk(self, parts: list[str], query: str, body: bytes, refuse: RefuseItem | None) -> Answer:
        default = parts[0] if parts[0] != "_bulk" else None
        if not body.endswith(b"\n"):
            reason = "The bulk request must be terminated by a newline [\\n]"
            raise Refusal(400, "illegal_argument_exception", reason)
        if not self._bulk_items and not self._store and refuse is None and default is not None:
            count = body.count(b"\n") // 2
            self.documents += count
            index = self._index(default, create=True)
            index.total += count
            _refresh_if_asked(index, query)
            return 200, b'{"took":1,"errors":false,"items":[]}'
        items, errors = [], False
        lines = iter(body.split(b"\n"))
        touched: set[str] = set()
        for line in lines:
            if not line:
                continue
            action, name, identifier, routing = _action(line, default, query)
            source = next(lines, b"") if action in _WITH_BODY else b""
            refused = refuse() if refuse else None
            if refused is not None:
                status, item = refused.status, self._refused(name, identifier, refused)
            else:
                status, item = self._bulk_item(action, name, identifier, routing, source)
            errors |= status >= 400 and not (action == b"delete" and status == 404)
            touched.add(name)
            items.append(f'{{"{action.decode()}":{item[:-1]},"status":{status}}}}}')
        for name in touched & self._indices.keys():
            _refresh_if_asked(self._indices[name], query)
        return 200, f'{{"took":1,"errors":{str(errors).lower()},"items":[{",".join(items)}]}}'.encode()

    def _bulk_item(
        self, action: bytes, name: str, identifier: str | None, routing: str | None, source: bytes
    ) -> tuple[int, str]:
        index = self._index(name, create=True)
        try:
            if action == b"delete":
                return self._remove(index, identifier or "", routing)
            return self._write(index, identifier or self._new_id(), routing, source, create=action == b"create")
        except Refusal as refusal:
            status, body = refusal.answer
            error = _decode(body)["error"]
            del error["root_cause"]
            return status, self._failed(name, identifier, error)

    def _refused(self, name: str, identifier: str | None, errors: BulkErrors) -> str:
        return self._failed(name, identifier, {"type": errors.type, "reason": errors.reason})

    def _failed(self, name: str, identifier: str | None, error: dict[str, Any]) -> str:
        return f'{{"_index":"{name}",{self._type}"_id":{_text(identifier)},"error":{_encode(error).decode()}}}'

    # search and count

    def _searched(self, parts: list[str], _query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        name = parts[0] if parts[0] != "_search" else "null"
        if self._store and name != "null":
            self._select(name)
        return 200, (self._search % name).encode()

    def _count(self, parts: list[str], _query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        indices = self._select(parts[0] if parts[0] != "_count" else "_all")
        return 200, f'{{"count":{sum(index.visible for index in indices)},{_shards(indices)}}}'.encode()

    # indices

    def _create_index(self, parts: list[str], _query: str, body: bytes, _refuse: RefuseItem | None) -> Answer:
        name = parts[0]
        if name in self._indices:
            kind = "resource_already_exists_exception"
            kind = kind if self._version.major > 5 or not self._version.typed_paths else f"index_{kind[9:]}"
            raise Refusal(400, kind, f"index [{name}/null] already exists")
        self._indices[name] = Index(name, _json_object(body))
        return 200, f'{{"acknowledged":true,"shards_acknowledged":true,"index":"{name}"}}'.encode()

    def _delete_index(self, parts: list[str], query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        if _option(query, "ignore_unavailable") == "true" and parts[0] not in self._indices:
            return 200, _ACKNOWLEDGED
        for index in self._select(parts[0]):
            del self._indices[index.name]
        return 200, _ACKNOWLEDGED

    def _describe(self, parts: list[str], _query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        indices = self._select(parts[0])
        return 200, _encode({i.name: {"aliases": {}, **self._settings(i), **_mappings(i)} for i in indices})

    def _get_settings(self, parts: list[str], _query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        indices = self._select(parts[0] if parts[0] != "_settings" else "_all")
        return 200, _encode({index.name: self._settings(index) for index in indices})

    def _get_mapping(self, parts: list[str], _query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        indices = self._select(parts[0] if not parts[0].startswith("_mapping") else "_all")
        return 200, _encode({index.name: _mappings(index) for index in indices})

    def _put_settings(self, parts: list[str], _query: str, body: bytes, _refuse: RefuseItem | None) -> Answer:
        for index in self._select(parts[0] if parts[0] != "_settings" else "_all"):
            settings = index.body.setdefault("settings", {})
            settings.update(_flat(_json_object(body).get("settings", _json_object(body))))
        return 200, _ACKNOWLEDGED

    def _put_mapping(self, parts: list[str], _query: str, body: bytes, _refuse: RefuseItem | None) -> Answer:
        for index in self._select(parts[0]):
            index.body.setdefault("mappings", {}).update(_json_object(body))
        return 200, _ACKNOWLEDGED

    def _refresh(self, parts: list[str], _query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        indices = self._select(parts[0] if parts[0] != "_refresh" else "_all")
        for index in indices:
            index.visible = index.total
        return 200, f"{{{_shards(indices)}}}".encode()

    def _all_shards(self, parts: list[str], _query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        indices = self._select(parts[0] if not parts[0].startswith("_") else "_all")
        return 200, f"{{{_shards(indices)}}}".encode()

    def _settings(self, index: Index) -> dict[str, Any]:
        given = _flat(index.body.get("settings", {}))
        defaults = {"number_of_shards": "1", "number_of_replicas": "1"}
        made = {"provided_name": index.name, "uuid": f"null-{index.name}", "creation_date": "1700000000000"}
        return {"settings": {"index": {**defaults, **{k: _setting(v) for k, v in given.items()}, **made}}}

    # the cluster

    def _hello(self, _parts: list[str], _query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        return 200, self._root

    def _acknowledge(self, _parts: list[str], _query: str, _body: bytes, _refuse: RefuseItem | None) -> Answer:
        return 200, b'{"acknowledged":true,"persistent":{},"transient":{}}'

    def _other(self, method: str, parts: list[str], query: str) -> Answer:
        """Families of paths with many members; anything else is refused as a real node does."""
        if method == "HEAD" and len(parts) == 1 and parts[0]:
            return (200 if all(n in self._indices for n in parts[0].split(",")) else 404), b""
        if method == "GET" and parts[:2] == ["_cluster", "health"]:
            return 200, self._health()
        if method == "GET" and parts[0] == "_nodes":
            return 200, self._nodes(with_statistics="stats" in parts)
        if method == "GET" and "_stats" in parts[:2]:
            return 200, self._stats(parts[0] if parts[0] != "_stats" else "_all")
        reason = f"no handler found for uri [/{'/'.join(parts)}{'?' if query else ''}{query}] and method [{method}]"
        return 400, _encode({"error": reason})

    def _health(self) -> bytes:
        shards = sum(index.shards for index in self._indices.values())
        zeros = (
            "relocating_shards initializing_shards unassigned_shards delayed_unassigned_shards "
            "number_of_pending_tasks number_of_in_flight_fetch task_max_waiting_in_queue_millis"
        )
        return _encode(
            {
                "cluster_name": "null",
                "status": "green",
                "timed_out": False,
                "number_of_nodes": 1,
                "number_of_data_nodes": 1,
                "active_primary_shards": shards,
                "active_shards": shards,
                **dict.fromkeys(zeros.split(), 0),
                "active_shards_percent_as_number": 100.0,
            }
        )

    def _nodes(self, *, with_statistics: bool) -> bytes:
        node: dict[str, Any] = {
            "name": "null",
            "host": "127.0.0.1",
            "ip": "127.0.0.1",
            "roles": ["data", "ingest", "master"],
        }
        if with_statistics:
            node |= {
                "timestamp": time.time_ns() // 1_000_000,
                "indices": self._statistics(list(self._indices.values())),
                "os": {"cpu": {"load_average": dict(zip(("1m", "5m", "15m"), os.getloadavg(), strict=True))}},
                "process": {"cpu": {"percent": 0, "total_in_millis": time.process_time_ns() // 1_000_000}},
                "jvm": {
                    "mem": {"heap_used_in_bytes": 0, "heap_max_in_bytes": 0, "pools": {}},
                    "gc": {"collectors": {name: _gc() for name in ("young", "old")}},
                },
            }
        else:
            cores = os.cpu_count()
            node |= {
                "version": self._version.number,
                "build_hash": "0" * 40,
                "os": {"name": "Linux", "available_processors": cores, "allocated_processors": cores},
                "jvm": {"version": "0", "vm_vendor": "none", "mem": {"heap_max_in_bytes": 0}},
                "plugins": [],
                "modules": [],
            }
        return _encode(
            {
                "_nodes": {"total": 1, "successful": 1, "failed": 0},
                "cluster_name": "null",
                "nodes": {"null": node},
            }
        )

    def _stats(self, names: str) -> bytes:
        indices = self._select(names)
        each = {i.name: {"primaries": self._statistics([i]), "total": self._statistics([i])} for i in indices}
        whole = self._statistics(indices)
        shards = sum(index.shards for index in indices)
        return _encode(
            {
                "_shards": {"total": shards, "successful": shards, "failed": 0},
                "_all": {"primaries": whole, "total": whole},
                "indices": each,
            }
        )

    def _statistics(self, indices: list[Index]) -> dict[str, Any]:
        """Documents are real, times are zero: a null cluster works for nobody."""
        return {
            "docs": {"count": sum(index.visible for index in indices), "deleted": 0},
            "store": {"size_in_bytes": 0},
            "indexing": _zeros("index_total index_time_in_millis throttle_time_in_millis")
            | {"index_total": sum(index.sequence for index in indices)},
            "search": _zeros("query_total query_time_in_millis fetch_total fetch_time_in_millis"),
            "merges": _zeros("current total total_time_in_millis total_throttled_time_in_millis"),
            "refresh": _zeros("total total_time_in_millis"),
            "flush": _zeros("total total_time_in_millis"),
            "segments": _zeros("count memory_in_bytes"),
            "translog": _zeros("operations size_in_bytes"),
        }

    def _index(self, name: str, *, create: bool = False) -> Index:
        index = self._indices.get(name)
        if index is None:
            if not create:
                raise Refusal(404, "index_not_found_exception", f"no such index [{name}]")
            index = self._indices[name] = Index(name)
        return index

    def _select(self, names: str) -> list[Index]:
        """The indices of `a,b*`; a name without a wildcard must exist."""
        if names in ("_all", "*", ""):
            return list(self._indices.values())
        chosen: dict[str, Index] = {}
        for name in unquote(names).split(","):
            if "*" in name:
                chosen |= {known: self._indices[known] for known in fnmatch.filter(self._indices, name)}
            else:
                chosen[name] = self._index(name)
        return list(chosen.values())


def _handlers() -> dict[tuple[str, str], _Handler]:
    """(method, shape of the path) -> what answers it."""
    table: tuple[tuple[str, str, _Handler], ...] = (
        ("GET HEAD", "/*/_doc/*", Cluster._get),
        ("PUT POST", "/*/_doc/*", Cluster._put),
        ("DELETE", "/*/_doc/*", Cluster._delete),
        ("PUT POST", "/*/_create/*", Cluster._put),
        ("POST", "/*/_doc", Cluster._put),
        ("PUT POST", "/_bulk /*/_bulk", Cluster._bulk),
        ("GET POST", "/_search /*/_search", Cluster._searched),
        ("GET POST", "/_count /*/_count", Cluster._count),
        ("GET POST", "/_refresh /*/_refresh", Cluster._refresh),
        ("POST", "/_forcemerge /*/_forcemerge /_cache/clear /*/_cache/clear", Cluster._all_shards),
        ("GET POST", "/_flush /*/_flush", Cluster._all_shards),
        ("PUT", "/*", Cluster._create_index),
        ("DELETE", "/*", Cluster._delete_index),
        ("GET", "/*", Cluster._describe),
        ("GET", "/_settings /*/_settings", Cluster._get_settings),
        ("PUT", "/_settings /*/_settings", Cluster._put_settings),
        ("GET", "/_mapping /*/_mapping /_mappings /*/_mappings", Cluster._get_mapping),
        ("PUT POST", "/*/_mapping /*/_mappings", Cluster._put_mapping),
        ("GET HEAD", "/", Cluster._hello),
        ("GET PUT", "/_cluster/settings", Cluster._acknowledge),
    )
    return {
        (method, shape): handler
        for methods, shapes, handler in table
        for method in methods.split()
        for shape in shapes.split()
    }


_HANDLERS = _handlers()


def _shape(parts: list[str]) -> str:
    if len(parts) > 2 and parts[1] in ("_doc", "_create"):
        return f"/*/{parts[1]}/*"
    return "/" + "/".join(
        part if part.startswith("_") or (i and parts[0].startswith("_")) else "*" if part else ""
        for i, part in enumerate(parts)
    )


def _drop_type(parts: list[str]) -> None:
    """/index/type/id and /index/type/_bulk as /index/_doc/id and /index/_bulk."""
    if len(parts) < 2 or parts[0].startswith("_") or (parts[1].startswith("_") and parts[1] != "_doc"):
        return
    if len(parts) == 2 or not parts[2].startswith("_") or parts[2] == "":
        parts[1] = "_doc"
    elif len(parts) == 4 and parts[3] == "_create":
        parts[1:] = ["_create", parts[2]]
    else:
        del parts[1]


def _action(line: bytes, default: str | None, query: str) -> tuple[bytes, str, str | None, str | None]:
    """Action, index, id and routing of an action line."""
    try:
        ((action, meta),) = _decode(line).items()
        name = meta.get("_index", default)
    except (msgspec.DecodeError, ValueError, AttributeError):
        text = line[:60].decode(errors="replace")
        reason = f"Malformed action/metadata line, expected an object: {text}"
        raise Refusal(400, "illegal_argument_exception", reason) from None
    if name is None:
        raise Refusal(400, "action_request_validation_exception", "Validation Failed: 1: index is missing;")
    routing = meta.get("routing", meta.get("_routing", _option(query, "routing")))
    identifier = meta.get("_id")
    return (
        action.encode(),
        name,
        None if identifier is None else str(identifier),
        None if routing is None else str(routing),
    )


def _option(query: str, name: str) -> str | None:
    if name not in query:
        return None
    return dict(parse_qsl(query, keep_blank_values=True)).get(name)


def _refresh_if_asked(index: Index, query: str) -> None:
    if query and _option(query, "refresh") in ("", "true", "wait_for"):
        index.visible = index.total


def _shards(indices: list[Index]) -> str:
    count = sum(index.shards for index in indices)
    return f'"_shards":{{"total":{count},"successful":{count},"failed":0}}'


def _text(value: str | None) -> str:
    """A JSON string."""
    if value is not None and value.isascii() and value.isalnum():
        return f'"{value}"'
    return _encode(value).decode()


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        data = _decode(body) if body.strip() else {}
    except msgspec.DecodeError as error:
        raise Refusal(400, "parse_exception", f"Failed to parse content to map: {error}") from None
    if not isinstance(data, dict):
        raise Refusal(400, "parse_exception", "Failed to parse content to map")
    return data


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    nested = settings.get("index")
    flat = {**settings, **(nested if isinstance(nested, dict) else {})}
    return {key.removeprefix("index."): value for key, value in flat.items() if key != "index"}


def _setting(value: Any) -> Any:
    """Elasticsearch returns settings as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, dict | list) else str(value)


def _mappings(index: Index) -> dict[str, Any]:
    return {"mappings": index.body.get("mappings", {})}


def _zeros(names: str) -> dict[str, int]:
    return dict.fromkeys(names.split(), 0)


def _gc() -> dict[str, int]:
    return _zeros("collection_count collection_time_in_millis")
