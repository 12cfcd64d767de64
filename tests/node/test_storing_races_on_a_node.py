"""Races in a metrics store on a real node: what its queries find, each race once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from races import as_counted

from esbench.cluster.client import Cluster
from esbench.features.publish.elasticsearch.documents import RaceDocuments
from esbench.features.publish.elasticsearch.store import MetricsStore, Stored
from esbench.record.model import RaceRecord
from esbench.record.store import RaceFolder, RaceStore, decode_record

pytestmark = pytest.mark.node

GOLDEN = Path(__file__).parents[1] / "golden" / "race-schema-4.json"
PREFIX = "kept"
DOCUMENTS = 12  # the race, six tasks, two parts of a sequence, two seconds, one reading
SECONDS = b"".join(
    b'{"task":"bulk","second":%d,"phase":"measurement","due":0,"sent":3,"requests":3,"units":3.0,"errors":{}}\n'
    % second
    for second in range(2)
)
TELEMETRY = b"""{"series":0,"device":"nodes","of":"node-0","group":"os","gauges":["load_1m"],"counters":["cpu_ms"]}
[0,1.5,0.25,340]
"""


@pytest.fixture
def cluster(url: str) -> Iterator[Cluster]:
    with Cluster([url]) as cluster:
        yield cluster
        cluster.request("DELETE", f"/{PREFIX}-*")
        for kind in ("races", "tasks", "seconds", "telemetry"):
            cluster.request("DELETE", f"/_index_template/{PREFIX}-{kind}")


@pytest.fixture
def folder(tmp_path: Path) -> RaceFolder:
    folder = RaceStore(tmp_path).create("20261121t101530-4f2a")
    folder.append_seconds(SECONDS)
    folder.append_telemetry(TELEMETRY)
    return folder


def golden(status: str = "complete") -> RaceRecord:
    return decode_record(GOLDEN.read_bytes().replace(b'"complete"', f'"{status}"'.encode(), 1))


def keep(cluster: Cluster, folder: RaceFolder, record: RaceRecord) -> Stored:
    return MetricsStore(cluster, PREFIX).keep(RaceDocuments(as_counted(record, folder.seconds_file), folder))


def found(cluster: Cluster, kind: str, query: str) -> list[dict[str, Any]]:
    reply = cluster.request("GET", f"/{PREFIX}-{kind}/_search", params={"q": query, "size": 100})
    return [hit["_source"] for hit in reply["hits"]["hits"]]


def test_a_race_is_found_by_what_it_measured_and_is_there_once(cluster: Cluster, folder: RaceFolder) -> None:
    assert keep(cluster, folder, golden("cancelled")) == Stored(DOCUMENTS, created=DOCUMENTS)
    assert keep(cluster, folder, golden("cancelled")) == Stored(DOCUMENTS, already_there=DOCUMENTS)
    assert keep(cluster, folder, golden()) == Stored(DOCUMENTS, created=DOCUMENTS, removed=DOCUMENTS)

    assert found(cluster, "*", "status:cancelled") == []
    assert len(found(cluster, "*", "status:complete")) == DOCUMENTS
    (race,) = found(cluster, "races", 'user_tags:"intention:baseline" AND statistics.merge_count:3')
    assert race["documents"] == DOCUMENTS
    (task,) = found(cluster, "tasks", "latency_ms.p99_9:>600 AND latency_ms.p50:<2 AND beyond:latency_ms.p99_99")
    assert task["task"] == "get-by-id-open"
    assert len(found(cluster, "seconds", r"\@timestamp:[2026-11-21T10:15:41 TO 2026-11-21T10:15:42]")) == 1
    assert len(found(cluster, "telemetry", "of:node\\-0 AND gauges.load_1m:0.25 AND counters.cpu_ms:340")) == 1


def test_the_mapping_is_the_templates(cluster: Cluster, folder: RaceFolder) -> None:
    keep(cluster, folder, golden())
    (index,) = cluster.request("GET", f"/{PREFIX}-tasks/_mapping").values()
    properties = index["mappings"]["properties"]
    assert properties["task"]["type"] == "keyword"
    assert properties["requests"]["type"] == "long"
    assert properties["latency_ms"]["properties"]["p99_9"]["type"] == "double"
    assert properties["histograms"]["properties"]["latency"]["type"] == "binary"
    assert properties["telemetry"]["properties"]["cluster"]["properties"]["refresh_count"]["type"] == "double"
