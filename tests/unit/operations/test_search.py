"""search and raw-request: the requests that they send."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from compiled import ES5, client, compiled, context, judged, request, requests

from esbench.errors import TrackError
from esbench.measure.verdict import GOOD, Details, Verdict
from esbench.model import Index, Variable
from esbench.requests.exchange import Script

TERM = Variable("term", "list", {"data": ['a "b"']})


def failure(kind: str, params: dict[str, Any], **keys: Any) -> str:
    with pytest.raises(TrackError) as caught:
        compiled(context(kind, params, **keys))
    return str(caught.value)


def test_a_search_asks_the_tracks_only_index() -> None:
    line, body = request("search", {"body": {"query": {"match_all": {}}}})
    assert line == "GET /orders/_search"
    assert json.loads(body) == {"query": {"match_all": {}}}
    assert request("search", {}, dialect=ES5) == ("GET /orders/_search", b"")
    assert request("search", {"index": "a,b-*", "body": {}})[0] == "GET /a,b-*/_search"


def test_parameters_of_a_search_are_in_its_query() -> None:
    params = {
        "request-params": {"pre_filter_shard_size": 1, "preference": "_local"},
        "cache": "true",
        "routing": "u 1",
        "results-per-page": 50,
        "response-compression-enabled": False,
    }
    assert request("search", params)[0] == (
        "GET /orders/_search?pre_filter_shard_size=1&preference=_local&request_cache=true&routing=u%201&size=50"
    )
    assert request("search", {"cache": False})[0] == "GET /orders/_search?request_cache=false"


def test_values_are_drawn_into_body_and_query() -> None:
    params = {"body": {"query": {"term": {"f": "$[[term]]"}}}, "request-params": {"routing": "$[[term]]"}}
    line, body = request("search", params, variables=[TERM])
    assert line == "GET /orders/_search?routing=a%20%22b%22"
    assert json.loads(body) == {"query": {"term": {"f": 'a "b"'}}}


def test_a_search_is_judged_by_its_shards_and_its_time() -> None:
    program = client("search", {})
    good = '{"took":1,"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0},"hits":{}}'
    first, *others = [judged(program, 200, good) for _ in range(16)]
    assert first == Verdict(details=Details(took_ms=1, sampled=True))
    assert others == [GOOD] * 15
    assert judged(program, 200, good.replace("false", "true")).error == "search timed out"
    assert judged(program, 200, good) == GOOD


def test_a_search_goes_to_an_index_a_data_stream_or_a_type() -> None:
    assert request("search", {"data-stream": "logs-x"})[0] == "GET /logs-x/_search"
    assert request("search", {"index": "a", "type": "doc"}, dialect=ES5)[0] == "GET /a/doc/_search"
    assert request("search", {"index": "a", "type": "doc"})[0] == "GET /a/_search"


def test_a_reply_that_must_not_be_compressed_is_asked_for_in_place_of_what_the_client_accepts() -> None:
    def sent(params: dict[str, Any]) -> bytes:
        program = compiled(context("search", params)).client(0, b"Host: n\r\nAccept-Encoding: gzip\r\n")
        assert not isinstance(program, Script)
        return requests(program)[0]

    assert sent({}) == b"GET /orders/_search HTTP/1.1\r\nHost: n\r\nAccept-Encoding: gzip\r\n\r\n"
    assert sent({"response-compression-enabled": False}) == (
        b"GET /orders/_search HTTP/1.1\r\nHost: n\r\nAccept-Encoding: identity\r\n\r\n"
    )


def test_details_of_a_search_are_its_hits_and_the_servers_time() -> None:
    program = client("search", {"detailed-results": True})
    good = '{"took":5,"timed_out":false,"_shards":{"total":1,"failed":0},"hits":{"total":{"value":3,"relation":"eq"}}}'
    assert judged(program, 200, good) == Verdict(details=Details({"hits": 3}, 5))
    assert judged(program, 503, good).details is None


def test_a_search_needs_an_index_where_there_are_several() -> None:
    assert "the track has 2 indices: a, b" in failure("search", {"body": {}}, indices=[Index("a"), Index("b")])


def test_an_undeclared_variable_is_told_with_a_guess() -> None:
    assert failure("search", {"body": {"a": "$[[trem]]"}}, variables=[TERM]) == (
        'task "t": $[[trem]] is not declared (did you mean "term"? known: term)'
    )


# raw-request


@pytest.mark.parametrize("path", ["/_bulk", "/orders/_bulk?refresh=true", "/bulk", "/orders/_bulk/x"])
def test_a_raw_request_to_bulk_is_judged_as_a_bulk(path: str) -> None:
    program = client("raw-request", {"method": "POST", "path": path, "body": "x", "ignore": [400, 404]})
    refused = '{"errors":true,"items":[{"index":{"status":400,"error":{"type":"mapper_parsing_exception"}}}]}'
    is_bulk = path.partition("?")[0].endswith("/_bulk")
    assert judged(program, 200, refused).error == ("bulk item 400 mapper_parsing_exception" if is_bulk else None)
    assert judged(program, 404, "").error is None


def test_a_raw_request_is_sent_as_it_is_written() -> None:
    assert request("raw-request", {"path": "/_cat/indices?v"}) == ("GET /_cat/indices?v", b"")
    params = {"method": "put", "path": "/_settings", "body": {"a": 1}, "request-params": {"x": True}}
    assert request("raw-request", params) == ("PUT /_settings?x=true", b'{"a": 1}')
    assert request("raw-request", {"path": "/a?b=1", "request-params": {"c": 2}})[0] == "GET /a?b=1&c=2"
    assert request("raw-request", {"method": None, "path": "/"})[0] == "GET /"


def test_a_list_is_a_body_of_json_lines() -> None:
    lines = [{"index": {"_index": "a"}}, {"n": "$[[n]]"}, '{"raw":1}']
    params = {"method": "POST", "path": "/_bulk", "body": lines}
    _, body = request("raw-request", params, variables=[Variable("n", "sequence")])
    assert body == b'{"index": {"_index": "a"}}\n{"n": 1}\n{"raw":1}\n'


def test_statuses_to_ignore_are_good() -> None:
    for ignore in (404, [404, 409], ["404"]):
        assert judged(client("raw-request", {"path": "/", "ignore": ignore}), 404, "{}") == GOOD
    assert judged(client("raw-request", {"path": "/", "ignore": [409]}), 404, "{}").error == "HTTP 404"
    assert judged(client("raw-request", {"path": "/"}), 404, "{}").error == "HTTP 404"
    assert judged(client("raw-request", {"path": "/", "ignore": 404}), 200, "{}") == GOOD


def test_headers_of_a_raw_request_are_its_own() -> None:
    params = {"method": "POST", "path": "/", "body": "x", "headers": {"Content-Type": "text/plain", "X-N": 5}}
    (sent,) = requests(client("raw-request", params))
    assert sent == (
        b"POST / HTTP/1.1\r\nHost: node:9200\r\nContent-Type: text/plain\r\nX-N: 5\r\nContent-Length: 1\r\n\r\nx"
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, 'operation type "raw-request" needs "path": the path, beginning with /'),
        ({"path": "_search"}, '"path" must begin with "/": "_search"'),
        ({"path": 5}, '"path" must be text, not 5 (write "5")'),
        ({"path": "/", "method": "GTE"}, 'unknown method "GTE" (one of GET, POST, PUT, DELETE, PATCH, HEAD, OPTIONS)'),
        ({"path": "/", "ignore": ["4xx"]}, "\"ignore\" takes statuses, say 404, not '4xx'"),
        ({"path": "/a b"}, "a path cannot contain white space: '/a b' (say %20)"),
        ({"path": "/", "headers": {"A": "b\nc"}}, "HTTP cannot send the header 'A': 'b\\nc'"),
    ],
)
def test_a_wrong_raw_request_is_told(params: dict[str, Any], message: str) -> None:
    assert failure("raw-request", params) == f'task "t": {message}'


def test_a_search_that_is_signed_is_a_post() -> None:
    """AWS may drop the body of a GET, and then refuses its signature."""
    signed = replace(context("search", {"index": "orders", "body": {"size": 1}}), signs=True)
    program = compiled(signed).client(0, b"Host: h\r\n")
    assert not isinstance(program, Script)
    assert requests(program)[0].startswith(b"POST /orders/_search ")
