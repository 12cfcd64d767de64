"""What a metrics store sends: each race once, templates that fit the version, bulk requests that are not too large."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from answering import AnsweringCluster
from races import as_counted, golden_race

from esbench.cluster.client import Cluster, ClusterInfo
from esbench.errors import ClusterError, UsageError
from esbench.features.publish.elasticsearch import bulk
from esbench.features.publish.elasticsearch.bulk import send
from esbench.features.publish.elasticsearch.documents import RaceDocuments
from esbench.features.publish.elasticsearch.store import MetricsStore, Stored
from esbench.features.publish.elasticsearch.templates import VERSION
from esbench.record.model import RaceRecord
from esbench.record.series import SecondLine, encode_second
from esbench.record.store import RaceFolder, RaceStore

TASKS = 8  # of the golden record, parts of a sequence included
ALL = TASKS + 1
WITH_STREAMS = ClusterInfo("opensearch", "3.6.0")
OLD = ClusterInfo("elasticsearch", "5.6.16")
OSS = ClusterInfo("elasticsearch", "7.10.2")


@dataclass
class Keeping(AnsweringCluster):
    """A cluster in memory that keeps documents of bulk requests and finds them by `race_id` and `digest`.

    `rollover` begins new backing indices: an id is unique in one of them only.
    """

    identity: ClusterInfo = OSS
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    documents: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # (index, id)
    asked: list[str] = field(default_factory=list)
    generation: int = 1
    open: list[dict[str, Any]] | None = None  # what a scroll has still to tell
    size: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def info(self, *, timeout_s: float | None = None) -> ClusterInfo:
        return self.identity

    def rollover(self) -> None:
        self.generation += 1

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        self.asked.append(f"{method} {path}")
        if path.startswith("/_data_stream"):
            return {"data_streams": []} if self.identity is WITH_STREAMS else {"status": 405}
        if "template/" in path:
            return self._template(method, path.rpartition("/")[2], body)
        if "/_search" in path:
            reply = {"hits": {"hits": self._search(method, path, params, body)}}
            return {"_scroll_id": "s", **reply} if self.documents else reply  # as where there is no index yet
        if "_bulk" in path:
            return self._bulk(path.split("/"), [json.loads(line) for line in body.splitlines()])
        assert path.endswith("/_refresh")
        return {}

    def _template(self, method: str, name: str, body: Any) -> Any:
        if method == "PUT":
            self.templates[name] = body
        composable = {"index_templates": [{"name": name, "index_template": self.templates.get(name, {})}]}
        return self.templates if self.identity is OLD else composable

    def _search(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> list[dict[str, Any]]:
        if method == "DELETE":
            self.open = None
            return []
        if path != "/_search/scroll":
            found = [hit for hit in self._found(body) if hit["_index"].startswith(path.split("/")[1])]
            if not params.get("scroll"):
                return found
            self.open, self.size = found, body["size"]
        assert self.open is not None
        page, self.open = self.open[: self.size], self.open[self.size :]
        return page

    def _found(self, body: Any) -> list[dict[str, Any]]:
        query = body["query"]
        terms = [each["term"] for each in query["bool"]["filter"]] if "bool" in query else [query["term"]]
        wanted = {name: value for term in terms for name, value in term.items()}
        return [
            {"_index": index, "_type": "doc", "_id": document_id, "_source": source}
            for (index, document_id), source in self.documents.items()
            if all(source.get(name) == value for name, value in wanted.items())
        ]

    def _bulk(self, path: list[str], lines: list[Any]) -> Any:
        items, sources = [], iter(lines)
        for action in sources:
            ((name, what),) = action.items()
            if name == "delete":
                assert set(what) == ({"_index", "_type", "_id"} if self.identity is OLD else {"_index", "_id"})
                status = 200 if self.documents.pop((what["_index"], what["_id"]), None) is not None else 404
            else:
                assert (name, path[2]) == ("create", "doc" if self.identity is OLD else "_bulk")
                key = (f"{path[1]}-{self.generation}", what["_id"])
                status = 409 if key in self.documents else 201
                self.documents.setdefault(key, next(sources))
            items.append({name: {"status": status}})
        return {"items": items}


@pytest.fixture
def folder(esbench_home: Path) -> RaceFolder:
    folder = RaceStore(esbench_home).create(golden_race().race_id)
    for number in range(3):
        folder.append_seconds(encode_second(SecondLine("bulk", number, "measurement", 0, 1, 1, 1.0)))
    return folder


def keep(cluster: Cluster, folder: RaceFolder, record: RaceRecord | None = None, prefix: str = "esbench") -> Stored:
    counted = as_counted(record or golden_race(), folder.seconds_file)
    return MetricsStore(cluster, prefix, pause=lambda _: None).keep(RaceDocuments(counted, folder))


@pytest.mark.parametrize("identity", [OLD, OSS, WITH_STREAMS], ids=lambda info: info.version)
def test_storing_a_race_twice_changes_nothing(identity: ClusterInfo, folder: RaceFolder) -> None:
    cluster = Keeping(identity)
    assert keep(cluster, folder) == Stored(ALL + 3, created=ALL + 3)
    before = dict(cluster.documents)
    assert keep(cluster, folder) == Stored(ALL + 3, already_there=ALL + 3)
    assert cluster.documents == before


@pytest.mark.parametrize("identity", [OLD, OSS, WITH_STREAMS], ids=lambda info: info.version)
def test_a_race_whose_record_has_changed_is_there_once_even_after_a_rollover(
    identity: ClusterInfo, folder: RaceFolder
) -> None:
    cluster = Keeping(identity)
    keep(cluster, folder, golden_race(status="cancelled"))
    cluster.rollover()
    assert keep(cluster, folder) == Stored(ALL + 3, created=ALL + 3, removed=ALL + 3)
    assert {source["status"] for source in cluster.documents.values()} == {"complete"}
    assert len(cluster.documents) == ALL + 3


def test_another_race_is_left_alone(folder: RaceFolder) -> None:
    cluster = Keeping()
    keep(cluster, folder, golden_race(race_id="other"))
    assert keep(cluster, folder).removed == 0
    assert len(cluster.documents) == 2 * (ALL + 3)


def test_a_race_that_was_stored_in_part_is_stored_whole(folder: RaceFolder) -> None:
    cluster = Keeping()
    keep(cluster, folder)
    del cluster.documents["esbench-races-1", golden_race().race_id]  # it is written last
    assert keep(cluster, folder) == Stored(ALL + 3, created=ALL + 3, removed=ALL + 2)


def test_more_documents_than_one_search_finds_are_removed(folder: RaceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esbench.features.publish.elasticsearch.store._PAGE", 5)
    cluster = Keeping()
    keep(cluster, folder, golden_race(status="cancelled"))
    assert keep(cluster, folder).removed == ALL + 3
    assert cluster.open is None  # the scroll is let go


def test_a_removal_begins_with_the_document_that_says_that_all_is_there(folder: RaceFolder) -> None:
    class Failing(Keeping):
        def _bulk(self, path: list[str], lines: list[Any]) -> Any:
            if any("delete" in line and "tasks" in line["delete"]["_index"] for line in lines):
                raise ClusterError("HTTP 500")
            return super()._bulk(path, lines)

    cluster = Failing()
    keep(cluster, folder, golden_race(status="cancelled"))
    with pytest.raises(ClusterError, match="HTTP 500"):
        keep(cluster, folder)
    assert {index for index, _ in cluster.documents} == {"esbench-tasks-1"}


def test_a_shard_that_cannot_be_searched_might_hide_a_race(folder: RaceFolder) -> None:
    class Partial(Keeping):
        def request(self, method: str, path: str, **options: Any) -> Any:
            reply = super().request(method, path, **options)
            return {**reply, "_shards": {"total": 2, "failed": 1}} if path.endswith("/_search") else reply

    cluster = Partial()
    with pytest.raises(ClusterError, match="/esbench-races: 1 shards could not be searched"):
        keep(cluster, folder)
    assert cluster.documents == {}


def test_names_begin_with_the_prefix(folder: RaceFolder) -> None:
    cluster = Keeping()
    keep(cluster, folder, prefix="team-a")
    assert {index for index, _ in cluster.documents} == {"team-a-races-1", "team-a-tasks-1", "team-a-seconds-1"}
    assert set(cluster.templates) == {f"team-a-{kind}" for kind in ("races", "tasks", "seconds", "telemetry")}


@pytest.mark.parametrize("prefix", ["", "Esbench", "_x", "a*", "a,b", "a b"])
def test_a_prefix_that_no_index_can_have_is_refused(prefix: str) -> None:
    with pytest.raises(UsageError, match="--store-prefix: no index can be called"):
        MetricsStore(Keeping(), prefix)


def test_templates_are_those_of_the_version() -> None:
    found: dict[str, dict[str, Any]] = {}
    for identity in (OLD, OSS, WITH_STREAMS):
        cluster = Keeping(identity)
        MetricsStore(cluster)
        found[identity.version] = cluster.templates["esbench-tasks"]
    assert found["5.6.16"]["template"] == "esbench-tasks"
    assert found["5.6.16"]["mappings"]["doc"]["properties"]["task"]["type"] == "keyword"
    assert found["7.10.2"]["index_patterns"] == ["esbench-tasks"]
    assert "data_stream" not in found["7.10.2"]
    assert found["3.6.0"]["data_stream"] == {}


@pytest.mark.parametrize("identity", [OLD, OSS], ids=lambda info: info.version)
def test_templates_that_are_as_new_stay_and_older_ones_are_replaced(identity: ClusterInfo) -> None:
    names = [f"esbench-{kind}" for kind in ("races", "tasks", "seconds", "telemetry")]
    versions = (VERSION, VERSION + 1, VERSION - 1, None)
    cluster = Keeping(identity, templates={n: {"version": v} for n, v in zip(names, versions, strict=True)})
    MetricsStore(cluster)
    assert [name for name in names if "mappings" in json.dumps(cluster.templates[name])] == names[2:]


def test_bulk_requests_are_cut_where_they_would_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CHUNK_BYTES", 100)
    cluster = Keeping()
    actions = [b'{"create":{"_id":"%d"}}\n{"a":1}\n' % number for number in range(10)]  # 31 bytes each
    actions.append(b'{"create":{"_id":"long"}}\n{"a":"' + b"x" * 200 + b'"}\n')
    assert send(cluster, "/x/_bulk", actions, fine=(201,)) == {201: 11}
    assert cluster.asked.count("POST /x/_bulk") == 5  # 3 + 3 + 3 + 1 + the long one
