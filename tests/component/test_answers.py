"""Races that ask their read tasks once more, against the null server: what is asked and kept, and their comparison."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Races

from esbench.record.answers import Line, NotAsked, RequestAnswer, answers_of

TRACK = """
version: 2
indices: [{name: "{{ index_prefix | default("") }}orders"}]
variables: [{name: any_id, type: range, from: 1, to: 5000}]
operations:
  - {name: by-id, operation-type: get, index: "{{ index_prefix | default("") }}orders", id: "$[[any_id]]"}
  - name: all
    operation-type: search
    index: "{{ index_prefix | default("") }}orders"
    body: {query: {match_all: {}}}
  - {name: write, operation-type: raw-request, method: PUT, path: /orders/_doc/1, body: {a: 1}}
schedule: SCHEDULE
"""
READS = "[{operation: by-id, iterations: 5}, {operation: all, iterations: 5}]"


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    found = Races(tmp_path)
    yield found
    found.end()


def race(races: Races, server: object, schedule: str = READS, *arguments: str, code: int = 0) -> str:
    (races.track / "track.yml").write_text(TRACK.replace("SCHEDULE", schedule))
    outcome = races.run(server, *arguments)  # type: ignore[arg-type]
    assert outcome.code == code, outcome.stderr
    return races.record().race_id


def lines(races: Races, race_id: str) -> tuple[Line, ...]:
    return answers_of(races.home / "races" / race_id / "answers.jsonl")


def test_each_read_task_is_asked_for_requests_of_its_load(null_server: NullServerFactory, races: Races) -> None:
    server = null_server(log=True)
    kept = lines(races, race(races, server))
    answers = [line for line in kept if isinstance(line, RequestAnswer)]
    by_id = [answer for answer in answers if answer.task == "by-id"]
    assert 180 < len(by_id) <= 200
    assert len({answer.values for answer in by_id}) == len(by_id)
    assert [answer.task for answer in answers if answer.task != "by-id"] == ["all"]
    assert all(answer.is_stable for answer in answers)
    asked = {answer.request.removeprefix("GET ") for answer in by_id}
    sent = [line.path for line in server.log() if line.method == "GET" and "/_doc/" in line.path]
    assert asked >= {sent[0], sent[1], sent[3]}  # the load's own requests: the first, second, fourth, seventh ...


def test_no_answers_are_asked_for_if_the_user_says_so(null_server: NullServerFactory, races: Races) -> None:
    assert lines(races, race(races, null_server(), READS, "--no-answers")) == ()


def test_after_a_task_that_wrote_for_a_time_no_answers_are_asked_for(
    null_server: NullServerFactory, races: Races
) -> None:
    schedule = "[{operation: by-id, iterations: 5}, {operation: write, time-period: 0.3}, {operation: all}]"
    kept = lines(races, race(races, null_server(), schedule))
    assert {line.task for line in kept if isinstance(line, RequestAnswer)} == {"by-id"}
    assert [line for line in kept if isinstance(line, NotAsked)] == [
        NotAsked("all", "write wrote for a time, not a number of documents")
    ]


def test_a_load_of_all_documents_is_the_same_on_all_sides_also_with_a_warmup(
    null_server: NullServerFactory, races: Races
) -> None:
    load = "{operation: {operation-type: bulk, bulk-size: 50}, warmup-time-period: 0}"
    corpora = "corpora: [{name: orders, documents: [{document-count: 500, source-file: orders.json}]}]"
    schedule = f"[{load}, {{operation: by-id, iterations: 5}}]\n{corpora}"
    kept = lines(races, race(races, null_server(), schedule))
    assert len([line for line in kept if isinstance(line, RequestAnswer)]) > 180


def test_a_writer_that_another_task_ends_leaves_any_number_of_documents(
    null_server: NullServerFactory, races: Races
) -> None:
    tasks = "[{operation: by-id, iterations: 20}, {operation: write, clients: 1}]"
    kept = lines(races, race(races, null_server(), f"[{{parallel: {{completed-by: by-id, tasks: {tasks}}}}}]"))
    assert [line for line in kept if isinstance(line, NotAsked)] == [
        NotAsked("by-id", "write wrote for a time, not a number of documents")
    ]


def test_the_prefix_of_a_side_is_in_no_answer(null_server: NullServerFactory, races: Races) -> None:
    server = null_server()
    schedule = "[{operation: by-id, iterations: 5}]"
    ours, theirs = (race(races, server, schedule, f"--track-params=index_prefix:{side}-") for side in ("x1", "x2"))
    assert [line for line in lines(races, ours) if isinstance(line, RequestAnswer)] == [
        line for line in lines(races, theirs) if isinstance(line, RequestAnswer)
    ]


def test_a_cluster_that_answers_otherwise_is_not_compared(null_server: NullServerFactory, races: Races) -> None:
    other = {"rules": [{"path": "_search", "merge": {"hits": {"total": {"value": 7, "relation": "eq"}}}}]}
    ours, theirs = race(races, null_server()), race(races, null_server(other))
    assert "the answers differ in all" in " ".join(races.ask("compare", ours, theirs).split("\n\n")[0].split())
    said = races.ask("compare", ours, theirs, "--all")
    assert "all: other answers to 1 of 1 requests" in said
    assert "same answers: by-id" in said
    allowed = races.ask("compare", ours, theirs, "--allow=answers")
    assert "answers differ" not in allowed


def test_a_task_whose_requests_fail_is_not_asked_and_others_are(null_server: NullServerFactory, races: Races) -> None:
    server = null_server({"rules": [{"path": "_search", "reply": {"status": 503}}]})
    schedule = "[{parallel: {tasks: [{operation: all, iterations: 5}, {operation: by-id, iterations: 5}]}}]"
    kept = lines(races, race(races, server, schedule, "--on-error=continue", code=1))
    assert {line.task for line in kept if isinstance(line, NotAsked)} == {"all"}
    assert {line.task for line in kept if isinstance(line, RequestAnswer)} == {"by-id"}


def test_an_answer_that_changes_is_unstable(null_server: NullServerFactory, races: Races) -> None:
    once = {
        "rules": [
            {"path": "_search", "first": 7, "last": 7, "merge": {"hits": {"total": {"value": 7, "relation": "eq"}}}}
        ]
    }
    kept = lines(races, race(races, null_server(once), "[{operation: all, iterations: 5}]"))
    assert [line.is_stable for line in kept if isinstance(line, RequestAnswer)] == [False]


def test_damaged_answers_are_one_line(null_server: NullServerFactory, races: Races) -> None:
    race_id = race(races, null_server(), "[{operation: all, iterations: 5}]")
    folder = races.home / "races" / race_id
    shutil.copytree(folder, folder.with_name("other"))
    (folder / "answers.jsonl").write_text('{"kind": "answer", "task": 3}\n')
    with pytest.raises(subprocess.CalledProcessError) as failed:
        races.ask("compare", race_id, "other")
    (line,) = failed.value.stderr.splitlines()
    assert "answers.jsonl:1" in line and "is damaged" in line


VECTORS = """
version: 2
indices: [{name: orders}]
operations:
  - {name: near, operation-type: search, body: {query: {bool: {must: [{knn: {v: {vector: [1, 2], k: 3}}}]}}}}
  - {name: early, operation-type: raw-request, path: "/orders/_search?terminate_after=5"}
  - name: both
    operation-type: composite
    requests:
      - {name: a, operation-type: search, body: {knn: {field: v, query_vector: [1, 2], k: 3}}}
  - {name: exact, operation-type: search, body: {query: {match_all: {}}}}
