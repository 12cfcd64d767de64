"""Whether duels see that two sides answer differently, and see nothing where they answer the same; on embedded nodes.

    python benchmarks/same_answers.py identical    ten duels of a thing with itself, over all own tracks; about 13 min
    python benchmarks/same_answers.py versions     7.10.2 and 7.17.29 (percolator: 7.6.2 and 7.10.2); about 9 min
    python benchmarks/same_answers.py engines      Elasticsearch 7.10.2 and OpenSearch 2.19.6; about 6 min
    python benchmarks/same_answers.py changed      sides that must differ: analyzer, norms, a document, a seed; 3 min

Each duel is one short round: its figures say nothing. It exits with 1 if identical sides or versions differ, or if
changed sides do not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from known_duels import IDENTICAL, Identical
from programs import ESBENCH

ONE_ROUND = ("--rounds=1", "--task-time=8s", "--quiet")
VERSIONS = tuple(each for each in IDENTICAL if each.track in ("orders", "keyword", "order-analytics", "percolator"))
PAIRS = {  # the distributions of both sides
    "identical": ("", ""),
    "versions": ("7.10.2", "7.17.29"),
    "engines": ("7.10.2", "opensearch-2.19.6"),
}
WITH_ANALYZERS = ("7.6.2", "7.10.2")  # which the percolator track needs, and an embedded 7.17.29 lacks
CHANGES = {  # track parameters of both sides
    "nothing": ("", ""),
    "analyzer": ("", "analyzer:stop"),
    "norms": ("", "norms:false"),
    "a document": ("deleted:none", "deleted:1"),
    "seed of the corpus": ("", "seed:2"),
}

TRACK = """
version: 2
description: Texts that are searched
indices:
  - {name: "{{ index_prefix | default('') }}texts", body: index.json}
corpora:
  - name: texts
    documents:
      - document-count: 2000
        generate:
          seed: {{ seed | default(1) }}
          id: number
          fields:
            number: {type: sequence}
            title: {type: words, count: [2, 30]}
            tag: {type: zipf, from: 1, to: 20, format: "t%d"}
operations:
  - {name: title, operation-type: search, body: {query: {match: {title: "the of"}}}}
  - {name: tags, operation-type: search, body: {size: 0, aggs: {tags: {terms: {field: tag}}}}}
  - {name: by-id, operation-type: get, id: "1", expect-found: false}
schedule:
  - {operation: {operation-type: delete-index}}
  - {operation: {operation-type: create-index}}
  - {operation: {operation-type: bulk, bulk-size: 500}}
  {% if deleted is defined %}
  - operation:
      operation-type: raw-request
      method: DELETE
      path: "/{{ index_prefix | default('') }}texts/_doc/{{ deleted }}"
      ignore: [404]
  {% endif %}
  - {operation: refresh}
  - {operation: title, time-period: 4}
  - {operation: tags, time-period: 4}
  - {operation: by-id, time-period: 4}
"""
INDEX = """
{"settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0},
 "mappings": {"properties": {"tag": {"type": "keyword"}, "title": {
   "type": "text", "analyzer": "{{ analyzer | default('standard') }}", "norms": {{ norms | default(true) | tojson }}}}}}
"""


def duel(folder: Path, *arguments: str) -> Mapping[str, Any]:
    """Race a duel of one round; return its comparison as JSON."""
    file = folder / "comparison.json"
    command = [*ESBENCH, "duel", *ONE_ROUND, f"--report-file={file}", *arguments]
    print(f"\nesbench {' '.join(command[len(ESBENCH) :])}".replace(f"{folder}/", ""), flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    comparison: Mapping[str, Any] = json.loads(file.read_text())
    return comparison


def differing(comparison: Mapping[str, Any]) -> list[str]:
    """Print the answers of a comparison; return the tasks whose answers differ."""
    answers = comparison["overview"]["contenders"][0]["answers"]
    for each in answers:
        counts = ", ".join(f"{each[key]} {key}" for key in ("equal", "differing", "unstable") if each[key])
        print("  ", ": ".join(filter(None, [each["task"], counts, each["reason"], each["limits"]])), flush=True)
        for example in each["examples"]:
            print(f"     {example['request'][:200]}")
            for side in ("baseline", "contender"):
                print(f"       {side:9} {json.dumps(example[side])[:200]}")
    if not answers:
        print("   no task only reads")
    return [each["task"] for each in answers if each["differing"]]


def of_tracks(raced: Sequence[Identical], folder: Path, pair: tuple[str, str]) -> Iterator[str]:
    """Yield the tasks of the bundled tracks whose answers differ between two distributions."""
    for each in raced:
        sides = WITH_ANALYZERS if each.track == "percolator" and "7.17.29" in pair else pair
        words = [side and f"distribution={side}" for side in sides]
        yield from differing(
            duel(
                folder,
                *(f"--track={each.track}", f"--include-tasks={each.tasks}", f"--track-params={each.params}"),
                *(f"--baseline={words[0]}", f"--contender={words[1]}"),
            )
        )


def unseen(folder: Path) -> Iterator[str]:
    """Yield the changes that no answer shows, and those of "nothing" that one does."""
    (folder / "track.yml").write_text(TRACK)
    (folder / "index.json").write_text(INDEX)
    for name, changes in CHANGES.items():
        sides = [params and f"track-params={params}" for params in changes]
        comparison = duel(folder, f"--track-path={folder}", f"--baseline={sides[0]}", f"--contender={sides[1]}")
        print(f"   {name}: ", {name: fact for name, fact in comparison["facts"].items() if "field" in name})
        if bool(differing(comparison)) != (name != "nothing"):
            yield name


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("duels", choices=(*PAIRS, "changed"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.duels == "changed":
            found = list(unseen(folder))
        else:
            found = list(of_tracks(IDENTICAL if args.duels == "identical" else VERSIONS, folder, PAIRS[args.duels]))
    print(f"\n{args.duels}: {', '.join(found) or 'as it must be'}")
    sys.exit(bool(found) and args.duels != "engines")


if __name__ == "__main__":
    main()
