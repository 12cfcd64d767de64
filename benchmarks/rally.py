"""Rally as a peer: the command that races a track, and the figures of its report.

It lives in a virtual environment of its own (`pip install esrally==2.13.0`), whose folder is given. It refuses to
start while any Python process, the benchmark's say, has its command's name among its arguments.
"""

from __future__ import annotations

import csv
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path

import psutil

_ENDED_WITHIN_S = 30


class Rally:
    """The Rally of a virtual environment; what it writes goes below a folder."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self._program = environment / "bin" / "esrally"
        if not self._program.is_file():
            sys.exit(f"{self._program} is missing: give the folder of the virtual environment that Rally is in")
        self._report = folder / "report.csv"
        self.env = {"RALLY_HOME": str(folder)}

    def command(self, track: Path, host: str) -> list[str]:
        """What races a track against a running cluster, when the processes of an earlier race have ended."""
        self._wait_until_alone()
        race = [str(self._program), "race", "--pipeline=benchmark-only", "--on-error=abort", "--offline"]
        return [
            *race,
            f"--track-path={track}",
            f"--target-hosts={host}",
            "--report-format=csv",
            f"--report-file={self._report}",
        ]

    def create_track_command(self, *options: str) -> list[str]:
        """What makes a track of a running cluster."""
        self._wait_until_alone()
        return [str(self._program), "create-track", "--offline", "--quiet", *options]

    def _wait_until_alone(self) -> None:
        deadline = time.monotonic() + _ENDED_WITHIN_S
        while any(process.info["name"] == self._program.name for process in psutil.process_iter(["name"])):
            if time.monotonic() > deadline:
                sys.exit("another Rally is running, and it refuses to start beside it")
            time.sleep(0.2)

    def report(self) -> Mapping[tuple[str, str], float]:
        """The last race's figures by (metric, task), as it prints them."""
        with self._report.open() as lines:
            rows = list(csv.DictReader(lines))
        return {(row["Metric"], row["Task"]): float(row["Value"]) for row in rows if row["Value"]}


def add_rally_option(parser: ArgumentParser, *, required: bool = False) -> None:
    parser.add_argument(
        "--rally", type=_environment, required=required, help="the folder of Rally's virtual environment"
    )


def _environment(text: str) -> Path:
    if "esrally" in text:
        sys.exit(f'Rally refuses to start beside a command with "esrally" in it: call the folder {text} another name')
    return Path(text).absolute()
