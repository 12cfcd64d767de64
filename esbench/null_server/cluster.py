"""The replies of a null cluster: its indices, its documents, its canned replies. No sockets, no clocks."""

from __future__ import annotations

import fnmatch
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from esbench.null_server import descriptions
from esbench.null_server.indices import Answer, Refusal, StoredDocument, StoredIndex, flat_settings, new_index
from esbench.null_server.script import BulkErrors
from esbench.null_server.versions import Version

_decode = msgspec.json.decode
_encode = msgspec.json.encode

RefuseItem = Callable[[], BulkErrors | None]
Handler = Callable[["NullCluster", "NullRequest"], Answer]


@dataclass(slots=True)
class NullRequest:
    """A request to answer: the parts of its path, without a mapping type, and the handler that answers it.

    `label` is its class (`GET /*/_doc/*`). `refuse_item` is called for each item of a bulk: it returns the error of an
    item that is refused, else None.
    """

    label: str
    method: str
    parts: list[str]
    handler: Handler
    query: str
    body: bytes
    refuse_item: RefuseItem | None = None

    def option(self, name: str) -> str | None:
        """Return a value of the query string, decoded, the last one of a repeated name; None if it is not there."""
        if name not in self.query:
            return None
        return dict(parse_qsl(self.query, keep_blank_values=True)).get(name)

    @property
    def names(self) -> str:
        """The index names in the path ("a,b*", percent-encoded); "_all" if it begins with an API ("_search")."""
        return "_all" if self.parts[0].startswith("_") else self.parts[0]


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
_ACTIONS = {"index", "create", "update", "delete"}


