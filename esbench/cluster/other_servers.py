"""Servers that are neither Elasticsearch nor OpenSearch: what they are, by what they answer or by their usual port."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from esbench.errors import ClusterError

_USUAL = 9200
_PORTS = {
    80: "web servers",
    443: "web servers",
    2379: "etcd",
    3000: "Grafana",
    3306: "MariaDB and MySQL, which is raced as mysql://user@host:3306/database",
    5432: "PostgreSQL",
    5601: "Kibana",
    6379: "Redis",
    8080: "web servers",
    8123: "ClickHouse",
    8983: "Solr",
    9090: "Prometheus",
    9092: "Kafka",
    9300: "the traffic between nodes",
    9600: "Logstash",
    11211: "memcached",
    27017: "MongoDB",
}
_SIGNS = {  # in the reply to GET /, in lower case
    "couchdb": "CouchDB",
    "mongodb": "MongoDB",
    "kibana": "Kibana",
    "grafana": "Grafana",
    "meilisearch": "Meilisearch",
    "qdrant": "Qdrant",
    "prometheus": "Prometheus",
    "solr": "Solr",
    "logstash": "Logstash",
    "clickhouse": "ClickHouse",
    "nginx": "nginx",
    "apache": "Apache",
}
_MOST = 65536  # characters of a reply that are looked at


def other_server(url: str, reply: Any) -> ClusterError:
    """Return the error for a server that answered GET / with something else; it says what it is, if that is known."""
    told = (reply if isinstance(reply, str) else json.dumps(reply))[:_MOST].lower()
    product = next((name for sign, name in _SIGNS.items() if sign in told), "")
    what = f"this is neither Elasticsearch nor OpenSearch{f', but {product}' if product else ''}"
    return ClusterError(what, where=urlsplit(url).netloc, hint=hint_at_port(url))


def hint_at_port(url: str) -> str:
    """Return a hint at the port of a URL, and at what usually listens there."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if port == _USUAL:
        return "check host and port"
    usual = f"that of Elasticsearch and OpenSearch is {_USUAL}"
    return f"{port} is the usual port of {_PORTS[port]}; {usual}" if port in _PORTS else f"check the port: {usual}"
