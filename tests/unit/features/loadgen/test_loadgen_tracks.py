"""Tracks of Loadgen's files: variables, texts, addresses and users as Loadgen understands them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compiled import HEADERS, compiled, context, requests
from loadgen_files import PUBLISHED, challenge, converted, loaded, write

from esbench.cluster.options import Host
from esbench.errors import EsbenchError, TrackError
from esbench.features.loadgen.convert import LoadgenTrack, track_of
from esbench.features.loadgen.file import Identity, open_loadgen
from esbench.record.secrets import redact
from esbench.requests.exchange import ClientProgram


def first_requests(folder: Path, track: LoadgenTrack, count: int = 1, **params: object) -> list[str]:
    """The first requests of a file with one, as they are sent."""
    whole = loaded(folder, track, **params)
    task = whole.challenges[0].tasks[0]
    made = replace(context("get"), task=task, variables=whole.variables, hosts=(Host("a"), Host("b")))
    program = compiled(made).client(0, HEADERS)
    assert not hasattr(program, "run")
    client: ClientProgram = program  # type: ignore[assignment]
    return [requests(client)[0].decode() for _ in range(count)]


def elements(track: LoadgenTrack, folder: Path) -> list[dict[str, Any]]:
    """The requests of the track's operation."""
    found: list[dict[str, Any]] = loaded(folder, track).challenges[0].tasks[0].operation.params["requests"]
    return found


def test_the_published_example_is_sent_as_loadgen_sends_it(tmp_path: Path) -> None:
    track = converted(tmp_path, PUBLISHED)
    assert (track.hosts, track.identity, track.in_turn) == (
        ("http://192.168.3.188:9206",),
        Identity("ingest", "password"),
        1,
    )
    first, second = first_requests(tmp_path, track, 2)
    head, _, body = first.partition("\r\n\r\n")
    assert head.startswith("POST /_bulk HTTP/1.1\r\n")
    uuid = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    line = (
        rf'{{ "create" : {{ "_index" : "test-1[0-5]","_type":"doc", "_id" : "({uuid})" , "routing" : "({uuid})" }} }}\n'
        rf'{{ "id" : "({uuid})","routing_no" : "\2","batch_number" : "1", "random_no" : "1[0-5]","ip" : "not_found",'
        r'"now_local" : "\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})? [+-]\d{4} \w+","now_unix" : "\d{10}" }\n'
    )
    lines = re.findall(line, body)
    assert len(lines) == 10
    assert re.sub(line, "", body) == ""
    drawn = [value for found in lines for value in found[:3]]
    assert len(set(drawn)) == 30  # each occurrence, and each name of a line, is another one
    assert '"batch_number" : "2"' in second


