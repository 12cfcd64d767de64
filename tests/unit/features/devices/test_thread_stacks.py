"""Hot threads as each version prints them: pools, percentages, and the methods that tell what a pool is busy with."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from esbench.features.devices.thread_stacks import (
    FRAMES_AT_MOST,
    Frames,
    Heat,
    HotThread,
    heat,
    own_frames,
    parse,
    rows,
    telling_frames,
)

RECORDED = Path(__file__).parents[3] / "recorded" / "telemetry"


def recorded(version: str) -> list[HotThread]:
    ((node, threads),) = parse((RECORDED / f"hot-threads-{version}.txt").read_text())
    assert node == "node-0"
    return threads


@pytest.mark.parametrize(
    ("version", "threads", "snapshots"),
    [
        ("elasticsearch-5.6.16", [("merge", 16.7), ("bulk", 0.7), ("http_server_worker", 0.1)], [10, 7, 8]),
        ("elasticsearch-7.5.2", [("get", 19.1), ("get", 18.8)], [10, 9]),
        ("elasticsearch-7.10.2", [("merge", 8.9), ("write", 6.7), ("management", 0.3)], [10, 10, 6]),
        (
            "elasticsearch-8.19.4",
            [("write", 8.5), ("transport_worker", 5.1), ("transport_worker", 4.5), ("refresh", 0.0)],
            [10, 9, 5, 1],
        ),
        ("opensearch-3.6.0", [("clusterManagerService", 5.3), ("generic", 1.5)], [10, 10]),
    ],
)
def test_the_threads_of_each_version_have_their_pool_and_their_cpu(
    version: str, threads: list[tuple[str, float]], snapshots: list[int]
) -> None:
    found = recorded(version)
    assert [(thread.pool, thread.percent) for thread in found] == threads
    assert [sum(count for count, _ in thread.stacks) for thread in found] == snapshots


@pytest.mark.parametrize(
    ("version", "pool", "frame", "share_percent"),
    [
        ("elasticsearch-5.6.16", "merge", "DocValuesConsumer.merge", 90.0),
        ("elasticsearch-7.5.2", "get", "InternalEngine.get > refreshIfNeeded", 56.2),
        ("elasticsearch-7.10.2", "merge", "SegmentMerger.merge", 100.0),
        ("elasticsearch-8.19.4", "write", "InternalEngine.asyncEnsureTranslogSynced", 100.0),
        ("opensearch-3.6.0", "clusterManagerService", "ClusterManagerService.runTasks > publish", 90.0),
    ],
)
def test_the_most_frequent_frame_tells_what_a_pool_is_busy_with(
    version: str, pool: str, frame: str, share_percent: float
) -> None:
    row = next(row for row in rows([heat(recorded(version))]) if row["pool"] == pool)
    first = row["frames"][0]
    assert (first["frame"], first["share_percent"]) == (frame, share_percent)


def test_reads_forced_to_refresh_are_seen_as_the_server_s_work_and_as_lucene_s() -> None:
    (row,) = rows([heat(recorded("elasticsearch-7.5.2"))])
    assert (row["pool"], row["threads_percent"], row["busiest_percent"]) == ("get", 37.9, 19.1)
    assert (row["snapshots"], row["idle"]) == (16, 3)
    frames = [frame["frame"] for frame in row["frames"]]
    assert frames[0].startswith("InternalEngine.get > refreshIfNeeded")
    assert len(frames) <= FRAMES_AT_MOST


def test_several_nodes_are_told_apart_and_percentages_are_means_over_them() -> None:
    block = (
        "::: {%s}{id}\n   Hot threads at x:\n   \n"
        "    %s%% (50ms out of 500ms) cpu usage by thread 'elasticsearch[%s][get][T#1]'\n"
        "     unique snapshot\n       a.B.c(D.java:1)\n   \n"
    )
    nodes = list(parse(block % ("a", "10.0", "a") + block % ("b", "30.0", "b") + "::: {c}{id}\n   Hot threads at x:\n"))
    assert [(node, len(threads)) for node, threads in nodes] == [("a", 1), ("b", 1), ("c", 0)]
    (row,) = rows(heat(threads) for _, threads in nodes[:2])
    assert (row["threads_percent"], row["busiest_percent"], row["snapshots"]) == (20.0, 30.0, 2)


def test_a_reply_without_nodes_has_none() -> None:
    assert list(parse("")) == []
    assert rows([]) == []


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("elasticsearch[node-0][get][T#3]", "get"),
        ("opensearch[a b][search][T#12]", "search"),
        ("elasticsearch[node-0][[orders][0]: Lucene Merge Thread #3]", "merge"),
        ("elasticsearch[node-0][[timer]]", "timer"),
        ("elasticsearch[node-0][masterService#updateTask][T#1]", "masterService"),
        ("threadDeathWatcher-2-1", "threadDeathWatcher"),
        ("Common-Cleaner", "Common-Cleaner"),
    ],
)
def test_a_thread_belongs_to_the_pool_in_its_name(name: str, pool: str) -> None:
    assert HotThread(name, 0.0, ()).pool == pool


def test_a_stack_is_divided_where_the_server_enters_lucene() -> None:
    stack = (
        "java.util.zip.Inflater.inflate",
        "org.apache.lucene.store.IndexInput.readBytes",
        "org.elasticsearch.index.store.Wrapper.readBytes",
        "org.apache.lucene.index.IndexReader.document",
        "org.elasticsearch.index.engine.InternalEngine$1.lambda$get$7",
        "org.elasticsearch.index.engine.InternalEngine$$Lambda.accept",
        "org.elasticsearch.index.engine.InternalEngine.get",
        "org.elasticsearch.index.engine.InternalEngine.access$500",
        "org.elasticsearch.common.util.concurrent.AbstractRunnable.run",
        "java.lang.Thread.run",
    )
    assert own_frames(stack) == (
        ("IndexInput.readBytes", "Wrapper.readBytes", "IndexReader.document"),
        ("InternalEngine.get",),
    )


def test_threads_that_wait_for_work_are_idle_and_those_that_wait_in_their_work_are_not() -> None:
    waiting = ("jdk.internal.misc.Unsafe.park", "java.util.concurrent.ThreadPoolExecutor.getTask")
    locked = ("jdk.internal.misc.Unsafe.park", "org.elasticsearch.index.engine.InternalEngine.refresh")
    thread = HotThread("elasticsearch[n][get][T#1]", 1.0, ((7, waiting), (3, locked)))
    pool = heat([thread])["get"]
    assert (pool.idle, pool.busy) == (7, 3)


def stacks(*seen: tuple[int, str]) -> dict[Frames, int]:
    """Stacks of the server, the outermost method first."""
    found: Counter[Frames] = Counter()
    for count, text in seen:
        found[(), tuple(reversed(text.split()))] += count
    return found


def test_of_methods_in_the_same_snapshots_the_innermost_stands_for_all() -> None:
    assert telling_frames(stacks((10, "A.run B.work C.inner"))) == [("C.inner", 100.0)]


def test_the_callers_in_its_own_class_are_named_with_a_frame() -> None:
    assert telling_frames(stacks((10, "A.run B.one B.two B.three B.four"))) == [("B.two > three > four", 100.0)]


def test_a_caller_with_more_snapshots_than_the_called_is_told_apart() -> None:
    seen = stacks((6, "A.run B.get C.refresh"), (4, "A.run B.get D.read"))
    assert telling_frames(seen) == [("B.get", 100.0), ("C.refresh", 60.0), ("D.read", 40.0)]


def test_frames_that_are_rare_are_not_told() -> None:
    assert telling_frames(stacks((95, "A.run"), (5, "A.run B.rare"))) == [("A.run", 100.0)]


def test_what_the_server_does_is_told_beside_what_lucene_does_for_it() -> None:
    seen: dict[Frames, int] = {
        (("IndexWriter.getReader",), ("InternalEngine.refresh", "InternalEngine.get")): 9,
        ((), ()): 1,
    }
    assert telling_frames(seen) == [("InternalEngine.get > refresh", 90.0), ("IndexWriter.getReader", 90.0)]


def test_pools_that_use_next_to_no_cpu_are_left_out() -> None:
    busy: Counter[Frames] = Counter({((), ("A.run",)): 5})
    seen = [{"get": Heat(50.0, 30.0, 0, busy), "timer": Heat(0.5, 0.5, 0, busy)}]
    assert [row["pool"] for row in rows(seen)] == ["get"]
