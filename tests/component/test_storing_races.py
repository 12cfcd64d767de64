"""Storing races over real sockets: what a cluster refuses, in one line each, and a race whose store fails."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from metrics_store import REJECTED, Replies, items
from races import golden_race, keep
from racing import Races
from raw_server import RawServer, Reply, serve

from esbench.cli.main import run
from esbench.cluster.client import Cluster
from esbench.errors import ClusterError
from esbench.features.publish.elasticsearch.bulk import send

RACE = "20261121t101530-4f2a"
ACTIONS = [b'{"create":{"_id":"%d"}}\n{}\n' % number for number in range(2)]
BUSY: Reply = (429, {"error": REJECTED, "status": 429})


@pytest.fixture
def replies() -> Replies:
    return Replies()


@pytest.fixture
def metrics(replies: Replies) -> Iterator[RawServer]:
    with serve(replies) as server:
        replies.server = server
        yield server


def sent(server: RawServer, pause: Callable[[float], None] = lambda pause_s: None) -> dict[int, int]:
    with Cluster([server.url]) as cluster:
        return dict(send(cluster, "/x/_bulk", ACTIONS, fine=(201, 409), pause=pause))


def bulk_bodies(server: RawServer) -> list[bytes]:
    return [asked.body for asked in server.requests if asked.target.endswith("/_bulk")]


def test_what_a_cluster_is_too_busy_for_is_sent_again_after_longer_pauses(metrics: RawServer, replies: Replies) -> None:
    replies.bulks = [BUSY, items(429, 201), (429, "429 Too Many Requests"), items(201)]
    pauses: list[float] = []
    assert sent(metrics, pauses.append) == {201: 2}
    assert pauses == [0.5, 1.0, 2.0]
    assert bulk_bodies(metrics) == [b"".join(ACTIONS)] * 2 + [ACTIONS[0]] * 2


def test_what_stays_refused_is_an_error_with_its_reason(metrics: RawServer, replies: Replies) -> None:
    replies.bulks = [BUSY] * 6
    with pytest.raises(ClusterError) as caught:
        sent(metrics)
    assert str(caught.value) == (
        "POST /x/_bulk: 2 of 2 documents were refused: HTTP 429 es_rejected_execution_exception: queue capacity 200"
    )
    assert len(bulk_bodies(metrics)) == 6


def test_a_document_that_is_there_already_is_fine(metrics: RawServer, replies: Replies) -> None:
    replies.bulks = [items(409, 201)]
    assert sent(metrics) == {409: 1, 201: 1}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            items(201, 400, error={"type": "mapper_parsing_exception", "reason": "failed to parse"}),
            "POST /x/_bulk: 1 of 2 documents were refused: HTTP 400 mapper_parsing_exception: failed to parse",
        ),
        ((500, {"error": {"type": "x", "reason": "disk is gone"}}), "POST /x/_bulk: HTTP 500 x: disk is gone"),
    ],
)
def test_other_refusals_are_told_at_once(metrics: RawServer, replies: Replies, reply: Reply, message: str) -> None:
    replies.bulks = [reply]
    with pytest.raises(ClusterError) as caught:
        sent(metrics)
    assert str(caught.value) == message


@pytest.fixture
def kept_race(esbench_home: Path) -> str:
    keep(esbench_home, golden_race(race_id=RACE))
    return RACE


def test_the_command_says_what_it_stored(
    metrics: RawServer, kept_race: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["store", "last", RACE, f"--store-hosts={metrics.url}", "--format=json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"race_id": RACE, "documents": 15, "created": 15, "already_there": 0, "removed": 0}
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([RACE], 2, "--store-hosts: where to? (esbench store 20261121t101530-4f2a --store-hosts=10.0.0.1:9200)"),
        ([RACE, "--store-hosts=es:x"], 2, '--store-hosts: "es:x" is not a host'),
        ([RACE, "--store-hosts=URL", "--store-options=usr:x"], 2, '--store-options: unknown client option "usr"'),
        ([RACE, "--store-hosts=URL", "--store-prefix=A"], 2, '--store-prefix: no index can be called "A-races"'),
        (["nobody", "--store-hosts=URL"], 2, 'there is no race "nobody"'),
        ([RACE, "--store-hosts=CLOSED"], 1, "connection refused (is the cluster running? check --store-hosts)"),
    ],
)
def test_what_is_wrong_is_one_line(
    metrics: RawServer,
    unused_url: str,
    kept_race: str,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    given = [each.replace("URL", metrics.url).replace("CLOSED", unused_url) for each in arguments]
    assert run(["store", *given]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert bulk_bodies(metrics) == []


def test_a_wrong_password_of_the_store_is_not_repeated(
    metrics: RawServer, replies: Replies, kept_race: str, capsys: pytest.CaptureFixture[str]
) -> None:
    replies["GET /"] = (401, {"error": {"type": "security_exception", "reason": "no"}})
    host = metrics.url.replace("http://", "http://eve:x1y2z3@")
    assert run(["store", RACE, f"--store-hosts={host}"]) == 1
    said = capsys.readouterr().err
    assert "wrong user or password (user eve)" in said
    assert "x1y2z3" not in said
    assert "--client-options" not in said


def test_a_race_does_not_begin_when_it_cannot_be_stored(
    unused_url: str, null_server: NullServerFactory, tmp_path: Path
) -> None:
    races, server = Races(tmp_path), null_server()
    outcome = races.run(server, f"--store-hosts={unused_url}")
    assert outcome.code == 1
    assert outcome.error.endswith("connection refused (is the cluster running? check --store-hosts)")
    assert server.counts().requests == 0
    assert not races.home.exists() or not (races.home / "races").exists()


def test_a_race_whose_store_fails_is_printed_kept_and_stored_later(
    metrics: RawServer, replies: Replies, null_server: NullServerFactory, tmp_path: Path
) -> None:
    replies.bulks = [(500, {"error": {"type": "x", "reason": "disk is gone"}})]
    races = Races(tmp_path)
    outcome = races.run(null_server(), "--race-id=nightly", f"--store-hosts={metrics.url}", "--quiet")
    assert outcome.code == 1
    assert "Per second" in outcome.stdout
    assert "race nightly was not stored" in outcome.error
    assert "disk is gone" in outcome.error
    assert "esbench store nightly --store-hosts=..." in outcome.stderr
    assert races.record().status == "complete"

    printed = json.loads(races.ask("store", "last", f"--store-hosts={metrics.url}", "--format=json"))
    documents = sum(len(body.splitlines()) // 2 for body in bulk_bodies(metrics)[1:])
    assert printed[0]["documents"] == printed[0]["created"] == documents
    assert documents > len(races.series("nightly")) + len(races.record().tasks)


def test_a_store_that_accepts_and_does_not_answer_is_an_error_after_seconds(
    esbench_home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        assert run(["race", "--track=orders", f"--store-hosts={host}"]) == 1
    waiting, error = capfd.readouterr().err.splitlines()
    assert waiting == f"waiting for --store-hosts={host}"
    assert error.startswith(f"esbench: --store-hosts: {host}: no answer within 5 s")


@pytest.mark.parametrize("command", [["race"], ["duel", "--baseline=", "--contender="]])
def test_an_empty_store_is_an_error_and_not_a_race_that_nobody_stores(
    command: list[str], esbench_home: Path, unused_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--track=orders", f"--target-hosts={unused_url}", "--store-hosts="]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("esbench: --store-hosts: no host given")


def test_a_cluster_to_make_a_track_of_that_does_not_answer_is_an_error_after_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        assert (
            run(["create-track", "--track=x", "--indices=a", f"--target-hosts={host}", f"--output-path={tmp_path}"])
            == 1
        )
    assert f"{host}: no answer within 5 s" in capfd.readouterr().err
