"""Whether a replay is true: what comes is what the log has, once, in order, at its times; what nodes log comes back.

    python benchmarks/replay_truth.py server [--lines 6000] [--rate 200] [--shapes 5] [--speed 1]
    python benchmarks/replay_truth.py nodes [--distribution opensearch-2.19.6 ...] [--lines 600] [--rate 30]
    python benchmarks/replay_truth.py duels [--duels 10] [--by 50] [--mean-ms 25] [--rate 15] [--task-time 40s]

`server`: a log in esbench's own format, Poisson arrivals, is replayed against a server that notes when each request
came. Prints how many came once, how many overtook another one, how far arrivals are from their times,
Kolmogorov-Smirnov tests of the gaps (recorded / speed against received), how long it took, the waits for reading, and
the memory of the load workers at their begin and end. Of many gaps of 0.2 ms the test sees that arrivals less than
50 us apart share a wake-up (ADR 18), and how long the server takes to note a request. So gaps over k arrivals are
tested as well, 10 ms long in the mean, where only a wrong schedule would be seen.

`nodes`: a node with its slow log at 0 is raced with two searches at a rate. Its log is read back: counts by shape
against what was sent. It is replayed on the same node, and the log is read once more: the same bodies, and arrivals as
before.
`duels`: a log of four shapes is a duel of two null servers, whose searches take exponential times. On the contender
one shape takes longer, by `--by` percent, and another one is answered otherwise. Prints for each duel the verdict of
each shape, and at its end in how many the slower one was `slower`, any other one had a verdict, and the changed answer
was named.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise, product
from operator import itemgetter
from pathlib import Path
from typing import cast
from urllib.request import Request, urlopen

from esbench.features.replay.entries import Entry
from esbench.features.replay.sources import LogReading, Logs
from esbench.measure.histogram import Counts, decode, percentiles_ns
from esbench.null_server import NullServer
from esbench.record.model import CheckKind
from esbench.record.store import LAST, RaceStore

REPLY = b'{"took":1,"timed_out":false,"_shards":{"total":1,"successful":1,"failed":0},"hits":{"total":{"value":1}}}'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(REPLY)
BEGIN_S = 1_763_629_200.0
_TESTED_GAP_S = 0.01
_MOST_GAPS = 200_000
ESBENCH = [sys.executable, "-m", "esbench"]


class Noting(asyncio.Protocol):
    """A connection of the server: notes (clock ns, number) of each request `/i/_search?n=NUMBER`."""

    noted = array("q")

    def __init__(self) -> None:
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        now_ns = time.perf_counter_ns()
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end]
            place = head.find(b"Content-Length: ")
            whole = end + 4 + (int(head[place + 16 :].split(b"\r\n", 1)[0]) if place >= 0 else 0)
            if len(self._held) < whole:
                return
            self._held = self._held[whole:]
            begin = head.find(b"?n=")
            if begin >= 0:
                Noting.noted.append(now_ns)
                Noting.noted.append(int(head[begin + 3 :].split(b" ", 1)[0]))
            self._transport.write(HEAD + REPLY)


def serve(path: Path) -> None:
    """Serve until stdin ends; then write what was noted."""
    import uvloop

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Noting, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        ended = asyncio.Event()
        loop.add_reader(0, ended.set)
        await ended.wait()
        with path.open("wb") as file:
            Noting.noted.tofile(file)
        os._exit(0)

    uvloop.run(run())


def write_log(path: Path, lines: int, rate: float, shapes: int) -> array[float]:
    """Write a log, and return its arrivals in s since the first."""
    draw, at_s, times = random.Random(1), 0.0, array("d")
    with path.open("w") as file:
        for number in range(lines):
            at_s += draw.expovariate(rate) if number else 0.0
            stamp = datetime.fromtimestamp(BEGIN_S + at_s, UTC).isoformat(timespec="microseconds")
            times.append(datetime.fromisoformat(stamp).timestamp() - BEGIN_S)
            field = min(shapes - 1, int(draw.expovariate(0.7)))
            body = {"query": {"bool": {"must": [{"match": {f"field{field}": f"words {number} of a search"}}]}}}
            line = {"@timestamp": stamp, "method": "POST", "path": f"/i/_search?n={number}", "body": body}
            file.write(json.dumps({**line, "took_ms": 1, "hits": 1}) + "\n")
    return times


def memory_mb(race: int) -> list[float]:
    """Return the memory of the load workers of a race's process, in MB."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            words = (status.parent / "cmdline").read_bytes().split(b"\0")
            text = status.read_text()
        except OSError:
            continue
        if b"esbench.worker.process" in words and f"\nPPid:\t{race}\n" in text:
            found.append(int(text.partition("VmRSS:")[2].split()[0]) / 1024)
    return found


