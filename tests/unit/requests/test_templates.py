"""Requests as bytes: what is constant, what is drawn, and how a value is written where it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from track_files import load, write_track

from esbench.errors import TrackError
from esbench.requests.templates import (
    Encoding,
    Layout,
    RequestTemplate,
    Slot,
    encode,
    encode_all,
    parse,
    parse_body,
    segment,
)

HEADERS = b"Host: node:9200\r\nAccept: application/json\r\n"


def rendered(template: RequestTemplate, **values: Any) -> bytes:
    """The request of a draw in which each variable has this value (or these, by field)."""
    layout = Layout(template.slots)
    draw = [
        [
            encode(values[name][field] if isinstance(values[name], dict) else values[name], encoding)
            for field, encoding in layout.fields[name]
        ]
        for name in layout.variables
    ]
    return b"".join(template.bind(layout, HEADERS)(draw))


def split(request: bytes) -> tuple[str, dict[str, str], bytes]:
    """Request line, headers and body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = [line.partition(": ") for line in lines]
    assert len({name.lower() for name, _, _ in headers}) == len(headers)
    return first, {name: value for name, _, value in headers}, body


# Constants


def test_a_request_without_slots_is_one_constant() -> None:
    template = RequestTemplate.of("GET", "/orders/_doc/7", query={"routing": "u1", "realtime": False})
    render = template.bind(Layout(()), HEADERS)
    assert render([]) is render([])
    assert b"".join(render([])) == (b"GET /orders/_doc/7?routing=u1&realtime=false HTTP/1.1\r\n" + HEADERS + b"\r\n")


def test_a_constant_body_has_its_length_and_its_type() -> None:
    first, headers, body = split(rendered(RequestTemplate.of("post", "/a/_search", body={"size": 0, "q": "größer"})))
    assert first == "POST /a/_search HTTP/1.1"
    assert headers["Content-Type"] == "application/json"
    assert int(headers["Content-Length"]) == len(body)
    assert json.loads(body) == {"size": 0, "q": "größer"}


def test_the_length_of_text_is_counted_in_bytes() -> None:
    _, headers, body = split(rendered(RequestTemplate.of("POST", "/a", body="größer €")))
    assert body == "größer €".encode()
    assert int(headers["Content-Length"]) == 12


@pytest.mark.parametrize(("method", "length"), [("PUT", "0"), ("POST", "0"), ("GET", None), ("DELETE", None)])
def test_a_write_without_a_body_says_so(method: str, length: str | None) -> None:
    _, headers, body = split(rendered(RequestTemplate.of(method, "/a")))
    assert headers.get("Content-Length") == length
    assert "Content-Type" not in headers
    assert body == b""


def test_an_empty_body_is_a_body() -> None:
    _, headers, _ = split(rendered(RequestTemplate.of("POST", "/a", body="")))
    assert headers["Content-Length"] == "0"


def test_the_tracks_own_content_type_wins() -> None:
    template = RequestTemplate.of("POST", "/_bulk", headers={"content-type": "application/x-ndjson"}, body="{}\n")
    _, headers, _ = split(rendered(template))
    assert headers["content-type"] == "application/x-ndjson"


def test_paths_are_left_as_they_are_written_but_for_what_is_not_ascii() -> None:
    template = RequestTemplate.of("GET", "/%3Clogs-%7Bnow%2Fd%7D%3E,b*/_search?q=a:b", query={"größe": "ä b&c,d"})
    first, _, _ = split(rendered(template))
    assert first == "GET /%3Clogs-%7Bnow%2Fd%7D%3E,b*/_search?q=a:b&gr%C3%B6%C3%9Fe=%C3%A4%20b%26c,d HTTP/1.1"
    assert split(rendered(RequestTemplate.of("GET", "/größe")))[0] == "GET /gr%C3%B6%C3%9Fe HTTP/1.1"


def test_values_of_the_query_are_written_as_the_api_wants_them() -> None:
    query = {"a": True, "b": 5, "c": ["x", "y"], "pretty": None}
    assert split(rendered(RequestTemplate.of("GET", "/", query=query)))[0] == "GET /?a=true&b=5&c=x,y&pretty= HTTP/1.1"


# Slots


def test_values_are_percent_encoded_in_paths_and_query_strings() -> None:
    template = RequestTemplate.of("GET", "/i/_doc/$[[id]]?routing=$[[user]]", query={"q": "x-$[[user]]"})
    first, _, _ = split(rendered(template, id="a/b c?é", user="u&1"))
    assert first == "GET /i/_doc/a%2Fb%20c%3F%C3%A9?routing=u%261&q=x-u%261 HTTP/1.1"


