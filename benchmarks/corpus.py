"""How fast documents are made and handed out, and how that compares with plain Python in the same run.

    python benchmarks/corpus.py [--documents 200000]

Prints documents per second of: the generator on one core, a generator of the same documents with `random` and
`json.dumps`, the whole preparation of a cached file (all cores), and microseconds per call of what workers use.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from esbench.corpus.bulk_source import BulkSource
from esbench.corpus.feed import document_feed
from esbench.corpus.preparation import BLOCK, prepare
from esbench.corpus.prepared import GROUP, PreparedDocuments
from esbench.features.synthetic.generate.generator import Generator
from esbench.features.synthetic.sampler import DocumentSampler
from esbench.model import Corpus, Documents

ORDERS = Path(__file__).parents[1] / "tracks" / "orders" / "orders-corpus.yml"


def cpu_seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """CPU time of this process, the fastest of some repeats: other programs on the machine do not count."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def write_file(generator: Generator, path: Path, count: int) -> None:
    """What one child process does, on this core: blocks with action lines into a file."""
    with path.open("wb") as out:
        for first in range(0, count, BLOCK):
            out.write(b"".join(generator.bulk_groups(first, min(BLOCK, count - first), GROUP)))


def write_plain(path: Path, count: int) -> None:
    """The same kind of order, made one by one with the standard library."""
    draw = random.Random(1)
    words = ["please", "leave", "at", "front", "door", "gift", "fragile", "call"]
    with path.open("wb") as out:
        for number in range(count):
            order_id = f"{number * 0x9E3779B97F4A7C15 % 10**18:018d}"
            user_id = f"u{int(1e6 ** draw.random()):07d}"
            order = {
                "order_id": order_id,
                "user_id": user_id,
                "merchant_id": f"m{int(2e4 ** draw.random()):05d}",
                "status": draw.choices(["delivered", "paid", "shipped"], [60, 25, 15])[0],
                "channel": draw.choices(["app", "web", "store"], [60, 33, 7])[0],
                "amount": round(draw.lognormvariate(4, 1), 2),
                "currency": draw.choices(["EUR", "USD", "GBP"], [60, 20, 20])[0],
                "items": [
                    {
                        "sku": f"sku-{int(5e5 ** draw.random()):06d}",
                        "qty": draw.randint(1, 9),
                        "price": round(draw.lognormvariate(3.2, 0.9), 2),
                    }
                    for _ in range(draw.randint(1, 3))
                ],
                "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1704067200 + draw.randrange(7_600_000))),
                "updated_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1704067200 + draw.randrange(7_800_000))),
                "address": {
                    "street": draw.choice(["Abbey Road", "Baker Street", "Hauptstrasse", "Via Roma"]),
                    "house": draw.randint(1, 180),
                    "zip": f"{draw.randint(1000, 99999):05d}",
                    "city": draw.choice(["Berlin", "Paris", "London", "Madrid"]),
                },
                "note": " ".join(draw.choices(words, k=draw.randint(1, 4))),
            }
            action = {"index": {"_id": order_id, "routing": user_id}}
            out.write(json.dumps(action).encode() + b"\n" + json.dumps(order, separators=(",", ":")).encode() + b"\n")


def per_call_us(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count * 1e6


def hand_out(documents: PreparedDocuments) -> None:
    count = documents.document_count
    bulks = -(-count // 1000)
    bulk_us = cpu_seconds(lambda: list(BulkSource(documents, 0, count, 1000))) / bulks * 1e6
    print(f"bulk of 1,000 documents, as a slice      {bulk_us:10.1f} us")
    feed = document_feed(documents, count, 1)
    feed.start()
    taken = chain.from_iterable(iter(feed.take, None)).__next__
    try:
        time.sleep(0.5)
        print(f"new document for an insert, made ahead   {per_call_us(taken, 1500):10.2f} us")
        print(f"new document, as fast as they are made   {per_call_us(taken, 100_000):10.2f} us")
    finally:
        feed.close()
    for pick in ("uniform", "zipf", "recent"):
        sampler = DocumentSampler(documents, ["order_id", "user_id"], pick, 1.0, 1, count)
        draw = chain.from_iterable(sampler.blocks()).__next__
        print(f"draw of an existing document, {pick:10} {per_call_us(draw, 100_000):10.2f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    count = parser.parse_args().documents
    spec = yaml.safe_load(ORDERS.read_text())["generate"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generator = Generator(spec)
        ours = count / cpu_seconds(lambda: write_file(generator, folder / "ours", count))
        few = count // 10
        plain = few / cpu_seconds(lambda: write_plain(folder / "plain", few), 1)
        size = (folder / "ours").stat().st_size / count
        print(
            f"generator, one core, to a file           {ours:10,.0f} docs/s   ({size:.0f} bytes each with its action)"
        )
        print(f"random + json.dumps, one core, to a file {plain:10,.0f} docs/s   ratio {ours / plain:.1f}")
        start = time.perf_counter()
        (documents,) = prepare([Corpus("orders", (Documents(count, generate=spec),))], cache=folder, track_dir=folder)
        whole = time.perf_counter() - start
        print(f"prepared to the cache, {count:,} documents   {count / whole:10,.0f} docs/s   ({whole:.2f} s in all)")
        hand_out(documents)


if __name__ == "__main__":
    main()
