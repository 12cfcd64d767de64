"""The page of several races: what stands side by side, what is folded away, and what is left out of it."""

from __future__ import annotations

import base64
import math
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from html_pages import READS, loads, second, text_of
from races import golden_race, keep, task_of, with_task

from esbench.cli.main import run
from esbench.comparison.model import Side
from esbench.comparison.resolve import SideResolver
from esbench.errors import UsageError
from esbench.features.pages.races import MOST_BYTES, races_page
from esbench.record.model import Check, ErrorKind, RaceRecord, Session
from esbench.record.series import SecondLine, Series
from esbench.record.sessions import RaceSession, SessionRace, SessionSide, SessionStore
from esbench.record.store import RaceStore

pytestmark = pytest.mark.computed


def raced(race_id: str, ops_per_s: float = 1000.0, **changes: object) -> RaceRecord:
    """A race without problems of an open and a closed task."""
    record = golden_race(race_id=race_id, **changes)
    tasks = tuple(
        replace(task, checks=(), errors=0, error_kinds={}, error_rate_ratio=0.0)
        for task in record.tasks
        if task.name in ("get-by-id", READS)
    )
    reads = task_of(record, READS).throughput
    return with_task(replace(record, tasks=tasks), READS, throughput=replace(reads, mean=ops_per_s))


def series_of(record: RaceRecord) -> tuple[Iterable[SecondLine], Sequence[Series]]:
    return [second(number, 1, 2, 3) for number in range(5)], ()


def alone(record: RaceRecord) -> Side:
    return Side(record.race_id, (record,))


def page_of(*sides: Side, most_bytes: int = 1_000_000) -> str:
    return races_page(sides, series_of, most_bytes=most_bytes)


def row(page: str, task: str, metric: str) -> str:
    """What stands beside a metric of a task where races stand side by side."""
    table = text_of(page).split("Side by side")[1].split("Both axes")[0]
    of_task = table.split(f" {task} ", 1)[1]
    return of_task.split(metric, 1)[1].strip()


def test_single_races_stand_side_by_side_with_a_column_each() -> None:
    page = page_of(alone(raced("a", 1000.0)), alone(raced("b", 1250.0)))
    assert row(page, READS, "Mean throughput, ops/s").startswith("1000 1250 p50 latency, ms")
    assert "±" not in text_of(page)


def test_rounds_have_a_column_with_their_mean_and_spread_before_their_own() -> None:
    rounds = Side("replicas-0", (raced("a", 900.0), raced("b", 1100.0)), "s")
    page = page_of(rounds, alone(raced("c", 1250.0)))
    assert row(page, READS, "Mean throughput, ops/s").startswith("1000 ± 14.1% 900.0 1100 1250")
    said = text_of(page)
    assert "replicas-0 (2 races) race 1 race 2 race 3" in said
    assert "All figures of replicas-0" in said
    assert "replicas-0, round 2" in said


def test_a_percentile_beyond_what_was_measured_is_above_it_and_gives_rounds_no_mean() -> None:
    latency_ms = task_of(raced("a"), READS).latency_ms or {}
    beyond = with_task(raced("b"), READS, latency_ms={**latency_ms, "p99": math.inf, "max": 70.0})
    page = page_of(Side("side", (raced("a"), beyond), "s"), alone(raced("c")))
    assert row(page, READS, "p99 latency, ms").startswith("- 31.00 &gt; 70.00 31.00")


def test_a_task_that_a_race_does_not_have_has_no_figure_there() -> None:
    short = raced("b")
    short = replace(short, tasks=tuple(task for task in short.tasks if task.name != READS))
    assert row(page_of(alone(raced("a")), alone(short)), READS, "Mean throughput, ops/s").startswith("1000 -")


def test_figures_that_must_not_be_used_are_marked() -> None:
    bad = with_task(raced("b"), READS, checks=(Check("target-rate", "unusable", "half of it"),))
    assert row(page_of(alone(raced("a")), alone(bad)), READS, "Mean throughput, ops/s").startswith("1000 ! 1000")


def test_error_rates_are_shown_where_requests_failed() -> None:
    failing = with_task(raced("b"), READS, errors=7, error_kinds={"timeout": ErrorKind(7, "")}, error_rate_ratio=0.01)
    assert row(page_of(alone(raced("a")), alone(failing)), READS, "error rate, %").startswith("0 1")
    assert "error rate" not in text_of(page_of(alone(raced("a")), alone(raced("b")))).split("Each race")[0]


def test_races_of_which_the_same_is_to_be_said_are_told_together() -> None:
    failed = raced("c", status="failed", failure="the node is gone")
    said = text_of(page_of(alone(raced("a")), alone(failed), alone(raced("b"))))
    assert "Races 1, 3: The race is complete. · The one target rate was reached. · No request failed." in said
    assert "Race 2: The race failed. the node is gone" in said


def test_what_differs_between_races_is_a_table_and_the_rest_a_line() -> None:
    ours, theirs = ({"number_of_replicas": replicas, "clients": 8} for replicas in (0, 1))
    said = text_of(page_of(alone(raced("a", track_params=ours)), alone(raced("b", track_params=theirs))))
    races, same = said.split("Side by side")[0].split("The same in all of them:")
    assert "parameter number_of_replicas" in races
    assert "parameter clients" not in races
    assert "parameter clients 8" in same


def test_names_of_sides_races_and_parameters_are_text_and_no_markup() -> None:
    name = "<i>a</i>"
    side = Side(name, (raced(name), raced("b", track_params={name: name})), "s")
    page = page_of(side, alone(raced("c", status="failed", failure=name)))
    assert name not in page
    assert page.count("&lt;i&gt;a&lt;/i&gt;") > 6


