"""Annotations reach Grafana's API, or cost the race one warning."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from racing import Races
from raw_server import SILENCE, RawServer, reply, serve

from esbench.errors import UsageError
from esbench.features.publish.grafana import TOKEN, Annotations, parse_grafana
from esbench.null_server import NullServer
from esbench.record.model import RaceRecord, SlicePlan
from esbench.record.store import decode_record

GOLDEN = Path(__file__).parents[1] / "golden" / "race-schema-3.json"
MADE = {"message": "Annotation added", "id": 7}
GRAFANA = {
    "POST /api/annotations": (200, MADE),
    "PATCH /api/annotations/7": (200, {"message": "Annotation patched"}),
}
RECORD = decode_record(GOLDEN.read_bytes())
RESULT = RECORD.tasks[-1]


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def follow_a_race(annotations: Annotations, clock: Clock, record: RaceRecord = RECORD) -> None:
    """A race of ten seconds whose only task begins after two."""
    annotations.race_begins(record, [])
    clock.now_s = 1_002.0
    annotations.step_runs(RESULT.step, {RESULT.name: "ops"})
    clock.now_s = 1_010.0
    annotations.task_ended(RESULT)
    annotations.race_ended(record)


def annotate(url: str, token: str = "") -> list[str]:
    """The warnings of a race that is annotated there."""
    warnings: list[str] = []
    clock = Clock()
    with Annotations(parse_grafana(url, token), warnings.append, now=clock) as annotations:
        follow_a_race(annotations, clock)
    return warnings


def sent(server: RawServer) -> list[tuple[str, str, dict[str, Any]]]:
    return [(asked.method, asked.target, json.loads(asked.body)) for asked in server.requests]


def test_the_annotations_of_a_side_have_its_name() -> None:
    clock = Clock()
    with serve(GRAFANA) as server, Annotations(parse_grafana(server.url), print, now=clock, side="contender") as side:
        follow_a_race(side, clock)
    told = [body for _, _, body in sent(server)]
    assert all(body["text"].startswith("contender: ") and "side:contender" in body["tags"] for body in told)


def test_a_race_and_its_tasks_are_regions_from_their_begin_to_their_end() -> None:
    with serve(GRAFANA) as server:
        assert annotate(server.url) == []
    (race, task, task_end, race_end) = sent(server)
    race_tags = ["esbench", f"race:{RECORD.race_id}", f"track:{RECORD.track.name}"]
    assert race[:2] == ("POST", "/api/annotations")
    assert (race[2]["time"], "timeEnd" in race[2]) == (1_000_000, False)
    assert {*race_tags, "race"} <= set(race[2]["tags"])
    assert (task[2]["time"], task[2]["text"]) == (1_002_000, f"task {RESULT.name}")
    assert {*race_tags, "task", f"task:{RESULT.name}"} <= set(task[2]["tags"])
    begun_ms = round((1_002 + RESULT.start_s) * 1000)
    assert task_end[:2] == ("PATCH", "/api/annotations/7")
    assert (task_end[2]["time"], task_end[2]["timeEnd"]) == (begun_ms, round(begun_ms + RESULT.duration_s * 1000))
    assert f"{RESULT.requests:,} requests" in task_end[2]["text"]
    assert race_end[0] == "PATCH"
    assert race_end[2]["timeEnd"] == 1_010_000
    assert race_end[2]["text"].endswith(RECORD.status)


def test_a_task_in_slices_ends_with_its_last_slice() -> None:
    slices = SlicePlan(length_s=1.0, gap_s=0.5, settle_s=0.1, sides=1, side=0, seed=1)
    result = replace(RESULT, start_s=0.5, duration_s=2.0, slices=slices)
    with serve(GRAFANA) as server, Annotations(parse_grafana(server.url), print, now=Clock()) as annotations:
        annotations.step_runs(result.step, {result.name: "ops"})
        annotations.task_ended(result)
    ended = sent(server)[-1][2]
    assert (ended["time"], ended["timeEnd"]) == (1_000_500, 1_003_000)


def test_what_could_not_begin_there_is_made_whole_at_its_end() -> None:
    answers = iter([reply("{}", "503 Service Unavailable")] * 2 + [reply(json.dumps(MADE))] * 2)
    with RawServer(lambda number, request: [next(answers)]) as server:
        warnings = annotate(server.url)
    assert [request.line for request in server.requests] == ["POST /api/annotations"] * 4
    assert b'"timeEnd"' in server.requests[-1].body
    (warning,) = warnings
    assert "status 503" in warning


@pytest.mark.parametrize(
    ("given", "token", "authorization"),
    [
        ("http://", "glsa_abc", "Bearer glsa_abc"),
        ("http://admin:p%40ss@", "", "Basic YWRtaW46cEBzcw=="),
        ("http://", "", None),
    ],
)
def test_credentials_come_from_the_environment_or_the_url(given: str, token: str, authorization: str | None) -> None:
    with serve(GRAFANA) as server:
        assert annotate(f"{given}127.0.0.1:{server.port}/", token) == []
    assert {asked.headers.get("Authorization") for asked in server.requests} == {authorization}


def test_refusals_are_told_once_without_secrets() -> None:
    with serve({"POST /api/annotations": (401, {"message": "Invalid API key"})}) as server:
        warnings = annotate(f"http://admin:hunter22@127.0.0.1:{server.port}")
    (warning,) = warnings
    assert "status 401 (a service account's token belongs into ESBENCH_ANNOTATE_TOKEN)" in warning
    assert "hunter22" not in warning


def test_a_race_is_annotated_and_keeps_no_token(
    server: NullServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, "glsa_hidden")
    races = Races(tmp_path)
    with serve(GRAFANA) as grafana:
        outcome = races.run(server, "--include-tasks=closed", f"--annotate={grafana.url}")
    assert outcome.code == 0, outcome.stderr
    assert [body["text"].partition(":")[0] for _, _, body in sent(grafana)] == [
        "race of shop, default",
        "task closed",
        "task closed",
        "race of shop, default",
    ]
    assert {asked.headers["Authorization"] for asked in grafana.requests} == {"Bearer glsa_hidden"}
    kept = [path.read_bytes() for path in races.home.rglob("*") if path.is_file()]
    assert not any(b"glsa_hidden" in content for content in kept)
    assert "glsa_hidden" not in outcome.stdout + outcome.stderr


def test_a_server_that_is_not_grafana_is_told() -> None:
    with serve({"POST /api/annotations": (200, "hello")}) as server:
        assert "is this Grafana's URL?" in annotate(server.url)[0]


def test_nobody_there_is_one_warning(unused_url: str) -> None:
    begin = time.monotonic()
    warnings = annotate(unused_url)
    assert "connection refused" in warnings[0]
    assert time.monotonic() - begin < 5


def test_a_server_that_hangs_holds_nobody_up() -> None:
    with RawServer(lambda number, request: [SILENCE]) as server:
        begin = time.monotonic()
        warnings = annotate(server.url)
        assert 1 < time.monotonic() - begin < 4
        assert warnings == [f"annotations are missing at {server.url}: it takes too long"]


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://grafana.local:3000/", "http://grafana.local:3000"),
        ("https://example.org/grafana/api/annotations", "https://example.org/grafana"),
        ("http://user:secret@[::1]:3000", "http://[::1]:3000"),
    ],
)
def test_the_url_is_that_of_grafana_itself(given: str, url: str) -> None:
    grafana = parse_grafana(given)
    assert grafana.url == url
    assert "secret" not in repr(grafana)


@pytest.mark.parametrize(
    "make",
    [
        lambda: parse_grafana("grafana.local:3000"),
        lambda: parse_grafana("ftp://secret@grafana"),
        lambda: parse_grafana("http://:secret@"),
        lambda: parse_grafana("http://grafana:secret/"),
        lambda: parse_grafana("http://grafana/?token=secret"),
        lambda: parse_grafana("http://a:secret@grafana", "token"),
        lambda: parse_grafana("http://grafana", "secret\n"),
        lambda: parse_grafana("http://me:secret/secret@grafana"),
        lambda: parse_grafana("http://me:12/secret@grafana"),
        lambda: parse_grafana("http://me:12#secret@grafana"),
        lambda: parse_grafana("http://me:12?secret@grafana"),
        lambda: parse_grafana("http://me:12[secret@grafana"),
    ],
)
def test_what_cannot_be_used_is_told_without_repeating_it(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize("password", ["a,b", "a@b", "a b", "100%"])
def test_a_password_in_the_url_may_have_odd_characters(password: str) -> None:
    grafana = parse_grafana(f"http://me:{password}@grafana:3000")
    assert (grafana.url, grafana.secrets[0]) == ("http://grafana:3000", password)
