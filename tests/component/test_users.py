"""Users as a track describes them, by what arrives at a server that remembers all requests."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from driver import Driver
from raw_server import Action, RawServer, Request, reply
from track_files import load, write_track

from esbench.record.model import TaskResult

pytestmark = pytest.mark.alone

Answered = Callable[[Request], Sequence[Action]]


@dataclass
class Users:
    """Races the only task of a track, and has what arrived: the targets, and when, by connection."""

    driver: Driver
    folder: Path
    answered: Answered = lambda request: [reply()]
    targets: list[str] = field(default_factory=list)
    by_connection: dict[int, list[tuple[str, float]]] = field(default_factory=dict)

    def race(self, text: str, **files: str) -> TaskResult:
        def answer(number: int, request: Request) -> Sequence[Action]:
            self.targets.append(request.target)
            self.by_connection.setdefault(request.connection, []).append((request.target, time.monotonic()))
            return self.answered(request)

        task = load(write_track(self.folder, text, **files)).challenges[0].tasks[0]
        with RawServer(answer) as server:
            return self.driver.run(server.url, task)

    @property
    def gaps_s(self) -> list[float]:
        """The time between two requests of a client, of all clients."""
        return [after - before for seen in self.by_connection.values() for (_, before), (_, after) in pairwise(seen)]


@pytest.fixture
def users(driver: Driver, tmp_path: Path) -> Users:
    return Users(driver, tmp_path)


# think times


def thinking(think_time: str, requests: int) -> str:
    operation = '{operation-type: raw-request, path: "/x"}'
    return f"schedule: [{{operation: {operation}, clients: 4, requests: {requests}, think-time: {think_time}}}]"


def test_a_think_time_from_a_range_is_drawn_for_each_request(users: Users) -> None:
    result = users.race(thinking("{from: 10ms, to: 90ms}", 120))
    gaps_s = sorted(users.gaps_s)
    assert len(users.targets) == 120
    assert gaps_s[0] >= 0.0099
    assert gaps_s[len(gaps_s) * 9 // 10] < 0.12
    assert 0.04 < statistics.mean(gaps_s) < 0.065
    assert statistics.stdev(gaps_s[: len(gaps_s) * 98 // 100]) > 0.014  # uniform: 23 ms
    assert (result.think_time_s, result.think_spread) == (pytest.approx(0.05), "uniform, 10 ms to 90 ms")


def test_exponential_think_times_are_often_short_and_at_times_long(users: Users) -> None:
    result = users.race(thinking("{mean: 40ms}", 160))
    gaps_s = users.gaps_s
    assert 0.3 < sum(gap < 0.02 for gap in gaps_s) / len(gaps_s) + 0.08 < 0.6  # 39 % of them are below half the mean
    assert sum(gap > 0.08 for gap in gaps_s) / len(gaps_s) > 0.05  # 13.5 % are above twice the mean
    assert result.think_spread == "exponential"


def test_normal_think_times_lie_around_their_mean(users: Users) -> None:
    users.race(thinking("{mean: 50ms, deviation: 5ms}", 80))
    assert 0.048 < statistics.median(users.gaps_s) < 0.06
    assert min(users.gaps_s) > 0.025


# ramps down


@pytest.mark.parametrize("think_time", ["0", "20ms"])
def test_users_leave_one_after_the_other(users: Users, think_time: str) -> None:
    users.answered = lambda request: [0.01, reply()]
    result = users.race(f"""
schedule:
  - operation: {{operation-type: raw-request, path: "/x"}}
    clients: 5
    think-time: {think_time}
    warmup-time-period: 400ms
    time-period: 600ms
    ramp-down-time-period: 1s
""")
    seen = sorted(users.by_connection.values(), key=lambda requests: requests[-1][1])
    begun_s = min(requests[0][1] for requests in seen)
    left_s = [requests[-1][1] - begun_s for requests in seen]
    assert left_s == pytest.approx([1.2, 1.4, 1.6, 1.8, 2.0], abs=0.12)
    assert result.ramp_down_s == 1.0
    assert (result.window.start_s, result.window.end_s) == (pytest.approx(0.4), pytest.approx(1.0))
    in_window = sum(0.4 <= at - begun_s < 1.0 for requests in seen for _, at in requests)
    assert abs(result.requests - in_window) <= 10  # five in flight at either end
    assert result.requests + result.warmup.requests == len(users.targets)
    assert result.throughput.mean == pytest.approx(in_window / 0.6, rel=0.1)


# rows of a CSV file

NAMES = [f"user {number}" for number in range(60)]
USERS = "".join(f'"{name}",{number * 7}\n' for number, name in enumerate(NAMES))
ROWS = [f"/x?name=user%20{number}&key={number * 7}" for number in range(60)]


def rows(pick: str, keys: str, more: str = "") -> str:
    return f"""
