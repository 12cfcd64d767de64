"""Reading of Loadgen's files: what is in them, and one line for each fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from loadgen_files import PUBLISHED, write

from esbench.errors import EsbenchError
from esbench.features.loadgen.file import Identity, open_loadgen


def test_the_published_example_is_read(tmp_path: Path) -> None:
    file = open_loadgen(write(tmp_path, PUBLISHED)).read({})
    assert [each.type for each in file.variables] == ["sequence", "uuid", "now_local", "now_utc", "now_unix", "range"]
    (request,) = file.requests
    assert (request.method, request.url, request.body_repeat_times) == ("POST", "http://192.168.3.188:9206/_bulk", 10)
    assert request.basic_auth == Identity("ingest", "password")
    assert (request.runtime_variables, request.runtime_body_line_variables) == (
        {"batch_no": "id"},
        {"routing_no": "uuid"},
    )
    assert request.body.count("\n") == 2


def test_everything_of_a_request_is_read(tmp_path: Path) -> None:
    text = """
env: {PORT: 9200, ON: true}
runner: {total_rounds: 2, no_warm: true, valid_status_codes_during_warmup: [200, 404], assert_error: true,
         default_endpoint: "http://a:1", default_basic_auth: {username: u, password: p}, log_requests: true}
requests:
  - request: {url: /x, execute_repeat_times: 3, headers: [{X-A: 1}, {X-B: b}]}
    assert: {equals: {_ctx.response.status: 200}}
    register: [{a: _ctx.response.body_json.a}]
    sleep: {sleep_in_milli_seconds: 20}