class NullCluster:
    """A cluster of one node. With `store`, documents are remembered, and only those can be found.

    Without `bulk_items`, a bulk to an index in its path is counted by its lines, and its reply has no items; a store,
    or items to refuse, override that.
    """

    def __init__(self, version: Version, *, store: bool = False, bulk_items: bool = True) -> None:
        self.documents = 0  # acknowledged writes of documents, deletes not among them
        self._version = version
        self._store = store
        self._bulk_items = bulk_items
        self._indices: dict[str, StoredIndex] = {}
        self._node_id = secrets.token_urlsafe(16)  # two servers are two nodes
        self._type = version.type_field
        self._generated_ids = 0
        self._root = _encode(version.root())
        hit = f'"_index":"%s",{self._type}"_id":"42","_score":1.0,"_source":{_SOURCE}'
        total = '{"value":1,"relation":"eq"}' if not version.typed_paths else "1"
        self._search = (
            '{"took":1,"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0},'
            f'"hits":{{"total":{total},"max_score":1.0,"hits":[{{{hit}}}]}}}}'
        )

    def route(self, method: str, path: str, query: str, body: bytes) -> NullRequest:
        """Return the request with its parts and handler, without carrying it out.

        `path` starts with a slash, `query` has no question mark.
        """
        parts = path[1:].split("/")
        if len(parts) == 3 and parts[1] == "_doc":
            shape = "/*/_doc/*"
        else:
            if parts[-1] == "" and len(parts) > 1:
                parts.pop()
            if parts[0] == "_all" and len(parts) > 1:  # as without any index
                del parts[0]
            if self._version.typed_paths:
                _drop_type(parts)
            shape = _shape(parts)
        known = _ROUTES.get((method, shape))
        label, handler = known or (f"{method} {shape}", NullCluster._other)
        return NullRequest(label, method, parts, handler, query, body)

    def answer(self, request: NullRequest) -> Answer:
        """Carry out a request; return status and body, those of an error reply included."""
        try:
            return request.handler(self, request)
        except Refusal as refusal:
            return refusal.answer

    # documents

    def _get(self, request: NullRequest) -> Answer:
        index, _, identifier = request.parts
        identifier = identifier if identifier.isalnum() else unquote(identifier)
        head = f'{{"_index":"{index}",{self._type}"_id":{_text(identifier)},'
        if not self._store:
            return 200, (head + _FOUND).encode()
        key = (identifier, request.option("routing") or identifier)
        document = self._index(index).documents.get(key)
        if document is None:
            return 404, f'{head}"found":false}}'.encode()
        facts = f'"_version":{document.version},"_seq_no":0,"_primary_term":1,"found":true,"_source":'
        return 200, (head + facts).encode() + document.source + b"}"

    def _put(self, request: NullRequest) -> Answer:
        parts = request.parts
        identifier = unquote(parts[2]) if len(parts) > 2 else None
        create = parts[1] == "_create" or request.option("op_type") == "create"
        index = self._index(parts[0], create=True)
        status, item = self._write(index, identifier, request.option("routing"), request.body, create=create)
        _refresh_if_asked(request, index)
        return status, item.encode()

    def _delete(self, request: NullRequest) -> Answer:
        index = self._index(request.parts[0])
        status, item = self._remove(index, unquote(request.parts[2]), request.option("routing"))
        _refresh_if_asked(request, index)
        return status, item.encode()

    def _write(
        self, index: StoredIndex, identifier: str | None, routing: str | None, source: bytes, *, create: bool
    ) -> tuple[int, str]:
        if identifier is None:
            self._generated_ids += 1
            identifier = f"null{self._generated_ids:016d}"
        version = 1
        if self._store:
            key = (identifier, routing or identifier)
            old = index.documents.get(key)
            if old is not None:
                if create:
                    reason = f"[{identifier}]: version conflict, document already exists"
                    raise Refusal(409, "version_conflict_engine_exception", reason)
                version = old.version + 1
            index.documents[key] = StoredDocument(source, version)
        self.documents += 1
        index.sequence += 1
        index.total += version == 1
        result, status = ("created", 201) if version == 1 else ("updated", 200)
        return status, self._item(index, identifier, version, result)

    def _remove(self, index: StoredIndex, identifier: str, routing: str | None) -> tuple[int, str]:
        index.sequence += 1
        if self._store and index.documents.pop((identifier, routing or identifier), None) is None:
            return 404, self._item(index, identifier, 1, "not_found")
        index.total -= 1
        return 200, self._item(index, identifier, 2, "deleted")

    def _item(self, index: StoredIndex, identifier: str, version: int, result: str) -> str:
        return (
            f'{{"_index":"{index.name}",{self._type}"_id":{_text(identifier)},"_version":{version},'
            f'"result":"{result}",{_SHARDS},"_seq_no":{index.sequence - 1},"_primary_term":1}}'
        )

    # bulk

    def _bulk(self, request: NullRequest) -> Answer:
        body = request.body
        if not body.endswith(b"\n"):
            reason = "The bulk request must be terminated by a newline [\\n]"
            raise Refusal(400, "illegal_argument_exception", reason)
        default = request.parts[0] if len(request.parts) > 1 else None
        if default is not None and not (self._bulk_items or self._store or request.refuse_item):
            return self._count_bulk(request, self._index(default, create=True))
        default_routing = request.option("routing")
        items, errors = [], False
        touched: set[str] = set()
        lines = iter(body.split(b"\n"))
        for line in lines:
            if not line:
                continue
            action, name, identifier, routing = _action(line, default, default_routing)
            source = next(lines, b"") if action != "delete" else b""
            refused = request.refuse_item() if request.refuse_item else None
            if refused is None:
                status, item = self._bulk_item(action, name, identifier, routing, source)
            else:
                error = {"type": refused.type, "reason": refused.reason}
                status, item = refused.status, self._failed(name, identifier, error)
            errors |= status >= 400 and not (action == "delete" and status == 404)
            touched.add(name)
            items.append(f'{{"{action}":{item[:-1]},"status":{status}}}}}')
        for name in touched & self._indices.keys():
            _refresh_if_asked(request, self._indices[name])
        return 200, f'{{"took":1,"errors":{str(errors).lower()},"items":[{",".join(items)}]}}'.encode()

    def _count_bulk(self, request: NullRequest, index: StoredIndex) -> Answer:
        """Count the documents of a bulk without looking at them: each is an action line and a source line."""
        count = request.body.count(b"\n") // 2
        self.documents += count
        index.total += count
        index.sequence += count
        _refresh_if_asked(request, index)
        return 200, b'{"took":1,"errors":false,"items":[]}'

    def _bulk_item(
        self, action: str, name: str, identifier: str | None, routing: str | None, source: bytes
    ) -> tuple[int, str]:
        index = self._index(name, create=True)
        try:
            if action == "delete":
                return self._remove(index, identifier or "", routing)
            return self._write(index, identifier, routing, source, create=action == "create")
        except Refusal as refusal:
            return refusal.answer[0], self._failed(name, identifier, refusal.cause)

    def _failed(self, name: str, identifier: str | None, error: dict[str, str]) -> str:
        return f'{{"_index":"{name}",{self._type}"_id":{_text(identifier)},"error":{_encode(error).decode()}}}'

    # search and count

    def _searched(self, request: NullRequest) -> Answer:
        named = len(request.parts) > 1
        if self._store and named:
            self._select(request)
        return 200, (self._search % (request.parts[0] if named else "null")).encode()

    def _count(self, request: NullRequest) -> Answer:
        indices = self._select(request)
        count = sum(index.visible for index in indices)
        return 200, f'{{"count":{count},{descriptions.shards(indices)}}}'.encode()

    # indices

    def _create_index(self, request: NullRequest) -> Answer:
        name = unquote(request.parts[0])
        if name in self._indices:
            kind = "resource_already_exists_exception"
            if self._version.typed_paths and self._version.major == 5:
                kind = "index_already_exists_exception"
            raise Refusal(400, kind, f"index [{name}/null] already exists")
        self._indices[name] = new_index(name, _json_object(request.body))
        return 200, f'{{"acknowledged":true,"shards_acknowledged":true,"index":"{name}"}}'.encode()

    def _delete_index(self, request: NullRequest) -> Answer:
        for index in self._select(request):
            del self._indices[index.name]
        return 200, _ACKNOWLEDGED

    def _describe(self, request: NullRequest) -> Answer:
        described = {
            index.name: {"aliases": {}, **descriptions.mappings(index), **descriptions.settings(index)}
            for index in self._select(request)
        }
        return 200, _encode(described)

    def _get_settings(self, request: NullRequest) -> Answer:
        flat = request.option("flat_settings") == "true"
        indices = self._select(request)
        return 200, _encode({index.name: descriptions.settings(index, flat=flat) for index in indices})

    def _get_mapping(self, request: NullRequest) -> Answer:
        indices = self._select(request)
        return 200, _encode({index.name: descriptions.mappings(index) for index in indices})

    def _put_settings(self, request: NullRequest) -> Answer:
        body = _json_object(request.body)
        for index in self._select(request):
            index.settings.update(flat_settings(body.get("settings", body)))
        return 200, _ACKNOWLEDGED

    def _put_mapping(self, request: NullRequest) -> Answer:
        for index in self._select(request):
            index.mappings.update(_json_object(request.body))
        return 200, _ACKNOWLEDGED

    def _refresh(self, request: NullRequest) -> Answer:
        indices = self._select(request)
        for index in indices:
            index.visible = index.total
        return 200, f"{{{descriptions.shards(indices)}}}".encode()

    def _all_shards(self, request: NullRequest) -> Answer:
        indices = self._select(request)
        return 200, f"{{{descriptions.shards(indices)}}}".encode()

    # the cluster

    def _hello(self, _request: NullRequest) -> Answer:
        return 200, self._root

    def _acknowledge(self, _request: NullRequest) -> Answer:
        return 200, b'{"acknowledged":true,"persistent":{},"transient":{}}'

    def _other(self, request: NullRequest) -> Answer:
        """Answer families of paths with many members; refuse any other path as a real node does."""
        parts, method = request.parts, request.method
        indices = list(self._indices.values())
        if method == "HEAD" and len(parts) == 1:
            return (200 if all(name in self._indices for name in parts[0].split(",")) else 404), b""
        if method == "GET" and parts[:2] == ["_cluster", "health"]:
            return 200, _encode(descriptions.health(indices))
        if method == "GET" and parts[0] == "_nodes":
            return 200, _encode(
                descriptions.nodes(self._node_id, self._version, indices, with_statistics="stats" in parts)
            )
        if method == "GET" and "_stats" in parts[:2]:
            by_shard = request.option("level") == "shards"
            return 200, _encode(descriptions.stats(self._node_id, self._select(request), by_shard=by_shard))
        uri = f"/{'/'.join(parts)}{'?' if request.query else ''}{request.query}"
        return 400, _encode({"error": f"no handler found for uri [{uri}] and method [{method}]"})

    def _index(self, name: str, *, create: bool = False) -> StoredIndex:
        index = self._indices.get(name)
        if index is None:
            if not create:
                raise Refusal(404, "index_not_found_exception", f"no such index [{name}]")
            index = self._indices[name] = StoredIndex(name)
        return index

    def _select(self, request: NullRequest) -> list[StoredIndex]:
        """Return the indices of `a,b*` in a path.

        A name without a wildcard must exist, unless the request is lenient.
        """
        if request.names in ("_all", "*", ""):
            return list(self._indices.values())
        lenient = request.option("ignore_unavailable") == "true"
        chosen: dict[str, StoredIndex] = {}
        for name in unquote(request.names).split(","):
            if "*" in name:
                chosen |= {known: self._indices[known] for known in fnmatch.filter(self._indices, name)}
            elif name in self._indices or not lenient:
                chosen[name] = self._index(name)
        return list(chosen.values())


