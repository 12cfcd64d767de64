"""Races every own track on null servers in the role of managed services: Elastic's serverless, Amazon's two.

    python benchmarks/managed_services.py

In test mode; it takes 6 minutes. What the services refuse is in tests/helpers/managed.py. It prints how each race ended
and what was left out of it, and exits with 1 if one failed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tabulate import tabulate

from esbench.null_server import NullServer
from esbench.record.store import RaceStore
from esbench.track.library import list_tracks

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
from managed import SERVICES, raced


def row(track: str, service: str, home: Path) -> tuple[str, str, str, str]:
    """Race a track on a service; track, service, how that ended, and what was left out or went wrong."""
    with NullServer(SERVICES[service][0]) as server:
        done = raced(track, service, server.url, home)
    if done.returncode:
        return track, service, f"exit {done.returncode}", done.stderr.strip()[-200:]
    record = RaceStore(home).load("last")
    left_out = [warning for warning in record.warnings if warning.startswith("left out")]
    return track, service, record.status, "; ".join(left_out).partition(" (")[0]


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        rows = [row(track.name, service, Path(home)) for track in list_tracks().tracks for service in SERVICES]
    print(tabulate(rows, headers=("track", "service", "", "")))
    sys.exit(int(any(ended != "complete" for _, _, ended, _ in rows)))


if __name__ == "__main__":
    main()