"""
    file = open_loadgen(write(tmp_path, text)).read({})
    assert file.environment.defaults == {"PORT": "9200", "ON": "true"}
    assert (file.runner.total_rounds, file.runner.no_warm, file.runner.valid_statuses) == (2, True, (200, 404))
    (request,) = file.requests
    assert (request.method, request.execute_repeat_times, request.sleep_ms) == ("GET", 3, 20)
    assert request.headers == {"X-A": "1", "X-B": "b"}
    assert request.register == {"a": "_ctx.response.body_json.a"}
    assert request.asserted == {"equals": {"_ctx.response.status": 200}}
    assert file.warnings == (
        "runner: log_requests: without effect (all is measured; the record has a reply of each failure)",
    )


REQUEST = "requests: [{request: {url: http://a/}}]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("GET http://localhost:8000/_search\n", "this is not a Loadgen file (a file of the DSL ends in .dsl)"),
        ("", "this is not a Loadgen file (it has requests: and variables:)"),
        ("variables: []\n", "the file has no requests"),
        ("request: []\n", 'loadgen.yml:1: a Loadgen file has no "request" (did you mean "requests"?'),
        ("requests: [{reqest: {url: /}}]\n", 'an element of requests has a "request" (did you mean "reqest"?'),
        ("requests: [{sleep: {sleep_in_milli_seconds: 5}}]\n", "there are sleeps alone, and no request"),
        ("pipeline: []\n", 'loadgen.yml:1: "pipeline" belongs to a file for INFINI Gateway'),
        ("tests: [{path: a}]\n", "suites of tests are not run"),
        ("requests: [a]\n", '"requests" has mappings, not text'),
        ("requests: {a: 1}\n", '"requests" must be a list'),
        ("requests: [{request: {method: GET}}]\n", 'a request has a "url"'),
        ("requests: [{request: {url: /, body_repeat_times: many}}]\n", '"body_repeat_times" must be a whole number'),
        ("requests: [{request: {url: /}, assert: {equal: {a: 1}}}]\n", 'unknown condition "equal"'),
        ("runner: {no_warm: 5}\n" + REQUEST, '"no_warm" must be true or false, not 5'),
        ("runner: 1\n" + REQUEST, '"runner" must be a mapping'),
        ("variables: [{name: a, type: sequnce}]\n" + REQUEST, 'unknown type of a variable: "sequnce" (did you mean'),
        ("variables: [{type: uuid}]\n" + REQUEST, "a variable has no name"),
        ("variables: [{name: a, type: sequence, from: abc}]\n" + REQUEST, '"from" must be a whole number from 0 on'),
        ("variables: [{name: a, type: sequence, to: []}]\n" + REQUEST, '"to" must be a whole number'),
        ("variables: [{name: a, type: list, data: 5}]\n" + REQUEST, '"data" must be a list, not text'),
        ("requests: [{request: {url: /, basic_auth: 'me:hush'}}]\n", '"basic_auth" must be a mapping, not text'),
        ("requests: [{request: {url: /, headers: ['Authorization: hush']}}]\n", '"headers" has mappings, not text'),
        ("requests: [{request: {url: /}, assert: {exists: 5}}]\n", '"exists" takes a list of paths'),
        ("requests: []\n", "the file has no requests (requests: is a list of what to send)"),
        (
            "variables: [{name: a, type: uuid}, {name: a, type: uuid}]\n" + REQUEST,
            'the variable "a" is defined twice',
        ),
        ("requests: [{request: {method: GTE, url: /}}]\n", '(did you mean "GET"?'),
        ("requests: [{request: 5}]\n", '"request" must be a mapping, not text'),
        ("runner: {total_rounds: $[[env.N]]}\n" + REQUEST, "not valid YAML"),
        (
            "runner:\n  total_rounds: $[[env.N]]\n" + REQUEST,
            "the environment variable N has no value (set it and add --env=N, or",
        ),
        ("env: [a]\n" + REQUEST, '"env" must be a mapping'),
        ("a: [1\n", "loadgen.yml:2: not valid YAML"),
        ("a: 1\n\tb: 2\n", "loadgen.yml:2: not valid YAML: a tab indents this line"),
    ],
)
def test_each_fault_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(EsbenchError) as caught:
        open_loadgen(write(tmp_path, text)).read({})
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "requests:\n  - request:\n      methd: GET\n      url: /\n",
            'loadgen.yml:3: a request has no "methd": read past (did you mean "method"?)',
        ),
        ("requests: [{request: {has_variable: true, url: /}}]\n", 'a request has no "has_variable": read past'),
        ("requests: [{request: {url: /, basic_auth: {user: a}}}]\n", 'basic_auth has no "user": read past'),
        ("requests: [{request: {url: /}, assert_dsl: x}]\n", 'an element of requests has no "assert_dsl"'),
        ("requests: [{request: {url: /}, sleep: {ms: 1}}]\n", 'sleep has no "ms": read past'),
        (
            "runner: {total_round: 1}\n" + REQUEST,
            'runner has no "total_round": read past (did you mean "total_rounds"?)',
        ),
        ("runner: {skip_invalid_assert: true}\n" + REQUEST, "runner: skip_invalid_assert: without effect"),
        ("variables: [{name: a, type: range, form: 1}]\n" + REQUEST, 'a variable has no "form": read past'),
        ("requests: [{request: {url: /}, assert: {exists: [a], url: /}}]\n", 'an assert has no "url": read past'),
        ("pipeline: []\n" + REQUEST, "pipeline: without effect"),
        (
            "requests:\n  - request:\n      url: /a\n      url: /b\n",
            'loadgen.yml:4: the key "url" is here a second time: this one counts',
        ),
    ],
)
def test_what_loadgen_reads_past_is_a_notice(tmp_path: Path, text: str, said: str) -> None:
    (warning,) = open_loadgen(write(tmp_path, text)).read({}).warnings
    assert said in warning


def test_the_last_of_two_equal_keys_counts(tmp_path: Path) -> None:
    text = "env: {A: x}\nenv: {A: y}\nrequests: [{request: {url: /a, url: '/$[[env.A]]'}}]\n"
    file = open_loadgen(write(tmp_path, text)).read({})
    assert file.requests[0].url == "/$[[env.A]]"
    assert file.environment.value("A") == "y"


def test_a_list_of_the_environment_is_json(tmp_path: Path) -> None:
    file = open_loadgen(write(tmp_path, "env: {A: [x, 1], B: {k: true}}\n" + REQUEST)).read({})
    assert (file.environment.value("A"), file.environment.value("B")) == ('["x",1]', '{"k":true}')


def test_a_sleep_alone_stands_where_it_does(tmp_path: Path) -> None:
    sleep = "{sleep: {sleep_in_milli_seconds: 50}}"
    file = open_loadgen(write(tmp_path, f"requests: [{sleep}, {{request: {{url: /}}}}, {sleep}]")).read({})
    assert [each if isinstance(each, int) else each.url for each in file.elements] == [50, "/", 50]


def test_texts_are_read_as_they_are_written(tmp_path: Path) -> None:
    text = """
