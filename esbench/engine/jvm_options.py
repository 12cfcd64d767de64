"""Rewriting of a server's jvm.options for one node: its heap, absolute paths, and options that its Java accepts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from esbench.engine.catalog import version_number
from esbench.engine.java import Java
from esbench.engine.java_options import with_logs

_CMS = re.compile(r"-XX:[+-]?(UseConcMarkSweepGC|CMSInitiatingOccupancyFraction|UseCMSInitiatingOccupancyOnly)")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
_REPLACED = re.compile(r"-Xm[sx]\d|-XX:(HeapDumpPath|ErrorFile)=|-Djava\.io\.tmpdir=")
_GC_LOG = re.compile(r"(file=|-Xloggc:)(?:logs/)?gc\.log")


def rewrite_jvm_options(
    text: str,
    *,
    java: Java,
    product: str,
    version: str,
    heap_bytes: int,
    logs: Path,
    temp: Path,
    further: Sequence[str] = (),
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
        lines.append(_GC_LOG.sub(lambda match: f"{match[1]}{logs}/gc.log", line.strip()))
    if dropped_cms and not chosen:
        lines.append("-XX:+UseG1GC")  # as later versions choose from Java 14 on, not by the size of the machine
    if 18 <= java.feature < 24 and product == "elasticsearch" and version_number(version) < (7, 17):
        lines.append("-Djava.security.manager=allow")
    heap = max(heap_bytes >> 20, 1)
    lines += [
        f"-Xms{heap}m",
        f"-Xmx{heap}m",
        f"-Djava.io.tmpdir={temp}",
        f"-XX:HeapDumpPath={temp}",
        f"-XX:ErrorFile={logs}/hs_err_pid%p.log",
        *with_logs(further, logs),
    ]
    return "\n".join(lines) + "\n"


def without_replaced(text: str) -> str:
    """Return the text without lines about the heap, its dumps, error files or the temp folder, which esbench sets."""
    return "".join(line for line in text.splitlines(keepends=True) if not _REPLACED.match(_option(line)))


def _option(line: str) -> str:
    return re.sub(r"^\d+(-\d*)?:", "", line.strip())
