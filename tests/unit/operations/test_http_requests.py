"""Requests to any HTTP server: drawn at each occurrence, in order, with registers and asserts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from compiled import HEADERS, compiled, context, request, requests, session

from esbench.cluster.options import Host
from esbench.errors import TrackError
from esbench.measure.verdict import Verdict
from esbench.model import Variable
from esbench.operations.http_requests import INVALID, TYPES
from esbench.requests.exchange import Exhausted, RequestFailed, Script
from esbench.requests.ledger import Ledger

NUMBERS = (Variable("id", "sequence"), Variable("digit", "range", {"from": 0, "to": 9}))
HOSTS = (Host("a", 9200), Host("b", 9201))


def of(*asked: dict[str, Any], variables: Any = NUMBERS, ledger: Ledger | None = None) -> Any:
    made = context("http-requests", {"requests": list(asked)}, variables=variables, ledger=ledger)
    return compiled(replace(made, hosts=HOSTS))


def sent(*asked: dict[str, Any], **keys: Any) -> tuple[str, str]:
    """Request line, and head and body, of the next request."""
    (request,) = requests(of(*asked, **keys).client(0, HEADERS))
    head, _, body = request.partition(b"\r\n\r\n")
    return head.decode(), body.decode()


def test_a_variable_is_drawn_at_each_occurrence_in_the_order_of_the_request() -> None:
    head, body = sent(
        {
            "method": "POST",
            "path": "/$[[id]]/_doc?x=$[[id]]",
            "headers": {"X-A": "$[[id]]"},
            "body": "$[[id]] $[[id]]\n",
            "repeat": 2,
        }
    )
    assert head.splitlines() == [
        "POST /1/_doc?x=2 HTTP/1.1",
        "Host: node:9200",
        "Content-Type: application/json",
        "X-A: 3",
        "Content-Length: 8",
    ]
    assert body == "4 5\n6 7\n"


def test_names_stand_for_one_draw_in_the_request_or_in_each_repetition() -> None:
    head, body = sent(
        {
            "method": "POST",
            "path": "/$[[batch]]",
            "body": "$[[batch]] $[[line]] $[[line]] $[[id]]\n",
            "repeat": 2,
            "once": {"batch": "id"},
            "once-per-repetition": {"line": "id"},
        }
    )
    assert head.startswith("POST /1 ")
    assert body == "1 2 2 3\n1 4 4 5\n"


def test_values_are_written_as_they_are() -> None:
    text = Variable("text", "list", {"data": ['a "b"/é&c=1']})
    head, body = sent({"method": "POST", "path": "/x?q=$[[text]]", "body": '{"n": "$[[text]]"}'}, variables=(text,))
    assert head.splitlines()[0] == "POST /x?q=a%20%22b%22/%C3%A9&c=1 HTTP/1.1"
    assert body == '{"n": "a "b"/é&c=1"}'


def test_a_request_without_a_body_has_none() -> None:
    head, body = sent({"path": "/_search?q=$[[digit]]"})
    assert re.fullmatch(r"GET /_search\?q=\d HTTP/1.1\r\nHost: node:9200", head)
    assert body == ""
    assert sent({"method": "POST", "path": "/"})[0].endswith("Content-Length: 0")


def test_what_was_drawn_of_a_sequence_is_in_the_ledger() -> None:
    ledger = Ledger()
    program = of({"path": "/$[[id]]"}, ledger=ledger)
    requests(program.client(0, HEADERS))
    program.close()
    assert ledger.next_values == {"id": 2}


def verdict(asked: dict[str, Any], status: int, body: bytes) -> Verdict:
    program = of({"path": "/", **asked}).client(0, HEADERS)
    return program.exchanges[0].judge(status, body, program.draw())


def test_a_reply_is_good_below_400() -> None:
    assert verdict({}, 302, b"").error is None
    assert verdict({}, 404, b"").error == "HTTP 404"


def test_a_refused_line_of_a_bulk_is_a_failure() -> None:
    refused = b'{"errors": true, "items": [{"index": {"status": 429, "error": {"type": "rejected"}}}]}'
    assert "429" in str(verdict({"path": "/_bulk", "method": "POST"}, 200, refused).error)
    assert verdict({"path": "/_bulk", "method": "POST"}, 502, b"").error == "HTTP 502"


def test_an_assert_decides_alone() -> None:
    missing = {"assert": {"equals": {"_ctx.response.status": 404}}}
    assert verdict(missing, 404, b"").error is None
    failed = verdict(missing, 200, b"")
    assert (failed.error, failed.example) == (INVALID, "_ctx.response.status should be 404, and is 200")


async def turn(script: Any, lane: Any) -> list[str]:
    """Send the requests of one turn, one a run, with the pause after each; the kinds of the failures."""
    failures = []
    script.advance()
    while True:
        try:
            await script.run(lane)
        except RequestFailed as failure:
            failures.append(str(failure))
        if script.rest_s:
            lane.asked.append(f"pause {script.rest_s:g}")
        if script.turn_is_over:
            return failures
        script.advance()


async def played(*asked: dict[str, Any], answers: Any = ("{}",), turns: int = 1) -> Any:
    script = of(*asked).client(0, HEADERS)
    assert isinstance(script, Script)
    lane = session(*answers)
    for _ in range(turns):
        assert await turn(script, lane) == []
    return lane


async def test_requests_follow_one_another_with_rows_repeats_and_pauses() -> None:
    lane = await played(
        {"name": "first", "path": "/a/$[[id]]", "times": 2},
        {"path": "/b/$[[id]]", "pause": "500ms"},
        {"name": "first", "path": "/c"},
        turns=2,
    )
    assert lane.asked == [
        *("GET /a/1", "GET /a/1", "GET /b/2", "pause 0.5", "GET /c"),
        *("GET /a/3", "GET /a/3", "GET /b/4", "pause 0.5", "GET /c"),
    ]
    assert lane.parts == 2 * ["first", "first", "request-2", "first-3"]


async def test_what_a_reply_has_is_used_by_later_requests_and_kept() -> None:
    lane = await played(
        {"path": "/a/$[[uid]]"},
        {"path": "/b", "register": {"uid": "_ctx.response.body_json.id"}},
        {"path": "/c/$[[uid]]?n=$[[uid]]"},
        answers=("{}", '{"id": "x/1"}', "{}", "{}", '{"id": 7}'),
        turns=2,
    )
    assert lane.asked == ["GET /a/not_found", "GET /b", "GET /c/x/1?n=x/1", "GET /a/x/1", "GET /b", "GET /c/7?n=7"]


async def test_objects_and_lists_of_replies_go_out_as_json() -> None:
    lane = await played(
        {"path": "/a", "register": {"v": "_ctx.response.body_json.v"}},
        {"path": "/b", "method": "POST", "body": "$[[v]]"},
        {"path": "/c/$[[v]]"},
        answers=('{"v": {"n": [1, "a"], "b": true}}', "{}"),
    )
    assert lane.asked[2] == "GET /c/%7B%22b%22:true,%22n%22:[1,%22a%22]%7D"


async def test_pauses_alone_stand_between_requests() -> None:
    lane = await played(
        {"pause": 1}, {"path": "/a", "times": 2, "pause": 2}, {"pause": 3}, {"pause": 4}, {"path": "/b"}
    )
    assert lane.asked == ["GET /a", "pause 2", "GET /a", "pause 9", "GET /b", "pause 1"]


async def test_a_registered_name_is_that_of_its_variable_before() -> None:
    lane = await played(
        {"path": "/a/$[[id]]"},
        {"path": "/b", "register": {"id": "_ctx.response.status"}},
        {"path": "/c/$[[id]]"},
    )
    assert lane.asked == ["GET /a/1", "GET /b", "GET /c/200"]


async def test_two_clients_register_apart() -> None:
    program = of({"path": "/a/$[[uid]]", "register": {"uid": "_ctx.response.status"}})
    for _ in range(2):
        lane = session("{}")
        await turn(program.client(0, HEADERS), lane)
        assert lane.asked == ["GET /a/not_found"]


async def test_a_failed_request_ends_nothing_and_fails_alone() -> None:
    script = of({"path": "/a"}, {"path": "/b"}, {"path": "/c"}).client(0, HEADERS)
    lane = session((500, "broken"), RequestFailed("connection lost", "gone"), "{}")
    assert await turn(script, lane) == ["HTTP 500: broken", "connection lost: gone"]
    assert lane.asked == ["GET /a", "GET /b", "GET /c"]


async def test_an_assert_that_does_not_hold_ends_the_turn() -> None:
    asked = {"path": "/a", "assert": {"range": {"_ctx.elapsed": {"lt": 0}}}}
    lane = session("{}")
    (failure,) = await turn(of({**asked, "pause": 1}, {"path": "/b"}).client(0, HEADERS), lane)
    assert failure.startswith(f"{INVALID}: _ctx.elapsed should be lt 0")
    assert lane.asked == ["GET /a"]


async def test_all_repeats_of_a_request_are_the_same_with_a_pause_after_each() -> None:
    clock = Variable("now", "now_unix_in_nano")
    made = of({"path": "/$[[now]]", "times": 3, "pause": 1}, variables=(clock,))
    lane = session("{}")
    await turn(made.client(0, HEADERS), lane)
    first, *_ = lane.asked
    assert lane.asked == 3 * [first, "pause 1"]


async def test_an_assert_decides_also_where_there_is_nothing_to_register() -> None:
    asked = {
        "path": "/login",
        "assert": {"equals": {"_ctx.response.status": 200}},
        "register": {"token": "_ctx.response.body_json.token"},
    }
    lane = session((401, "{}"))
    assert await turn(of(asked, {"path": "/b"}).client(0, HEADERS), lane) == [
        f"{INVALID}: _ctx.response.status should be 200, and is 401"
    ]
    assert lane.asked == ["GET /login"]


async def test_a_turn_may_go_on_after_an_assert_that_does_not_hold() -> None:
    asked = [{"path": "/a"}, {"path": "/b", "assert": {"exists": ["_ctx.response.nothing"]}}, {"path": "/c"}]
    made = compiled(context("http-requests", {"requests": asked, "ends-when-invalid": False}))
    lane = session((404, "{}"), "{}", (500, "{}"))
    failures = await turn(made.client(0, HEADERS), lane)
    assert [failure.partition(":")[0] for failure in failures] == ["HTTP 404", INVALID, "HTTP 500"]
    assert lane.asked == ["GET /a", "GET /b", "GET /c"]


def test_a_request_says_which_host_it_is_for() -> None:
    script: Any = of({"path": "/", "host": "b:9201"}).client(0, HEADERS)
    assert script.connections == 1
    program = of({"path": "/", "host": "b:9201"}, {"path": "/", "host": "a:9200"})
    heads = [program._program.exchanging(HEADERS, number).draw()[0].decode() for number in (0, 1)]
    assert [re.findall(r"Host: (\S+)", head) for head in heads] == [["b:9201"], ["a:9200"]]


async def test_a_reply_without_what_is_registered_is_a_failure() -> None:
    asked = {"path": "/a", "register": {"uid": "_ctx.response.body_json.id"}}
    (failure,) = await turn(of(asked).client(0, HEADERS), session("{}"))
    assert "the reply has no _ctx.response.body_json.id to register as uid" in failure


async def test_each_client_sends_all_so_many_times_and_no_more() -> None:
    made = compiled(context("http-requests", {"requests": [{"path": "/a"}, {"path": "/b"}], "turns": 2}))
    assert made.finite
    script: Any = made.client(0, HEADERS)
    lane = session("{}")
    for _ in range(2):
        await turn(script, lane)
    assert lane.asked == 2 * ["GET /a", "GET /b"]
    with pytest.raises(Exhausted):
        script.advance()


def test_statuses_that_are_valid_are_good() -> None:
    assert verdict({"valid-statuses": [404]}, 404, b"").error is None
    assert verdict({"valid-statuses": [404]}, 409, b"").error == "HTTP 409"


def test_requests_to_hosts_of_their_own_have_a_lane_for_each() -> None:
    asked = [{"path": "/", "host": "b:9201"}, {"path": "/", "host": "a:9200"}, {"path": "/", "host": "b:9201"}]
    script = of(*asked).client(0, HEADERS)
    assert (script.connections, tuple(script.hosts)) == (2, (1, 0))
    assert not of({"path": "/"}, {"path": "/"}).client(0, HEADERS).hosts
    (kind,) = TYPES
    assert [kind.connections({"requests": some}) for some in (asked, asked[:1], [{"path": "/"}])] == [2, 1, 1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([], '"requests" is empty'),
        (["/a"], "request 1: expected a mapping, not /a"),
        ([{"path": "a"}], 'request 1: "path" must begin with "/"'),
        ([{"path": "/"}, {}], 'request 2: "path" must begin with "/", not None'),
        ([{"path": "/", "boddy": "x"}], 'request 1: unknown key "boddy" (did you mean "body"?'),
        ([{"path": "/", "repeat": 0}], '"repeat" must be at least 1'),
        ([{"path": "/", "method": "LOOK"}], 'request 1: unknown method "LOOK" (one of GET, POST, PUT'),
        ([{"pause": 1}], '"requests" has pauses alone'),
        ([{"path": "/", "host": "a:9200"}, {"path": "/"}], "some requests name a host, and some none"),
        ([{"path": "/", "assert": {"equal": {}}}], 'request 1: unknown condition "equal"'),
        ([{"path": "/", "host": "c:1"}], 'a request goes to "c:1", which is not a host of the race'),
        ([{"path": "/$[[no]]"}], "$[[no]] is not declared"),
    ],
)
def test_what_cannot_be_sent_is_refused(asked: list[Any], said: str) -> None:
    with pytest.raises(TrackError) as caught:
        of(*asked)
    assert said in str(caught.value)


def test_a_raw_request_repeats_its_body_with_new_values_and_keeps_those_of_its_head() -> None:
    params = {
        "method": "POST",
        "path": "/_bulk?n=$[[id]]",
        "body": [{"index": {"_id": "$[[id]]"}}, {"id": "$[[id]]", "batch": "$[[batch]]"}],
        "repeat": 2,
        "once": {"batch": "id"},
    }
    line, body = request("raw-request", params, variables=NUMBERS)
    assert line == "POST /_bulk?n=2"
    assert body.decode().splitlines() == [
        '{"index": {"_id": 3}}',
        '{"id": 3, "batch": 1}',
        '{"index": {"_id": 4}}',
        '{"id": 4, "batch": 1}',
    ]


@pytest.mark.parametrize("body", [{}, {"body": {"a": 1}}])
def test_a_repeated_body_has_lines(body: dict[str, Any]) -> None:
    with pytest.raises(TrackError, match='"repeat" is about a body of lines: a list, or text'):
        compiled(context("raw-request", {"path": "/", "repeat": 2, **body}))


def test_a_raw_request_that_repeats_nothing_draws_once() -> None:
    params = {"method": "PUT", "path": "/i/$[[id]]", "body": {"id": "$[[id]]", "b": "$[[b]]"}, "once": {"b": "digit"}}
    line, body = request("raw-request", params, variables=NUMBERS)
    assert line == "PUT /i/1"
    assert body.startswith(b'{"id": 1, "b": ')
