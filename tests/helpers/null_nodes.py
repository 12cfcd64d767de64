"""Archives of servers whose nodes are null servers: --distribution unpacks and starts them, without Elasticsearch.

A node's own process only says where it would listen, which any user can, and sleeps; the test's process serves there.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from guarded import is_alive

from esbench.features.node.folders import Folders
from esbench.null_server import NullServer

VERSION = "7.17.29"
_NODE = """#!/bin/sh
said() { sed -n "s/^$1: //p" "$ES_PATH_CONF/elasticsearch.yml"; }
echo "$(said http.port) $(said node.name)" >"FOLDER/.$$"
mv "FOLDER/.$$" "FOLDER/$$.ARCHIVE"
exec sleep 600
"""
_JAVA = "#!/bin/sh\necho 'java.version = 17.0.1' >&2\n"


class NullNodes:
    """Writes such archives, and serves the nodes that are started of them until it is left."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="esbench-null-nodes-"))
        self._folder.chmod(0o777)  # as root, esbench gives a node another user
        self._rules: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self._serving: dict[int, NullServer] = {}
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def write(self, archive: Path, *rules: Mapping[str, Any]) -> None:
        """Write an archive whose nodes answer by these rules of a null server."""
        self._rules[archive.name] = rules
        files = {
            "bin/elasticsearch": _NODE.replace("FOLDER", str(self._folder)).replace("ARCHIVE", archive.name),
            f"lib/elasticsearch-{VERSION}.jar": "",
            "config/jvm.options": "",
            f"config/{self._folder.name}": "",
            "jdk/bin/java": _JAVA,
            "jdk/lib/modules": "",
            "jdk/release": 'JAVA_VERSION="17.0.1"\n',
        }
        with tarfile.open(archive, "w:gz") as tar:
            for name, text in files.items():
                member = tarfile.TarInfo(f"elasticsearch-{VERSION}/{name}")
                member.mode, member.size = 0o755 if "/bin/" in member.name else 0o644, len(text)
                tar.addfile(member, BytesIO(text.encode()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._thread.join()
        for server in self._serving.values():
            server.stop()
        for unpacked in Folders.of(self._folder).servers.glob("local-*"):  # as root, outside of ESBENCH_HOME
            if (unpacked / "config" / self._folder.name).exists():
                shutil.rmtree(unpacked)
        shutil.rmtree(self._folder)

    def _serve(self) -> None:
        while not self._left.wait(0.02):
            for file in self._folder.glob("[!.]*"):
                pid, _, archive = file.name.partition(".")
                port, name = file.read_text().split()
                file.unlink()
                script = {"version": VERSION, "rules": [_describes(name, int(pid)), *self._rules[archive]]}
                self._serving[int(pid)] = NullServer(script, port=int(port)).start()
            for pid in [pid for pid in self._serving if not is_alive(pid)]:
                self._serving.pop(pid).stop()


def _describes(name: str, pid: int) -> Mapping[str, Any]:
    """The rule by which a node has the name and the process that esbench gave it."""
    node = {"name": name, "version": VERSION, "process": {"id": pid}, "jvm": {"version": "17.0.1"}}
    return {"path": "^/_nodes/process,jvm", "reply": {"status": 200, "body": {"nodes": {"n": node}}}}
