"""Options of a node's Java: jvm.options of real servers, rewritten for one node; further ones, tried on a script that
stands for a Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from esbench.errors import EngineError, UsageError
from esbench.features.node.java import Java
from esbench.features.node.java_options import (
    JVM_OPTIONS,
    check_jvm_options,
    check_options,
    rewrite_jvm_options,
    with_logs,
    without_replaced,
    without_secrets,
)
from esbench.features.node.server import NodePlan, Server

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
JFR = "-XX:StartFlightRecording=filename={logs}/a.jfr"


def java(folder: Path, script: str, modules: str | None = None) -> Java:
    (folder / "bin").mkdir()
    command = folder / "bin" / "java"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    return Java(folder, "17.0.1", "PATH", frozenset(modules.split()) if modules is not None else None)


def test_the_folder_of_logs_is_put_in() -> None:
    assert with_logs(("-Xlog:gc:file={logs}/gc", "-Xint"), Path("/n/logs")) == ["-Xlog:gc:file=/n/logs/gc", "-Xint"]


def test_a_java_is_started_with_the_options_in_a_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    told = tmp_path / "told"
    check_options(java(tmp_path, f'echo "$@" > {told}; touch here'), (JFR, "-Xint"))
    first, *rest = told.read_text().split()
    assert rest == ["-Xint", "-version"]
    written = Path(first.removeprefix("-XX:StartFlightRecording=filename="))
    assert written.name == "a.jfr"
    assert not written.parent.exists()


def test_secrets_are_in_a_file_of_their_own_that_a_list_of_processes_does_not_show(tmp_path: Path) -> None:
    told, held = tmp_path / "told", tmp_path / "held"
    script = f'echo "$@" > {told}; cat secret.options > {held}; stat -c %a secret.options >> {held}'
    check_options(java(tmp_path, script), ("-Da.password=sword'fish", "-Xint", "-Dtoken=x"))
    first, second, third, _ = told.read_text().split()
    assert (first, second) == ("-Xint", "-Dtoken=x")
    assert third.startswith("-XX:VMOptionsFile=/")
    assert held.read_text() == "'-Da.password=sword'\"'\"'fish'600\n"


@pytest.mark.parametrize(
    ("version", "options"),
    [("1.8.0", ["-Da.password=x"]), ("17.0.1", ["-Da.password=x", "-XX:VMOptionsFile=mine"]), ("17.0.1", ["-Xint"])],
)
def test_options_stay_where_there_is_no_such_file(tmp_path: Path, version: str, options: list[str]) -> None:
    assert without_secrets(options, tmp_path, Java(tmp_path, version, "PATH", None)) == options
    assert not list(tmp_path.iterdir())


def test_an_error_about_java_options_shows_no_secret(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"Da\.password=<hidden>") as caught:
        check_options(java(tmp_path, "echo '-Da.password=sword: no' >&2; exit 1"), ("-Da.password=sword",), JVM_OPTIONS)
    assert "sword" not in str(caught.value).replace("password", "")
    with pytest.raises(UsageError, match="what follows a secret is not an option of Java") as refused:
        check_jvm_options(("-Da.password=my", "sword"))
    assert "sword" not in str(refused.value)


def test_without_options_no_java_is_started(tmp_path: Path) -> None:
    check_options(java(tmp_path, "exit 1"), ())


def test_what_a_java_says_is_the_reason(tmp_path: Path) -> None:
    script = "echo \"[0.002s][error][logging] Invalid tag 'gcc' in log selection.\"; echo 'Error: no VM' >&2; exit 1"
    with pytest.raises(EngineError) as caught:
        check_options(java(tmp_path, script), ("-Xlog:gcc",))
    assert caught.value.what == (
        "Java 17.0.1 of PATH refuses what telemetry asks of it: Invalid tag 'gcc' in log selection."
    )


def test_a_java_that_is_silent_or_old_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="it says nothing"):
        check_options(java(tmp_path, "exit 1"), ("-Xlog:gc",))
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho 'Unrecognized option: -Xlog:gc' >&2; exit 1\n")
    with pytest.raises(EngineError, match="Unrecognized option: -Xlog:gc"):
        check_options(Java(tmp_path, "1.8.0_392", "JAVA_HOME"), ("-Xlog:gc",))


def test_a_reduced_java_without_the_flight_recorder_is_told_from_its_release_file(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no module jdk\.jfr, which -XX:StartFlightRecording needs"):
        check_options(java(tmp_path, "exit 0", "java.base"), (JFR,))


def test_a_java_that_does_not_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="could not be tried"):
        check_options(Java(tmp_path / "none", "17.0.1", "PATH"), ("-Xint",))


@pytest.mark.parametrize(
    "said",
    [
        "Unrecognized VM option 'UseFoo'\nError: Could not create the Java Virtual Machine.",
        "Error occurred during initialization of VM\nUnrecognized VM option 'UseFoo'",
        "OpenJDK 64-Bit Server VM warning: Option UseBar is old\nUnrecognized VM option 'UseFoo'",
    ],
)
def test_the_reason_is_the_line_that_names_the_option(tmp_path: Path, said: str) -> None:
    with pytest.raises(EngineError) as caught:
        check_options(java(tmp_path, f'echo "{said}" >&2; exit 1'), ("-XX:+UseFoo",), JVM_OPTIONS)
    assert caught.value.what == "Java 17.0.1 of PATH refuses --jvm-options: Unrecognized VM option 'UseFoo'"
    assert caught.value.hint == "they are: -XX:+UseFoo"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("-Xmx1g", r"--jvm-options: esbench sets -Xmx1g itself \(use --heap\)"),
        ("-Xms1g", "use --heap"),
        ("-XX:MaxHeapSize=1g", "-XX:MaxHeapSize itself .use --heap"),
        ("-Xlog:gc*:file=gc.log", "use --telemetry=gc"),
        ("-Xloggc:gc.log", "use --telemetry=gc"),
        ("-Djava.io.tmpdir=/tmp", "esbench sets -Djava.io.tmpdir itself"),
        ("-XX:HeapDumpPath=/tmp", "esbench sets"),
        ("-XX:ErrorFile=/tmp/e", "esbench sets"),
        ("Xint", '"Xint" is not an option of Java'),
        ("-Da=b c", "has no blanks"),
        ("-Da=b\n-Xmx1g", "has no blanks"),
        ("", '"" is not an option'),
    ],
)
def test_options_that_esbench_sets_itself_are_refused(option: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_jvm_options(("-Xint", option))


def test_other_options_of_java_are_taken() -> None:
    check_jvm_options(("-Xint", "-Xmn64m", "-Xss2m", "-XX:+UseZGC", "-Des.x=y", "--add-modules=jdk.net"))


def rewrite(
    text: str,
    version: str,
    java: str = "17.0.1",
    product: str = "elasticsearch",
    modules: str | None = None,
    further: tuple[str, ...] = (),
) -> list[str]:
    runtime = Java(Path("/java"), java, "PATH", frozenset(modules.split()) if modules is not None else None)
    server = Server(Path("/s"), product, version, frozenset(), frozenset())
    node = NodePlan("node-0", 20001, 20002, Path("/n"))
    return rewrite_jvm_options(text, server, node, runtime, 768 << 20, further).splitlines()


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
