"""Further options of a node's Java: tried before a node is started, on a script that stands for a Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from esbench.engine.java import Java
from esbench.engine.java_options import JVM_OPTIONS, check_jvm_options, check_options, with_logs
from esbench.errors import EngineError, UsageError

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
        ("Xint", '"Xint" is no option of Java'),
        ("-Da=b c", "has no blanks"),
        ("-Da=b\n-Xmx1g", "has no blanks"),
        ("", '"" is no option'),
    ],
)
def test_options_that_esbench_sets_itself_are_refused(option: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_jvm_options(("-Xint", option))


def test_other_options_of_java_are_taken() -> None:
    check_jvm_options(("-Xint", "-Xmn64m", "-Xss2m", "-XX:+UseZGC", "-Des.x=y", "--add-modules=jdk.net"))
