"""Further options of the Java that runs a node: the folder of its logs, and a check that this Java starts with them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from esbench.engine.java import Java
from esbench.errors import EngineError, UsageError
from esbench.errors.reasons import reason_of

_TRIAL_LIMIT_S = 60.0  # a flight recording takes 1 s to begin and to end
_MODULES = {"-XX:StartFlightRecording": "jdk.jfr"}  # options, by how they begin, that a reduced Java has not
_HEAP, _FILES, _LOG = "use --heap", "it is in the node's folder", "use --telemetry=gc"
_OURS = {  # options, by how they begin
    "-Xms": _HEAP,
    "-Xmx": _HEAP,
    "-XX:InitialHeapSize": _HEAP,
    "-XX:MaxHeapSize": _HEAP,
    "-Xlog": _LOG,
    "-Djava.io.tmpdir": _FILES,
    "-XX:HeapDumpPath": _FILES,
    "-XX:ErrorFile": _FILES,
}
_PREAMBLE = re.compile(r"Error occurred during initialization|Error: (Could not create|A fatal)|.*\bwarning\b")


@dataclass(frozen=True)
class Source:
    """The origin of Java options, as it is named in errors."""

    name: str
    remedy: str
    change: str


TELEMETRY = Source("what telemetry asks of it", "the device of --telemetry", "--telemetry-params changes it")
JVM_OPTIONS = Source("--jvm-options", "the option", "they are")


def with_logs(options: Sequence[str], logs: Path) -> list[str]:
    """Return Java options with the folder of logs in place of `{logs}`."""
    return [option.replace("{logs}", str(logs)) for option in options]


def check_jvm_options(options: Sequence[str]) -> None:
    """Raise a UsageError for a word of --jvm-options that is not a Java option, or that esbench sets itself."""
    for option in options:
        if not option.startswith("-") or re.search(r"\s", option):
            what = f'"{option}" is no option of Java'
            raise UsageError(
                what, where=JVM_OPTIONS.name, hint="each begins with - and has no blanks: --add-modules=NAME"
            )
        if ours := next((hint for start, hint in _OURS.items() if option.startswith(start)), None):
            raise UsageError(f"esbench sets {_name(option)} itself", where=JVM_OPTIONS.name, hint=ours)


def check_options(java: Java, options: Sequence[str], source: Source = TELEMETRY) -> None:
    """Raise an EngineError, with the reason, if a Java does not start with these options.

    Runs Java, without a server.
    """
    if not options:
        return
    for option in options:
        module = next((name for start, name in _MODULES.items() if option.startswith(start)), "")
        if module and java.lacks((module,)):
            raise EngineError(
                f"Java {java.version} of {java.source} has no module {module}, which {_name(option)} needs",
                where=str(java.home),
                hint=f"name a full JDK with --java-home, or leave out {source.remedy}",
            )
    with tempfile.TemporaryDirectory(prefix="esbench-java-") as folder:
        command = [str(java.home / "bin" / "java"), *with_logs(options, Path(folder)), "-version"]
        try:
            tried = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TRIAL_LIMIT_S,
                check=False,
                cwd=folder,
            )
        except OSError as error:
            raise EngineError(f"Java could not be tried: {reason_of(error)}", where=str(java.home)) from error
        except subprocess.TimeoutExpired:
            what = f"Java could not be tried: it did not end within {_TRIAL_LIMIT_S:g} s"
            raise EngineError(what, where=str(java.home)) from None
    if tried.returncode != 0:
        raise EngineError(
            f"Java {java.version} of {java.source} refuses {source.name}: {_reason(tried.stdout + tried.stderr)}",
            where=str(java.home),
            hint=f"{source.change}: {' '.join(options)}",
        )


def _name(option: str) -> str:
    return option.partition("=")[0]


def _reason(told: str) -> str:
    """Return the reason from a Java's output.

    It is in the line of its log, `[0.1s][error][tags] reason`, or else the first line that is not a general preamble.
    """
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    logged = [line.rpartition("] ")[2] for line in lines if "[error]" in line]
    reasons = [line for line in lines if not _PREAMBLE.match(line)]
    return (logged or reasons or lines or ["it says nothing"])[0]
