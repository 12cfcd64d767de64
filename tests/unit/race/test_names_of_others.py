"""A race beside another side on one node names only what begins with its prefix."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from esbench.errors import RaceError
from esbench.model import (
    Challenge,
    Corpus,
    DataStream,
    Documents,
    Index,
    Operation,
    Step,
    Task,
    Template,
    Templates,
    Track,
)
from esbench.race.names_of_others import refuse_names_of_others
from esbench.record.locks import Claim

SEARCH = Operation("find", "search", {"index": "side1-orders"})


RAW = {"operation-type": "raw-request"}


def refuse(operation: Operation = SEARCH, targets: tuple[str, ...] = ("side1-orders",), **parts: Any) -> None:
    challenge = Challenge("c", (Step((Task("t", operation),)),))
    parts = {"indices": (Index("side1-orders"),), **parts}
    track = Track("t", Path("t.yml"), "", "", (challenge,), **parts)
    refuse_names_of_others(track, challenge, targets, "side1-")


@pytest.mark.parametrize(
    "operation",
    [
        SEARCH,
        Operation("o", "refresh"),
        Operation("o", "delete-index", {"index": "side1-*"}),
        Operation("o", "search", {"index": ["side1-a", "side1-b,side1-c*,-side1-c"]}),
        Operation("o", "search", {"data-stream": "side1-logs", "body": {"index": "anything"}}),
        Operation("o", "raw-request", {"path": "/side1-orders/_search"}),
        Operation("o", "raw-request", {"path": "/_cluster/health?level=indices"}),
        Operation("o", "put-pipeline", {"id": "side1-clean"}),
        Operation("o", "composite", {"requests": [{"operation-type": "search", "index": "side1-orders"}]}),
        Operation("o", "composite", {"requests": [RAW | {"path": "/side1-orders/_search"}]}),
        Operation("o", "raw-request", {"path": "/_search/scroll"}),
        Operation("o", "raw-request", {"path": "/_data_stream/side1-logs"}),
        Operation("o", "raw-request", {"path": "/_ingest/pipeline/_simulate"}),
        Operation("o", "raw-request", {"path": "/_nodes/stats"}),
        Operation("o", "bulk", {"pipeline": "_none"}),
        Operation("o", "force-merge"),
        Operation("o", "index-stats", {"index": "side1-orders"}),
        Operation("o", "create-snapshot", {"repository": "backups", "snapshot": "side1-snap"}),
        Operation("o", "enrich-policy", {"policies": {"side1-users": {}}}),
        Operation("o", "reindex", {"body": {"source": {"index": "side1-a"}, "dest": {"index": "side1-b"}}}),
        Operation("o", "raw-request", {"path": "/_sql", "body": '{"query": "SELECT 1"}'}),
        Operation("o", "own", {"index": "orders"}, python="runner"),
    ],
)
def test_its_own_names_are_free(operation: Operation) -> None:
    refuse(operation)


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (Operation("o", "delete-index", {"index": "*"}), "*"),
        (Operation("o", "delete-index", {"index": "_all"}), "_all"),
        (Operation("o", "delete-index", {"index": "side1-a,side*"}), "side*"),
        (Operation("o", "search", {"index": ["side1-a", "orders"]}), "orders"),
        (Operation("o", "search", {"data-stream": "logs"}), "logs"),
        (Operation("o", "raw-request", {"path": "/_all/_search"}), "_all"),
        (Operation("o", "raw-request", {"path": "/side2-orders?pretty"}), "side2-orders"),
        (Operation("o", "delete-pipeline", {"id": "clean"}), "clean"),
        (Operation("o", "bulk", {"pipeline": "clean"}), "clean"),
        (Operation("o", "shrink-index", {"source-index": "side1-a", "target-index": "small"}), "small"),
        (Operation("o", "composite", {"requests": [{"stream": [{"index": "orders"}]}]}), "orders"),
        (Operation("o", "composite", {"requests": [{"stream": [RAW | {"path": "/orders/_search"}]}]}), "orders"),
        (Operation("o", "composite", {"requests": [{"operation-type": "field-caps"}]}), "_all"),
        (Operation("o", "raw-request", {"path": "/_search"}), "_all"),
        (Operation("o", "raw-request", {"path": "/_forcemerge?max_num_segments=1"}), "_all"),
        (Operation("o", "raw-request", {"path": "/_refresh/"}), "_all"),
        (Operation("o", "raw-request", {"path": "/_delete_by_query"}), "_all"),
        (Operation("o", "raw-request", {"path": "/_data_stream/logs"}), "logs"),
        (Operation("o", "raw-request", {"path": "/_data_stream/side1-a,logs*"}), "logs*"),
        (Operation("o", "raw-request", {"path": "/_index_template/logs"}), "logs"),
        (Operation("o", "raw-request", {"path": "/_ingest/pipeline/clean?pretty"}), "clean"),
        (Operation("o", "raw-request", {"path": "/_snapshot/backups/snap/_restore"}), "snap"),
        (Operation("o", "raw-request", {"path": "/_cluster/health/orders"}), "orders"),
        (Operation("o", "run-until", {"path": "/_stats/merges"}), "_all"),
        (Operation("o", "index-stats"), "_all"),
        (Operation("o", "bulk", {"request-params": {"pipeline": "clean"}}), "clean"),
        (Operation("o", "create-snapshot", {"repository": "backups", "snapshot": "snap"}), "snap"),
        (Operation("o", "create-transform", {"transform-id": "daily"}), "daily"),
        (Operation("o", "create-transform", {"transform-id": "side1-t", "body": {"dest": {"index": "sums"}}}), "sums"),
        (Operation("o", "reindex", {"body": {"source": {"index": ["orders"]}, "dest": {}}}), "orders"),
        (Operation("o", "create-ilm-policy", {"policy-name": "hot"}), "hot"),
        (Operation("o", "create-ml-job", {"job-id": "odd"}), "odd"),
        (Operation("o", "create-ml-datafeed", {"datafeed-id": "feed"}), "feed"),
        (Operation("o", "enrich-policy", {"policies": {"users": {}}}), "users"),
        (Operation("o", "enrich-policy", {"policies": [{"name": "users", "body": {}}]}), "users"),
    ],
)
def test_a_name_that_another_side_may_use_is_refused_with_its_task(operation: Operation, name: str) -> None:
    message = (
        f'task "t": "{name}" does not begin with the index_prefix "side1-", and another side uses the same node '
        '(put {{ index_prefix | default("") }} in front of each name; --turns and --own-nodes need none)'
    )
    with pytest.raises(RaceError, match=f"^{re.escape(message)}$"):
        refuse(operation)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({"targets": ("side1-orders", "logs-*")}, "logs-*"),
        ({"templates": Templates(composable=(Template("logs", {}),))}, "logs"),
        ({"templates": Templates(composable=(Template("side1-t", {"index_patterns": ["logs-*"]}),))}, "logs-*"),
        ({"templates": Templates(legacy=(Template("side1-t", {"template": "logs-*"}),))}, "logs-*"),
        ({"templates": Templates(legacy=(Template("side1-t", {}, "logs-*"),))}, "logs-*"),
        ({"corpora": (Corpus("c", (Documents(1, target_index="orders"),)),)}, "orders"),
    ],
)
def test_names_of_the_track_are_refused_too(parts: dict[str, Any], name: str) -> None:
    with pytest.raises(RaceError, match=re.escape(f'"{name}" does not begin with')):
        refuse(**parts)


@pytest.mark.parametrize("kind", ["refresh", "force-merge"])
def test_without_indices_of_the_track_all_are_meant(kind: str) -> None:
    with pytest.raises(RaceError, match='"_all" does not begin with'):
        refuse(Operation("o", kind), indices=())
    refuse(Operation("o", kind, {"index": "side1-logs-*"}), indices=())
    refuse(Operation("o", kind), indices=(), data_streams=(DataStream("side1-logs"),))


def test_action_lines_that_alone_name_the_index_are_refused() -> None:
    lines = Documents(1, includes_action_and_meta_data=True)
    message = (
        'corpus "c": only the action lines of its documents name their index, and another side uses the same node '
        '(give it a "target-index" if they name none; --turns and --own-nodes need none)'
    )
    with pytest.raises(RaceError, match=f"^{re.escape(message)}$"):
        refuse(corpora=(Corpus("c", (lines,)),))
    refuse(corpora=(Corpus("c", (replace(lines, target_index="side1-orders"),)),))


def test_a_template_of_its_own_is_free() -> None:
    body = {"index_patterns": ["side1-logs-*"], "template": {"settings": {}}}
    refuse(templates=Templates(composable=(Template("side1-t", body, "side1-logs-*"),)))


def test_sides_with_prefixes_claim_different_parts_of_a_cluster() -> None:
    ours, theirs = (Claim("uuid", targets=(f"{side}orders", f"{side}logs-*")) for side in ("side1-", "side2-"))
    assert ours.shared_with(theirs) == ()
    assert ours.shared_with(Claim("uuid", targets=("*",))) == ours.targets
