"""One embedded node: its folder and files. guarded.py runs it; ready.py waits for its cluster."""

from __future__ import annotations

import random
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from esbench.errors import EngineError
from esbench.features.node.guarded import GuardedProcess
from esbench.features.node.java import Java
from esbench.features.node.java_options import rewrite_jvm_options, without_replaced, without_secrets
from esbench.features.node.server import NodePlan, Server, node_command, node_environment
from esbench.record.secrets import Redactor, secret_values


def free_ports(count: int) -> list[int]:
    """Return free ports of loopback, below the range from which outgoing connections take theirs.

    They are not reserved. EngineError if there are not that many.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(range(20000, 32000), 12000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise EngineError(f"there are no {count} free ports between 20000 and 32000 on 127.0.0.1")


class Node(GuardedProcess):
    """A node of Elasticsearch or OpenSearch. `kept` is its file if it is released, which then must exist."""

    def __init__(
        self, plan: NodePlan, server: Server, java: Java, user: int | None, saved_logs: Path, kept: Path
    ) -> None:
        super().__init__(plan.name, plan.folder, plan.console, user, saved_logs)
        self.plan = plan
        self._server = server
        self._java = java
        self._kept = kept

    def prepare(self, settings: Mapping[str, object], heap_bytes: int, java_options: Sequence[str] = ()) -> None:
        """Write the node's folder; its user becomes the owner of everything in it.

        `settings` are those of the yml, `java_options` come last. EngineError if the folder exists (it is another
        node's), or cannot be written: nothing of it is left then.
        """
        self._redact = Redactor(secret_values(settings))
        with self._new_folder("a node"):
            self._fill(settings, heap_bytes, java_options)

    def _fill(self, settings: Mapping[str, object], heap_bytes: int, java_options: Sequence[str]) -> None:
        plan, server = self.plan, self._server
        for folder in (plan.data, plan.logs, plan.temp):
            folder.mkdir(mode=0o700)
        shutil.copytree(server.home / "config", plan.config)
        for path in (plan.config, *plan.config.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)  # the server's own are read-only
        yml = plan.config / f"{server.product}.yml"
        yml.write_text(yaml.safe_dump(dict(settings), sort_keys=False), "utf-8")
        options = plan.config / "jvm.options"
        text = options.read_text("utf-8")
        shown = without_secrets(java_options, plan.config, self._java)
        options.write_text(rewrite_jvm_options(text, server, plan, self._java, heap_bytes, shown), "utf-8")
        for extra in plan.config.glob("jvm.options.d/*.options"):  # read later: they would win
            extra.write_text(without_replaced(extra.read_text("utf-8")), "utf-8")

    def launch(self, path: str) -> None:
        """Start the guard, which starts the node with PATH `path`; return when the node's process exists.

        EngineError if it cannot start.
        """
        environment = node_environment(self._server, self.plan, self._java, path)
        self._launch(node_command(self._server, self.plan), environment, self._kept)
