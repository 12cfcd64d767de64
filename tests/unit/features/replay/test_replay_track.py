"""A log becomes a track: order, times, shapes, indices, dates, and what cannot be sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from esbench.cli.main import run
from esbench.features.replay import spool as spooling
from esbench.features.replay.dates import DateShift
from esbench.features.replay.entries import Entry, Stamp
from esbench.features.replay.spool import Spool, arrival_us
from esbench.features.replay.targets import IndexMap

BEGIN = datetime(2026, 11, 20, 9, tzinfo=UTC)
TERM = {"query": {"term": {"status": 1}}}


def line(at_s: float, path: str = "/orders/_search", **more: object) -> str:
    moment = (BEGIN + timedelta(seconds=at_s)).isoformat(timespec="microseconds")
    return json.dumps({"@timestamp": moment, "method": "POST", "path": path, "body": TERM, **more}) + "\n"


def exported(tmp_path: Path, text: str, *words: str) -> list[tuple[list[float], list[dict[str, object]]]]:
    """The arrivals and requests of each task of the track of a log."""
    log, track = tmp_path / "a.log", tmp_path / "track"
    log.write_text(text)
    assert run(["replay", str(log), f"--export-track={track}", *words]) == 0
    made = json.loads((track / "track.json").read_text())["schedule"][0]
    tasks = made["parallel"]["tasks"] if "parallel" in made else [made]
    found = []
    for task in tasks:
        times = (track / task["arrivals"]).read_text().split() if "arrivals" in task else []
        requests = (track / task["operation"]["file"]).read_text().splitlines()
        found.append(([*map(float, times)], [*map(json.loads, requests)]))
    return found


def refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    log = tmp_path / "a.log"
    log.write_text(text)
    assert run(["replay", str(log), f"--export-track={tmp_path / 'track'}", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_requests_are_in_order_of_arrival_however_they_were_written(tmp_path: Path) -> None:
    order = [*range(50)]
    Random(3).shuffle(order)
    [(times, requests)] = exported(tmp_path, "".join(line(n / 10, f"/orders/_search?n={n}") for n in order))
    assert times == [n / 10 for n in range(50)]
    assert [request["path"] for request in requests] == [f"/orders/_search?n={n}" for n in range(50)]
    assert json.loads(str(requests[0]["body"])) == TERM


@pytest.mark.parametrize(
    ("words", "times"),
    [
        ((), [0, 1, 4, 9]),
        (("--speed=2",), [0, 0.5, 2, 4.5]),
        (("--duration=4s",), [0, 1]),
        (("--from=2026-11-20T09:00:00.5",), [0.5, 3.5, 8.5]),
        (("--from=2026-11-20T09:00:01", "--duration=4s"), [0, 3]),
        (("--longest-gap=2s",), [0, 1, 3, 5]),
        (("--longest-gap=2s", "--speed=2"), [0, 0.5, 1.5, 2.5]),
        (("--speed=max",), []),
    ],
)
def test_times_are_those_of_the_log_as_the_options_change_them(
    tmp_path: Path, words: Sequence[str], times: Sequence[float]
) -> None:
    [(found, requests)] = exported(tmp_path, "".join(map(line, (0, 1, 4, 9))), *words)
    assert found == pytest.approx(times)
    assert len(requests) == (len(times) or 4)


def test_frequent_shapes_are_tasks_and_the_rest_is_one(tmp_path: Path) -> None:
    kinds = [f"kind{n}" for n in range(23)]
    text = "".join(line(n, body={"query": {kind: {"a": 1}}}) for n, kind in enumerate([*kinds, *kinds[:20]]))
    tasks = exported(tmp_path, text)
    assert [len(requests) for _, requests in tasks] == [*[2] * 20, 3]
    made = json.loads((tmp_path / "track" / "track.json").read_text())["schedule"][0]["parallel"]["tasks"]
    assert made[0]["name"] == "kind0 on orders"
    assert made[-1]["name"] == "other shapes"


def test_at_most_speed_all_searches_are_one_task_whose_requests_have_the_names_of_their_shapes(tmp_path: Path) -> None:
    text = line(0) + line(1, "/orders/_count") + line(2)
    [(_, requests)] = exported(tmp_path, text, "--speed=max")
    assert [request["name"] for request in requests] == ["term on orders", "count term on orders", "term on orders"]


def test_names_from_a_log_are_no_templates(tmp_path: Path) -> None:
    exported(tmp_path, line(0, body={"query": {"{{ 7 * 7 }}": {}}}) + line(1, "/{%x%}/_search"))
    assert run(["info", f"--track-path={tmp_path / 'track'}"]) == 0


def test_the_track_keeps_what_the_log_says_of_replies_and_the_account(tmp_path: Path) -> None:
    text = line(0, took_ms=2, hits=4) + line(1, took_ms=4, hits=6) + line(2, "/orders/_bulk", body=None) + "cut\n"
    exported(tmp_path, text, "--skip-bad-lines")
    track = json.loads((tmp_path / "track" / "track.json").read_text())
    assert track["meta"]["replay"] == {"to be sent": 2, "left out: writes": 1, "not parsable": 1}
    recorded = track["schedule"][0]["meta"]["recorded"]
    assert (recorded["requests"], recorded["took_mean_ms"], recorded["hits_mean"]) == (2, 3.0, 5.0)
    assert recorded["took_deviation_ms"] == pytest.approx(1.0, rel=0.01)


def test_indices_are_mapped_in_paths_and_bodies() -> None:
    mapped = IndexMap.of(["logs-*:logs", "a:b,c:d"])
    stamp = Stamp(0.0, 1.0)

    def path(text: str) -> str:
        return mapped.entry(Entry(stamp, "GET", text)).path

    assert path("/logs-1,logs-2,x/_search?routing=logs-1") == "/logs,x/_search?routing=logs-1"
    assert path("/a/_doc/a") == "/b/_doc/a"
    assert path("/_search") == "/_search"
    assert path("/logs-*/_search") == "/logs/_search"
    lines = [{"index": "a"}, {"query": {"index": "a"}}, {"index": ["c", "x"]}, {}]
    body = mapped.entry(Entry(stamp, "POST", "/_msearch", lines)).body
    assert body == [{"index": "b"}, {"query": {"index": "a"}}, {"index": ["d", "x"]}, {}]
    docs = mapped.entry(Entry(stamp, "POST", "/_mget", {"docs": [{"_index": "a", "_id": "1"}]})).body
    assert docs == {"docs": [{"_index": "b", "_id": "1"}]}
    assert mapped.names == {"logs", "x", "b", "d"}


def test_dates_of_fields_move_and_relative_ones_stay() -> None:
    shift = DateShift({"created"}, 8)
    body = {
        "query": {
            "bool": {
                "filter": [
                    {"range": {"created": {"gte": "2026-11-20", "lt": "2026-11-20T10:00:00Z", "boost": 1}}},
                    {"range": {"created": {"gte": "now-1d", "lt": 1770931952020}}},
                    {"range": {"updated": {"gte": "2026-11-20"}}},
                ]
            }
        },
        "aggs": {"d": {"date_range": {"field": "created", "ranges": [{"from": "2026-11-20||/d"}]}}},
    }
    moved = json.loads(shift.text(json.dumps(body)))
    first, second, third = (each["range"] for each in moved["query"]["bool"]["filter"])
    assert first == {"created": {"gte": "2026-11-28", "lt": "2026-11-28T10:00:00Z", "boost": 1}}
    assert second == {"created": {"gte": "now-1d", "lt": 1770931952020 + 8 * 86_400_000}}
    assert third == {"updated": {"gte": "2026-11-20"}}
    assert moved["aggs"]["d"]["date_range"]["ranges"] == [{"from": "2026-11-28||/d"}]
    assert shift.moved == 4


def test_a_spool_sorts_more_than_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooling, "_MOST_LINES", 10)
    monkeypatch.setattr(spooling, "_MOST_PARTS", 4)
    spool = Spool(tmp_path)
    order = [*range(137)]
    Random(1).shuffle(order)
    for number in order:
        spool.add(number, "0" * 16, Entry(Stamp(number, 1.0), "GET", f"/a/_search?{number}"))
    assert len(list(tmp_path.iterdir())) <= 4
    for _ in range(2):
        assert [arrival_us(found) // 1_000_000 for found in spool] == list(range(137))


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("", (), "the file is empty"),
        ("hello\nworld\n", (), "it is not a log that esbench recognises"),
        (line(0) + line(1)[:60] + "\n", (), "1 of 2 lines cannot be read"),
        (line(0, "/orders/_bulk"), (), "no search can be sent again: writes (1)"),
        (line(0, hashed=True), (), "no search can be sent again: hashed literals match nothing (1)"),
        (
            '{"timestamp":1770931952020,"indices":["b"],"source":{},"measurements":{"latency":{"number":12}}}\n',
            (),
            "no search can be sent again: Query Insights has the top N only (1)",
        ),
        (line(0) + line(31_536_000), (), "the log has no search for 87"),
        (line(0), ("--from=2027-01-01",), "no search is left to send"),
        (line(0), ("--from=noon",), "--from=noon: is not a time"),
        (line(0), ("--speed=0",), "--speed=0: is not a number above 0, or max"),
        (line(0), ("--duration=long",), "--duration"),
        (line(0), ("--shift-dates=created",), "no date is at these fields"),
        (line(0), ("--index-map=orders",), "is not PATTERN:NAME"),
        (line(0), ("--hash-values",), "hashed searches match nothing"),
        (line(0), ("--inspect",), "--inspect sends nothing"),
        (line(0), ("--target-hosts=localhost:9200",), "--export-track sends nothing"),
    ],
)
def test_what_cannot_be_sent_is_one_line(
    tmp_path: Path, text: str, words: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(tmp_path, text, capsys, *words)


def test_a_folder_with_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "track").mkdir()
    (tmp_path / "track" / "mine").touch()
    assert "there is something already" in refused(tmp_path, line(0), capsys)


@pytest.mark.parametrize(
    ("took_ms", "words", "clients"), [(1, (), 20), (50, (), 200), (1000, (), 256), (1, ("--clients=3",), 3)]
)
def test_clients_are_enough_for_the_fullest_second(
    tmp_path: Path, took_ms: int, words: Sequence[str], clients: int
) -> None:
    exported(tmp_path, "".join(line(n / 1000, took_ms=took_ms) for n in range(1000)), *words)
    task = json.loads((tmp_path / "track" / "track.json").read_text())["schedule"][0]
    assert task["clients"] == clients