def _routes() -> dict[tuple[str, str], tuple[str, Handler]]:
    """Return the class and the handler of requests, by (method, shape of the path)."""
    table: tuple[tuple[str, str, Handler], ...] = (
        ("GET HEAD", "/*/_doc/*", NullCluster._get),
        ("PUT POST", "/*/_doc/*", NullCluster._put),
        ("DELETE", "/*/_doc/*", NullCluster._delete),
        ("PUT POST", "/*/_create/*", NullCluster._put),
        ("POST", "/*/_doc", NullCluster._put),
        ("PUT POST", "/_bulk /*/_bulk", NullCluster._bulk),
        ("GET POST", "/_search /*/_search", NullCluster._searched),
        ("GET POST", "/_count /*/_count", NullCluster._count),
        ("GET POST", "/_refresh /*/_refresh", NullCluster._refresh),
        ("POST", "/_forcemerge /*/_forcemerge /_cache/clear /*/_cache/clear", NullCluster._all_shards),
        ("GET POST", "/_flush /*/_flush", NullCluster._all_shards),
        ("PUT", "/*", NullCluster._create_index),
        ("DELETE", "/*", NullCluster._delete_index),
        ("GET", "/*", NullCluster._describe),
        ("GET", "/_settings /*/_settings /_settings/* /*/_settings/*", NullCluster._get_settings),
        ("PUT", "/_settings /*/_settings", NullCluster._put_settings),
        ("GET", "/_mapping /*/_mapping /_mappings /*/_mappings", NullCluster._get_mapping),
        ("PUT POST", "/*/_mapping /*/_mappings /*/_mapping/*", NullCluster._put_mapping),
        ("GET HEAD", "/", NullCluster._hello),
        ("GET PUT", "/_cluster/settings", NullCluster._acknowledge),
    )
    return {
        (method, shape): (f"{method} {shape}", handler)
        for methods, shapes, handler in table
        for method in methods.split()
        for shape in shapes.split()
    }