def test_values_are_escaped_in_json() -> None:
    template = RequestTemplate.of("GET", "/i/_search", body={"q": "say $[[word]]!", "whole": "$[[word]]"})
    value = 'a "quoted" \\ back\nslash é'
    _, headers, body = split(rendered(template, word=value))
    assert json.loads(body) == {"q": f"say {value}!", "whole": value}
    assert int(headers["Content-Length"]) == len(body)


def test_numbers_are_bare_where_they_are_a_whole_json_string() -> None:
    body = {"from": "$[[n]]", "text": "page $[[n]]", "list": ["$[[n]]"], "deep": {"x": "$[[ n ]]"}}
    _, _, content = split(rendered(RequestTemplate.of("GET", "/", body=body), n=42))
    assert json.loads(content) == {"from": 42, "text": "page 42", "list": [42], "deep": {"x": 42}}


@pytest.mark.parametrize("value", [True, None, 1.5, "5", [1, "a"], {"a": 1}])
def test_a_whole_json_string_becomes_the_value(value: Any) -> None:
    content = b"".join(
        encode(value, part.encoding) if isinstance(part, Slot) else part for part in parse_body('["$[[v]]"]')
    )
    assert json.loads(content) == [value]


def test_a_key_of_an_object_stays_a_string() -> None:
    _, _, content = split(rendered(RequestTemplate.of("GET", "/", body={"$[[n]]": {"$[[n]]": "$[[n]]"}}), n=7))
    assert json.loads(content) == {"7": {"7": 7}}
    _, _, content = split(rendered(RequestTemplate.of("GET", "/", body='{"$[[n]]" : "$[[n]]"}'), n=7))
    assert json.loads(content) == {"7": 7}


def test_quotes_inside_a_json_string_do_not_make_a_slot_a_whole_string() -> None:
    for text in ('say "$[[n]]"', '"$[[n]]" it says', '"$[[n]]', 'a "$[[n]]" b'):
        _, _, content = split(rendered(RequestTemplate.of("GET", "/", body={"q": text}), n=7))
        assert json.loads(content) == {"q": text.replace("$[[n]]", "7")}


def test_the_length_of_drawn_values_is_counted_in_bytes() -> None:
    template = RequestTemplate.of("PUT", "/i/_doc/1", body='{"note": "é $[[v]]"}')
    for value in ("", "a", "é", "€" * 100, "😀"):
        _, headers, body = split(rendered(template, v=value))
        assert int(headers["Content-Length"]) == len(body)
        assert json.loads(body) == {"note": f"é {value}"}


def test_raw_bytes_are_a_body_as_they_are() -> None:
    template = RequestTemplate.of("PUT", "/i/_doc/$[[d.id]]", body=Slot("d", "body", Encoding.RAW))
    first, headers, body = split(rendered(template, d={"id": b"7/8", "body": b'{"a": "\xc3\xa9"}'}))
    assert first == "PUT /i/_doc/7%2F8 HTTP/1.1"
    assert body == b'{"a": "\xc3\xa9"}'
    assert headers["Content-Length"] == str(len(body))


def test_values_stand_in_headers_too() -> None:
    template = RequestTemplate.of("GET", "/", headers={"X-Opaque-Id": "race-$[[n]]", "X-User": "$[[user]]"})
    _, headers, _ = split(rendered(template, n=3, user="Zoë"))
    assert (headers["X-Opaque-Id"], headers["X-User"]) == ("race-3", "Zoë")


def test_all_occurrences_of_a_variable_hold_one_value() -> None:
    template = RequestTemplate.of("GET", "/$[[n]]/$[[n]]?x=$[[n]]", body=["$[[n]]", "a $[[n]]"])
    first, _, body = split(rendered(template, n=9))
    assert first == "GET /9/9?x=9 HTTP/1.1"
    assert json.loads(body) == [9, "a 9"]


def test_fields_of_one_draw_belong_together() -> None:
    template = RequestTemplate.of("GET", "/i/_doc/$[[o.id]]", query={"routing": "$[[o.user.name]]"})
    first, _, _ = split(rendered(template, o={"id": 5, "user.name": "ann"}))
    assert first == "GET /i/_doc/5?routing=ann HTTP/1.1"


def test_each_render_is_of_its_own_draw() -> None:
    template = RequestTemplate.of("GET", "/i/$[[id]]", body={"id": "$[[id]]"})
    layout = Layout(template.slots)
    render = template.bind(layout, HEADERS)
    encodings = [encoding for _, encoding in layout.fields["id"]]
    first, second = (b"".join(render([[encode(v, e) for e in encodings]])) for v in ("a", "bb"))
    assert b"/i/a " in first
    assert b'"a"' in first
    assert b"/i/bb " in second
    assert b'"bb"' in second


