"""The only module that uses elasticsearch-py: synchronous administrative requests of the parent process, not measured.

Built on its connection layer (elastic_transport) alone: no product check and plain JSON media types, so that
Elasticsearch 5 to 9 and OpenSearch 1 to 3 answer. Measured requests do not belong here.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from esbench import __version__
from esbench.cluster.bounded import NOT_GZIP, BoundedReply, TooLong, bounded, unpacked
from esbench.cluster.dialect import Dialect, version_numbers
from esbench.cluster.failures import (
    explain_connection_failure,
    explain_http_error,
    host_speaks_tls,
    speaks_tls,
)
from esbench.cluster.marks import is_marked, without_mark
from esbench.cluster.options import Access, ClientOptions, Host
from esbench.cluster.proxy import through
from esbench.cluster.replies import count, counted, decode_json, known_form, listed, mapping, text
from esbench.errors import ClusterError
from esbench.record.model import NodeFacts
from esbench.record.secrets import Redactor

if TYPE_CHECKING:
    from elastic_transport import BaseNode

LENIENT: Mapping[str, Any] = {"ignore_unavailable": True, "allow_no_indices": True}  # of requests about indices
_SAFE_TO_REPEAT = ("GET", "HEAD")
# What Elasticsearch itself writes into an index's settings: differs between any two indices.
_SETTINGS_OF_ITS_OWN = ("index.creation_date", "index.uuid", "index.version.", "index.provided_name")
# Options of Java that tune it; those with paths differ with every node and say nothing.
_TUNES = re.compile(r"-X[^/\\]*")
_NOT_FORMED = "_na_"  # in place of a UUID
# The record keeps mappings up to these lengths.
_MAPPINGS_OF_AN_INDEX_CHARACTERS = 20_000
SERVERLESS, _OF_AWS_SERVERLESS = "serverless", "2.0.0"  # it does not say its version
FIRST_ANSWER_S = 5.0  # for the first request to a cluster that may not be there
_MAPPINGS_CHARACTERS = 200_000


@dataclass(frozen=True)
class ClusterInfo:
    """The identity of a cluster as it reports it; `distribution` is elasticsearch or opensearch.

    `uuid` is empty as long as the cluster has not formed.
    """

    distribution: str
    version: str
    build_hash: str = ""
    build_flavor: str = ""
    name: str = ""
    uuid: str = ""

    @property
    def server(self) -> str:
        """The distribution with its version: elasticsearch 7.10.2."""
        return f"{self.distribution} {self.version}".rstrip()

    @property
    def version_tuple(self) -> tuple[int, ...]:
        """The version as numbers that can be compared: `8.19.4-SNAPSHOT` as (8, 19, 4)."""
        return version_numbers(self.version)

    @cached_property
    def dialect(self) -> Dialect:
        """The paths and bodies that servers of this distribution and version understand."""
        return Dialect.of(self.distribution, self.version)


@dataclass(frozen=True)
class IndexIdentity:
    """The UUID of an index, which another one of the same name does not have; `marked`: an esbench made it."""

    uuid: str
    marked: bool


class Cluster:
    """A client for a cluster behind one or more URLs (`http://host:9200`); safe to use from several threads.

    A request goes to the first host that accepts connections; a request that may have reached a cluster is repeated on
    another host only if it is safe to repeat. After one that timed out, the next host is the first.
    """

    def __init__(self, urls: Iterable[str], options: ClientOptions | None = None) -> None:
        self.urls = tuple(urls)
        if not self.urls:
            raise ValueError("a cluster needs a URL")
        self.options = options or ClientOptions()
        self._first = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        if "_nodes" in self.__dict__:
            for node in self._nodes:
                node.close()

    @cached_property
    def _access(self) -> Access:
        return self.options.access()

    @cached_property
    def _nodes(self) -> tuple[BaseNode, ...]:
        import logging

        from elastic_transport import NodeConfig, Urllib3HttpNode
        from urllib3 import HTTPSConnectionPool

        # Its log would reach the terminal through logging's last resort; our errors say it in one line.
        logging.getLogger("elastic_transport").addHandler(logging.NullHandler())
        headers = {"user-agent": f"esbench/{__version__}", **dict(self.options.headers())}
        context, proxy = self._access.tls, self._access.proxy
        nodes: list[BaseNode] = []
        for url in self.urls:
            parts = urlsplit(url)
            node = Urllib3HttpNode(
                NodeConfig(
                    scheme=parts.scheme,
                    host=parts.hostname or "",
                    port=parts.port or 9200,
                    headers=headers,
                    request_timeout=self.options.timeout_s,
                    http_compress=self.options.http_compress and self._access.signer is None,  # what is signed is sent
                    ssl_context=context if parts.scheme == "https" else None,
                    verify_certs=self.options.verify_certs,
                    ssl_show_warn=False,
                )
            )
            if isinstance(node.pool, HTTPSConnectionPool):
                # The context alone decides, as for every other client: nothing is trusted in addition to
                # ca_certs, and urllib3 does not match names once more.
                node.pool.ca_certs = None
                node.pool.assert_hostname = None if self.options.ssl_assert_hostname else False
            node.pool.ConnectionCls = bounded(node.pool.ConnectionCls, BoundedReply)
            if proxy is not None:
                node.pool.ConnectionCls = through(node.pool.ConnectionCls, proxy, context)
            # Unpacked by `_unpacked`, within bounds.
            node.pool.urlopen = partial(node.pool.urlopen, decode_content=False)  # type: ignore[method-assign]
            nodes.append(node)
        return tuple(nodes)

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        timeout_s: float | None = None,
        ignore: Collection[int] = (),
        decode: Callable[[bytes], Any] | None = None,
    ) -> Any:
        """Send a request and return the reply's JSON: text if it is not JSON, None if it is empty. The connection's
        secrets are hidden in its texts, not in its names.

        `path` is percent-encoded already and starts with a slash; `params` hold text, numbers, booleans or lists (None:
        left out); `body` is JSON, or text or bytes that are sent as they are. `timeout_s` replaces the options' limit.
        Replies with an HTTP status in `ignore` are returned; any other status from 400 on and a failed connection raise
        ClusterError. `decode` reads the reply's bytes in another way, in which nothing is hidden.
        """
        target = path + _query(params)
        data = _encode(body)
        headers = {"accept": "application/json"}
        if data is not None:
            headers["content-type"] = "application/json"
        limit_s = self.options.timeout_s if timeout_s is None else timeout_s
        status, content, url = self._send(method, target, data, headers, limit_s)
        if not 200 <= status < 300 and status not in ignore:  # redirects are not followed
            reply = decode_json(content)
            if status == 400 and isinstance(reply, str) and url.startswith("http:") and speaks_tls(url):
                raise host_speaks_tls(url)
            raise explain_http_error(f"{method} {path}", status, reply, self.options)
        return decode(content) if decode else self._without_secrets(content)

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(self.options.secrets())

    def _without_secrets(self, content: bytes) -> Any:
        reply = decode_json(content)
        has_one = self._redactor.knows_one_of(content.decode(errors="replace"))
        return self._redactor.within(reply) if has_one else reply

    def _send(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], limit_s: float
    ) -> tuple[int, bytes, str]:
        from elastic_transport import ConnectionTimeout, HttpHeaders, TransportError
        from urllib3.exceptions import ConnectTimeoutError

        nodes, first = self._nodes, self._first
        order = range(first, first + len(nodes))
        for place in order:
            node = nodes[place % len(nodes)]
            given = HttpHeaders(headers)
            host = Host(node.config.host, node.config.port, node.config.scheme)
            given.update(self._access.headers(host, method, target, data))
            try:
                meta, content = node.perform_request(method, target, body=data, headers=given, request_timeout=limit_s)
            except TransportError as error:
                if isinstance(error, ConnectionTimeout):
                    with self._lock:
                        self._first = (place + 1) % len(nodes)
                never_sent = isinstance(error.__cause__, ConnectTimeoutError)  # also the kind of a refused connection
                repeatable = method in _SAFE_TO_REPEAT and not isinstance(error, ConnectionTimeout)
                if place == order[-1] or not (never_sent or repeatable):
                    proxy = self._access.proxy
                    raise explain_connection_failure(error, node.base_url, limit_s, proxy) from error
            else:
                with self._lock:
                    self._first = place % len(nodes)
                return meta.status, _unpacked(content, node.base_url), node.base_url
        raise AssertionError("unreachable: the last host either answers or raises")

    def info(self, *, timeout_s: float | None = None) -> ClusterInfo:
        """Return the cluster's identity; from its local node if `/` is not served (405, some 8.x builds).

        `timeout_s` makes the options' limit shorter, never longer. Raises ClusterError if it is neither Elasticsearch
        nor OpenSearch.
        """
        limit_s = self.options.timeout_s if timeout_s is None else min(timeout_s, self.options.timeout_s)
        if self.options.aws is not None and self.options.aws.service == "aoss":
            return self._info_of_aws_serverless(limit_s)
        reply = self.request("GET", "/", ignore=(*range(300, 400), 404, 405), timeout_s=limit_s, decode=decode_json)
        if isinstance(reply, Mapping) and "error" in reply:
            return self._info_of_local_node()
        version = reply.get("version") if isinstance(reply, Mapping) else None
        if not isinstance(version, Mapping) or "number" not in version:
            from esbench.cluster.other_servers import other_server

            raise other_server(self.urls[self._first], reply)
        with known_form("/"):
            distribution, hide = text(version.get("distribution", "elasticsearch")), self._redactor
            return ClusterInfo(
                # opensearch is also a likely password
                distribution=distribution if distribution == "opensearch" else hide(distribution),
                version=hide(text(version["number"])),
                build_hash=hide(text(version.get("build_hash"))),
                build_flavor=hide(text(version.get("build_flavor"))),
                name=hide(text(reply.get("cluster_name"))),
                uuid=hide(_uuid(reply)),
            )

    def _info_of_aws_serverless(self, limit_s: float) -> ClusterInfo:
        """Return the identity of a service that has none: it does not serve `/`, and lists its indices instead."""
        self.request("GET", "/_cat/indices", params={"format": "json"}, timeout_s=limit_s)
        return ClusterInfo("opensearch", _OF_AWS_SERVERLESS, build_flavor=SERVERLESS, name=self.urls[0])

    def _info_of_local_node(self) -> ClusterInfo:
        reply = self.request("GET", "/_nodes/_local/http")
        state = self.request("GET", "/_cluster/state/version", params={"filter_path": "cluster_uuid"})
        with known_form("/_nodes/_local/http"):
            node = next(iter(reply["nodes"].values()))
            return ClusterInfo(
                distribution="elasticsearch",
                version=text(node["version"]),
                build_hash=text(node.get("build_hash")),
                build_flavor=text(node.get("build_flavor")),
                name=text(reply["cluster_name"]),
                uuid=_uuid(mapping(state)),
            )

    def health(self, *, level: str = "cluster") -> Mapping[str, Any]:
        """Return the reply to _cluster/health, now, at least its "status"; `level` "indices" adds that of each index.

        Raises ClusterError, soon when there is no master.
        """
        params = {"level": level, "master_timeout": "1s"}  # says soon when there is no master
        reply = self.request("GET", "/_cluster/health", params=params)
        with known_form("/_cluster/health"):
            return {**reply, "status": text(reply["status"])}

    def nodes(self) -> tuple[NodeFacts, ...]:
        """Return the cluster's nodes, sorted by name, without their disks.

        Raises ClusterError if it does not describe them.
        """
        reply = self.request("GET", "/_nodes/os,jvm,plugins")
        with known_form("/_nodes"):
            return tuple(sorted((_node_facts(*node) for node in reply["nodes"].items()), key=lambda n: n.name))

    def identities(self, names: Iterable[str], *, timeout_s: float | None = None) -> dict[str, IndexIdentity]:
        """Return the indices, open or closed, that `names` stand for: index -> its UUID and whether it is marked.

        `names` are indices, data streams, aliases or patterns; those that do not exist are left out.
        """
        path = index_path(names)
        if not path:
            return {}
        kept = ["*.settings.index.uuid", "*.mappings._meta", "*.mappings.*._meta"]
        params = {**LENIENT, "expand_wildcards": "open,closed", "filter_path": kept}
        reply = self.request("GET", path, params=params, timeout_s=timeout_s)
        with known_form(path):
            return {
                name: IndexIdentity(text(index["settings"]["index"]["uuid"]), is_marked(index.get("mappings")))
                for name, index in mapping(reply).items()
            }

    def documents(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return index -> its documents, and how many are deleted and not merged away yet; as users count them.

        Statistics count nested documents, too: of an index with nested fields, documents are counted by a search.

        `names` are indices, data streams, aliases or patterns; those that do not exist are left out.
        """
        path = index_path(names)
        if not path:
            return {}
        reply = self.request("GET", f"{path}/_stats/docs", params=LENIENT, timeout_s=FIRST_ANSWER_S)
        mappings = self.request("GET", f"{path}/_mapping", params=LENIENT, timeout_s=FIRST_ANSWER_S)
        with known_form(path):
            found = {
                name: (counted(index["primaries"]["docs"]["count"]), counted(index["primaries"]["docs"]["deleted"]))
                for name, index in reply["indices"].items()
            }
            nested = {name for name, index in mapping(mappings).items() if has_nested(index)}
        for name, (_, deleted) in found.items():
            if name in nested and (count := self.count(name)) is not None:
                found[name] = count, deleted
        return found

    def count(self, name: str) -> int | None:
        """Return how many documents an index has, without nested ones; None if there is no such index."""
        path = f"/{quote(name)}/_count"
        reply = self.request("GET", path, ignore=(404,))
        with known_form(path):
            return counted(reply["count"]) if "count" in mapping(reply) else None

    def indices_facts(
        self, names: Iterable[str] = ("*",), *, timeout_s: float | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return index -> primary_shards, replicas, docs, store_bytes, settings, mappings_digest, mappings.

        `names` are indices, data streams, aliases or patterns; those that do not exist are left out, and
        indices that start with a dot unless they are named. `docs` lack nested ones, `store_bytes` are of all copies;
        `mappings` are left out if they are long. `timeout_s` is of each of three requests.
        """
        path = index_path(names)
        if not path:
            return {}
        flat = {**LENIENT, "flat_settings": True}
        settings = self.request("GET", f"{path}/_settings", params=flat, timeout_s=timeout_s)
        mappings = self.request("GET", f"{path}/_mapping", params=LENIENT, timeout_s=timeout_s)
        stats = self.request("GET", f"{path}/_stats/docs,store", params=LENIENT, timeout_s=timeout_s)
        with known_form(path):
            counted = stats["indices"]
            found = {
                index: _index_facts(settings[index]["settings"], mappings.get(index, {}), counted.get(index, {}))
                for index in sorted(settings)
                if path != "/*" or not index.startswith(".") or index.startswith(".ds-")
            }
        room = _MAPPINGS_CHARACTERS
        for name, facts in found.items():
            if facts["docs"] is not None and has_nested(facts["mappings"]):
                facts["docs"] = self.count(name)
            length = len(json.dumps(facts["mappings"]))
            if length > min(room, _MAPPINGS_OF_AN_INDEX_CHARACTERS):
                del facts["mappings"]
            else:
                room -= length
        return found


def _unpacked(content: bytes, url: str) -> bytes:
    """Return a reply's body, unpacked if it is gzip, which no JSON begins like."""
    if not content.startswith(b"\x1f"):
        return content
    try:
        return unpacked(content)
    except TooLong as error:
        raise ClusterError(str(error), where=urlsplit(url).netloc) from error
    except NOT_GZIP as error:
        raise ClusterError("the reply is broken gzip", where=urlsplit(url).netloc) from error


def _uuid(reply: Mapping[str, Any]) -> str:
    uuid = text(reply.get("cluster_uuid"))
    return "" if uuid == _NOT_FORMED else uuid


def has_nested(mappings: object) -> bool:
    """True if a field at any depth of mappings is of the type nested, whose documents Lucene counts, too."""
    if isinstance(mappings, Mapping):
        return mappings.get("type") == "nested" or any(map(has_nested, mappings.values()))
    return False


def _index_facts(settings: Mapping[str, Any], mappings: Mapping[str, Any], stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record's entry for one index; a closed index has no statistics."""
    typeless = without_mark(_typeless(mapping(mappings.get("mappings"))))
    return {
        "primary_shards": count(int(settings["index.number_of_shards"])),
        "replicas": count(int(settings["index.number_of_replicas"])),
        "docs": count(stats.get("primaries", {}).get("docs", {}).get("count")),
        "store_bytes": count(stats.get("total", {}).get("store", {}).get("size_in_bytes")),
        "settings": {key: value for key, value in settings.items() if not key.startswith(_SETTINGS_OF_ITS_OWN)},
        "mappings_digest": _digest(typeless),
        "mappings": typeless,
    }


def index_path(names: Iterable[str]) -> str:
    """Return `/a,b` for indices, data streams, aliases or patterns; empty without names: that must not mean all."""
    expression = ",".join(quote(name, safe="*") for name in names)
    return f"/{expression}" if expression else ""


def _node_facts(identifier: str, node: Mapping[str, Any]) -> NodeFacts:
    jvm, system = mapping(node.get("jvm")), mapping(node.get("os"))
    return NodeFacts(
        name=text(node["name"]),
        version=text(node["version"]),
        roles=tuple(map(text, listed(node.get("roles")))),
        host=text(node.get("host")),
        heap_max_bytes=count(mapping(jvm.get("mem")).get("heap_max_in_bytes")),
        processors=count(system.get("allocated_processors")),
        jvm=f"{text(jvm.get('vm_name'))} {text(jvm.get('version'))}".strip(),
        plugins=tuple(sorted(text(plugin["name"]) for plugin in listed(node.get("plugins")))),
        id=identifier,
        os=text(system.get("pretty_name")) or f"{text(system.get('name'))} {text(system.get('version'))}".strip(),
        arch=text(system.get("arch")),
        jvm_flags=tuple(flag for flag in map(text, listed(jvm.get("input_arguments"))) if _TUNES.fullmatch(flag)),
        attributes={name: text(value) for name, value in mapping(node.get("attributes")).items()},
    )


def _query(params: Mapping[str, Any] | None) -> str:
    given = {name: _text(value) for name, value in (params or {}).items() if value is not None}
    return f"?{urlencode(given, quote_via=quote, safe=',*')}" if given else ""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(_text(part) for part in value)
    return str(value)


def _encode(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _typeless(mappings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the mapping without the type name around it that 5.x and 6.x add."""
    names = list(mappings)
    if len(names) == 1 and names[0] in ("doc", "_doc"):
        inner: Mapping[str, Any] = mappings[names[0]]
        return inner
    return mappings


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