_ROUTES = _routes()


def _shape(parts: list[str]) -> str:
    if len(parts) > 2 and parts[1] in ("_doc", "_create"):
        return f"/*/{parts[1]}/*"
    return "/" + "/".join(
        part if part.startswith("_") or (i and parts[0].startswith("_")) else "*" if part else ""
        for i, part in enumerate(parts)
    )


def _drop_type(parts: list[str]) -> None:
    """Turn /index/type/id and /index/type/_bulk into /index/_doc/id and /index/_bulk, in place."""
    if len(parts) < 2 or parts[0].startswith("_") or (parts[1].startswith("_") and parts[1] != "_doc"):
        return
    if len(parts) == 2 or not parts[2].startswith("_") or parts[2] == "":
        parts[1] = "_doc"
    elif len(parts) == 4 and parts[3] == "_create":
        parts[1:] = ["_create", parts[2]]
    else:
        del parts[1]


def _action(line: bytes, default: str | None, default_routing: str | None) -> tuple[str, str, str | None, str | None]:
    """Parse an action line; return action, index, id and routing."""
    try:
        ((action, meta),) = _decode(line).items()
        name = meta.get("_index", default)
    except (msgspec.DecodeError, ValueError, AttributeError):
        action = name = ""
    if action not in _ACTIONS:
        text = line[:60].decode(errors="replace")
        reason = f"Malformed action/metadata line, expected an action and its object: {text}"
        raise Refusal(400, "illegal_argument_exception", reason)
    if name is None:
        raise Refusal(400, "action_request_validation_exception", "Validation Failed: 1: index is missing;")
    routing = meta.get("routing", meta.get("_routing", default_routing))
    identifier = meta.get("_id")
    return (
        action,
        name,
        None if identifier is None else str(identifier),
        None if routing is None else str(routing),
    )


def _refresh_if_asked(request: NullRequest, index: StoredIndex) -> None:
    if request.query and request.option("refresh") in ("", "true", "wait_for"):
        index.visible = index.total


def _text(value: str | None) -> str:
    """Return a value as a JSON string."""
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
