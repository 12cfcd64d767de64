"""Damage of stored files: every mutation of a race or session must be said, whatever command shows it.

    python benchmarks/damage.py [--mutations 2700] [--seed 1]

Records two rounds of a small race on the null server, with answers, telemetry and a session. Then changes one file at a
time (flipped bits and digits, lines cut, swapped and repeated, values of JSON replaced), and runs commands that read
it. Prints how many of them showed something else: with a word about it, refused, or in silence; and how many ended with
a traceback. The last two must be 0.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import race_command

from esbench.cli.main import run
from esbench.null_server import NullServer

TRACK = """
version: 2
indices: [{name: k, body: {settings: {index.number_of_shards: 1}}}]
corpora:
  - name: made
    documents: [{target-index: k, document-count: 500, generate: {fields: {n: {type: sequence}}}}]
schedule:
  - operation: {name: load, operation-type: bulk, bulk-size: 100}
  - operation: {name: find, operation-type: search, index: k, body: {query: {match_all: {}}}}
    clients: 2
    target-throughput: 100
    warmup-time-period: 0
    time-period: 3
    objectives: ["p99 < 50 ms"]
"""
ANSWER = {
    "kind": "answer",
    "task": "find",
    "number": 0,
    "values": None,
    "request": "GET /k/_search {}",
    "answer": {
        "search": {
            "total": 3,
            "hits": {"a": 1.0, "b": 0.5},
            "last": [0.5, 2],
            "parts": ["_source"],
            "aggregations": {
                "x": 1.5,
                "y": {"~": 2},
                "terms": {"doc_count_error_upper_bound": 1, "buckets": [{"key": "a", "doc_count": 5, "t": {"~": 1.5}}]},
            },
            "suggest": ["a"],
            "ranks": [1.0],
            "rows": [{"name": "a", "sum": 1.25, "percentile": {"~": 3.5}}],
        }
    },
}
VALUES: list[Any] = [
    *(None, True, -1, 10**30, 1e308, -1e308, "", "x", [], {}, "inf", "NaN", "9" * 400, [[]] * 3, "\x1b[31mX"),
    *("<script>alert(1)</script>", "=1+1", {"a": {}}, 0, 1e-300, "A" * 100_000, 10**9, 2**63, -(2**63), 10**400),
]
SAID = re.compile(r"since (race|session) \S+ was recorded|cannot be read|left out")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=2700)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.set_int_max_str_digits(0)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        record(Path(folder), home)
        found = Damage(home, Path(folder) / "page.html", random.Random(options.seed)).done(options.mutations)
    print(f"{options.mutations:,} mutations, seed {options.seed}: " + ", ".join(f"{n:,} {what}" for what, n in found))
    sys.exit(any(n for what, n in found if what in ("tracebacks", "silent")))


def record(folder: Path, home: Path) -> None:
    """Race two rounds, and give the answers of both, which the null server lacks, every part that is compared."""
    track = folder / "track"
    track.mkdir()
    (track / "track.yml").write_text(TRACK)
    os.environ["ESBENCH_HOME"] = str(home)
    with NullServer() as server:
        devices = "--telemetry=node-stats,segment-stats,shard-stats"
        subprocess.run(race_command(track, server.url, "--rounds=2", devices), check=True, stdout=subprocess.DEVNULL)
    from esbench.record.store import RaceStore

    store = RaceStore(home)
    for entry in store.entries()[0]:
        race = store.folder(entry.race_id)
        kept = [line for line in race.answers_file.read_text().splitlines(keepends=True) if '"answer"' not in line]
        race.answers_file.write_text("".join([*kept, json.dumps(ANSWER) + "\n"]))
        race.save(store.load(entry.race_id))


@dataclass(frozen=True)
class Shown:
    """What a command has printed, on both outputs and in its page, and the traceback that it ended with."""

    code: int | str | None
    text: str
    errors: str
    traceback: str = ""


class Damage:
    """Mutations of the files of one home, one at a time, and what commands make of them."""

    def __init__(self, home: Path, page: Path, draws: random.Random) -> None:
        self._home, self._page, self._draws = home, page, draws
        first, second = sorted(path.name for path in (home / "races").iterdir())
        session = next((home / "sessions").glob("*.json")).stem
        self._commands = {
            "show": ("show", first, "--all"),
            "list": ("list", "races"),
            "report": ("report", first, f"--html={page}"),
            "compare": ("compare", first, second),
            "csv": ("export", first, "--csv"),
            "json": ("export", first, "--json"),
            "prometheus": ("export", first, "--prometheus"),
            "hlog": ("export", first, "--hlog"),
            "matrix": ("compare", first, second, "--value=p50"),
            "sessions": ("list", "sessions"),
            "rounds": ("report", session, f"--html={page}"),
        }
        self._of_session, self._always = ("sessions", "rounds"), ("show", "list")
        races = [path for path in (home / "races" / first).iterdir() if path.suffix in (".json", ".jsonl")]
        self._files = sorted([*races, *(home / "sessions").glob("*.json")])

    def done(self, mutations: int) -> list[tuple[str, int]]:
        """Return how many commands printed what; those that fail are printed as they do."""
        before = {name: self._run(name) for name in self._commands}
        assert not any(shown.traceback for shown in before.values()), before
        counts = Counter[str]()
        for number in range(mutations):
            file = self._draws.choice(self._files)
            whole = file.read_bytes()
            kind, changed = self._mutated(whole, file)
            if changed == whole:
                counts["without effect"] += 1
                continue
            file.write_bytes(changed)
            for name in self._names(file):
                outcome = self._judged(before[name], shown := self._run(name))
                counts[outcome] += 1
                if outcome in ("tracebacks", "silent"):
                    print(f"{number} {file.name} {kind} {name}: {outcome} {shown.traceback[-600:]}", flush=True)
            file.write_bytes(whole)
        wanted = ("said", "refused", "the same", "without effect", "silent", "tracebacks")
        return [(what, counts[what]) for what in wanted]

    def _names(self, file: Path) -> list[str]:
        if file.parent.name == "sessions":
            return list(self._of_session)
        others = [name for name in self._commands if name not in (*self._always, *self._of_session)]
        return [*self._always, *self._draws.sample(others, 2)]

    @staticmethod
    def _judged(before: Shown, shown: Shown) -> str:
        if shown.traceback:
            return "tracebacks"
        if shown.code != before.code:
            return "refused" if len(shown.errors.strip().splitlines()) > 0 else "silent"
        said = [len(SAID.findall(" ".join((each.text + each.errors).split()))) for each in (before, shown)]
        if said[1] > said[0]:
            return "said"
        return "the same" if (shown.text, shown.errors) == (before.text, before.errors) else "silent"

    def _run(self, name: str) -> Shown:
        out, errors = io.StringIO(), io.StringIO()
        self._page.unlink(missing_ok=True)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                code: int | str | None = run(list(self._commands[name]))
        except SystemExit as ended:
            code = ended.code
        except Exception:  # noqa: BLE001 - this is what is searched for
            return Shown(None, out.getvalue(), errors.getvalue(), traceback.format_exc())
        text = out.getvalue()
        if self._page.exists():
            ids = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\bp\d+\b|page\.html: .*"  # drawn anew for each page
            text = re.sub(ids, "", re.sub(r'"(id|root_id|docid)":"[^"]*"', "", self._page.read_text()))
        return Shown(code, text, errors.getvalue())

    def _mutated(self, content: bytes, file: Path) -> tuple[str, bytes]:
        kind = self._draws.choice(["flip", "digit", "cut", "insert", "repeat", "swap", "drop", "json", "json", "json"])
        if kind in ("flip", "digit", "cut", "insert"):
            return kind, self._with_other_bytes(kind, content)
        return self._with_other_lines(kind, content, file)

    def _with_other_bytes(self, kind: str, content: bytes) -> bytes:
        draws, at = self._draws, self._draws.randrange(len(content))
        if kind == "flip":
            return content[:at] + bytes([content[at] ^ 1 << draws.randrange(8)]) + content[at + 1 :]
        if kind == "digit":
            at = draws.choice([place for place, byte in enumerate(content) if byte in b"0123456789"])
            return content[:at] + str(draws.randrange(10)).encode() + content[at + 1 :]
        return content[:at] if kind == "cut" else content[:at] + draws.randbytes(draws.randrange(1, 9)) + content[at:]

    def _with_other_lines(self, kind: str, content: bytes, file: Path) -> tuple[str, bytes]:
        draws, lines = self._draws, content.splitlines(keepends=True)
        line = draws.randrange(len(lines))
        match kind:
            case "repeat":
                lines.insert(line, lines[line])
            case "swap":
                other = draws.randrange(len(lines))
                lines[line], lines[other] = lines[other], lines[line]
            case "drop":
                del lines[line]
            case "json" if file.suffix == ".jsonl":
                where, lines[line] = self._with_other_value(lines[line])
                return f"json {where}", b"".join(lines)
            case "json":
                where, changed = self._with_other_value(content)
                return f"json {where}", changed
        return kind, b"".join(lines)

    def _with_other_value(self, content: bytes) -> tuple[str, bytes]:
        document = json.loads(content)
        path = self._draws.choice(list(paths(document)))
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        old, change = holder[path[-1]], self._draws.choice(["set", "set", "drop", "negative", "tenfold"])
        if change == "drop":
            del holder[path[-1]]
        elif change == "set" or not isinstance(old, int | float):
            holder[path[-1]] = self._draws.choice(VALUES)
        else:
            holder[path[-1]] = -old if change == "negative" else old * 10
        return f"{change} {'.'.join(map(str, path))}", json.dumps(document).encode() + b"\n"


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that lead to each value of a JSON document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


if __name__ == "__main__":
    main()
