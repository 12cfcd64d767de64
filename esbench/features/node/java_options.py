"""The options of the Java that runs a node: the server's jvm.options for one node, and further ones that are tried."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from esbench.errors import EngineError, UsageError
from esbench.errors.reasons import reason_of
from esbench.features.node.java import Java, run_silently
from esbench.features.node.server import NodePlan, Server
from esbench.record.private import open_private
from esbench.record.secrets import Redactor

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
_CMS = re.compile(r"-XX:[+-]?(UseConcMarkSweepGC|CMSInitiatingOccupancyFraction|UseCMSInitiatingOccupancyOnly)")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
_REPLACED = re.compile(r"-Xm[sx]\d|-XX:(HeapDumpPath|ErrorFile)=|-Djava\.io\.tmpdir=")
_GC_LOG = re.compile(r"(file=|-Xloggc:)(?:logs/)?gc\.log")
_OPTIONS_FILE = "-XX:VMOptionsFile"  # from Java 9 on
_PREAMBLE = re.compile(r"Error occurred during initialization|Error: (Could not create|A fatal)|.*\bwarning\b")


@dataclass(frozen=True)
class OptionsSource:
    """The origin of Java options, as it is named in errors.

    `remedy` is what a user can leave out, `change` the beginning of a hint that ends with the options.
    """

    name: str
    remedy: str
    change: str


TELEMETRY = OptionsSource("what telemetry asks of it", "the device of --telemetry", "--telemetry-params changes it")
JVM_OPTIONS = OptionsSource("--jvm-options", "the option", "they are")


def with_logs(options: Sequence[str], logs: Path) -> list[str]:
    """Return Java options with the folder of logs in place of `{logs}`."""
    return [option.replace("{logs}", str(logs)) for option in options]


def without_secrets(options: Sequence[str], folder: Path, java: Java) -> list[str]:
    """Return Java options that name a file of the folder in place of those that hold a secret, as `ps` shows them.

    Only its owner can read the file. Java 8 knows no such file, and no Java a second one: all options stay.
    """
    secret = [option for option in options if _is_secret(option)]
    if not secret or java.feature < 9 or any(option.startswith(_OPTIONS_FILE) for option in options):
        return list(options)
    file = folder / "secret.options"
    with open_private(file, "wb") as out:
        out.write("\n".join(map(shlex.quote, secret)).encode())
    return [*(option for option in options if option not in secret), f"{_OPTIONS_FILE}={file}"]


def _is_secret(option: str) -> bool:
    return Redactor()(option) != option


def check_jvm_options(options: Sequence[str]) -> None:
    """Raise a UsageError for a word of --jvm-options that is not a Java option, or that esbench sets itself."""
    for number, option in enumerate(options):
        if not option.startswith("-") or re.search(r"\s", option):
            shown = "what follows a secret" if any(map(_is_secret, options[:number])) else f'"{Redactor()(option)}"'
            hint = "each begins with - and has no blanks: --add-modules=NAME"
            raise UsageError(f"{shown} is not an option of Java", where=JVM_OPTIONS.name, hint=hint)
        if ours := next((hint for start, hint in _OURS.items() if option.startswith(start)), None):
            raise UsageError(f"esbench sets {_name(option)} itself", where=JVM_OPTIONS.name, hint=ours)


def check_options(java: Java, options: Sequence[str], source: OptionsSource = TELEMETRY) -> None:
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
        tried_options = with_logs(without_secrets(options, Path(folder), java), Path(folder))
        command = [str(java.home / "bin" / "java"), *tried_options, "-version"]
        try:
            tried = run_silently(command, timeout_s=_TRIAL_LIMIT_S, folder=folder)
        except OSError as error:
            raise EngineError(f"Java could not be tried: {reason_of(error)}", where=str(java.home)) from error
        except subprocess.TimeoutExpired:
            what = f"Java could not be tried: it did not end within {_TRIAL_LIMIT_S:g} s"
            raise EngineError(what, where=str(java.home)) from None
    if tried.returncode != 0:
        raise EngineError(
            f"Java {java.version} of {java.source} refuses {source.name}: "
            f"{Redactor()(_reason(tried.stdout + tried.stderr))}",
            where=str(java.home),
            hint=f"{source.change}: {Redactor()(' '.join(options))}",
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


def rewrite_jvm_options(
    text: str, server: Server, node: NodePlan, java: Java, heap_bytes: int, further: Sequence[str] = ()
) -> str:
    """Return the jvm.options that a node starts with. All paths are absolute, since nodes share the server's folder.

    Lines may carry a range of Javas (`8-13:-XX:...`), which the server's own launcher reads. `further` options come
    last; `{logs}` in them is the node's folder of logs, and a garbage collector among them replaces the server's.
    """
    chosen = any(_COLLECTOR.fullmatch(option) for option in further)
    lines = []
    dropped_cms = False
    for line in without_replaced(text).splitlines():
        option = _option(line)
        if not option or option.startswith("#"):
            continue
        if java.feature >= 14 and _CMS.match(line.strip()):  # Java 14 removed it; launchers skip ranged lines
            dropped_cms = True
            continue
        if chosen and _COLLECTOR.fullmatch(option):  # Java refuses two
            continue
        module = re.fullmatch(r"--add-modules=([\w.]+)", option)
        if module and java.lacks((module[1],)):
            continue
        lines.append(_GC_LOG.sub(lambda match: f"{match[1]}{node.logs}/gc.log", line.strip()))
    if dropped_cms and not chosen:
        lines.append("-XX:+UseG1GC")  # as later versions choose from Java 14 on, not by the size of the machine
    if 18 <= java.feature < 24 and server.product == "elasticsearch" and server.number < (7, 17):
        lines.append("-Djava.security.manager=allow")
    heap = max(heap_bytes >> 20, 1)
    lines += [
        f"-Xms{heap}m",
        f"-Xmx{heap}m",
        f"-Djava.io.tmpdir={node.temp}",
        f"-XX:HeapDumpPath={node.temp}",
        f"-XX:ErrorFile={node.logs}/hs_err_pid%p.log",
        *with_logs(further, node.logs),
    ]
    return "\n".join(lines) + "\n"


def without_replaced(text: str) -> str:
    """Return the text without lines about the heap, its dumps, error files or the temp folder, which esbench sets."""
    return "".join(line for line in text.splitlines(keepends=True) if not _REPLACED.match(_option(line)))


def _option(line: str) -> str:
    return re.sub(r"^\d+(-\d*)?:", "", line.strip())