schedule:
  - operation:
      operation-type: raw-request
      path: "/x?name=$[[user.name]]&key=$[[user.key]]"
      variables: [{{name: user, type: csv, path: users.csv, pick: {pick}{more}}}]
    {keys}
"""


@pytest.mark.parametrize("keys", ["clients: 1", "clients: 1\n    time-period: 20"])
def test_rows_are_sent_once_each_in_order(users: Users, keys: str) -> None:
    result = users.race(rows("once", keys), users__csv="name,key\n" + USERS)
    assert users.targets == ROWS
    assert (result.requests, result.errors) == (60, 0)
    assert result.duration_s < 10


@pytest.mark.parametrize(
    "keys", ["clients: 7", "clients: 16\n    time-period: 20", "clients: 7\n    target-throughput: 200"]
)
def test_clients_share_rows_that_are_sent_once(users: Users, keys: str) -> None:
    result = users.race(rows("once", keys, ", columns: [name, key]"), users__csv=USERS)
    assert sorted(users.targets) == sorted(ROWS)
    assert result.requests == 60


def test_rows_begin_again_after_the_last_one(users: Users) -> None:
    users.race(rows("in-order", "requests: 130"), users__csv="name,key\n" + USERS)
    assert users.targets == [*ROWS, *ROWS, *ROWS[:10]]


def test_the_requests_of_a_turn_share_a_row_that_is_sent_once(users: Users) -> None:
    users.race(
        """
schedule:
  - operation:
      operation-type: composite
      variables: [{name: user, type: csv, path: users.csv, pick: once}]
      requests:
        - {name: in, operation-type: raw-request, path: "/in/$[[user.name]]"}
        - {name: out, operation-type: raw-request, path: "/out/$[[user.name]]/$[[user.key]]"}
""",
        users__csv="name,key\na,1\nb,2\nc,3\n",
    )
    assert users.targets == ["/in/a", "/out/a/1", "/in/b", "/out/b/2", "/in/c", "/out/c/3"]


# a step once per client

LOGIN = """
schedule:
  - operation:
      operation-type: http-requests
      variables: [{name: user, type: csv, path: users.csv, pick: in-order}]
      requests:
        - name: in
          once-per-client: true
          path: "/in/$[[user.name]]"
          register: {token: _ctx.response.body_json.token}
        - {name: read, path: "/read/$[[token]]"}
        - {name: write, path: "/write/$[[token]]"}
    clients: 4
    iterations: 9
"""


def test_each_client_logs_in_once_and_uses_what_it_got(users: Users) -> None:
    users.answered = lambda request: [reply(json.dumps({"token": f"t-{request.target.rpartition('/')[2]}"}))]
    result = users.race(LOGIN, users__csv="name\na\nb\nc\nd\n")
    assert (result.requests, result.errors) == (36, 0)
    by_user = sorted([target for target, _ in requests] for requests in users.by_connection.values())
    for name, targets in zip("abcd", by_user, strict=True):
        turns = (len(targets) - 1 + 1) // 2
        assert targets == [f"/in/{name}", *[f"/{each}/t-{name}" for each in ["read", "write"] * turns]][: len(targets)]
    assert {part.name: part.requests for part in result.requests_by_name}["in"] == 4


def test_a_login_that_fails_is_sent_again_in_the_next_turn(users: Users) -> None:
    fails = iter([True, True])

    def answered(request: Request) -> Sequence[Action]:
        failed = request.target.startswith("/in/") and next(fails, False)
        return [reply(b"{}", "503 Busy") if failed else reply(b'{"token": "t"}')]

    users.answered = answered
    result = users.race(LOGIN.replace("clients: 4", "clients: 1"), users__csv="name\na\n")
    assert [target.split("/")[1] for target in users.targets] == [*["in", "read", "write"] * 3]
    assert users.targets[1] == "/read/not_found"
    assert users.targets[7:] == ["/read/t", "/write/t"]
    assert result.errors == 2


# values of a reply's array

ARRAYS = """
schedule:
  - operation:
      operation-type: http-requests
      requests:
        - name: list
          path: /list
          register:
            all: _ctx.response.body_json.hits.*.id
            one: {path: _ctx.response.body_json.hits.*.id, pick: one}
            second: _ctx.response.body_json.hits.1.id
            tags: _ctx.response.body_json.hits.*.tags.*
        - {name: use, method: POST, path: "/one/$[[one]]/$[[second]]", body: '{"ids": $[[all]], "tags": $[[tags]]}'}
    iterations: 200
