"""A stand-in for ssh that runs the command on this host: what a load host is, but for its machine.

`127.0.0.1:2201` and `127.0.0.1:2202` are two load hosts, each with an ESBENCH_HOME of its own. Like ssh, it passes
input and output on, says why it cannot connect, and ends with status 255 then.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil

_PROGRAM = """#!/bin/sh
if [ "$1" = -G ]; then echo "hostname $2"; exit; fi
while [ $# -gt 2 ]; do
    case "$1" in -p) port="$2"; shift 2;; -o) shift 2;; *) shift;; esac
done
name="$1:${port:-22}"
mkdir -p "FOLDER/$name"
echo $$ > "FOLDER/$name/pid"
if [ -f "FOLDER/$name/refuses" ]; then echo "ssh: connect to host $1 port $port: Connection refused" >&2; exit 255; fi
echo "Welcome to $name"
ESBENCH_HOME="FOLDER/$name/home" exec sh -c "$2"
"""


class LocalSsh:
    """The program `ssh` in `folder`, which comes first in `path`; load hosts are named by their ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir(parents=True)
        (programs / "ssh").write_text(_PROGRAM.replace("FOLDER", str(folder)))
        (programs / "ssh").chmod(0o755)
        self.path = f"{programs}{os.pathsep}{os.environ['PATH']}"

    def home(self, name: str) -> Path:
        """The ESBENCH_HOME of a load host."""
        return self.folder / name / "home"

    def refuse(self, name: str) -> None:
        """Let a host refuse connections."""
        (self.folder / name).mkdir()
        (self.folder / name / "refuses").touch()

    def pid(self, name: str) -> int:
        """The process that ssh has started on a host."""
        return int((self.folder / name / "pid").read_text())

    def lose(self, name: str) -> list[psutil.Process]:
        """Stop all that runs on a host, as if its network were gone; returns its processes."""
        root = psutil.Process(self.pid(name))
        processes = [root, *root.children(recursive=True)]
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        return processes

    def kill(self, name: str) -> None:
        """Kill the process that ssh has started on a host."""
        os.kill(self.pid(name), signal.SIGKILL)

    def processes(self) -> list[psutil.Process]:
        """All processes that run on load hosts."""
        homes = {str(self.home(path.name)) for path in self.folder.iterdir()}
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("ESBENCH_HOME") in homes:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def wait_for_nothing(self, within_s: float = 10) -> None:
        """Wait until no process runs on any load host."""
        deadline_s = time.monotonic() + within_s
        while left := self.processes():
            assert time.monotonic() < deadline_s, left
            time.sleep(0.1)
