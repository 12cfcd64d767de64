"""How fast logs of searches are read and described, as lines per second and as a ratio to parsing their JSON alone.

    python benchmarks/replay_reading.py [--lines 200000]

Writes a log in esbench's own format with 100 shapes, then reads it twice in one process: with the standard library's
JSON parser alone, and as `esbench replay --inspect` does. Prints the memory used at most before and after.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

from esbench.features.replay.inspection import Inspection
from esbench.features.replay.sources import LogReading, Logs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=200_000)
    count = parser.parse_args().lines
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "queries.jsonl"
        with log.open("w") as file:
            for n in range(count):
                body = {
                    "query": {"bool": {"must": [{"match": {f"f{n % 100}": f"word {n}"}}], "filter": {"term": {"a": n}}}}
                }
                stamp = f"2026-11-28T{n // 3600000:02}:{n // 60000 % 60:02}:{n // 1000 % 60:02}.{n % 1000:03}000Z"
                line = {"@timestamp": stamp, "method": "POST", "path": "/i/_search", "body": body, "took_ms": n % 50}
                file.write(json.dumps(line) + "\n")
        begun = time.perf_counter()
        with log.open() as file:
            for text in file:
                json.loads(text)
        parsed_s = time.perf_counter() - begun
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.perf_counter()
        logs, inspection = Logs([log], LogReading()), Inspection()
        for arrival_s, entry in logs.requests():
            inspection.add(arrival_s, entry)
        read_s = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{count / read_s:,.0f} lines/s, {inspection.shape_count} shapes; {read_s / parsed_s:.1f} times the JSON parser"
    )
    print(f"memory at most: {before / 1024:.0f} MB before, {after / 1024:.0f} MB after")


if __name__ == "__main__":
    main()
