"""What a request costs the asyncio libraries for MySQL, and esbench's client for it: reads of one row by primary key.

    python benchmarks/sql_clients.py [--seconds=5]       half a minute; needs mariadbd, aiomysql, mysql-connector-python

A MariaDB of esbench's engine runs on core 0, each library in a process on core 1. CPU is the process's user and system
time for each request, in us (of esbench its load worker's, start included); the ratio is to asyncmy's prepared
statements. A library that is not installed has no row.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from programs import ESBENCH
from tabulate import tabulate

from esbench.cluster.options import ClientOptions, Host, parse_sql_host
from esbench.features.sql.engine import DatabaseEngine
from esbench.features.sql.server import Database
from esbench.race.node_options import EmbeddedOptions, NodeOptions
from esbench.record.store import RaceStore

ROWS = 10_000
STATEMENT = "SELECT * FROM orders WHERE id = {}"
TRACK = f"""
version: 2
indices: [{{name: orders}}]
variables: [{{name: number, type: range, from: 0, to: {ROWS - 1}}}]
schedule:
  - name: get
    operation: {{operation-type: get, id: "$[[number]]", sql: "{STATEMENT.format("$[[number]]")}"}}
    clients: CLIENTS
    time-period: SECONDS
"""
Ask = Callable[[int], Awaitable[Any]]


async def asyncmy_prepared(host: Host) -> Ask:
    connection = await import_module("asyncmy").connect(
        host=host.host, port=host.port, user="root", database=host.database
    )
    statement = await connection.prepare(STATEMENT.format("?"))
    return lambda number: statement.execute((number,))


async def asyncmy_text(host: Host) -> Ask:
    connection = await import_module("asyncmy").connect(
        host=host.host, port=host.port, user="root", database=host.database
    )
    return await _by_cursor(connection.cursor())


async def aiomysql_text(host: Host) -> Ask:
    connection = await import_module("aiomysql").connect(host=host.host, port=host.port, user="root", db=host.database)
    return await _by_cursor(await connection.cursor())


async def connector_prepared(host: Host) -> Ask:
    connection = await import_module("mysql.connector.aio").connect(
        host=host.host, port=host.port, user="root", database=host.database, ssl_disabled=True
    )
    return await _by_cursor(await connection.cursor(prepared=True))


async def _by_cursor(cursor: Any) -> Ask:
    async def ask(number: int) -> Any:
        await cursor.execute(STATEMENT.format("%s"), (number,))
        return await cursor.fetchall()

    return ask


LIBRARIES = {
    "asyncmy, prepared": ("asyncmy", asyncmy_prepared),
    "asyncmy, text": ("asyncmy", asyncmy_text),
    "aiomysql, text": ("aiomysql", aiomysql_text),
    "mysql-connector-python, prepared": ("mysql", connector_prepared),
}


async def measured(library: str, host: Host, clients: int, seconds: float) -> tuple[float, float]:
    """Return requests per second, and us of CPU for each, of some clients in a closed loop."""
    asks = [await LIBRARIES[library][1](host) for _ in range(clients)]
    ends_s, sent, draws = time.perf_counter() + seconds, 0, random.Random(1)

    async def client(ask: Ask) -> None:
        nonlocal sent
        while time.perf_counter() < ends_s:
            await ask(draws.randrange(ROWS))
            sent += 1

    before = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.gather(*map(client, asks))
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return sent / seconds, cpu_s / sent * 1e6


def of_esbench(folder: Path, url: str, clients: int, seconds: float) -> tuple[float, float]:
    """Return requests per second of a race with one load worker, and us of that worker's CPU for each."""
    home = folder / f"home-{clients}"
    (folder / "track.yml").write_text(TRACK.replace("CLIENTS", str(clients)).replace("SECONDS", f"{seconds:g}"))
    subprocess.run(
        [*ESBENCH, "race", f"--track-path={folder}", f"--target-hosts={url}", "--workers=1", "--quiet", "--no-answers"],
        env={**os.environ, "ESBENCH_HOME": str(home), "MYSQL_PWD": ""},
        stdout=subprocess.DEVNULL,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {1}),
    )
    record = RaceStore(home).load("last")
    (task,) = record.tasks
    cpu_s = sum(driver.cpu_s for driver in record.drivers)
    return task.requests / seconds, cpu_s / task.requests * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--library", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.library:
        import uvloop

        (host,), _ = parse_sql_host([args.url], ClientOptions())
        print(json.dumps([uvloop.run(measured(args.library, host, n, args.seconds)) for n in (1, 8)]))
        return
    with tempfile.TemporaryDirectory() as folder:
        home, node = Path(folder), NodeOptions(distribution="mariadb", heap_bytes=256 << 20)
        engine = DatabaseEngine(EmbeddedOptions(home, f"sql-clients-{os.getpid()}", home / "logs", node))
        try:
            os.sched_setaffinity(0, {0})
            url = engine.start().urls[0]
            (host,), options = parse_sql_host([url], ClientOptions())
            server = Database(host, options)
            server.ask("CREATE TABLE orders (id INT PRIMARY KEY, user_id CHAR(8), amount DECIMAL(9, 2), note TEXT)")
            server.ask(f"INSERT INTO orders SELECT seq, 'u0000001', seq / 7, REPEAT('a', 60) FROM seq_0_to_{ROWS - 1}")
            rows, least = [], 0.0
            for library, (module, _) in LIBRARIES.items():
                if importlib.util.find_spec(module) is None:
                    continue
                command = [sys.executable, __file__, f"--library={library}", f"--url={url}"]
                done = subprocess.run(
                    [*command, f"--seconds={args.seconds}"],
                    stdout=subprocess.PIPE,
                    check=True,
                    preexec_fn=lambda: os.sched_setaffinity(0, {1}),
                )
                (alone, alone_us), (many, many_us) = json.loads(done.stdout)
                least = least or many_us
                rows.append((library, alone, alone_us, many, many_us, many_us / least))
            (alone, alone_us), (many, many_us) = (of_esbench(home, url, clients, args.seconds) for clients in (1, 8))
            rows.append(("esbench's client", alone, alone_us, many, many_us, many_us / least))
        finally:
            engine.stop()
    headers = ("library", "1 client: req/s", "CPU us", "8 clients: req/s", "CPU us", "ratio")
    print(tabulate(rows, headers=headers, floatfmt=",.2f"))


if __name__ == "__main__":
    main()
