"""Bulk indexing beside Rally: the same track, documents, clients and bulk size, in turn.

    python benchmarks/rally_bulk.py --rally=FOLDER [--pairs 5] [--documents 200000] [--clients 8] [--skip-node]

On a real node, each time into a new index, every program on all CPUs: documents per second that the node counted over
the middle nine tenths of the documents, and the program's CPU per document there; bar: esbench is faster in every
pair. Then against a null server on CPU 1, the programs on CPU 0: CPU per document; bar: a twentieth of Rally's.
Needs nginx and openssl.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from node import RealNode, home_in, real_node
from null_nginx import null_nginx
from peer_tracks import BULK_SIZE, write_bulk_track, write_endless_bulk_tracks, write_orders
from programs import Sample, measure, need, race_command, watch
from rally import Rally, add_rally_option
from tabulate import tabulate

BAR = 1 / 20
NULL_S = 6
MOST_DOCS_PER_S = 10_000_000  # the corpus is repeated so often that it is long enough for this


@dataclass(frozen=True)
class Indexing:
    docs_per_s: float
    cpu_us: float  # per document


@dataclass(frozen=True)
class Programs:
    rally: Rally
    home: Path

    def command(self, program: str, track: Path, url: str) -> tuple[list[str], dict[str, str]]:
        """The command of a program, and its environment."""
        if program == "Rally":
            return self.rally.command(track, url), self.rally.env
        command = race_command(track, url)
        return command, {"ESBENCH_HOME": str(self.home)}


def middle(samples: Sequence[Sample], documents: int) -> Indexing:
    """Rate and CPU between the moments when 5 % and 95 % of the documents were in."""
    first, last = (_at(samples, share * documents) for share in (0.05, 0.95))
    count = last.requests - first.requests
    return Indexing(count / (last.at_s - first.at_s), (last.cpu_s - first.cpu_s) / count * 1e6)


def _at(samples: Sequence[Sample], count: float) -> Sample:
    """When a count was reached, in a line between two samples."""
    for before, after in pairwise(samples):
        if before.requests < count <= after.requests:
            share = (count - before.requests) / (after.requests - before.requests)
            at_s = before.at_s + share * (after.at_s - before.at_s)
            return Sample(at_s, round(count), before.cpu_s + share * (after.cpu_s - before.cpu_s))
    raise SystemExit(f"the node never had {count:,.0f} documents: {samples[-1].requests:,} at the end")


def on_a_node(node: RealNode, programs: Programs, track: Path, documents: int, pairs: int) -> str:
    """A line for each pair; who begins alternates. A discarded race of each goes first: Java has compiled then."""
    lines, wins = [], 0
    for pair in range(pairs + 1):
        order = ("Rally", "esbench") if pair % 2 else ("esbench", "Rally")
        found = {}
        for program in order:
            command, env = programs.command(program, track, node.url)
            found[program] = middle(watch(command, node.documents, env=env)[0], documents)
            node.delete_index()
        if pair == 0:
            continue
        ours, rallys = found["esbench"], found["Rally"]
        faster = "esbench" if ours.docs_per_s > rallys.docs_per_s else "Rally"
        wins += faster == "esbench"
        ratio = ours.docs_per_s / rallys.docs_per_s
        rates = [f"{indexing.docs_per_s:,.0f}" for indexing in (ours, rallys)]
        lines.append([order[0], *rates, f"{ratio:.2f}", f"{ours.cpu_us:.2f}", f"{rallys.cpu_us:.2f}", faster])
    heads = ["first", "esbench docs/s", "Rally docs/s", "ratio", "esbench CPU us/doc", "Rally CPU us/doc", "faster"]
    table = tabulate(lines, heads, disable_numparse=True, stralign="right")
    return f"{table}\nesbench faster in {wins} of {pairs} pairs (bar: all)"


def on_nothing(folder: Path, programs: Programs, tracks: dict[str, Path]) -> str:
    """CPU per document of both where the server does nothing with it."""
    cpu_us = {}
    lines = []
    with null_nginx(folder) as server:
        for program, track in tracks.items():
            command, env = programs.command(program, track, f"127.0.0.1:{server.port}")
            cost = measure(command, server, env)
            cpu_us[program] = cost.cpu_us / BULK_SIZE
            lines.append(f"{program:8} {cost.requests_per_s * BULK_SIZE:12,.0f} docs/s   {cpu_us[program]:.3f} us/doc")
    ratio = cpu_us["Rally"] / cpu_us["esbench"]
    return "\n".join(
        [*lines, f"null server: Rally's CPU per document is {ratio:.0f} times esbench's (bar: {1 / BAR:.0f})"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_rally_option(parser, required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--distribution", default="elasticsearch-7.17.29")
    parser.add_argument("--skip-node", action="store_true", help="only against the null server")
    parser.add_argument("--skip-null", action="store_true", help="only on the real node")
    arguments = parser.parse_args()
    need("nginx", "openssl", "taskset")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = Programs(Rally(arguments.rally, folder), home_in(folder))
        source = write_orders(folder / "orders.json", arguments.documents)
        if not arguments.skip_null:
            task = {"clients": arguments.clients, "time-period": NULL_S}
            repeats = NULL_S * MOST_DOCS_PER_S // arguments.documents
            ours, rallys = write_endless_bulk_tracks(folder, source, task, repeats)
            print(on_nothing(folder, programs, {"esbench": ours, "Rally": rallys}), flush=True)
        if not arguments.skip_node:
            track = write_bulk_track(folder / "node", source, {"clients": arguments.clients})
            with real_node(folder, arguments.distribution) as node:
                print(on_a_node(node, programs, track, arguments.documents, arguments.pairs))


if __name__ == "__main__":
    main()
