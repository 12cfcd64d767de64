"""Archives unpacked while they are sent, and before: time to the first bulk and documents per second, one run.

    python benchmarks/archives.py [--documents 200000] [--delays 0,100] [--formats bz2,gz,zst]

Races bulks of 1,000 documents of 400 bytes, 4 clients, against a null server that answers after `delays` ms: as fast as
the driver can, and as slowly as a node of one or two cores. Each format is raced in a home without any cache: unpacked
first, unpacked once more from there (the archive is in the cache by then), and as a stream. The ratios are those of
the stream to the first race (time) and to the second one (documents per second); waits: bulks that were not ready.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
import zstandard
from bulk import write_corpus
from programs import race_command
from tabulate import tabulate

from esbench.null_server import NullServer
from esbench.record.store import RaceStore

BULK_SIZE = 1000
CLIENTS = 4
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "bz2": bz2.compress,
    "gz": lambda text: gzip.compress(text, 6),
    "zst": zstandard.compress,
}


@dataclass(frozen=True)
class Race:
    """What one race took: seconds from the command to its first bulk, its rate, and how often a bulk was waited for."""

    first_bulk_s: float
    docs_per_s: float
    waits: int


def write_track(folder: Path, name: str, documents: int) -> Path:
    part = {"source-file": name, "document-count": documents}
    bulk = {"operation-type": "bulk", "bulk-size": BULK_SIZE, "index": "orders"}
    track = {
        "indices": [{"name": "orders"}],
        "corpora": [{"name": "orders", "documents": [part]}],
        "schedule": [{"name": "bulk", "operation": bulk, "clients": CLIENTS}],
    }
    path = folder / f"{name}.yml"
    path.write_text(yaml.safe_dump(track))
    return path


def race(track: Path, home: Path, server: NullServer, mode: str) -> Race:
    begin_ns = time.monotonic_ns()
    done = subprocess.run(
        race_command(track, server.url.removeprefix("http://"), f"--corpus-cache={mode}"),
        env={**os.environ, "ESBENCH_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"a race failed: {done.stderr}")
    received = min(line.received_ns for line in server.log() if "_bulk" in line.path and line.received_ns > begin_ns)
    (task,) = RaceStore(home).load("last").tasks
    waits = sum(int(check.value or 0) for check in task.checks if check.name == "feed-waits")
    return Race((received - begin_ns) / 1e9, task.throughput.mean or 0.0, waits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--delays", default="0,100")
    parser.add_argument("--formats", default="bz2,gz,zst")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = folder / "orders.json"
        write_corpus(plain, options.documents)
        text = plain.read_bytes()
        plain.unlink()
        for ending in options.formats.split(","):
            packed = folder / f"orders.json.{ending}"
            packed.write_bytes(PACKED[ending](text))
            track = write_track(folder, packed.name, options.documents)
            for delay_ms in map(float, options.delays.split(",")):
                script = {"rules": [{"path": "/_bulk", "delay": {"type": "constant", "ms": delay_ms}}]}
                with NullServer(script if delay_ms else None, log=True) as server:
                    homes = [folder / f"home-{ending}-{delay_ms}-{mode}" for mode in ("unpack", "stream")]
                    first = race(track, homes[0], server, "unpack")
                    second = race(track, homes[0], server, "unpack")
                    stream = race(track, homes[1], server, "stream")
                rows.append(
                    [
                        ending,
                        f"{delay_ms:g}",
                        f"{first.first_bulk_s:.2f} / {second.first_bulk_s:.2f} / {stream.first_bulk_s:.2f}",
                        f"{stream.first_bulk_s / first.first_bulk_s:.2f}",
                        f"{first.docs_per_s:,.0f} / {second.docs_per_s:,.0f} / {stream.docs_per_s:,.0f}",
                        f"{stream.docs_per_s / second.docs_per_s:.2f}",
                        stream.waits,
                    ]
                )
        print(f"{len(text) / 1e6:.0f} MB of {options.documents:,} documents; first race / second race / as a stream")
    names = ["format", "delay (ms)", "first bulk (s)", "ratio", "docs/s", "ratio", "waits"]
    print(tabulate(rows, names, disable_numparse=True))


if __name__ == "__main__":
    main()
