"""What a line of a Loadgen file costs the driver, beside a plain insert in the same run: closed loop, canned replies.

    python benchmarks/load_lines.py [--seconds 5] [--rounds 3] [--clients 64]

The file is the published example: ten documents in a bulk, each of two lines with values of their own. Needs nginx and
two cores: it answers on CPU 1, esbench runs on CPU 0. Prints CPU per request, per document and per line, and the ratios
of a line's and of a document's to that of an insert (medians of the rounds); the bar of a line is 0.5.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from driver import INSERT, write_track
from null_nginx import NullNginx, null_nginx
from programs import ESBENCH, Cost, measure, need, race_command
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from loadgen_files import PUBLISHED

DOCUMENTS, LINES = 10, 20
BAR = 0.5


def insert(server: NullNginx, clients: int, seconds: int) -> Cost:
    track = write_track(server.folder, INSERT, clients, seconds)
    command = race_command(track, f"http://127.0.0.1:{server.port}")
    return measure(command, server, {"ESBENCH_HOME": str(server.folder / "home")})


def load(server: NullNginx, clients: int, seconds: int) -> Cost:
    file = server.folder / "loadgen.yml"
    file.write_text(PUBLISHED)
    command = [*ESBENCH, "load", str(file), f"-c={clients}", f"-d={seconds}", "--quiet", "--yes"]
    command.append(f"--target-hosts=127.0.0.1:{server.port}")
    return measure(command, server, {"ESBENCH_HOME": str(server.folder / "home")})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    arguments = parser.parse_args()
    need("nginx", "taskset")
    costs: list[tuple[Cost, Cost]] = []
    with tempfile.TemporaryDirectory() as name, null_nginx(Path(name)) as server:
        for _ in range(arguments.rounds):
            costs.append(tuple(of(server, arguments.clients, arguments.seconds) for of in (insert, load)))  # type: ignore[arg-type]
    plain = statistics.median(each.cpu_us for each, _ in costs)
    bulk = statistics.median(each.cpu_us for _, each in costs)
    ratio = statistics.median(of_bulk.cpu_us / DOCUMENTS / of_insert.cpu_us for of_insert, of_bulk in costs)
    rows = [("insert", plain), ("bulk", bulk), ("its document", bulk / DOCUMENTS), ("its line", bulk / LINES)]
    print(tabulate(rows, headers=["", "CPU us"], floatfmt=".1f"))
    print(f"a line / an insert: {ratio * DOCUMENTS / LINES:.2f} (bar: at most {BAR}); a document: {ratio:.2f}")


if __name__ == "__main__":
    main()
