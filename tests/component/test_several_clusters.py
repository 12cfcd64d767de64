"""Races of several clusters: which requests go where, and what the record, the tables and the page say of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Races

from esbench.null_server import NullServer

TRACK = """
version: 2
description: Two clusters, of which one is read from the other
indices: [{name: orders, body: index.json}]
corpora: [{name: orders, documents: [{document-count: 500, source-file: orders.json}]}]
operations:
  - {name: find, operation-type: search, body: {query: {match_all: {}}}}
challenges:
  - name: default
    default: true
    schedule:
      - {name: delete-there, operation: {operation-type: delete-index}, cluster: remote}
      - {name: create-there, operation: {operation-type: create-index}, cluster: remote}
      - {name: load-there, operation: {operation-type: bulk, bulk-size: 50}, cluster: remote, clients: 2}
      - {name: count-there, operation: {operation-type: assert-count, expected: acknowledged}, cluster: remote}
      - {name: delete-here, operation: {operation-type: delete-index}}
      - {name: create-here, operation: {operation-type: create-index}}
      - {name: both, operation: {operation-type: both}, clients: 2, iterations: 5}
      - parallel:
          tasks:
            - {name: here, operation: find, clients: 2, iterations: 30}
            - {name: there, operation: find, clients: 2, iterations: 20, cluster: remote}
      - {name: count-here, operation: {operation-type: assert-count, expected: 0}}
"""
CODE = '''
from esrally.driver.runner import runner_for, unwrap

class Both:
    """Runs a built-in runner on each cluster."""
    multi_cluster = True

    async def __call__(self, es, params):
        search = unwrap(runner_for("search"))
        for name, client in es.items():
            assert name in ("default", "remote")
            await search(client, {"index": "orders", "body": {"query": {"match_all": {}}}})
        return len(es), "searches"

    def __repr__(self):
        return "both"

def register(registry):
    registry.register_runner("both", Both(), async_runner=True)
'''


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path)
    (races.track / "track.yml").write_text(TRACK)
    (races.track / "track.py").write_text(CODE)
    yield races
    races.end()


@pytest.fixture
def pair(null_server: NullServerFactory) -> tuple[NullServer, NullServer]:
    """The default cluster, and a remote one that wants a password and is of another version."""
    return null_server({"version": "8.19.4"}), null_server({"version": "7.17.29", "users": {"joe": "s3cret"}})


def hosts(*servers: NullServer) -> str:
    names = ("default", "remote")
    return json.dumps({name: [server.url] for name, server in zip(names, servers, strict=True)})


OPTIONS = '--client-options={"default": {}, "remote": {"basic_auth_user": "joe", "basic_auth_password": "s3cret"}}'


def test_each_task_goes_to_its_cluster(races: Races, pair: tuple[NullServer, NullServer]) -> None:
    here, there = pair
    outcome = races.run(hosts(*pair), OPTIONS, "--no-answers", "--html=" + str(page := races.home.parent / "race.html"))
    assert outcome.code == 0, outcome.stderr
    record = races.record()
    assert {name: facts.version for name, facts in record.clusters.items()} == {
        "default": "8.19.4",
        "remote": "7.17.29",
    }
    assert {task.name: task.cluster for task in record.tasks if not task.name.startswith(("create", "delete"))} == {
        "load-there": "remote",
        "count-there": "remote",
        "both": "default",
        "here": "default",
        "there": "remote",
        "count-here": "default",
    }
    assert not [task.name for task in record.tasks if task.error_rate_ratio]
    assert (here.counts().documents, there.counts().documents) == (0, 500)
    counted = [server.counts().by_class for server in pair]
    searches = [sum(of.get(f"{method} /*/_search", 0) for method in ("GET", "POST")) for of in counted]
    assert searches == [60 + 10, 40 + 10]
    assert record.clusters["remote"].indices["orders"]["docs"] == 500
    assert all("cluster" in task.telemetry for task in record.tasks)
    assert {"nodes", "nodes [remote]", "driver"} <= set(record.telemetry)
    assert "driver [remote]" not in record.telemetry
    assert next(task for task in record.tasks if task.name == "both").units == 20
    shown = races.ask("show", record.race_id)
    assert "there [remote]" in shown
    assert "Cluster remote" in shown
    assert "Cluster remote" in page.read_text()


def test_races_of_several_clusters_are_compared(races: Races, pair: tuple[NullServer, NullServer]) -> None:
    for race_id in ("one", "two"):
        outcome = races.run(hosts(*pair), OPTIONS, "--replace-indices", f"--race-id={race_id}", "--on-error=continue")
        assert outcome.code == 0, outcome.stderr
    assert "there [remote]" in races.ask("compare", "one", "two", "--all")


def test_a_task_for_a_cluster_that_is_not_raced_is_refused(races: Races, server: NullServer) -> None:
    outcome = races.run(server)
    assert outcome.code == 2
    assert outcome.error.startswith('esbench: task "delete-there": the race has no cluster "remote"')
    assert "--target-hosts=" in outcome.error
    assert races.run(hosts(server, server).replace("remote", "remotes"), "--replace-indices").error.endswith(
        '(did you mean "remotes"? known: default, remotes)'
    )


@pytest.mark.parametrize(
    ("hosts", "options", "said"),
    [
        ('{"a": ["h:1"], "b": ["h:2"]}', "{}", 'none of the clusters a, b is called "default"'),
        ('{"default": ["h:1"], "b": []}', "{}", 'cluster "b" has no host'),
        (
            '{"default": ["h:1"], "remote": ["h:2"]}',
            '{"rmote": {"timeout": 5}}',
            'no cluster "rmote" is raced (did you',
        ),
        ("{}", "{}", "no cluster is named"),
        ('{"default": ["h:1"], "remote": ["mysql://h:2/x"]}', "{}", "several clusters are those of Elasticsearch"),
    ],
)
def test_wrong_clusters_are_one_line(races: Races, hosts: str, options: str, said: str) -> None:
    assert said in races.run(hosts, f"--client-options={options}").error


def test_a_remote_cluster_that_is_gone_is_named(races: Races, server: NullServer) -> None:
    outcome = races.run(json.dumps({"default": [server.url], "remote": ["http://127.0.0.1:1"]}))
    assert "127.0.0.1:1: connection refused" in outcome.error
