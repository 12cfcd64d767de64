"""The bundled orders track, with its defaults and with each of its parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from track_files import load, task_named

from esbench.errors import UsageError
from esbench.model import Track
from esbench.track.library import find_track, list_tracks
from esbench.units import Rate

MEASURED = ["get-by-id", "term-query", "search-by-routing", "insert", "read-after-write", "get-by-id-at-1000-per-s"]


def orders(**params: Any) -> Track:
    return load(find_track("orders", None), **params)


def settings(track: Track) -> dict[str, Any]:
    return dict(track.indices[0].body["settings"])


def test_default_challenge_loads_reads_writes_and_counts() -> None:
    track = orders()
    names = [task.name for task in track.challenges[0].tasks]
    assert names == [
        "delete-index",
        "create-index",
        "check-cluster-health",
        "bulk-load",
        "refresh",
        "force-merge",
        *MEASURED,
        "assert-count",
    ]
    assert track.name == "orders"
    assert track.challenges[0].default
    assert track.requires == ()


def test_measured_tasks_are_timed_and_only_the_last_one_is_an_open_loop() -> None:
    track = orders()
    tasks = [task_named(track, name) for name in MEASURED]
    assert {(task.warmup_time_s, task.time_period_s) for task in tasks} == {(5.0, 10.0)}
    assert [task.schedule.is_open for task in tasks] == [False] * 5 + [True]
    assert tasks[-1].schedule.rate == Rate(1000.0, "ops")
    assert 50.0 in tasks[-1].within_ms


def test_corpus_is_generated_with_the_order_id_as_document_id() -> None:
    documents = orders().corpora[0].documents[0]
    assert documents.document_count == 200_000
    assert documents.target_index == "orders"
    assert documents.generate is not None
    assert documents.generate["id"] == "order_id"
    assert "routing" not in documents.generate


def test_mapping_knows_every_field_of_the_corpus() -> None:
    track = orders()
    generate = track.corpora[0].documents[0].generate
    assert generate is not None
    mapping = track.indices[0].body["mappings"]
    assert mapping["dynamic"] == "strict"
    assert set(mapping["properties"]) == set(generate["fields"])
    assert set(mapping["properties"]["address"]["properties"]) == set(generate["fields"]["address"]["fields"])
    assert set(mapping["properties"]["items"]["properties"]) == set(generate["fields"]["items"]["of"]["fields"])


@pytest.mark.parametrize(
    ("name", "value", "setting"),
    [
        ("number_of_shards", 24, "index.number_of_shards"),
        ("number_of_replicas", 1, "index.number_of_replicas"),
        ("refresh_interval", "5s", "index.refresh_interval"),
        ("refresh_interval", -1, "index.refresh_interval"),
        ("codec", "best_compression", "index.codec"),
        ("translog_durability", "async", "index.translog.durability"),
        ("translog_sync_interval", "30s", "index.translog.sync_interval"),
    ],
)
def test_parameters_of_the_index_become_its_settings(name: str, value: Any, setting: str) -> None:
    track = orders(**{name: value})
    assert str(settings(track)[setting]) == str(value)
    assert settings(orders())[setting] != settings(track)[setting]
    assert track.params == {name: value}


def test_parameters_of_the_load_change_it() -> None:
    track = orders(documents=5000, bulk_size=250, bulk_clients=2)
    assert track.corpora[0].document_count == 5000
    assert task_named(track, "bulk-load").operation.params["bulk-size"] == 250
    assert task_named(track, "bulk-load").clients == 2


def test_parameters_of_the_measured_tasks_change_them() -> None:
    track = orders(clients=128, warmup_time_period=30, time_period="5m")
    task = task_named(track, "insert")
    assert (task.clients, task.warmup_time_s, task.time_period_s) == (128, 30.0, 300.0)


@pytest.mark.parametrize(("rates", "expected"), [(500, [500]), ([1000, 5000], [1000, 5000]), ([], [])])
def test_each_rate_is_an_open_loop_task(rates: Any, expected: list[int]) -> None:
    tasks = [task for task in orders(rates=rates).challenges[0].tasks if task.schedule.is_open]
    assert [task.schedule.rate.value for task in tasks if task.schedule.rate] == expected


def test_routing_by_user_goes_with_every_bulk_insert_get_and_search() -> None:
    track = orders(routing="user_id")
    generate = track.corpora[0].documents[0].generate
    assert generate is not None
    assert generate["routing"] == "user_id"
    assert task_named(track, "get-by-id").operation.params["routing"] == "$[[order.user_id]]"
    search = task_named(track, "search-by-routing").operation.params
    assert search["request-params"] == {"routing": "$[[order.user_id]]"}


def test_without_routing_the_orders_of_a_user_are_still_filtered() -> None:
    track = orders(routing="none")
    search = task_named(track, "search-by-routing").operation.params
    assert "request-params" not in search
    assert search["body"]["query"]["bool"]["filter"] == {"term": {"user_id": "$[[order.user_id]]"}}
    assert "routing" not in task_named(track, "get-by-id").operation.params


def test_unknown_routing_is_refused() -> None:
    with pytest.raises(UsageError, match='routing is "none" or "user_id", not "user"'):
        orders(routing="user")


def test_published_settings_are_parameters_of_the_track() -> None:
    published = json.loads(find_track("orders", None).with_name("published.json").read_text())
    assert settings(orders(**published)) == {
        "index.number_of_shards": 24,
        "index.number_of_replicas": 1,
        "index.codec": "best_compression",
        "index.refresh_interval": "5s",
        "index.translog.durability": "async",
        "index.translog.sync_interval": "5s",
        "index.requests.cache.enable": False,
    }


def test_mistyped_parameter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        orders(number_of_shard=3)
    assert 'track "orders" has no parameter "number_of_shard"' in str(caught.value)
    assert 'did you mean "number_of_shards"?' in str(caught.value)
    assert "translog_durability" in str(caught.value)


def test_test_mode_is_small_and_quick() -> None:
    track = load(find_track("orders", None), test_mode=True)
    assert track.corpora[0].document_count == 1000
    for name in MEASURED:
        task = task_named(track, name)
        assert (task.warmup_time_s, task.time_period_s) == (1.0, 3.0)
    assert task_named(track, MEASURED[-1]).schedule.rate == Rate(1000.0, "ops")


def test_digest_is_of_the_sources_whatever_the_parameters() -> None:
    assert orders().digest == orders(number_of_shards=24, routing="user_id").digest


def test_it_is_listed() -> None:
    assert [(track.name, track.challenges) for track in list_tracks().tracks if track.name == "orders"] == [
        ("orders", ("default", "get-sweep", "insert-sweep", "read-after-write"))
    ]