def ks(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Return the statistic and the asymptotic p of the two-sample Kolmogorov-Smirnov test."""
    a, b, place, most = sorted(first), sorted(second), 0, 0.0
    for number, value in enumerate(a, 1):
        while place < len(b) and b[place] <= value:
            place += 1
        most = max(most, abs(number / len(a) - place / len(b)))
    root = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    x = (root + 0.12 + 0.11 / root) * most
    p = 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 101))
    return most, min(1.0, max(0.0, p)) if x > 0.2 else 1.0


def server(arguments: argparse.Namespace) -> None:
    lines, speed = arguments.lines, arguments.speed
    with tempfile.TemporaryDirectory(prefix="replay-truth-", dir=arguments.folder) as name:
        folder = Path(name)
        env = {**os.environ, "ESBENCH_HOME": str(folder / "home")}
        times = write_log(folder / "a.log", lines, arguments.rate, arguments.shapes)
        begun = time.perf_counter()
        words = [*ESBENCH, "replay", str(folder / "a.log"), f"--export-track={folder / 'track'}", f"--speed={speed:g}"]
        subprocess.run(words, env=env, check=True, stdout=subprocess.DEVNULL)
        print(f"log of {lines:,} lines to a track: {lines / (time.perf_counter() - begun):,.0f} lines/s")
        noted, memory, code = raced(folder, env, arguments.workers)
        lag = driver_lag(folder / "home")
    report(noted, times, speed, max(1, round(_TESTED_GAP_S * arguments.rate * speed)))
    print(lag)
    print(f"the race ended with {code}; its workers had {memory[0]:.0f} MB at its begin, {memory[1]:.0f} MB at its end")


def raced(folder: Path, env: dict[str, str], workers: int) -> tuple[array[int], tuple[float, float], int]:
    """Race the track against the noting server: what came, the workers' memory early and late, the exit code."""
    words = [sys.executable, __file__, "serve", str(folder / "noted")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as noting:
        assert noting.stdout is not None and noting.stdin is not None
        port = noting.stdout.readline().strip()
        race = [*ESBENCH, "race", f"--track-path={folder / 'track'}", f"--target-hosts=127.0.0.1:{port}"]
        options = ["--pipeline=http", f"--workers={workers}", "--on-error=continue"]
        sampled: list[float] = []
        with subprocess.Popen([*race, *options, "--all"], env=env, stdout=subprocess.PIPE, text=True) as running:
            while running.poll() is None:
                if found := memory_mb(running.pid):
                    sampled.append(sum(found))
                time.sleep(1)
            assert running.stdout is not None
            print("\n".join(line for line in running.stdout.read().splitlines() if line[:1] in "!w" and line))
        noting.stdin.close()
        noting.wait()
    noted = array("q")
    noted.frombytes((folder / "noted").read_bytes())
    early = sampled[min(5, len(sampled) - 1)] if sampled else math.nan
    return noted, (early, sampled[-2] if len(sampled) > 1 else early), running.returncode


def driver_lag(home: Path) -> str:
    """Return what the load workers themselves say of their lateness: from due to sent, by their own clock."""
    record = RaceStore(home).load(LAST)
    counts, waits = Counts(), "0 waits for reading"
    for task in record.tasks:
        counts.merge(decode(task.histograms["schedule_lag"]))
        waits = next((check.message for check in task.checks if check.kind == CheckKind.FEED_WAITS), waits)
    found = percentiles_ns(counts, (50.0, 99.0))
    return f"sent after due, by the driver: median {found[50.0] / 1e6:.3f} ms, p99 {found[99.0] / 1e6:.3f} ms; {waits}"


def report(noted: array[int], times: Sequence[float], speed: float, stride: int) -> None:
    came = list(zip(noted[::2], noted[1::2], strict=True))
    numbers = [number for _, number in came]
    once = len(set(numbers)) == len(numbers) == len(times)
    print(f"{len(numbers):,} of {len(times):,} requests came, {'each once' if once else 'NOT each once'}")
    due = [times[number] / speed for number in numbers]
    overtaken = [later - earlier for earlier, later in zip(due[1:], due, strict=False) if earlier < later]
    worst = f", by {1000 * max(overtaken):.2f} ms at most" if overtaken else ""
    print(f"{len(overtaken):,} came before one that was due earlier{worst}")
    late = sorted(at_ns / 1e9 - due_s for (at_ns, _), due_s in zip(came, due, strict=True))
    middle, p99 = late[len(late) // 2] - late[0], late[len(late) * 99 // 100] - late[0]
    print(f"later than the most punctual one: median {1000 * middle:.3f} ms, p99 {1000 * p99:.3f} ms")
    took_s = (came[-1][0] - came[0][0]) / 1e9
    print(f"from first to last: {took_s:.3f} s, {(times[-1] - times[0]) / speed:.3f} s by the log")
    for each in sorted({1, stride}):
        gaps = [(after[0] - before[0]) / 1e9 for before, after in pairwise(came[::each])]
        recorded = [(after - before) / speed for before, after in pairwise(times[::each])]
        statistic, p = ks(recorded[:_MOST_GAPS], gaps[:_MOST_GAPS])
        word = "not rejected" if p > 0.05 else "rejected"
        print(f"gaps over {each} arrivals, Kolmogorov-Smirnov: D {statistic:.4f}, p {p:.3f} ({word} at 5 %)")


def nodes(arguments: argparse.Namespace) -> None:
    for distribution in arguments.distribution:
        with tempfile.TemporaryDirectory(prefix="replay-truth-", dir=arguments.folder) as name:
            Path(name).chmod(0o755)  # the user of the node reads its Java there
            home = Path(name) / "home"
            home.mkdir()
            (home / "cache").symlink_to(Path(arguments.cache).expanduser())
            node = Node({**os.environ, "ESBENCH_HOME": str(home)}, distribution)
            try:
                compare(node, Path(name), arguments)
            finally:
                node.stop()


class Node:
    """A node with the index `orders`, whose searches are all written into its slow log."""

    def __init__(self, env: dict[str, str], distribution: str) -> None:
        self.env, self.distribution = env, distribution
        self.race = f"truth-{os.getpid()}"
        tasks = "--include-tasks=type:delete-index,type:create-index,bulk-load,refresh"
        words = ["race", "--track=orders", "--track-params=documents:2000", tasks, f"--distribution={distribution}"]
        self.run(*words, "--keep-node", f"--race-id={self.race}", "--quiet")
        record = json.loads(Path(env["ESBENCH_HOME"], "races", self.race, "race.json").read_text())
        self.url = record["clusters"]["default"]["hosts"][0]
        shown = self.run("list", "nodes")
        folder = next(line.split()[-1] for line in shown.splitlines() if line.startswith(self.race))
        self.logs = Path(folder) / "logs"
        key = "cluster.search.request.slowlog"
        if distribution.startswith("opensearch"):
            self.put("/_cluster/settings", {"persistent": {f"{key}.level": "TRACE", f"{key}.threshold.trace": "0ms"}})
        else:
            self.put("/orders/_settings", {"index.search.slowlog.threshold.query.trace": "0ms"})

    def run(self, *words: str) -> str:
        done = subprocess.run([*ESBENCH, *words], env=self.env, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    def put(self, path: str, body: object) -> None:
        headers = {"content-type": "application/json"}
        with urlopen(Request(self.url + path, json.dumps(body).encode(), headers, method="PUT")):
            pass

    def take_log(self, target: Path) -> Path:
        """Move what the node has logged so far into a file: what it logs next begins after that."""
        time.sleep(2)
        (source,) = self.logs.glob("*_index_search_slowlog.log")
        text = source.read_bytes()[getattr(self, "_taken", 0) :]
        self._taken = getattr(self, "_taken", 0) + len(text)
        target.write_bytes(text)
        return target

    def stop(self) -> None:
        self.run("stop", self.race)


def compare(node: Node, folder: Path, arguments: argparse.Namespace) -> None:
    """Send searches, replay what the node has logged of them, and compare the three logs."""
    sent, draw, at_s = folder / "sent.log", random.Random(1), BEGIN_S
    with sent.open("w") as file:
        for number in range(arguments.lines):
            at_s += draw.expovariate(arguments.rate)
            kind = {"term": {"user_id": f"u{number}"}} if number % 3 else {"range": {"amount": {"gte": float(number)}}}
            stamp = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds")
            path = "/orders/_search"
            line = {"@timestamp": stamp, "method": "POST", "path": path, "body": {"query": kind, "size": 3}}
            file.write(json.dumps(line) + "\n")
    replay = [
        "--target-hosts",
        node.url.removeprefix("http://"),
        "--no-answers",
        "--quiet",
        "--workers=1",
        "--clients=32",
    ]
    node.run("replay", str(sent), *replay)  # until Java has compiled what it needs
    node.take_log(folder / "before.log")
    node.run("replay", str(sent), *replay)
    first = node.take_log(folder / "first.log")
    node.run("replay", str(first), "--index=orders", *replay)
    second = node.take_log(folder / "second.log")
    logs = [entries_of(path) for path in (sent, first, second)]
    print(
        f"{node.distribution}: {len(logs[0]):,} searches sent, {len(logs[1]):,} logged, {len(logs[2]):,} logged again"
    )
    counts = [Counter(next(iter(entry.body["query"])) for _, entry in log) for log in logs]
    print(f"  by kind of query: {', '.join(str(dict(count)) for count in counts)}")
    texts = [Counter(json.dumps(entry.body, sort_keys=True) for _, entry in log) for log in logs[1:]]
    print(f"  logged again with the same text: {(texts[0] & texts[1]).total():,} of {texts[0].total():,}")
    for title, before, after in (("sent to logged", 0, 1), ("logged to logged again", 1, 2)):
        print(f"  arrivals, {title}: {distances(logs[before], logs[after])}")


def entries_of(path: Path) -> list[tuple[float, Entry]]:
    found = Logs([path], LogReading(index="orders")).requests()
    return sorted(((at_s, entry) for at_s, entry in found if not entry.left_out), key=itemgetter(0))


def value_of(entry: Entry) -> str:
    """Return what tells a search from the others: the number in its query."""
    return re.findall(r'"(?:value|user_id|gte|from)": "?(u?[0-9.]+)', json.dumps(entry.body))[0]


def distances(before: list[tuple[float, Entry]], after: list[tuple[float, Entry]]) -> str:
    """Return how far arrivals are from where they were, but for one shift of all."""
    times = {value_of(entry): at_s for at_s, entry in before}
    apart = sorted(at_s - times[value_of(entry)] for at_s, entry in after)
    middle = statistics.median(apart)
    off = sorted(1000 * abs(each - middle) for each in apart)
    return f"median {off[len(off) // 2]:.3f} ms, p99 {off[len(off) * 99 // 100]:.3f} ms"


SLOWER, CHANGED, SAME = "slower", "changed", ("same1", "same2")


def duels(arguments: argparse.Namespace) -> None:
    """Race logs as duels, and count what was found of what is planted."""
    found: Counter[str] = Counter()
    for number in range(arguments.duels):
        with tempfile.TemporaryDirectory(prefix="replay-truth-", dir=arguments.folder) as name:
            words, answers = duel_of(Path(name), arguments, seed=number + 1)
        print(f"duel {number + 1}: {words}; answers differ: {', '.join(answers) or 'nowhere'}", flush=True)
        found["slower"] += words[SLOWER].startswith("slower")
        found["another"] += any(words[shape].startswith(("slower", "faster")) for shape in SAME)
        found["named"] += answers == [CHANGED] and "answers-differ" in words[CHANGED]
    many = arguments.duels
    print(f"the planted shape is slower in {found['slower']} of {many}, another one differs in {found['another']},")
    print(f"the changed answer, and no other, is named in {found['named']}")


def duel_of(folder: Path, arguments: argparse.Namespace, seed: int) -> tuple[dict[str, str], list[str]]:
    """Race a duel: the verdict on the p50 of each shape, and the shapes whose answers differ."""
    shapes = (SLOWER, CHANGED, *SAME)
    draw, at_s, log = random.Random(seed), BEGIN_S, folder / "a.log"
    with log.open("w") as file:
        for number in range(arguments.lines):
            at_s += draw.expovariate(len(shapes) * arguments.rate)
            stamp = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds")
            path, body = f"/{draw.choice(shapes)}/_search", {"query": {"term": {"a": number}}}
            file.write(json.dumps({"@timestamp": stamp, "method": "POST", "path": path, "body": body}) + "\n")
    of_all = {"path": "_search", "delay": {"type": "exponential", "mean_ms": arguments.mean_ms}}
    more = {"type": "exponential", "mean_ms": arguments.mean_ms * arguments.by / 100}
    planted = [
        {"path": "^/$", "merge": {"cluster_uuid": "another-cluster-than-the"}},
        {"path": f"^/{SLOWER}/", "delay": more},
        {"path": f"^/{CHANGED}/", "merge": {"hits": {"total": {"value": 7}}}},
    ]
    env = {**os.environ, "ESBENCH_HOME": str(folder / "home")}
    with NullServer({"rules": [of_all]}) as one, NullServer({"rules": [of_all, *planted]}) as other:
        for server, shape in product((one, other), shapes):
            with urlopen(Request(f"{server.url}/{shape}", method="PUT")):
                pass
        sides = [f"--baseline=target-hosts={one.url}", f"--contender=target-hosts={other.url}"]
        words = [*ESBENCH, "duel", f"--replay={log}", *sides, f"--task-time={arguments.task_time}", f"--seed={seed}"]
        options = ["--rounds=6", "--format=json", "--telemetry=none", "--quiet", "--workers=1"]
        done = subprocess.run([*words, *options], env=env, stdout=subprocess.PIPE, text=True, check=False)
    compared = json.loads(done.stdout)
    (contender,) = compared["overview"]["contenders"]
    names = {f"term on {shape}": shape for shape in shapes}
    verdicts = {
        names[row["task"]]: f"{row['verdict']} ({row['reason']})"
        for row in compared["rows"]
        if row["metric"].startswith("p50") and row["verdict"]
    }
    answers = [names[each["task"]] for each in contender["answers"] if each["differing"]]
    return verdicts, answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    noting = parts.add_parser("serve")
    noting.add_argument("path", type=Path)
    null = parts.add_parser("server")
    null.add_argument("--lines", type=int, default=6000)
    null.add_argument("--rate", type=float, default=200.0)
    null.add_argument("--shapes", type=int, default=5)
    null.add_argument("--speed", type=float, default=1.0)
    null.add_argument("--workers", type=int, default=1)
    null.add_argument("--folder", type=Path)
    real = parts.add_parser("nodes")
    real.add_argument(
        "--distribution", nargs="+", default=["opensearch-2.19.6", "opensearch-3.6.0", "elasticsearch-7.10.2"]
    )
    real.add_argument("--lines", type=int, default=600)
    real.add_argument("--rate", type=float, default=30.0)
    real.add_argument("--folder", type=Path)
    real.add_argument("--cache", default="~/.esbench/cache")
    planted = parts.add_parser("duels")
    planted.add_argument("--duels", type=int, default=10)
    planted.add_argument("--by", type=float, default=50.0)
    planted.add_argument("--mean-ms", type=float, default=25.0)
    planted.add_argument("--rate", type=float, default=15.0)
    planted.add_argument("--lines", type=int, default=10_000)
    planted.add_argument("--task-time", default="40s")
    planted.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.part == "serve":
        serve(arguments.path)
    elif arguments.part == "duels":
        duels(arguments)
    elif arguments.part == "nodes":
        nodes(arguments)
    else:
        server(arguments)


if __name__ == "__main__":
    main()