schedule:
  - {operation: near, iterations: 20}
  - {operation: early, iterations: 20}
  - {operation: both, iterations: 20}
  - {operation: exact, iterations: 20}
"""


@pytest.mark.parametrize("asks", [True, False])
def test_tasks_with_approximate_searches_have_no_verdict(
    null_server: NullServerFactory, races: Races, asks: bool
) -> None:
    server, sides = null_server({"version": "8.19.4"}), list[str]()
    for _ in range(2):
        (races.track / "track.yml").write_text(VECTORS)
        outcome = races.run(server, *([] if asks else ["--no-answers"]))
        assert outcome.code == 0, outcome.stderr
        sides.append(races.record().race_id)
    reasons = {line.task: line.reason for line in lines(races, sides[0]) if isinstance(line, NotAsked)}
    assert reasons == dict.fromkeys(("near", "early", "both"), "approximate")
    compared = races.ask("compare", *sides, "--all")
    for task in ("near", "early", "both"):
        assert f"{task}: answers not compared: approximate" in compared
        assert re.search(rf"Mean throughput +{task} .*not judged +answers not compared: approximate", compared)
    assert re.search(r"Mean throughput +exact .*(not judged|unclear)", compared)


TABLES = """
version: 2
indices: [{name: orders}]
operations:
  - {name: cities, operation-type: esql, query: "FROM orders | STATS n = COUNT(*) BY city | SORT n DESC | LIMIT 3"}
  - {name: all-cities, operation-type: sql, body: {query: "SELECT city, COUNT(*) AS n FROM orders GROUP BY city"}}
schedule: [{operation: cities, iterations: 5}, {operation: all-cities, iterations: 5}]
"""


def tables(n: int, *, tie: str, turned: bool = False) -> dict[str, object]:
    """Rules for replies as the references of ES|QL and SQL show them; `tie` has as many orders as another city."""
    columns = [{"name": "n", "type": "long"}, {"name": "city", "type": "keyword"}]
    esql = [[9, "Rome"], [n, "Oslo"], [4, tie]]
    rows = [["Rome", 9], ["Oslo", 5], ["Bern", 4], ["Nice", 4]]
    return {
        "version": "8.19.4",
        "rules": [
            {
                "path": "^/_query",
                "reply": {"status": 200, "body": {"took": 3, "is_partial": False, "columns": columns, "values": esql}},
            },
            {
                "path": "sql",
                "reply": {"status": 200, "body": {"columns": columns[::-1], "rows": rows[::-1] if turned else rows}},
            },
        ],
    }


def test_tables_of_esql_and_sql_are_compared(null_server: NullServerFactory, races: Races) -> None:
    (races.track / "track.yml").write_text(TABLES)
    sides = []
    for script in (tables(5, tie="Bern"), tables(5, tie="Nice", turned=True), tables(6, tie="Bern")):
        outcome = races.run(null_server(script))
        assert outcome.code == 0, outcome.stderr
        sides.append(races.record().race_id)
    assert "note: same answers: cities (1), all-cities (1)" in races.ask("compare", *sides[:2], "--all")
    differ = races.ask("compare", sides[0], sides[2], "--all")
    assert "cities: other answers to 1 of 1 requests" in differ
    assert "note: same answers: all-cities (1)" in differ
