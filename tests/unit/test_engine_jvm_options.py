"""jvm.options of real servers, rewritten for one node."""

from __future__ import annotations

from pathlib import Path

import pytest

from esbench.engine.java import Java
from esbench.engine.jvm_options import rewrite_jvm_options, without_replaced

FIVE = """# heap
-Xms2g
-Xmx2g
-XX:+UseConcMarkSweepGC
-XX:CMSInitiatingOccupancyFraction=75
-XX:+UseCMSInitiatingOccupancyOnly
-Xss1m
-XX:+HeapDumpOnOutOfMemoryError
"""
SEVEN = """
-Xms1g
8-13:-XX:+UseConcMarkSweepGC
14-:-XX:+UseG1GC
-Djava.io.tmpdir=${ES_TMPDIR}
-XX:HeapDumpPath=data
-XX:ErrorFile=logs/hs_err_pid%p.log
8:-Xloggc:logs/gc.log
9-:-Xlog:gc*,gc+age=trace,safepoint:file=logs/gc.log:utctime,pid,tags:filecount=32,filesize=64m
"""
EIGHT = """-XX:+UseG1GC
20-:--add-modules=jdk.incubator.vector
-XX:ErrorFile=hs_err_pid%p.log
-Xlog:gc*,gc+age=trace,safepoint:file=gc.log:utctime,level,pid,tags:filecount=32,filesize=64m
"""


def rewrite(
    text: str,
    version: str,
    java: str = "17.0.1",
    product: str = "elasticsearch",
    modules: str | None = None,
    further: tuple[str, ...] = (),
) -> list[str]:
    runtime = Java(Path("/java"), java, "PATH", frozenset(modules.split()) if modules is not None else None)
    return rewrite_jvm_options(
        text,
        java=runtime,
        product=product,
        version=version,
        heap_bytes=768 << 20,
        logs=Path("/n/logs"),
        temp=Path("/n/tmp"),
        further=further,
    ).splitlines()


@pytest.mark.parametrize("text", [FIVE, SEVEN, EIGHT])
def test_the_heap_is_fixed_at_what_was_asked_for(text: str) -> None:
    lines = rewrite(text, "7.10.2")
    assert [line for line in lines if line.startswith(("-Xms", "-Xmx"))] == ["-Xms768m", "-Xmx768m"]
    assert "-Xss1m" in lines or text is not FIVE


@pytest.mark.parametrize("text", [FIVE, SEVEN, EIGHT])
def test_no_relative_path_is_left(text: str) -> None:
    lines = rewrite(text, "7.10.2")
    assert "-Djava.io.tmpdir=/n/tmp" in lines
    assert "-XX:HeapDumpPath=/n/tmp" in lines
    assert "-XX:ErrorFile=/n/logs/hs_err_pid%p.log" in lines
    assert len([line for line in lines if "ErrorFile" in line or "HeapDumpPath" in line]) == 2
    assert not [line for line in lines if "gc.log" in line and "/n/logs/gc.log" not in line]


def test_ranges_of_java_are_kept_for_the_servers_launcher() -> None:
    lines = rewrite(SEVEN, "7.10.2")
    assert "8-13:-XX:+UseConcMarkSweepGC" in lines
    assert "8:-Xloggc:/n/logs/gc.log" in lines
    assert any(line.startswith("9-:-Xlog:gc*") and "file=/n/logs/gc.log:utctime" in line for line in lines)


def test_the_collector_that_java_14_removed_is_replaced() -> None:
    lines = rewrite(FIVE, "5.6.16", java="17.0.1")
    assert not [line for line in lines if "CMS" in line or "ConcMarkSweep" in line]
    assert "-XX:+UseG1GC" in lines


def test_the_collector_stays_on_a_java_that_has_it() -> None:
    lines = rewrite(FIVE, "5.6.16", java="11.0.2")
    assert "-XX:+UseConcMarkSweepGC" in lines
    assert "-XX:+UseG1GC" not in lines


@pytest.mark.parametrize(
    ("product", "version", "java", "allowed"),
    [
        ("elasticsearch", "7.10.2", "21.0.1", True),
        ("elasticsearch", "7.10.2", "17.0.1", False),
        ("elasticsearch", "7.10.2", "24.0.1", False),
        ("elasticsearch", "7.17.29", "21.0.1", False),
        ("opensearch", "2.19.6", "21.0.1", False),
    ],
)
def test_the_security_manager_is_allowed_where_an_old_server_needs_it(
    product: str, version: str, java: str, allowed: bool
) -> None:
    assert ("-Djava.security.manager=allow" in rewrite(SEVEN, version, java, product)) == allowed


def test_a_module_that_the_java_lacks_is_not_added() -> None:
    added = "20-:--add-modules=jdk.incubator.vector"
    assert added not in rewrite(EIGHT, "8.19.4", "21.0.1", modules="java.base")
    assert added in rewrite(EIGHT, "8.19.4", "21.0.1", modules="java.base jdk.incubator.vector")
    assert added in rewrite(EIGHT, "8.19.4", "21.0.1", modules=None)


def test_a_users_further_options_keep_all_but_what_is_ours() -> None:
    assert without_replaced("# mine\n-Xmx31g\n11-:-Xms31g\n-XX:+UseZGC\n-Xmn1g\n") == "# mine\n-XX:+UseZGC\n-Xmn1g\n"


def test_further_options_come_last_with_the_nodes_own_logs() -> None:
    lines = rewrite(EIGHT, "8.19.4", further=("-Xlog:gc*,safepoint:file={logs}/more.log:utctime", "-Xint"))
    assert lines[-2:] == ["-Xlog:gc*,safepoint:file=/n/logs/more.log:utctime", "-Xint"]
    assert any("file=/n/logs/gc.log" in line for line in lines)
    assert "-XX:+UseG1GC" in lines


@pytest.mark.parametrize("text", [FIVE, SEVEN, EIGHT])
@pytest.mark.parametrize("java", ["11.0.2", "17.0.1"])
def test_a_collector_among_them_replaces_the_servers(text: str, java: str) -> None:
    lines = rewrite(text, "7.10.2", java, further=("-XX:+UseParallelGC",))
    assert [line for line in lines if "GC" in line and "+Use" in line] == ["-XX:+UseParallelGC"]