"""
HITS = [{"id": f"a{number}", "tags": [number, -number]} for number in range(5)]


def test_later_requests_use_all_or_one_of_the_values_of_an_array(users: Users) -> None:
    bodies: list[Any] = []

    def answered(request: Request) -> Sequence[Action]:
        if request.method == "POST":
            bodies.append(json.loads(request.body))
        return [reply(json.dumps({"hits": HITS}))]

    users.answered = answered
    result = users.race(ARRAYS)
    assert (result.requests, result.errors) == (200, 0)
    tags = [0, 0, 1, -1, 2, -2, 3, -3, 4, -4]
    assert bodies == [{"ids": [each["id"] for each in HITS], "tags": tags}] * 100
    _, drawn, second = zip(*(target.lstrip("/").split("/") for target in users.targets[1::2]), strict=True)
    assert set(second) == {"a1"}
    assert all(8 <= drawn.count(each["id"]) <= 34 for each in HITS)


def test_an_array_without_elements_has_none_to_draw(users: Users) -> None:
    users.answered = lambda request: [reply(b'{"hits": []}')]
    result = users.race(ARRAYS.replace("iterations: 200", "iterations: 2"))
    assert (result.requests, result.errors) == (2, 1)
    assert list(result.error_kinds) == ["nothing to register"]
    assert users.targets == ["/list", "/one/not_found/not_found"]


# a weighted mix within one client

MIXED = """
schedule:
  - operation:
      operation-type: http-requests
      variables: [{name: n, type: sequence}]
      requests:
        - {name: in, once-per-client: true, path: /in, register: {token: _ctx.response.body_json.token}}
        - {name: read, weight: 7, path: "/read/$[[token]]/$[[n]]"}
        - {name: write, weight: 2, path: "/write/$[[token]]/$[[n]]"}
        - {name: delete, weight: 1, path: "/delete/$[[token]]/$[[n]]"}
    clients: 2
    iterations: 501
"""


def test_each_client_sends_a_weighted_mix(users: Users) -> None:
    users.answered = lambda request: [reply(b'{"token": "t"}')]
    result = users.race(MIXED)
    assert (result.requests, result.errors) == (1002, 0)
    assert len(users.by_connection) == 2
    drawn = [target.split("/") for target in users.targets if target != "/in"]
    assert len(drawn) == 1000
    for requests in users.by_connection.values():
        kinds = [target.split("/")[1] for target, _ in requests[1:]]
        shares = {kind: kinds.count(kind) / len(kinds) for kind in set(kinds)}
        assert shares == pytest.approx({"read": 0.7, "write": 0.2, "delete": 0.1}, abs=0.08)
    assert sorted(int(number) for _, _, _, number in drawn) == [*range(1, 1001)]  # none is drawn for nothing
    rows = {part.name: part.requests for part in result.requests_by_name}
    assert rows == {kind: sum(target.split("/")[1] == kind for target in users.targets) for kind in rows}


def test_a_composite_runs_one_of_its_weighted_operations(users: Users) -> None:
    result = users.race("""
schedule:
  - operation:
      operation-type: composite
      variables: [{name: n, type: sequence}]
      requests:
        - {name: first, operation-type: raw-request, path: "/first/$[[n]]"}
        - {name: often, weight: 3, operation-type: raw-request, path: "/often/$[[n]]"}
        - weight: 1
          stream:
            - {name: a, operation-type: raw-request, path: "/a/$[[n]]"}
            - {name: b, operation-type: raw-request, path: "/b/$[[n]]"}
    iterations: 400
""")
    assert (result.requests, result.errors, len(users.by_connection)) == (400, 0, 1)
    turns: list[list[str]] = []
    for target in users.targets:
        _, name, number = target.split("/")
        if name == "first":
            turns.append([])
        turns[-1].append(name)
        assert int(number) == len(turns)
    assert turns.count(["first", "often"]) + turns.count(["first", "a", "b"]) == 400
    assert turns.count(["first", "often"]) / 400 == pytest.approx(0.75, abs=0.07)