variables: [{name: a, type: list, data: [true, 010, 1.10, 2024-01-01, null]}]
requests: [{request: {url: /, basic_auth: {username: 007, password: 0123}, headers: [{X-A: 1.0}]}}]
"""
    file = open_loadgen(write(tmp_path, text)).read({})
    assert file.variables[0].keys["data"] == ["true", "010", "1.10", "2024-01-01", ""]
    assert file.requests[0].basic_auth == Identity("007", "0123")
    assert file.requests[0].headers == {"X-A": "1.0"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.yml", "cannot be read: No such file or directory"),
        ("loadgen.txt", "is not a Loadgen file (it ends in .yml, or of the DSL in .dsl)"),
    ],
)
def test_what_is_no_file_of_yaml_is_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(EsbenchError) as caught:
        open_loadgen(tmp_path / name).read({})
    assert said in str(caught.value)


def test_environment_variables_have_their_values_wherever_loadgen_has_them(tmp_path: Path) -> None:
    text = """
env: {KIND: list, STATUS: "200"}
runner:
  total_rounds: $[[env.ROUNDS]]
  no_warm: $[[env.QUICK]]
  default_basic_auth: {username: me, password: "$[[env.PASSWORD]]"}
variables: [{name: a, type: "$[[env.KIND]]", data: ["$[[env.VALUE]]-1"]}]
requests:
  - request: {method: "$[[env.METHOD]]", url: "http://a/$[[env.VALUE]]", body: "$[[env.VALUE]]"}
    assert: {equals: {_ctx.response.status: "$[[env.STATUS]]"}}
"""
    values = {"ROUNDS": "7", "QUICK": "true", "PASSWORD": "0123", "VALUE": "007", "METHOD": "put"}
    file = open_loadgen(write(tmp_path, text)).read(values)
    assert (file.runner.total_rounds, file.runner.no_warm) == (7, True)
    assert file.runner.default_basic_auth == Identity("me", "0123")
    assert file.variables[0].keys == {"data": ["007-1"]}
    (request,) = file.requests
    assert (request.method, request.asserted) == ("PUT", {"equals": {"_ctx.response.status": "200"}})
    assert (request.url, request.body) == ("http://a/$[[env.VALUE]]", "$[[env.VALUE]]")  # parameters of the track


def test_what_loadgen_ignores_is_said(tmp_path: Path) -> None:
    text = """
path.data: data
statsd: {enabled: false}
runner: {total_rounds: -1}
variables: [{name: a, type: uuid, format: x}]
requests: [{request: {url: http://a/, execute_repeat_times: -1}}]
"""
    file = open_loadgen(write(tmp_path, text)).read({})
    assert (file.runner.total_rounds, file.requests[0].execute_repeat_times, file.variables[0].keys) == (0, 1, {})
    assert file.warnings == (
        "path.data, statsd: without effect (esbench load reads env, runner, variables, requests)",
        'variable "a": format: without effect on uuid',
    )
