"""The slowlog device: thresholds that are set for the race and put back, and entries counted by kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from answering import AnsweringCluster

from esbench.cluster.client import ClusterInfo
from esbench.errors import ClusterError
from esbench.features.devices.slowlog import SETTINGS, Slowlog
from esbench.telemetry.device import Scene, Unseen

RECORDED: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parents[3] / "recorded" / "telemetry" / "slowlog.json").read_text()
)
QUERY, FETCH, INDEX = SETTINGS.values()
WANTED = {QUERY: "100ms", FETCH: "50ms", INDEX: "100ms"}


class Indices(AnsweringCluster):
    """Indices with settings; `refused` names those that must not be changed."""

    def __init__(self, logs: Path | None = None) -> None:
        super().__init__()
        self.settings: dict[str, dict[str, str]] = {}
        self.refused = ""
        self.is_gone = False
        self.puts: list[str] = []
        self._logs = logs

    def make(self, name: str, uuid: str, **settings: str) -> None:
        self.settings[name] = {"index.uuid": uuid, **settings}

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        if path == "/_nodes/settings":
            return {"nodes": {"id": {"name": "node-0", "settings": {"path.logs": str(self._logs)}}}}
        names, _, api = path.removeprefix("/").partition("/")
        assert names
        assert api == "_settings"
        wanted = [name for name in self.settings if name in names.split(",")]
        if method == "GET":
            assert params["flat_settings"]
            if self.is_gone:
                raise ClusterError("connection refused")
            return {name: {"settings": dict(self.settings[name])} for name in wanted}
        self.puts.append(path)
        if self.refused in wanted:
            raise ClusterError("missing rights: manage", where=f"PUT {path}")
        for name in wanted:
            self._change(self.settings[name], body)
        return {"acknowledged": True}

    @staticmethod
    def _change(settings: dict[str, str], changes: Mapping[str, str | None]) -> None:
        for key, value in changes.items():
            if value is None:
                settings.pop(key, None)
            else:
                settings[key] = value


def device(
    cluster: Indices, targets: tuple[str, ...] = ("orders",), *, shares_nodes: bool = False, **given: float
) -> Slowlog:
    pids = {"node-0": 1} if cluster._logs else {}
    params = {param.name: given.get(param.name.replace("-", "_"), param.default) for param in Slowlog.params}
    info = ClusterInfo("elasticsearch", "7.10.2")
    return Slowlog(Scene(cluster, info, targets, Path(), pids, shares_nodes=shares_nodes), params)


def test_thresholds_are_set_and_what_was_there_before_is_put_back() -> None:
    cluster = Indices()
    cluster.make("orders", "a", **{QUERY: "10s"})
    before = dict(cluster.settings["orders"])
    made = device(cluster)
    made.begin()
    assert cluster.settings["orders"] == {"index.uuid": "a", **WANTED}
    assert made.end() == {"thresholds": WANTED, "indices": 1, "entries": {}, "files": []}
    assert cluster.settings["orders"] == before


def test_an_index_that_the_race_makes_gets_them_with_the_next_step_and_also_when_it_is_made_anew() -> None:
    cluster = Indices()
    made = device(cluster)
    made.begin()
    cluster.make("orders", "a")
    made.begin_step(2, ("bulk",))
    assert cluster.settings["orders"][FETCH] == "50ms"
    made.begin_step(3, ("search",))
    assert len(cluster.puts) == 1
    cluster.make("orders", "b")
    made.begin_step(4, ("bulk",))
    assert cluster.settings["orders"][FETCH] == "50ms"
    assert made.end()["indices"] == 1
    assert cluster.settings["orders"] == {"index.uuid": "b"}
    assert len(cluster.puts) == 3


def test_indices_that_are_gone_at_the_end_are_left_alone() -> None:
    cluster = Indices()
    cluster.make("orders", "a")
    made = device(cluster)
    made.begin()
    cluster.settings.clear()
    made.end()
    assert len(cluster.puts) == 1


def test_many_indices_are_set_a_few_at_a_time() -> None:
    cluster = Indices()
    names = tuple(f"logs-{number}" for number in range(45))
    for name in names:
        cluster.make(name, name)
    device(cluster, names).begin()
    assert [path.count("logs-") for path in cluster.puts] == [20, 20, 5]


def test_missing_rights_are_told_once_and_nothing_is_put_back() -> None:
    cluster = Indices()
    cluster.make("orders", "a")
    cluster.refused = "orders"
    made = device(cluster)
    with pytest.raises(Unseen, match=r"thresholds of slow logs were not set: .*missing rights"):
        made.begin()
    made.begin_step(0, ("search",))
    told = made.end()
    assert (told["thresholds"], told["indices"]) == ({}, 0)
    assert len(cluster.puts) == 1


def test_only_those_indices_count_that_had_the_thresholds() -> None:
    cluster = Indices()
    names = tuple(f"logs-{number}" for number in range(25))
    for name in names:
        cluster.make(name, name)
    cluster.refused = "logs-24"
    made = device(cluster, names)
    with pytest.raises(Unseen):
        made.begin()
    told = made.end()
    assert (told["thresholds"], told["indices"]) == (WANTED, 20)
    assert cluster.settings["logs-0"] == {"index.uuid": "logs-0"}


def test_thresholds_that_cannot_be_put_back_are_told_of() -> None:
    cluster = Indices()
    cluster.make("orders", "a")
    made = device(cluster)
    made.begin()
    cluster.refused = "orders"
    assert made.end()["indices"] == 1
    assert any("orders were not put back: PUT /orders/_settings: missing rights" in note for note in made.notes)


def test_a_cluster_that_is_gone_at_the_end_is_told_of() -> None:
    cluster = Indices()
    cluster.make("orders", "a")
    made = device(cluster)
    made.begin()
    cluster.is_gone = True
    assert made.end()["indices"] == 1
    assert "the thresholds of slow logs were not put back: connection refused" in made.notes


def test_a_track_without_indices_leaves_those_of_others_alone() -> None:
    cluster = Indices()
    cluster.make("orders", "a")
    made = device(cluster, ())
    with pytest.raises(Unseen):
        made.begin()
    made.begin_step(0, ("search",))
    made.end()
    assert cluster.puts == []


@pytest.mark.parametrize(
    ("seconds", "threshold"), [(1.0, "1000ms"), (0.0005, "500micros"), (0.0015, "1500micros"), (1e-9, "0ms")]
)
def test_thresholds_are_written_without_fractions(seconds: float, threshold: str) -> None:
    cluster = Indices()
    cluster.make("orders", "a")
    device(cluster, slowlog_query=seconds).begin()
    assert cluster.settings["orders"][QUERY] == threshold


@pytest.mark.parametrize("version", RECORDED)
def test_entries_of_a_step_are_counted_by_kind_in_the_logs_of_each_version(version: str, tmp_path: Path) -> None:
    for name in RECORDED[version]:
        (tmp_path / name).touch()
    made = device(Indices(tmp_path))
    made.begin()
    made.begin_step(0, ("load",))
    for name, lines in RECORDED[version].items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    assert made.end_step(0, ("load",)) == {"query": 1, "fetch": 1, "index": 1}
    made.begin_step(1, ("search",))
    assert made.end_step(1, ("search",)) == {"query": 0, "fetch": 0, "index": 0}
    told = made.end()
    assert told["entries"] == {"query": 1, "fetch": 1, "index": 1}
    suffix = "log" if version == "elasticsearch-5.6.16" else "json"
    assert told["files"] == [
        f"logs/node-0/esbench-race_index_{kind}_slowlog.{suffix}" for kind in ("indexing", "search")
    ]


def test_entries_from_before_the_race_and_half_written_ones_are_not_counted(tmp_path: Path) -> None:
    (line,) = RECORDED["elasticsearch-7.10.2"]["esbench-race_index_indexing_slowlog.json"]
    log = tmp_path / "esbench-race_index_indexing_slowlog.json"
    log.write_text(f"{line}\n")
    made = device(Indices(tmp_path))
    made.begin()
    made.begin_step(0, ("load",))
    with log.open("a") as file:
        file.write(line)
        file.flush()
        assert made.end_step(0, ("load",))["index"] == 0
        file.write("\n")
    made.begin_step(1, ("load",))
    log.write_text(f"{line}\n")  # a new file after the old one was full
    assert made.end_step(1, ("load",))["index"] == 1


def test_a_race_on_a_node_that_races_share_counts_entries_and_names_no_files_of_its_own(tmp_path: Path) -> None:
    made = device(Indices(tmp_path), shares_nodes=True)
    made.begin()
    made.begin_step(0, ("load",))
    for name, lines in RECORDED["elasticsearch-7.10.2"].items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    assert made.end_step(0, ("load",)) == {"query": 1, "fetch": 1, "index": 1}
    assert made.end()["files"] == []


def test_of_clusters_elsewhere_nothing_is_counted_and_it_is_said_where_the_logs_are() -> None:
    cluster = Indices()
    made = device(cluster)
    made.begin()
    assert made.end_step(0, ("search",)) == {}
    assert any("slow logs of the cluster's own nodes" in note for note in made.notes)