def test_each_race_is_folded_away_with_its_charts_packed() -> None:
    page = page_of(alone(raced("a")), alone(raced("b")))
    assert [*re.findall(r'<details id="(.*?)"', page)] == ["race-1", "race-2"]
    packed = re.findall(r'<script type="text/plain" class="packed">(.*?)</script>', page)
    assert len(packed) == 2
    assert "embed_items" in zlib.decompress(base64.b64decode(packed[0])).decode()
    ids = re.findall(r'id="(.*?)"', page)
    assert len(ids) == len(set(ids))
    assert loads(page) == []


def test_charts_for_which_there_is_no_room_are_left_out_and_the_page_says_how_to_get_them() -> None:
    page = page_of(alone(raced("a")), alone(raced("b")), most_bytes=0)
    assert 'class="packed"' not in page
    assert "no charts over time of the races 1, 2: esbench report a --html=FILE draws those of one race" in page
    assert 'href="#race-1-task-0"' not in page
    assert 'href="#race-1"' in page


def test_a_page_of_six_races_is_below_three_megabytes_whatever_they_measured() -> None:
    two, three = (len(page_of(*map(alone, map(raced, names)), most_bytes=0)) for names in ("ab", "abc"))
    assert two + 4 * (three - two) + MOST_BYTES < 3_000_000


@pytest.fixture
def home(esbench_home: Path) -> Path:
    """A duel of which a race is still to come, three rounds of one thing, and a race of its own."""
    for session, kind, names in (("duel", "duel", ("ours", "theirs")), ("thrice", "rounds", ("race",))):
        plan = []
        for number in range(1, 4):
            name = names[number % len(names)]
            place = Session(session, kind, name, number, number, number)
            keep(esbench_home, raced(f"{session}-{number}", session=place, started_at=f"2026-11-21T1{number}:00:00Z"))
            plan.append(SessionRace(name, number, number, f"{session}-{number}", "complete"))
        if kind == "duel":
            plan.append(SessionRace(names[0], 4, 4))
        sides = tuple(SessionSide(name) for name in names)
        SessionStore(esbench_home).save(RaceSession(session, kind, "2026-11-21T09:00:00Z", 1, (), sides, tuple(plan)))
    keep(esbench_home, raced("alone", started_at="2026-11-22T10:00:00Z"))
    return esbench_home


def reported(home: Path, texts: Sequence[str]) -> tuple[Side, ...]:
    return SideResolver(RaceStore(home), SessionStore(home)).reported(texts)


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["alone"], {"alone": ["alone"]}),
        (["last", "thrice-1"], {"alone": ["alone"], "thrice-1": ["thrice-1"]}),
        (["thrice"], {"thrice": ["thrice-1", "thrice-2", "thrice-3"]}),
        (["duel"], {"ours": ["duel-2"], "theirs": ["duel-1", "duel-3"]}),
        (["duel:theirs"], {"duel:theirs": ["duel-1", "duel-3"]}),
        (["duel-1", "duel:ours"], {"duel-1": ["duel-1"], "duel-2": ["duel-2"]}),
        (["alone,thrice-3"], {"alone,thrice-3": ["thrice-3", "alone"]}),
    ],
)
def test_a_side_is_what_was_typed_and_a_session_each_of_its_own(
    home: Path, texts: list[str], found: dict[str, list[str]]
) -> None:
    sides = reported(home, texts)
    assert {side.name: [record.race_id for record in side.records] for side in sides} == found


def test_sides_of_the_same_name_are_told_apart_by_their_sessions(home: Path) -> None:
    again = replace(SessionStore(home).load("duel"), id="again")
    again = replace(again, plan=(SessionRace("ours", 1, 1, "again-1", "complete"),))
    keep(home, raced("again-1", session=Session("again", "duel", "ours", 1, 1, 1)))
    SessionStore(home).save(again)
    names = [side.name for side in reported(home, ["duel", "again"])]
    assert names == ["duel:ours", "theirs", "again:ours"]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["alone", "last"], "race alone is named twice"),
        (["nothing"], 'there is no race "nothing"'),
        ([","], "no race is named"),
        ([""], "no race is named"),
        (["duel:their"], "duel:their: session duel has no side"),
        (["tag:a"], '"tag:a" is not tag:NAME:VALUE'),
    ],
)
def test_what_cannot_be_shown_is_said_about_the_word_that_was_typed(home: Path, texts: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        reported(home, texts)
    assert said in str(caught.value)
    assert "--baseline" not in str(caught.value)


def test_a_report_of_a_session_says_what_is_still_to_come(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    assert run(["report", "duel", "alone", "--html", str(file)]) == 0
    said = text_of(file.read_text())
    assert "1 of the 4 races of session duel are not complete, and not shown" in said
    assert "ours" in said and "theirs (2 races)" in said and "race 4" in said


@pytest.mark.parametrize("names", [("alone", "last"), ("duel-1", "duel-1,")], ids=["alone", "of a session"])
def test_a_report_of_one_race_is_its_page_whatever_it_was_named_by(
    home: Path, tmp_path: Path, names: tuple[str, str]
) -> None:
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for file, text in zip(pages, names, strict=True):
        assert run(["report", text, "--html", str(file)]) == 0
    assert text_of(pages[0].read_text()) == text_of(pages[1].read_text())
    assert "Side by side" not in pages[0].read_text()
