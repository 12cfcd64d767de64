"""The index templates of a metrics store: the mapping of each kind of document, for every server version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from esbench.cluster.client import Cluster
from esbench.cluster.dialect import Dialect
from esbench.cluster.replies import known_form

KINDS = ("tasks", "seconds", "telemetry", "races")  # in the order in which they are stored: a race when all of it is
VERSION = 2  # raise it with every change of the mappings
_PRIORITY = 300  # above Elastic's own templates (100 to 200)
_LONGEST_KEYWORD = 1024
_MOST_FIELDS = 2000  # devices and runners add fields

_SHARED = {
    "date": "@timestamp",
    "keyword": "race_id status track challenge user_tags distribution version",
    "boolean": "test_mode",
}
_OUTCOMES = "objectives_held objectives_missed objectives_not_judged"
_COUNTS = "requests errors due sent"
_FIELDS: Mapping[str, Mapping[str, str]] = {
    "races": {
        "date": "finished_at",
        "text": "failure warnings",
        "keyword": f"{_OUTCOMES} track_digest track_params corpora session_id session_kind session_side "
        "host_class esbench_version devices pipeline cluster_name build_hash jvm digest",
        "long": "seed task_count node_count heap_max_bytes session_round session_pair session_position documents",
    },
    "tasks": {
        "boolean": "administrative unusable",
        "keyword": f"{_OUTCOMES} task part_of operation operation_type tags loop path target_unit unit "
        "error_kinds throughput_unit beyond checks",
        "long": f"{_COUNTS} step clients workers unsent warmup_requests warmup_errors bytes_sent bytes_received",
        "double": "target_rate_per_s start_s duration_s units error_rate_ratio waited_ratio driver_share_ratio "
        "window_start_s window_end_s",
    },
    "seconds": {
        "keyword": "task phase error_kinds",
        "long": f"{_COUNTS} second backlog",
        "double": "units",
    },
    "telemetry": {"keyword": "device of group", "double": "time_s"},
}


def name_of(prefix: str, kind: str) -> str:
    """Return the index or data stream of a kind of documents (one of KINDS); its template has the same name."""
    return f"{prefix}-{kind}"


def has_data_streams(cluster: Cluster, prefix: str) -> bool:
    """True if the cluster has data streams.

    Asks for them: a version does not say it, a distribution may leave them out.
    """
    reply = cluster.request("GET", f"/_data_stream/{prefix}-*", ignore=(400, 404, 405))
    return isinstance(reply, Mapping) and "data_streams" in reply


def put_templates(cluster: Cluster, dialect: Dialect, prefix: str, *, streams: bool) -> None:
    """Put the templates that are missing or older than VERSION; keep newer ones, and a user's changes."""
    composable = _has_composable_templates(dialect)
    for kind in KINDS:
        name = name_of(prefix, kind)
        path = f"/_index_template/{name}" if composable else f"/_template/{name}"
        if _version_of(cluster.request("GET", path, ignore=(404,)), name) < VERSION:
            body = composable_template(name, kind, streams=streams) if composable else legacy_template(name, kind)
            cluster.request("PUT", path, body=body if composable else dialect.template_body(body))


def composable_template(name: str, kind: str, *, streams: bool) -> dict[str, Any]:
    """Return an index template for Elasticsearch 7.8 or later, and OpenSearch.

    It applies to `name` alone; `kind` is one of KINDS; `streams`: to a data stream of that name, not an index.
    """
    body = {
        "index_patterns": [name],
        "priority": _PRIORITY,
        "version": VERSION,
        "template": {"settings": _SETTINGS, "mappings": mappings(kind)},
    }
    return {**body, "data_stream": {}} if streams else body


def legacy_template(name: str, kind: str) -> dict[str, Any]:
    """Return a template for older versions, with one shard, which they would not choose by default."""
    return {
        "index_patterns": [name],
        "order": _PRIORITY,
        "version": VERSION,
        "settings": {**_SETTINGS, "index.number_of_shards": 1},
        "mappings": mappings(kind),
    }


def mappings(kind: str) -> dict[str, Any]:
    """Return the typeless mapping of a kind of documents. Numbers within an object, whose names vary, are doubles."""
    properties = {
        name: _MAPPED[field_type]
        for fields in (_SHARED, _FIELDS[kind])
        for field_type, names in fields.items()
        for name in names.split()
    }
    return {
        "date_detection": False,
        "dynamic_templates": [
            {"histograms": {"path_match": "histograms.*", "mapping": {"type": "binary"}}},
            {"text": {"match_mapping_type": "string", "mapping": _MAPPED["keyword"]}},
            {"longs": {"match_mapping_type": "long", "path_match": "*.*", "mapping": _MAPPED["double"]}},
            {"doubles": {"match_mapping_type": "double", "mapping": _MAPPED["double"]}},
        ],
        "properties": properties,
    }


_SETTINGS = {"index.mapping.total_fields.limit": _MOST_FIELDS}
_MAPPED = {
    "boolean": {"type": "boolean"},
    "date": {"type": "date"},
    "double": {"type": "double"},
    "keyword": {"type": "keyword", "ignore_above": _LONGEST_KEYWORD},
    "long": {"type": "long"},
    "text": {"type": "text"},
}


def _has_composable_templates(dialect: Dialect) -> bool:
    return dialect.distribution != "elasticsearch" or dialect.version >= (7, 8)


@known_form("a template of the store")
def _version_of(reply: Mapping[str, Any], name: str) -> int:
    """Return the version of a stored template; 0 if it is missing or has no version."""
    found = {each["name"]: each["index_template"] for each in reply.get("index_templates", ())} or reply
    return int(found.get(name, {}).get("version") or 0)
