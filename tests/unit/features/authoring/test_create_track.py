"""The track that `create-track` makes: what it keeps, what it says is left behind, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeIndex, cluster_of
from track_files import load

from esbench.cli.main import run
from esbench.cluster.options import Host
from esbench.corpus.archives import open_documents
from esbench.errors import ClusterError, UsageError
from esbench.events.progress import Progress
from esbench.features.authoring.bodies import component_template, has_join, index_body, stream_template
from esbench.features.authoring.create import CreateTrackOptions, create_track, result_lines
from esbench.features.authoring.files import Contents
from esbench.features.authoring.targets import ExtractedTarget
from esbench.model import Track

MAPPINGS = {"properties": {"title": {"type": "text"}, "price": {"type": "float"}}}


def documents(count: int, routing: str | None = None, text: str = '{"title":"a"}') -> list[tuple[str, str | None, str]]:
    return [(f"id{n}", routing, text) for n in range(count)]


def shop(version: str = "elasticsearch-8.19.4", **more: FakeIndex) -> FakeCluster:
    indices = {
        "orders": FakeIndex(documents(1200), {"refresh_interval": "30s"}, MAPPINGS, shards=3),
        "orders-old": FakeIndex(documents(5), {}, MAPPINGS, {"archive": {"filter": {"term": {"price": 1}}}}),
        "carts": FakeIndex(documents(9, routing="u1"), {}, MAPPINGS),
        "empty": FakeIndex([], {}, MAPPINGS),
    }
    return cluster_of(version, {**indices, **{name.replace("_", "-"): index for name, index in more.items()}})


def make(cluster: FakeCluster, folder: Path, *indices: str, **options: Any) -> tuple[Path, Contents]:
    name = options.pop("name", "shop")
    hosts = (Host("unused"),)
    options = {"indices": indices, "output_path": folder, **options}
    return create_track(cluster, CreateTrackOptions(name=name, hosts=hosts, **options), Progress())


def made(cluster: FakeCluster, folder: Path, *indices: str, **options: Any) -> Track:
    """The track as esbench loads it."""
    path, _ = make(cluster, folder, *indices, **options)
    return load(path)


def lines(folder: Path, name: str) -> list[str]:
    with open_documents(folder / name, "test") as file:
        return file.read().decode().splitlines()


def test_a_track_has_what_its_indices_have(tmp_path: Path) -> None:
    track = made(shop(), tmp_path, "orders*")
    bodies = {index.name: index.body for index in track.indices}
    assert bodies["orders"]["settings"] == {
        "index": {"refresh_interval": "30s", "number_of_shards": 3, "number_of_replicas": 1}
    }
    assert bodies["orders"]["mappings"] == MAPPINGS
    assert bodies["orders-old"]["aliases"] == {"archive": {"filter": {"term": {"price": 1}}}}
    parts = {corpus.name: corpus.documents[0] for corpus in track.corpora}
    assert parts["orders"].document_count == 1200
    assert parts["orders"].compressed_bytes == (tmp_path / "shop" / "orders-documents.json.zst").stat().st_size
    assert parts["orders"].uncompressed_bytes == 1200 * len('{"title":"a"}\n')
    assert parts["orders-old"].target_index == "orders-old"
    (challenge,) = track.challenges
    types = [task.operation.type for task in challenge.tasks]
    assert types == ["delete-index", "create-index", "cluster-health", "bulk", "refresh", "search"]


def test_shards_replicas_and_bulks_are_track_parameters(tmp_path: Path) -> None:
    path, _ = make(shop(), tmp_path, "orders")
    params = {"number_of_shards": 7, "number_of_replicas": 0, "bulk_size": 10, "bulk_indexing_clients": 2}
    track = load(path, **params, index_settings={"codec": "best_compression"}, ingest_percentage=50)
    assert track.indices[0].body["settings"]["index"]["number_of_shards"] == 7
    tasks = {task.operation.type: task for task in track.challenges[0].tasks}
    assert tasks["create-index"].operation.params["settings"] == {"codec": "best_compression"}
    assert (tasks["bulk"].operation.params["bulk-size"], tasks["bulk"].clients) == (10, 2)


def test_routing_is_kept_in_action_lines(tmp_path: Path) -> None:
    track = made(shop(), tmp_path, "carts")
    part = track.corpora[0].documents[0]
    assert part.includes_action_and_meta_data
    assert part.document_count == 9
    expected = ['{"index":{"_index":"carts","routing":"u1"}}', '{"title":"a"}']
    assert lines(tmp_path / "shop", "carts-documents.json.zst") == expected * 9


def test_ids_are_kept_on_request_and_where_documents_refer_to_them(tmp_path: Path) -> None:
    join = {"properties": {"family": {"type": "join", "relations": {"question": "answer"}}}}
    cluster = shop(talk=FakeIndex(documents(1), {}, join))
    _, contents = make(cluster, tmp_path, "talk")
    assert contents.notes == []
    assert lines(tmp_path / "shop", "talk-documents.json.zst")[0] == '{"index":{"_index":"talk","_id":"id0"}}'
    _, contents = make(cluster, tmp_path, "orders-old", name="with-ids", keep_ids=True)
    assert contents.notes == []
    assert '"_id":"id4"' in "".join(lines(tmp_path / "with-ids", "orders-old-documents.json.zst"))
    _, contents = make(cluster, tmp_path, "orders-old", name="without")
    assert contents.notes == ["ids: the server makes new ones (--keep-ids keeps them)"]


def test_a_join_is_found_at_any_depth() -> None:
    join = {"type": "join", "relations": {"question": "answer"}}
    assert has_join({"book": {"properties": {"family": join}}})
    assert has_join({"properties": {"outer": {"properties": {"family": join}}}})
    assert not has_join({"properties": {"type": {"type": "keyword"}, "join": {"type": "text"}}})


def test_what_ties_an_index_to_its_cluster_is_left_behind_and_said(tmp_path: Path) -> None:
    settings = {
        "blocks": {"write": "true"},
        "default_pipeline": "geo",
        "lifecycle": {"name": "hot-warm", "rollover_alias": "logs"},
        "routing": {"allocation": {"include": {"_tier_preference": "data_hot"}, "require": {"box": "hot"}}},
        "resize": {"source": {"name": "x"}},
        "analysis": {"filter": {"a": {"type": "synonym", "synonyms_path": "a.txt"}}},
    }
    path, contents = make(shop(logs=FakeIndex(documents(1), settings, MAPPINGS)), tmp_path, "logs")
    index = load(path).indices[0].body["settings"]["index"]
    assert set(index) == {"analysis", "number_of_shards", "number_of_replicas"}
    kinds = ["logs: blocks", "logs: ingest pipeline", "logs: index lifecycle", "logs: allocation rules"]
    kinds += ["logs: files that its analysis reads", "ids"]
    assert [note.rpartition(": ")[0] for note in contents.notes] == kinds
    readme = (path / "README.md").read_text()
    assert all(note in readme for note in contents.notes)
    assert all(any(note in line for line in result_lines(path, contents)) for note in contents.notes)


def test_elasticsearchs_own_marks_are_not_worth_a_word() -> None:
    settings = {
        "routing": {"allocation": {"include": {"_tier_preference": "data_content"}}},
        "replication": {"type": "DOCUMENT"},
        "version": {"created": 1},
    }
    body = index_body(_target(settings))
    assert body.notes == ()
    assert set(body.content["settings"]["index"]) == {"number_of_shards", "number_of_replicas"}


def test_a_type_is_unwrapped_and_its_name_said() -> None:
    body = index_body(_target({}, {"order": MAPPINGS}, is_typed=True))
    assert body.content["mappings"] == MAPPINGS
    assert body.notes == ('shop: the name of its type, "order": esbench writes its own where a version has types',)
    assert index_body(_target({}, {"_doc": MAPPINGS}, is_typed=True)).notes == ()
    assert index_body(_target({}, {}, is_typed=True)).content["mappings"] == {}
    with pytest.raises(UsageError, match="shop: its documents have 2 types: answer, question"):
        index_body(_target({}, {"question": {}, "answer": {}}, is_typed=True))


@pytest.mark.parametrize("enabled", [False, "false"])
def test_an_index_without_sources_is_refused(enabled: object) -> None:
    with pytest.raises(UsageError, match="shop: its documents are not kept: _source is disabled"):
        index_body(_target({}, {"_source": {"enabled": enabled}}))


def test_fields_that_the_source_leaves_out_are_said() -> None:
    body = index_body(_target({}, {"_source": {"excludes": ["secret"]}, **MAPPINGS}))
    assert body.notes == ("shop: the fields that its _source leaves out: they are kept nowhere",)


def test_text_that_looks_like_a_template_survives(tmp_path: Path) -> None:
    odd = {"properties": {"a": {"type": "text", "meta": {"unit": "{{ x }} {% y %} {# z #} $[[v]]"}}}}
    track = made(shop(odd=FakeIndex(documents(1), {}, odd)), tmp_path, "odd")
    assert track.indices[0].body["mappings"] == odd


def test_large_documents_go_in_small_bulks(tmp_path: Path) -> None:
    large = json.dumps({"title": "x" * 30_000})
    track = made(shop(large=FakeIndex(documents(3, text=large))), tmp_path, "large")
    bulk = next(task for task in track.challenges[0].tasks if task.operation.type == "bulk")
    assert bulk.operation.params["bulk-size"] == 200


def test_an_index_without_documents_has_no_corpus(tmp_path: Path) -> None:
    track = made(shop(), tmp_path, "orders", "empty")
    assert [index.name for index in track.indices] == ["empty", "orders"]
    assert [corpus.name for corpus in track.corpora] == ["orders"]


def test_a_sample_is_called_one(tmp_path: Path) -> None:
    path, contents = make(shop(), tmp_path, "orders", documents=100)
    assert contents.documents == 100
    assert "100 documents, a random sample of 1,200, read from Elasticsearch 8.19.4" in (path / "README.md").read_text()
    _, all_of_them = make(shop(), tmp_path, "orders", documents=5000, name="more-than-there-are")
    assert (all_of_them.documents, all_of_them.is_sample) == (1200, False)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("order", r'--indices=order: there is no index "order" \(did you mean "orders"\?'),
        (
            "x*",
            r'--indices=x\*: no index matches "x\*" \(known: archive, carts, closed, empty, logs, orders, orders-old\)',
        ),
        (".tasks", r'--indices=.tasks: "\.tasks" is a hidden or system index'),
        ("closed", r'the index "closed" is closed \(open it: POST /closed/_open\)'),
        ("empty", "empty: there are no documents to make a track of"),
        ("_cat", '--indices=_cat: "_cat" is not the name of an index'),
        ("a/b", '--indices=a/b: "a/b" is not the name of an index'),
        ("logs", r'--indices=logs: "logs" is a data stream \(say --data-streams=logs\)'),
    ],
)
def test_what_is_no_index_is_refused(tmp_path: Path, expression: str, message: str) -> None:
    more = {".tasks": FakeIndex(), ".ds-logs-1": FakeIndex(aliases={"logs": {}}), "closed": FakeIndex(closed=True)}
    cluster = shop()
    cluster.indices = {**cluster.indices, **more}
    with pytest.raises(UsageError, match=message):
        make(cluster, tmp_path, expression)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("expression", ["archive", "arch*"])
def test_an_alias_with_a_filter_is_refused(tmp_path: Path, expression: str) -> None:
    message = r'--indices=archive: "archive" is an alias .*: esbench would read all of orders-old \(name the index\)'
    with pytest.raises(UsageError, match=message):
        make(shop(), tmp_path, expression)
    assert make(shop(), tmp_path, "orders-old", "arch*")[1].documents == 5


def test_an_alias_without_a_filter_means_its_index(tmp_path: Path) -> None:
    cluster = shop(logs=FakeIndex(documents(3), aliases={"today": {}}))
    assert make(cluster, tmp_path, "today")[1].documents == 3


def test_a_pattern_does_not_mean_the_mounted_indices_of_a_data_stream(tmp_path: Path) -> None:
    cluster, mounted = shop(), ("partial-.ds-orders-1", "restored-.ds-orders-1", "shrink-ab-.ds-orders-1")
    cluster.indices = {**cluster.indices, **{name: FakeIndex(documents(1)) for name in mounted}}
    _, contents = make(cluster, tmp_path, "*")
    assert [part.name for part in contents.parts] == ["carts", "empty", "orders", "orders-old"]
    assert make(cluster, tmp_path, mounted[0], name="mounted")[1].documents == 1


def test_a_pattern_does_not_mean_hidden_indices(tmp_path: Path) -> None:
    cluster = shop()
    cluster.indices = {**cluster.indices, ".tasks": FakeIndex(documents(1))}
    _, contents = make(cluster, tmp_path, "*")
    assert [part.name for part in contents.parts] == ["carts", "empty", "orders", "orders-old"]


@pytest.mark.parametrize("name", ["a/b", "..", "", ".hidden", "with space"])
def test_a_name_must_be_that_of_a_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"--track: .* is not the name of a folder"):
        make(shop(), tmp_path, "orders", name=name)


def test_an_existing_folder_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    with pytest.raises(UsageError, match="shop is there already"):
        make(shop(), tmp_path, "orders")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--output-path: .*file is a file"):
        make(shop(), tmp_path / "file" / "tracks", "orders")


def test_nothing_is_left_of_a_track_that_failed(tmp_path: Path) -> None:
    cluster = shop()
    cluster.failed = 1
    with pytest.raises(ClusterError, match="documents would be missing"):
        make(cluster, tmp_path, "orders")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_track_that_was_interrupted(tmp_path: Path) -> None:
    class Interrupting(Progress):
        def say(self, message: str) -> None:
            assert len(list(tmp_path.glob(".shop.*.partial"))) == 1
            raise KeyboardInterrupt

    options = CreateTrackOptions("shop", tmp_path, (Host("unused"),), indices=("orders",))
    with pytest.raises(KeyboardInterrupt):
        create_track(shop(), options, Interrupting())
    assert list(tmp_path.iterdir()) == []


def test_the_number_of_documents_may_differ_by_index(tmp_path: Path) -> None:
    options = {"documents_of": {"orders": 100, "orders*": 2}}
    _, contents = make(shop(), tmp_path, "orders*", "carts", **options)
    assert {part.name: part.documents and part.documents.documents for part in contents.parts} == {
        "orders": 100,
        "orders-old": 2,
        "carts": 9,
    }
    with pytest.raises(UsageError, match=r'--documents: no index "ordres" is read .did you mean "orders"'):
        make(shop(), tmp_path, "orders*", name="other", documents_of={"ordres": 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--indices=a", "--documents=a:some"], '--documents: "some" is not a number of documents'),
        (["--indices=a,b-*", "--documents=a:10,b-*:all"], "127.0.0.1:1: connection refused"),
        ([], "nothing to make a track of (say --indices=a,b-* or --data-streams=logs-*)"),
        (["--indices=a", "--data-streams=b"], "a track has either indices or data streams"),
        (["--indices=a", "--documents=0"], '--documents: "0" is not a number of documents (say 100000, or all)'),
        (["--indices=a", "--documents=some"], '--documents: "some" is not a number of documents'),
        (["--index=a"], 'unknown option "--index" of esbench create-track (did you mean "--indices"?)'),
        (["--indices=a", "--batch-size=20000"], "20000 is not in the range 1<=x<=10000"),
        (["--indices=a", "--client-options=basic_auth_password:env:NO_SUCH"], "--client-options basic_auth_password"),
        (["--indices=a"], "127.0.0.1:1: connection refused"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tracks"
    command = ["create-track", "--track=shop", f"--output-path={folder}", "--target-hosts=127.0.0.1:1", *arguments]
    assert run(command) == (1 if "refused" in message else 2)
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not folder.exists()


def logs() -> FakeCluster:
    cluster = cluster_of("opensearch-3.6.0", {".ds-logs-1": FakeIndex(documents(1500), {}, MAPPINGS, shards=2)})
    cluster.streams = {"logs": (".ds-logs-1", "all-logs")}
    cluster.templates = {"all-logs": {"index_patterns": ["l*"], "data_stream": {}, "composed_of": ["base", "absent"]}}
    cluster.components = {"base": {"template": {"mappings": MAPPINGS}}}
    return cluster


def test_a_track_of_data_streams_brings_their_templates(tmp_path: Path) -> None:
    track = made(logs(), tmp_path, data_streams=("lo*",))
    assert [stream.name for stream in track.data_streams] == ["logs"]
    (template,), (component,) = track.templates.composable, track.templates.component
    assert (template.name, component.name) == ("shop-logs", "shop-base")
    assert not template.delete_matching_indices
    assert template.body["index_patterns"] == ["logs"]
    assert template.body["composed_of"] == ["shop-base"]
    assert template.body["template"]["settings"]["index"] == {"number_of_shards": 2, "number_of_replicas": 1}
    (part,) = track.corpora[0].documents
    assert (part.target_data_stream, part.document_count) == ("logs", 1500)
    types = [task.operation.type for task in track.challenges[0].tasks]
    assert types[:3] == ["delete-data-stream", "delete-composable-template", "delete-component-template"]
    assert types[3:6] == ["create-component-template", "create-composable-template", "create-data-stream"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("log", r'there is no data stream "log" \(did you mean "logs"\?'),
        ("x*", r'no data stream matches "x\*" \(known: logs\)'),
    ],
)
def test_what_is_no_data_stream_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"--data-streams=.*: {message}"):
        make(logs(), tmp_path, data_streams=(name,))
    with pytest.raises(UsageError, match=r'only data streams match "l\*" \(say --data-streams=l\*\)'):
        make(logs(), tmp_path, "l*")


def test_a_data_stream_gets_a_template_of_its_own() -> None:
    target = _target({"number_of_shards": "2"}, backing=(".ds-shop-1", ".ds-shop-2"), template="shops")
    template = {
        "index_patterns": ["s*"],
        "priority": 700,
        "composed_of": ["base", "missing@custom"],
        "data_stream": {"hidden": False, "failure_store": True},
        "template": {
            "settings": {"index": {"lifecycle": {"name": "30d"}, "codec": "best_compression"}},
            "lifecycle": {"data_retention": "7d"},
        },
        "_meta": {"managed": True},
    }
    body = stream_template(target, template, {"base": "track-base"})
    assert body.content["index_patterns"] == ["shop"]
    assert body.content["priority"] == 701
    assert body.content["composed_of"] == ["track-base"]
    assert body.content["data_stream"] == {"hidden": False}
    index = body.content["template"]["settings"]["index"]
    assert (index["codec"], index["number_of_shards"].default) == ("best_compression", 2)
    assert [note.split(": ")[1] for note in body.notes] == ["index lifecycle", "data stream lifecycle"]
    assert component_template("base", {"template": {"mappings": MAPPINGS}, "version": 3}).content == {
        "template": {"mappings": MAPPINGS}
    }


def _target(
    settings: dict[str, Any],
    mappings: dict[str, Any] = MAPPINGS,
    *,
    is_typed: bool = False,
    backing: tuple[str, ...] = (),
    template: str = "",
) -> ExtractedTarget:
    return ExtractedTarget("shop", 1, 1, {"index": settings}, mappings, {}, False, is_typed, backing, template)