def test_two_exchanges_share_a_draw() -> None:
    write = RequestTemplate.of("PUT", "/i/_doc/$[[id]]", query={"routing": "$[[user]]"}, body={"n": "$[[id]]"})
    read = RequestTemplate.of("GET", "/i/_doc/$[[id]]", query={"routing": "$[[user]]"})
    layout = Layout((*write.slots, *read.slots))
    assert layout.variables == ("id", "user")
    values: dict[str, object] = {"id": 12, "user": "u/1"}
    draw = [[encode(values[name], encoding) for _, encoding in layout.fields[name]] for name in layout.variables]
    put, get = (b"".join(template.bind(layout, HEADERS)(draw)) for template in (write, read))
    assert put.startswith(b"PUT /i/_doc/12?routing=u%2F1 HTTP/1.1\r\n")
    assert put.endswith(b'\r\n\r\n{"n": 12}')
    assert get.startswith(b"GET /i/_doc/12?routing=u%2F1 HTTP/1.1\r\n")


def test_a_segment_is_encoded_around_its_slots() -> None:
    assert segment("a/b $[[o.id]]?") == "a%2Fb%20$[[o.id]]%3F"
    assert segment(7) == "7"
    first, _, _ = split(rendered(RequestTemplate.of("GET", f"/i/{segment('x/$[[ n ]]')}"), n="y z"))
    assert first == "GET /i/x%2Fy%20z HTTP/1.1"


# Errors


@pytest.mark.parametrize("text", ["/$[[a b]]", "/$[[]]", "/$[[1st]]", "/$[[name", "/$[[name.]]"])
def test_what_is_almost_a_variable_is_an_error(text: str) -> None:
    with pytest.raises(TrackError, match=r'"\$\[\[.*" is not a variable \(say \$\[\[name\]\] or'):
        parse(text, Encoding.PATH)
    with pytest.raises(TrackError, match="is not a variable"):
        parse_body({"q": [text]})


def test_an_almost_variable_is_told_with_its_place(tmp_path: Any) -> None:
    text = "schedule:\n  - operation:\n      operation-type: raw-request\n      path: /$[[no name]]\n"
    with pytest.raises(TrackError, match=r'track.yml:\d+: "\$\[\[no name\]\]" is not a variable'):
        load(write_track(tmp_path, text))


@pytest.mark.parametrize("path", ["_search", "", "http://node:9200/_search", "$[[path]]"])
def test_a_path_begins_with_a_slash(path: str) -> None:
    with pytest.raises(TrackError, match=r'^task "t": a path must begin with "/"'):
        RequestTemplate.of("GET", path, where='task "t"')


@pytest.mark.parametrize("path", ["/a b", "/a\tb", "/a\nHost: x", "/a\x7f"])
def test_a_path_has_no_white_space(path: str) -> None:
    with pytest.raises(TrackError, match=r"white space.*say %20"):
        RequestTemplate.of("GET", path)


@pytest.mark.parametrize(
    ("name", "value"), [("X-A", "b\r\nX-B: c"), ("X A", "b"), ("", "b"), ("X-Ä", "b"), ("X-A", "\0")]
)
def test_a_header_that_http_cannot_carry_is_an_error(name: str, value: str) -> None:
    with pytest.raises(TrackError, match="HTTP cannot send the header"):
        RequestTemplate.of("GET", "/", headers={name: value})


@pytest.mark.parametrize("encoding", [encoding for encoding in Encoding if encoding is not Encoding.RAW])
@pytest.mark.parametrize(
    "values",
    [
        ("plain", "u0000123", ""),
        (b"bytes", b"u1"),
        ("a/b", 'say "hi"', "back\\slash", "100 %"),
        ("two\nlines", "one"),
        ("zw\u00f6lf", "one"),
        ("half \ud83d", "one"),
        (1, -2, 10**12),
        (True, False),
        (1, "1", None, 1.5, b"1"),
        (),
    ],
)
def test_many_values_are_encoded_as_one_by_one(values: tuple[object, ...], encoding: Encoding) -> None:
    assert encode_all(values, encoding) == [encode(value, encoding) for value in values]


def test_half_a_character_is_escaped_in_json_and_replaced_elsewhere() -> None:
    kinds = (Encoding.JSON, Encoding.JSON_VALUE, Encoding.TEXT, Encoding.PATH)
    assert [encode("a\ud83d", kind) for kind in kinds] == [b"a\\ud83d", b'"a\\ud83d"', b"a?", b"a%3F"]
