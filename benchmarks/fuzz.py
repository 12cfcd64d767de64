"""Search for inputs that esbench answers with a traceback: mutated tracks, records, replies and option values.

    python benchmarks/fuzz.py [--minutes 60] [--only tracks,records,replies,options,races] [--seeds DIR]

Needs the package hypothesis. Each input must be accepted, or refused with an error of esbench's; anything else that is
raised, and what takes longer than 20 s, is reported with the smallest input that does it. Failing inputs are kept in
`--seeds`, and tried first the next time. `races` are whole ones against a cluster whose replies are changed, with seeds
of their own each time: odd_replies.py runs these alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase
from odd_replies import OddRaces

from esbench.cli import main as command_line
from esbench.errors import EsbenchError
from esbench.features.pages.race import race_page
from esbench.operations import replies
from esbench.race.loading import load_with_python
from esbench.record.series import SecondLine
from esbench.record.store import RaceStore
from esbench.report.race_summary import summary
from esbench.report.render import render
from esbench.track.rendering import RenderContext

ROOT = Path(__file__).parents[1]
TRACKS = {path.parent.name: path.read_text() for path in sorted(ROOT.glob("tracks/*/track.yml"))}
RECORDS = [json.loads(path.read_text()) for path in sorted(ROOT.glob("tests/golden/race-schema-*.json"))]
TELEMETRY = {
    "nodes": {"nodes": 1, "cpu_core_percent": {"mean": 90.5, "peak": 99.0}, "gc_time_ms": 12, "rejections": 0},
    "cluster": {"refresh_count": 3, "merge_count": 0},
    "driver": {"process_core_percent": {"worker-0": 20.5}},
    "hot-threads": {
        "type": "cpu",
        "pools": [
            {"pool": "write", "threads_percent": 80.1, "snapshots": 3, "frames": [{"frame": "a", "share_percent": 50}]}
        ],
    },
    "ingest-pipeline-stats": {
        "pipelines": [
            {
                "pipeline": "p",
                "count": 3,
                "time_ms": 4,
                "failed": 0,
                "processors": [{"processor": "set", "count": 3, "time_ms": 4, "failed": 0}],
            }
        ]
    },
    "disk-usage": {
        "indices": [{"index": "a", "store_bytes": 9, "total_bytes": 8, "points_bytes": 3}],
        "fields": [{"index": "a", "field": "f", "total_bytes": 8, "points_bytes": 3}],
        "other_fields": {"count": 2, "total_bytes": 3},
    },
}
for record in RECORDS:
    record["telemetry"] = {**record.get("telemetry", {}), **TELEMETRY}
    record["tasks"][0]["telemetry"] = TELEMETRY
JUDGES = [getattr(replies, name) for name in dir(replies) if name.startswith("judge_") and name != "judge_shards"]
REPLIES = [
    {"took": 3, "timed_out": False, "_shards": {"total": 1, "failed": 0}, "hits": {"total": {"value": 1}, "hits": []}},
    {"took": 3, "errors": True, "items": [{"index": {"status": 429, "error": {"type": "a", "reason": "b"}}}]},
    {"_index": "a", "_id": "1", "found": True, "result": "created", "_source": {}},
    {"error": {"type": "a", "reason": "b", "caused_by": {"type": "c"}}, "status": 400},
]
LETTERS = st.characters(exclude_characters="\0/", codec="utf-8")  # no argument of a command has a null byte
TEXTS = st.text(LETTERS, max_size=20) | st.sampled_from(
    ["{{ x }}", "{% for %}", "$[[n]]", "../../x", "\x1b]0;x\x07", "-1", "1e999"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
TREES = st.recursive(SCALARS, lambda tree: st.lists(tree, max_size=3) | st.dictionaries(TEXTS, tree, max_size=3))
INPUTS = 200  # of a kind at a time
_RUNS_ITS_VALUE = ("--before-round",)
COMMANDS = [
    ["race", "--track=orders", "--target-hosts=127.0.0.1:1"],
    ["duel", "--track=orders", "--target-hosts=127.0.0.1:1"],
    ["info", "--track=orders"],
    ["validate-track", "--track=keyword"],
    ["render-track", "--track=orders"],
    ["show"],
    ["compare"],
    ["report"],
    ["export"],
    ["list", "races"],
    ["store"],
    ["create-track"],
]


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a tree of JSON."""
    yield path
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from places(value, (*path, key))


