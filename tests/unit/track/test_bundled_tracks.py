"""The bundled tracks: they load for every version, with every parameter that their README names; corpora and questions
fit together."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from corpora import bodies_of
from track_files import context, load, task_named

from esbench.errors import EsbenchError, UsageError
from esbench.features.synthetic.generate.generator import Generator
from esbench.model import Challenge, Track
from esbench.race.loading import load_with_python
from esbench.race.names_of_others import refuse_names_of_others
from esbench.record.index_prefix import INDEX_PREFIX
from esbench.track.library import find_track, list_tracks
from esbench.track.rendering import takes_parameter
from esbench.units import Rate

NAMES = [track.name for track in list_tracks().tracks]
FOLDER = Path(find_track("orders", None)).parents[1]
VERSIONS = ["5.2.2", "6.8.23", "7.0.1", "7.10.2", "8.19.4"]


def bundled(name: str, version: str = "7.10.2", **params: Any) -> Track:
    return load(find_track(name, None), version=version, **params)


def challenge(track: Track, name: str) -> Challenge:
    return next(challenge for challenge in track.challenges if challenge.name == name)


def generator(track: Track) -> Generator:
    part = track.corpora[0].documents[0]
    spec = part.generate or part.stand_in
    assert spec is not None
    return Generator(spec, track.name)


def readme(name: str) -> str:
    return (FOLDER / name / "README.md").read_text()


def documented_parameters(name: str) -> set[str]:
    table = readme(name).partition("\n## Parameters\n")[2]
    first_cells = re.findall(r"^\| ([a-z_, ]+) \|", table, re.MULTILINE)
    return {parameter.strip() for cell in first_cells for parameter in cell.split(",")} - {"parameter"}


def test_the_published_workloads_are_there() -> None:
    assert {"orders", "keyword", "ingest", "order-analytics", "percolator", "mixed"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_indices_have_no_settings_on_serverless(name: str) -> None:
    own = replace(context("8.11.0"), build_flavor="serverless")
    path = find_track(name, None)
    track = load_with_python(path, own, path.parent).track
    assert track.indices
    assert not [index.name for index in track.indices if "settings" in index.body]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_track_loads_for_every_version(name: str, version: str) -> None:
    track = bundled(name, version)
    assert track.description
    assert track.challenges[0].default


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_names_every_parameter_and_no_other(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        bundled(name, no_such_parameter=1)
    known = re.search(r"known: ([\w, ]+?)(?: and (\d+) more)?\)", str(caught.value))
    assert known is not None
    named, more = set(known[1].split(", ")), int(known[2] or 0)
    assert named <= documented_parameters(name)
    assert len(documented_parameters(name)) == len(named) + more


@pytest.mark.parametrize("name", NAMES)
def test_a_prefix_stands_in_front_of_every_index_and_changes_nothing_else(name: str) -> None:
    assert takes_parameter(find_track(name, None), INDEX_PREFIX)
    track, plain = bundled(name, index_prefix="side1-"), bundled(name)
    for raced in track.challenges:
        refuse_names_of_others(track, raced, track.targets, "side1-")
    if name == "percolator":  # with other indices beside it, it cannot wait for the merges of all
        (task,) = (task for task in plain.challenges[0].tasks if task.operation.params.get("index") == "_all")
        assert task_named(track, task.name).operation.params["index"] == "side1-queries"
    # as they are sent to other processes: without what their types are
    sent = (pickle.loads(pickle.dumps(each)) for each in (track, plain))
    with_it, without = (json.dumps({**asdict(each), "params": {}}, default=str) for each in sent)
    assert with_it.replace("side1-", "") == without.replace('"_all"', '"queries"')


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*.json")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_sets_of_parameters_beside_a_track_load(file: Path) -> None:
    params = json.loads(file.read_text())
    assert bundled(file.parent.name, **params).params == params
    assert file.name in readme(file.parent.name)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vectors"])  # whose documents are no corpus
def test_the_mapping_knows_every_field_of_the_documents(name: str) -> None:
    track = bundled(name)
    mappings = track.indices[0].body["mappings"]
    assert mappings["dynamic"] == "strict"
    (text,) = bodies_of(generator(track), 0, 1)
    assert set(json.loads(text)) <= set(mappings["properties"])


@pytest.mark.parametrize("name", NAMES)
def test_what_fills_the_index_can_be_left_out(name: str) -> None:
    for raced in bundled(name).challenges:
        for task in raced.tasks:
            if task.operation.type in ("delete-index", "create-index"):
                assert "setup" in task.tags


@pytest.mark.parametrize(("name", "operation"), [("get-sweep", "get-by-id"), ("insert-sweep", "insert")])
def test_a_sweep_has_a_task_for_each_number_of_clients(name: str, operation: str) -> None:
    track = bundled("orders", sweep_clients=[8, 256], sweep_requests=[1000, 2000])
    tasks = [task for task in challenge(track, name).tasks if task.requests]
    assert [(task.name, task.clients, task.requests) for task in tasks] == [
        (f"{operation}-8-clients", 8, 1000),
        (f"{operation}-256-clients", 256, 2000),
    ]


def test_a_sweep_takes_one_number_of_requests_for_all_its_steps() -> None:
    tasks = challenge(bundled("orders", sweep_requests=500), "get-sweep").tasks
    assert [task.clients for task in tasks if task.requests == 500] == [8, 16, 32, 64, 128, 256]


def test_requests_that_do_not_fit_the_steps_of_a_sweep_are_refused() -> None:
    with pytest.raises(UsageError, match="sweep_requests is one number, or one for each of the 6 sweep_clients"):
        bundled("orders", sweep_requests=[1, 2])


@pytest.mark.parametrize("params", [{"sweep_clients": "many"}, {"sweep_clients": [8, 1.5]}, {"sweep_requests": "x"}])
def test_a_sweep_over_anything_but_whole_numbers_is_refused(params: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="sweep_clients and sweep_requests are whole numbers"):
        bundled("orders", **params)


@pytest.mark.parametrize("track", ["orders", "keyword"])
def test_a_rate_that_is_none_is_told_once(track: str) -> None:
    with pytest.raises(EsbenchError, match='"fast" is not a rate'):
        bundled(track, rates="fast")


def test_keyword_switches_the_field_of_all_text_off_only_where_it_exists() -> None:
    has_it = [version for version in VERSIONS if "_all" in bundled("keyword", version).indices[0].body["mappings"]]
    assert has_it == ["5.2.2"]


def test_keyword_routes_by_the_first_six_characters_of_f2() -> None:
    made = generator(bundled("keyword"))
    for f1, f2, document_id, routing in made.values(["f1", "f2", "_id", "_routing"], range(100)):
        assert (document_id, routing) == (f1, f2[:6])
    assert set(json.loads(bodies_of(made, 0, 1)[0])) == {"f1", "f2", "f3"}


def test_keyword_races_each_operation_at_each_rate() -> None:
    tasks = [task for task in bundled("keyword", rates=[100, 200]).challenges[0].tasks if task.within_ms]
    assert [task.name for task in tasks] == [
        f"{operation}-at-{rate}-per-s"
        for operation in ("get-by-id", "search-by-routing", "term-query")
        for rate in (100, 200)
    ]
    assert {task.schedule.rate for task in tasks} == {Rate(100.0, "ops"), Rate(200.0, "ops")}
    assert all(50.0 in task.within_ms for task in tasks)


@pytest.mark.parametrize("track", ["orders", "keyword"])
def test_tasks_at_percents_of_the_capacity_are_named_so(track: str) -> None:
    tasks = bundled(track, rates=["70%", 100]).challenges[0].tasks
    found = [(task.name, str(task.schedule.rate)) for task in tasks if task.name.startswith("get-by-id-at-")]
    assert found == [
        ("get-by-id-at-70%-of-capacity", "70 % of the capacity"),
        ("get-by-id-at-100-per-s", "100 ops/s"),
    ]


def test_relaxed_settings_of_ingest_are_those_that_were_published() -> None:
    relaxed = bundled("ingest", settings="relaxed").indices[0].body["settings"]
    assert {key.removeprefix("index."): value for key, value in relaxed.items() if "number" not in key} == {
        "refresh_interval": "10s",
        "translog.durability": "async",
        "translog.sync_interval": "30s",
        "translog.flush_threshold_size": "1024mb",
    }
    with pytest.raises(UsageError, match='settings is "default" or "relaxed", not "fast"'):
        bundled("ingest", settings="fast")


def test_ingest_ends_with_a_count_of_what_was_acknowledged() -> None:
    last = list(bundled("ingest").challenges[0].tasks)[-1]
    assert (last.operation.type, last.operation.params["expected"]) == ("assert-count", "acknowledged")


def test_the_lists_of_order_analytics_are_of_a_seventh_of_the_orders_and_their_last_page_is_the_last_there_is() -> None:
    track = bundled("order-analytics")
    fields = ["status", "channel", "created_at", "amount"]
    rows = generator(track).values(fields, range(20_000))
    listed = [
        row
        for row in rows
        if row[0] in ("delivered", "paid") and row[1] == "app" and row[2] >= "2024-03-02" and row[3] >= 10
    ]
    assert len(listed) / len(rows) == pytest.approx(0.141, abs=0.01)
    body = task_named(track, "list-page-1000").operation.params["body"]
    assert body["from"] + body["size"] == 10_000


def test_the_last_five_days_end_with_the_corpus() -> None:
    track = bundled("order-analytics")
    times = [time for (time,) in generator(track).values(["created_at"], range(20_000))]
    assert max(times).startswith("2024-03-31")
    (wanted,) = [
        task.operation.params["body"]["query"]["bool"]["filter"]["range"]["created_at"]
        for task in track.challenges[0].tasks
        if task.name == "counts-per-day"
    ]
    assert wanted == {"gte": "2024-03-27", "lte": "2024-03-31"}
    assert sum(time >= "2024-03-27" for time in times) / len(times) == pytest.approx(5 / 90, abs=0.01)


@pytest.mark.parametrize(("version", "key"), [("7.1.1", "interval"), ("7.2.0", "calendar_interval")])
def test_days_are_asked_for_in_the_words_of_the_version(version: str, key: str) -> None:
    body = task_named(bundled("order-analytics", version), "counts-per-day").operation.params["body"]
    assert key in body["aggs"]["days"]["date_histogram"]


RALLYS_TASKS = {  # task -> requests per second
    "percolator_with_content_president_bush": 27,
    "percolator_with_content_saddam_hussein": 50,
    "percolator_with_content_hurricane_katrina": 50,
    "percolator_with_content_google": 16,
    "percolator_no_score_with_content_google": 100,
    "percolator_with_highlighting": 50,
    "percolator_with_content_ignore_me": 1 / 12,
    "percolator_no_score_with_content_ignore_me": 15,
}


def test_percolator_has_the_tasks_and_rates_of_rally() -> None:
    track = bundled("percolator")
    asked = [task for task in track.challenges[0].tasks if task.schedule.rate]
    assert [task.name for task in asked] == list(RALLYS_TASKS)
    assert [task.schedule.rate.value for task in asked if task.schedule.rate] == pytest.approx([*RALLYS_TASKS.values()])
    assert set(track.requires) == {"percolator", "language-analyzers"}


@pytest.mark.parametrize(
    ("params", "count", "source_file", "synthetic", "has_stand_in"),
    [
        ({}, 2_000_000, "queries-2.json.bz2", False, True),
        ({"corpus": "rally"}, 2_000_000, "queries-2.json.bz2", False, False),
        ({"corpus": "generated"}, 2_000_000, None, True, False),
        ({"documents": 200_000}, 200_000, None, True, False),
    ],
)
def test_the_queries_are_those_of_rally_or_say_that_they_stand_in_for_them(
    params: dict[str, Any], count: int, source_file: str | None, synthetic: bool, has_stand_in: bool
) -> None:
    (part,) = bundled("percolator", **params).corpora[0].documents
    assert (part.document_count, part.source_file, part.synthetic) == (count, source_file, synthetic)
    assert (part.stand_in is not None) == has_stand_in


_HIGHLIGHTED = "israeli prime minister sharon massive stroke replaced acting suffers"


@pytest.mark.parametrize(
    ("text", "least_percent", "most_percent"),
    [
        ("president bush", 0.001, 1),
        ("saddam hussein", 0.001, 1),
        ("hurricane katrina", 0.001, 1),
        ("google", 0.001, 1),
        (_HIGHLIGHTED, 0.001, 1),
        ("ignore me", 95, 99.9),
    ],
)
def test_the_texts_match_as_many_queries_as_they_should(text: str, least_percent: float, most_percent: float) -> None:
    made = generator(bundled("percolator"))
    words = set(text.split())
    queries = [value["match"]["body"]["query"] for (value,) in made.values(["query"], range(100_000))]
    matching = sum(not words.isdisjoint(query.split()) for query in queries)
    assert least_percent <= 100 * matching / len(queries) <= most_percent


def test_mixed_reads_and_writes_at_once() -> None:
    track = bundled("mixed", get_rate=25, insert_rate=10)
    (step,) = [step for step in track.challenges[0].steps if len(step.tasks) > 1]
    assert [(task.name, task.schedule.rate) for task in step.tasks] == [
        ("get-by-id", Rate(25.0, "ops")),
        ("insert", Rate(10.0, "ops")),
    ]


@pytest.mark.parametrize("name", ["orders", "mixed"])
def test_with_routing_every_read_says_whose_order_it_wants(name: str) -> None:
    assert task_named(bundled(name, routing="user_id"), "get-by-id").operation.params["routing"] == "$[[order.user_id]]"