@pytest.mark.parametrize(
    ("variable", "pattern"),
    [
        ("{type: sequence}", "1 2"),
        ("{type: sequence64, from: 7}", "8 9"),
        ("{type: sequence, from: 3, to: 4}", "4 0"),
        ("{type: sequence, from: 9, to: 4}", "0 1"),
        ("{type: range, to: 0}", "0 0"),
        ('{type: list, data: [" a ", ""]}', "a a"),
        ("{type: random_array, variable_key: one, size: 2, square_bracket: true}", r"\[1,1\] \[1,1\]"),
        (
            '{type: random_array, variable_key: one, size: 2, variable_type: string, string_bracket: "|"}',
            r"(\|1\|,?)+ .*",
        ),
        ("{type: int_array_bitmap, from: 1, to: 9, size: 3}", "[A-Za-z0-9+/=]+ [A-Za-z0-9+/=]+"),
        ("{type: uuid, replace: {'-': ''}}", "[0-9a-f]{32} [0-9a-f]{32}"),
        ("{type: now_utc}", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* \+0000 UTC .*"),
        ("{type: now_utc_lite}", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} .*"),
        ("{type: now_unix_in_ms}", r"\d{13} \d{13}"),
        ("{type: now_unix_in_micro}", r"\d{16} \d{16}"),
        ("{type: now_unix_in_nano}", r"\d{19} \d{19}"),
        ('{type: now_with_format, format: "2006-01-02T15:04:05-0700"}', r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} .*"),
    ],
)
def test_variables_are_those_of_loadgen(tmp_path: Path, variable: str, pattern: str) -> None:
    text = f"""
variables:
  - {{name: one, type: list, data: [1]}}
  - {{name: "a b", {variable[1:-1]}}}
requests:
  - request: {{method: PUT, url: http://a/x, body: "$[[a b]] $[[a b]]"}}
"""
    (request,) = first_requests(tmp_path, converted(tmp_path, text))
    assert re.fullmatch(pattern, request.partition("\r\n\r\n")[2])


def test_values_of_a_file_lie_beside_it_and_are_copied(tmp_path: Path) -> None:
    (tmp_path / "dict").mkdir()
    (tmp_path / "dict" / "user.txt").write_text("alice\n")
    text = """
variables: [{name: user, type: file, path: dict/user.txt, data: ["alice"]}]
requests: [{request: {url: "http://a/$[[user]]"}}]
"""
    track = converted(tmp_path, text)
    assert track.files == {"user.txt": tmp_path / "dict/user.txt"}
    (request,) = first_requests(tmp_path, track)
    assert request.startswith("GET /alice HTTP/1.1")


@pytest.mark.parametrize(
    "path", ["/etc/hostname", "../secret.txt", "a/../../secret.txt", "link.txt", "linked/secret.txt"]
)
def test_no_file_outside_of_the_folder_is_read(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "file's"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("hush\n")
    (folder / "a").mkdir()
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "linked").symlink_to(tmp_path)
    text = f"variables: [{{name: v, type: file, path: {path}}}]\nrequests: [{{request: {{url: 'http://a/$[[v]]'}}}}]"
    with pytest.raises(TrackError, match="is outside of the folder of this file") as caught:
        converted(folder, text)
    assert caught.value.where.endswith("loadgen.yml:1")
    assert caught.value.hint == f"copy it into {folder}"


def test_names_that_a_track_cannot_have_are_others_there(tmp_path: Path) -> None:
    text = """
variables: [{name: a.b, type: list, data: [1]}, {name: a b, type: list, data: [2]}, {name: 9, type: list, data: [3]}]
requests: [{request: {url: "http://a/$[[a.b]]/$[[a b]]/$[[9]]/$[[ a b ]]"}}]
"""
    (request,) = first_requests(tmp_path, converted(tmp_path, text))
    assert request.startswith("GET /1/2/3/not_found HTTP/1.1")


def test_text_of_a_template_stays_text(tmp_path: Path) -> None:
    text = r"""
requests:
  - request:
      method: PUT
      url: http://a/x y
      body: "{{x}} {% raw %} {% endraw %}{%endraw%}{%- endraw %} \" ä # '"
"""
    (request,) = first_requests(tmp_path, converted(tmp_path, text))
    assert request.startswith("PUT /x%20y HTTP/1.1")
    assert request.endswith("\r\n\r\n{{x}} {% raw %} {% endraw %}{%endraw%}{%- endraw %} \" ä # '")


def test_values_of_the_environment_win_over_those_of_the_file_and_stay_out_of_the_track(tmp_path: Path) -> None:
    text = """
env: {HOST: "http://a:1", INDEX: orders, SECRET: x}
requests:
  - request:
      method: PUT
      url: $[[env.HOST]]/$[[env.INDEX]]/_doc
      basic_auth: {username: me, password: "$[[env.SECRET]]"}
      body: "{\\"i\\": \\"$[[env.INDEX]]\\"}"
"""
    track = converted(tmp_path, text, INDEX='a"b', SECRET="hush")
    assert (track.hosts, track.identity) == (("http://a:1",), Identity("me", "hush"))
    assert (track.params, track.sources) == ({"env_INDEX": 'a"b'}, {"env_INDEX": "INDEX"})
    assert "hush" not in track.text
    assert 'default("orders")' in track.text
    (request,) = first_requests(tmp_path, track)
    assert request.endswith('{"i": "a"b"}')


def test_values_of_the_file_are_defaults_of_the_track(tmp_path: Path) -> None:
    text = (
        "env: {I: orders, B: '0'}\nrequests: [{request: {method: PUT, url: 'http://a/$[[env.I]]', body: '$[[env.B]]'}}]"
    )
    track = converted(tmp_path, text)
    assert track.params == {}
    (request,) = first_requests(tmp_path, track)
    assert request.startswith("PUT /orders ")
    assert request.endswith("\r\n\r\n0")
    (request,) = first_requests(tmp_path, converted(tmp_path, text, I="x", B="\U0001f600"))
    assert request.startswith("PUT /x ")
    assert request.endswith("\U0001f600")


def test_what_headers_hold_is_a_secret(tmp_path: Path) -> None:
    text = "requests: [{request: {url: 'http://a/', headers: [{Authorization: 'Bearer $[[env.JWT]]'}]}}]"
    track = converted(tmp_path, text, JWT="hush")
    assert track.params == {"secret_JWT": "hush"}
    assert redact(track.params) == {"secret_JWT": "<hidden>"}


def test_what_a_query_holds_and_what_is_called_a_secret_is_one(tmp_path: Path) -> None:
    text = "requests: [{request: {method: PUT, url: 'http://a/$[[env.I]]?k=$[[env.Q]]', body: '$[[env.ES_PASS]]'}}]"
    track = converted(tmp_path, text, I="orders", Q="hush", ES_PASS="hush")
    assert track.params == {"env_I": "orders", "secret_Q": "hush", "secret_ES_PASS": "hush"}
    assert "hush" not in track.text
    with pytest.raises(EsbenchError, match="the environment variable ES has a query") as caught:
        converted(tmp_path, "requests: [{request: {url: '$[[env.ES]]/x'}}]", ES="http://a:1?api_key=hush")
    assert "hush" not in str(caught.value)


def test_a_user_may_have_an_at_sign_in_the_password(tmp_path: Path) -> None:
    track = converted(tmp_path, "requests: [{request: {url: 'HTTP://me:p@ss@a/x'}}]")
    assert (track.hosts, track.identity) == (("http://a:80",), Identity("me", "p@ss"))


@pytest.mark.parametrize(
    ("host", "url"),
    [("b:2", "https://b:2"), ("http://b:2", "http://b:2"), ("https://b:2", "https://b:2")],
)
def test_another_host_is_spoken_to_as_the_one_of_the_file(tmp_path: Path, host: str, url: str) -> None:
    assert converted(tmp_path, "requests: [{request: {url: 'https://a:1/x'}}]", host=host).hosts == (url,)


def test_an_assert_knows_registered_values_by_their_names_in_the_track(tmp_path: Path) -> None:
    text = """
requests:
  - request: {url: http://a/x}
    register: [{index.id: _ctx.response.body_json.id}]
    assert: {and: [{exists: [index.id]}, {equals: {index.id.of: 1, _ctx.response.status: 200}}]}
"""
    (element,) = elements(converted(tmp_path, text), tmp_path)
    assert element["register"] == {"index_id": "_ctx.response.body_json.id"}
    assert element["assert"] == {
        "and": [{"exists": ["index_id"]}, {"equals": {"index_id.of": 1, "_ctx.response.status": 200}}]
    }


def test_values_without_a_file_are_a_list(tmp_path: Path) -> None:
    text = "variables: [{name: a, type: file, data: [x]}]\nrequests: [{request: {url: 'http://a/$[[a]]'}}]"
    (request,) = first_requests(tmp_path, converted(tmp_path, text))
    assert request.startswith("GET /x ")


def test_only_line_feeds_end_a_value_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes('{"t":"a\u2028b"}\r\n'.encode())
    text = """
variables: [{name: v, type: file, path: v.txt}]
requests: [{request: {method: PUT, url: http://a/, body: "$[[v]]"}}]
"""
    (request,) = first_requests(tmp_path, converted(tmp_path, text))
    assert request.endswith('\r\n\r\n{"t":"a\u2028b"}')
    (tmp_path / "v.txt").write_bytes(b"\xe4\n")
    with pytest.raises(EsbenchError, match="line 1 is not UTF-8 text"):
        first_requests(tmp_path, converted(tmp_path, text))


def test_a_user_of_a_url_is_that_of_its_requests(tmp_path: Path) -> None:
    text = "requests: [{request: {url: 'http://$[[env.U]]:p%40w@a/x'}}, {request: {url: 'http://b/y'}}]"
    track = converted(tmp_path, text, U="me")
    assert track.hosts == ("http://a:80", "http://b:80")
    assert track.identity is None
    first, second = elements(track, tmp_path)
    assert first["headers"] == {"Authorization": "Basic bWU6cEB3"}
    assert "headers" not in second
    one = converted(tmp_path, "requests: [{request: {url: 'http://me:hush@A/x'}}]")
    assert (one.hosts, one.identity) == (("http://a:80",), Identity("me", "hush"))


def test_a_header_of_its_own_stands_above_a_user(tmp_path: Path) -> None:
    text = """
requests:
  - request: {url: http://a/x, basic_auth: {username: a, password: b}, headers: [{authorization: own}]}
  - request: {url: http://a/y, basic_auth: {username: a, password: b}}
"""
    first, second = elements(converted(tmp_path, text), tmp_path)
    assert first["headers"] == {"authorization": "own"}
    assert second["headers"] == {"Authorization": "Basic YTpi"}


def test_names_of_lines_have_no_value_in_a_head(tmp_path: Path) -> None:
    text = """
variables: [{name: id, type: sequence}]
requests:
  - request: {method: PUT, url: "http://a/$[[line]]", runtime_body_line_variables: {line: id}, body: "$[[line]]"}
"""
    (request,) = first_requests(tmp_path, converted(tmp_path, text))
    assert request.startswith("PUT /not_found ")
    assert request.endswith("\r\n\r\n1")


def test_a_simple_request_has_neither_headers_nor_a_body(tmp_path: Path) -> None:
    text = "requests: [{request: {url: 'http://a/x', simple_mode: true, headers: [{A: b}], body: c}}]"
    (element,) = elements(converted(tmp_path, text), tmp_path)
    assert element == {"name": "get-x", "method": "GET", "path": "/x"}


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    text = "requests: [{request: {url: 'http://a/x'}}]"
    file = open_loadgen(write(tmp_path, text, 'prod: {{a}} "x" {% 1.yml')).read({})
    assert loaded(tmp_path, track_of(file)).challenges[0].tasks[0].name == "get-x"


def test_users_of_their_own_are_parameters(tmp_path: Path) -> None:
    text = """
runner: {default_basic_auth: {username: a, password: b}}
requests:
  - request: {url: http://a/x}
  - request: {url: http://a/y, basic_auth: {username: c, password: d}}
"""
    track = converted(tmp_path, text)
    assert track.identity is None
    assert track.params == {"authorization_1": "Basic YTpi", "authorization_2": "Basic Yzpk"}
    assert track.sources["authorization_1"] == "AUTHORIZATION_1"
    assert [each["headers"]["Authorization"] for each in elements(track, tmp_path)] == ["Basic YTpi", "Basic Yzpk"]


def test_requests_to_several_hosts_keep_theirs(tmp_path: Path) -> None:
    text = """
runner: {default_endpoint: "http://b:2/ignored"}
requests: [{request: {url: "http://a:1/x"}}, {request: {url: /y}}]
"""
    track = converted(tmp_path, text)
    assert track.hosts == ("http://a:1", "http://b:2")
    assert [(each["host"], each["path"]) for each in elements(track, tmp_path)] == [("a:1", "/x"), ("b:2", "/y")]
    with pytest.raises(EsbenchError, match=r"--target-hosts would stand for 2 hosts: http://a:1, http://b:2"):
        converted(tmp_path, text, host="http://c:3")


def test_another_host_may_stand_for_the_only_one(tmp_path: Path) -> None:
    track = converted(tmp_path, "requests: [{request: {url: 'http://a:1?q=1'}}]", host="http://c:3")
    assert track.hosts == ("http://c:3",)
    (element,) = elements(track, tmp_path)
    assert element == {"name": "get", "method": "GET", "path": "/?q=1"}


def test_names_of_a_request_share_what_they_stand_for(tmp_path: Path) -> None:
    text = """
variables: [{name: id, type: sequence}]
requests:
  - request:
      method: PUT
      url: http://a/$[[batch]]
      runtime_variables: {batch: id, again: batch}
      runtime_body_line_variables: {line: batch, own: id, none: nothing}
      body: "$[[again]] $[[line]] $[[id]] $[[id]] $[[own]] $[[none]]\\n"
      body_repeat_times: 2
"""
    (request,) = first_requests(tmp_path, converted(tmp_path, text))
    head, _, body = request.partition("\r\n\r\n")
    assert head.startswith("PUT /1 ")
    assert body == "1 1 3 4 2 not_found\n1 1 6 7 5 not_found\n"


def test_the_length_and_the_rate_are_parameters_in_requests(tmp_path: Path) -> None:
    text = """
requests:
  - request: {url: http://a/x, execute_repeat_times: 2}
  - request: {method: POST, url: http://a/_bulk/}
  - request: {method: POST, url: http://a/b/_bulk?x=1}
"""
    (task,) = challenge(tmp_path, text).tasks
    assert (task.name, task.clients, task.time_period_s, task.warmup_time_s) == ("requests", 1, 5, None)
    assert [each["name"] for each in task.operation.params["requests"]] == ["get-x", "post-bulk", "post-bulk-2"]
    (task,) = challenge(tmp_path, text, requests=11, rate=100, clients=3).tasks
    assert task.schedule.rate is not None
    assert (task.requests, task.schedule.rate.value, task.clients) == (11, 100, 3)
    (task,) = challenge(tmp_path, text, rounds=7).tasks
    assert (task.iterations, task.requests, task.time_period_s) == (None, None, None)
    assert task.operation.params["turns"] == 7
    (task,) = challenge(tmp_path, "requests: [{request: {url: http://a/x}}]", rounds=7).tasks
    assert (task.iterations, task.operation.params.get("turns")) == (7, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("requests: [{request: {url: 'a:9200/x'}}]", 'loadgen.yml:1: "a:9200/x" is not a URL'),
        (
            "requests: [{request: {url: 'http://a/'}}, {request: {url: 'https://b/'}}]",
            "some requests go to https, and some to http (put them into two files)",
        ),
        ("requests: [{request: {url: 'http://u:hush@a:x/'}}]", 'loadgen.yml:1: "a:x" is not a host'),
        ("requests: [{request: {url: 'ftp://u:hush@a/'}}]", '"ftp://a/" is not a URL'),
        (
            "variables: [{name: a, type: range, from: 5, to: 1}]\nrequests: [{request: {url: 'http://a/'}}]",
            'loadgen.yml:1: variable "a": "to" (1) is below "from" (5)',
        ),
        ("requests: [{request: {url: /x}}]", '"/x" names no host (say http://HOST:PORT/PATH, or give runner'),
        ("requests: [{request: {url: '$[[base]]/x'}}]", '"$[[base]]/x" begins with what is drawn (say http'),
        ("requests: [{request: {url: 'http://me:hu@sh@host:x/'}}]", '"host:x" is not a host'),
        ("requests: [{request: {url: 'http://a/', body: 'a $[[b'}}]", "loadgen.yml:1: $[[ without ]]"),
        ("requests: [{request: {url: 'http://$[[host]]/x'}}]", 'the host "$[[host]]" is drawn'),
        (
            "requests: [{request: {url: '$[[env.NOWHERE]]/x'}}]",
            "the environment variable NOWHERE has no value (set it and add --env=NOWHERE, or",
        ),
        (
            "variables: [{name: a, type: file, path: no.txt}]\nrequests: [{request: {url: 'http://a/'}}]",
            'loadgen.yml:1: there is no file "no.txt" of values of "a"',
        ),
        (
            "variables: [{name: a, type: list}]\nrequests: [{request: {url: 'http://a/'}}]",
            'variable "a": "data" must be a list of values',
        ),
        (
            "variables: [{name: a, type: random_array, variable_key: b}]\nrequests: [{request: {url: 'http://a/'}}]",
            '"a" takes its elements from a variable that the file lacks: variable_key: "b"',
        ),
        (
            "variables: [{name: a, type: now_with_format, format: '%Y'}]\nrequests: [{request: {url: 'http://a/'}}]",
            '"%Y" is not a layout of Go',
        ),
    ],
)
def test_what_cannot_be_raced_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(EsbenchError) as caught:
        converted(tmp_path, text)
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def test_pauses_alone_a_fragment_and_the_method_head(tmp_path: Path) -> None:
    text = """
requests:
  - request: {method: HEAD, url: "http://a/x?q=1#part"}
  - sleep: {sleep_in_milli_seconds: 50}
  - request: {url: "/y#part"}
"""
    (task,) = challenge(tmp_path, text.replace("/y", "http://a/y")).tasks
    assert [
        (each.get("method"), each.get("path"), each.get("pause")) for each in task.operation.params["requests"]
    ] == [
        ("HEAD", "/x?q=1", None),
        (None, None, "50ms"),
        ("GET", "/y", None),
    ]


@pytest.mark.parametrize(("content", "said"), [(b"a\n\xd6\xd0\n", "line 2 is not UTF-8 text"), (b"\n \n", "is empty")])
def test_a_fault_of_a_file_of_values_names_it(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "words.txt").write_bytes(content)
    text = "variables:\n- {name: v, type: file, path: words.txt}\nrequests: [{request: {url: 'http://a/$[[v]]'}}]"
    with pytest.raises(TrackError) as caught:
        converted(tmp_path, text)
    assert f'{tmp_path / "words.txt"}" of values of "v"' in str(caught.value)
    assert said in str(caught.value)
    assert "loadgen.yml:2" in str(caught.value)