@st.composite
def mutated(draw: st.DrawFn, trees: list[Any]) -> Any:
    """A tree with one to three values replaced or removed."""
    tree = json.loads(json.dumps(draw(st.sampled_from(trees))))
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(list(places(tree))[1:] or [(None,)]))
        if last is None:
            return draw(TREES)
        inner = tree
        for key in way:
            inner = inner[key]
        if draw(st.booleans()) and isinstance(inner, dict):
            del inner[last]
        else:
            inner[last] = draw(TREES)
    return tree


@st.composite
def edited(draw: st.DrawFn, texts: list[str]) -> str:
    """A text with one to four pieces replaced."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(TEXTS) + text[start + draw(st.integers(0, 12)) :]
    return text


def load_track(text: str) -> None:
    context = RenderContext(params={}, distribution="elasticsearch", version="7.10.2", now=0.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "track.yml"
        path.write_text(text, errors="replace")
        load_with_python(path, context, Path(folder))


def show_record(tree: Any) -> None:
    store = RaceStore(Path(os.environ["ESBENCH_HOME"]))
    folder = store.races_folder / "strange"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "race.json").write_text(json.dumps(tree))
    record = store.load("strange")
    for form in ("text", "csv", "json", "markdown"):
        render(summary(record), form)
    lines: list[SecondLine] = []
    race_page(record, lines, [])


def judge(status: int, body: bytes) -> None:
    for each in JUDGES:
        each(status, body, 3 if "bulk" in each.__name__ or "unrefused" in each.__name__ else None)


def run_command(command: list[str], options: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        command_line.run([*command, *options])


def options_of(command: list[str]) -> st.SearchStrategy[list[str]]:
    group: Any = command_line.esbench
    for word in command:
        if not word.startswith("-"):
            group = group.get_command(None, word)
    names = [name for param in group.params for name in param.opts if name.startswith("--")]
    names = [name for name in names if name not in _RUNS_ITS_VALUE]
    pair = st.tuples(st.sampled_from(names), TEXTS).map("=".join)
    return st.lists(pair | TEXTS | st.sampled_from(names), max_size=3)


def searches(seeds: Path) -> dict[str, Callable[[], None]]:
    """Return the search of `INPUTS` inputs of each kind; failing ones are kept in the folder `seeds`."""
    kept = settings(
        max_examples=INPUTS,
        deadline=timedelta(seconds=20),
        database=DirectoryBasedExampleDatabase(seeds),
        suppress_health_check=list(HealthCheck),
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
    )
    trees = st.sampled_from(REPLIES).map(lambda tree: json.dumps(tree).encode())
    bodies = mutated(REPLIES).map(lambda tree: json.dumps(tree).encode()) | st.binary(max_size=60) | trees
    commands = st.sampled_from(COMMANDS).flatmap(lambda words: st.tuples(st.just(words), options_of(words)))

    def tracks(text: str) -> None:
        with contextlib.suppress(EsbenchError):
            load_track(text)

    def records(tree: Any) -> None:
        with contextlib.suppress(EsbenchError):
            show_record(tree)

    def options(words: tuple[list[str], list[str]]) -> None:
        run_command(*words)

    odd = OddRaces(Path(os.environ["ESBENCH_HOME"]), seed=time.time_ns() // 1_000_000_000)

    def races() -> None:
        already = odd.changed.total()
        while odd.changed.total() < already + INPUTS:
            odd.run()
        if faults := odd.faults:
            raise AssertionError("\n".join(faults))

    return {
        "tracks": kept(given(edited(list(TRACKS.values())))(tracks)),
        "records": kept(given(mutated(RECORDS))(records)),
        "replies": kept(given(st.integers(100, 599), bodies)(judge)),
        "options": kept(given(commands)(options)),
        "races": races,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", default="tracks,records,replies,options,races")
    parser.add_argument("--seeds", type=Path, default=Path(".hypothesis"))
    arguments = parser.parse_args()
    seeds = arguments.seeds.absolute()
    end = time.monotonic() + arguments.minutes * 60
    tried, failed = 0, 0
    with tempfile.TemporaryDirectory() as home:
        os.environ["ESBENCH_HOME"] = home
        inner = Path(home, "a", "b", "c")
        inner.mkdir(parents=True)
        os.chdir(inner)  # options name files to write: no text of an input begins with / or has more than two ../
        found = searches(seeds)
        chosen = {name: found[name] for name in arguments.only.split(",")}
        while time.monotonic() < end and chosen:
            for name, search in list(chosen.items()):
                try:
                    search()
                except Exception:  # noqa: BLE001 - that is what is looked for
                    failed += 1
                    del chosen[name]
                    traceback.print_exc()
                tried += INPUTS
    print(f"{tried:,} inputs, {failed} kinds with a failure")


if __name__ == "__main__":
    main()
