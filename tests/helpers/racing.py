"""The real `esbench race`, as a child process with a small track, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from esbench.null_server import NullServer
from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore

DOCUMENTS = 500
PATIENCE_S = 90.0  # for what takes a second or two, on a machine that is busy with other things
TRACK = """
version: 2
description: A shop whose orders are loaded and read
indices: [{name: orders, body: index.json}]
corpora: [{name: orders, documents: [{document-count: 500, source-file: orders.json}]}]
variables: [{name: any_id, type: range, from: 1, to: 500}]
operations:
  - {name: read, operation-type: get, id: "$[[any_id]]"}
  - {name: find, operation-type: search, body: {query: {match_all: {}}}}
challenges:
  - name: default
    default: true
    schedule:
      - operation: {operation-type: create-index}
        tags: setup
      - {operation: {operation-type: bulk, bulk-size: 50}, clients: 2, tags: setup}
      - {name: closed, operation: read, clients: 2, warmup-iterations: 10, iterations: 50}
      - {name: paced, operation: read, clients: 4, target-throughput: {{ rate | default(100) }},
         warmup-time-period: 0.2, time-period: {{ period | default(0.5) }}}
      - parallel:
          completed-by: found
          tasks:
            - {name: found, operation: find, requests: 30}
            - {name: beside, operation: read, time-period: 60, think-time: 5ms}
      - operation: {operation-type: assert-count, expected: acknowledged}
  - name: endless
    schedule:
      - {name: first, operation: read, requests: 20}
      - {name: paced, operation: read, clients: 4, target-throughput: 50, time-period: 60}
      - {name: never, operation: read}
"""


@dataclass
class Outcome:
    """What a race left behind."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def error(self) -> str:
        """The only line of an error."""
        (line,) = [line for line in self.stderr.splitlines() if line.startswith("esbench: ")]
        assert "Traceback" not in self.stderr, self.stderr
        return line


class Races:
    """Starts races of one small track with one ESBENCH_HOME; `end` kills what still runs.

    `deletes_first`: the track deletes its index before it creates it, so that it can be raced again.
    """

    def __init__(self, folder: Path, *, deletes_first: bool = False) -> None:
        self.home = folder / "home"
        self.track = folder / "shop"
        self._running: list[subprocess.Popen[str]] = []
        self.track.mkdir(parents=True)
        creates = "- operation: {operation-type: create-index}"
        deletes = "- operation: {operation-type: delete-index}\n      "
        text = TRACK.replace(creates, deletes + creates) if deletes_first else TRACK
        (self.track / "track.yml").write_text(text)
        (self.track / "index.json").write_text(json.dumps({"settings": {"index.number_of_shards": 3}}))
        (self.track / "orders.json").write_text("".join(f'{{"n": {number}}}\n' for number in range(DOCUMENTS)))

    def start(
        self,
        server: NullServer | str,
        *arguments: str,
        home: Path | None = None,
        command: str = "race",
        prefix: Sequence[str] = (),
        terminal: int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """A race in a session of its own, whose group a test may signal as a terminal does. `prefix` starts it.

        `terminal`: the descriptor of its outputs, two pipes by default.
        """
        url = server if isinstance(server, str) else server.url
        line = [*prefix, sys.executable, "-m", "esbench.cli.main", command, f"--track-path={self.track}"]
        process = subprocess.Popen(
            [*line, f"--target-hosts={url}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            text=True,
            env={**os.environ, "TERM": "xterm", "ESBENCH_HOME": str(home or self.home)},
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def finish(self, process: subprocess.Popen[str], within_s: float = PATIENCE_S) -> Outcome:
        begin = time.monotonic()
        stdout, stderr = process.communicate(timeout=within_s)
        return Outcome(process.returncode, stdout, stderr, time.monotonic() - begin)

    def run(self, server: NullServer | str, *arguments: str, **keys: Any) -> Outcome:
        return self.finish(self.start(server, *arguments, **keys))

    def ask(self, *arguments: str) -> str:
        """What another command of esbench prints."""
        return subprocess.run(
            [sys.executable, "-m", "esbench.cli.main", *arguments],
            env={**os.environ, "ESBENCH_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def record(self, race: str = "last") -> RaceRecord:
        return RaceStore(self.home).load(race)

    def series(self, race: str) -> list[dict[str, Any]]:
        file = RaceStore(self.home).folder(race).seconds_file
        return [json.loads(line) for line in file.read_text().splitlines()]

    def end(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str], within_s: float = PATIENCE_S) -> None:
    """Wait for something that a race does."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    """SIGINT to the whole process group, as a terminal sends it."""
    interrupt(process, signal.SIGINT)


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """A signal to the whole process group, as a terminal sends it: SIGINT, or SIGHUP when it is closed."""
    os.killpg(process.pid, number)
