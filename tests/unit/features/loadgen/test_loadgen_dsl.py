"""Loadgen's DSL: request lines with bodies, and comments, as the same model as its YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
from loadgen_files import challenge, write

from esbench.errors import EsbenchError
from esbench.features.loadgen.file import Identity, LoadgenFile, open_loadgen

# After the examples of its documentation.
EXAMPLE = """\
# // How to run it
# runner: {
#   total_rounds: 2, // of each client
#   no_warm: true,
#   default_endpoint: "$[[env.ES_ENDPOINT]]",
# },
# variables: [
#   {name: "ip", type: "list", data: ["1.1.1.1", 'it\\'s'], replace: {'"': '\\\\"'}},
#   {name: "id", type: "sequence", from: 5},
# ],
#// Default values
# env: {
#   ES_ENDPOINT: "http://localhost:8000",
# },

DELETE /medcl

PUT /medcl
# 200
# {"acknowledged": true, "shards": {"ok": [1, "two"]}}
post /_bulk
{"index": {"_id": "$[[id]]"}}
  {"ip": "$[[ip]]"}
# request: {
#   runtime_variables: {batch_no: "id"},
#   body_repeat_times: 1000,
#   headers: [{"X-A": "b"}],
#   basic_auth: {username: elastic, password: "p w"},
# },
# register: [
#   {index_id: "_ctx.response.body_json.items.0.index._id"},
# ],
# assert: (201, {}),
# sleep: {sleep_in_milli_seconds: 10},

GET /x?q=name:$[[index_id]]
# assert: {
#   _ctx.response.status: 404,
#   _ctx.elapsed: 5,
# },
"""


def read(folder: Path, text: str, name: str = "loadgen.dsl") -> LoadgenFile:
    return open_loadgen(write(folder, text, name)).read({})


def test_requests_and_what_comments_say_of_them(tmp_path: Path) -> None:
    file = read(tmp_path, EXAMPLE)
    assert (file.runner.total_rounds, file.runner.no_warm) == (2, True)
    assert file.runner.default_endpoint == "http://localhost:8000"
    assert [(each.name, each.type) for each in file.variables] == [("ip", "list"), ("id", "sequence")]
    assert file.variables[0].keys == {"data": ["1.1.1.1", "it's"], "replace": {'"': '\\"'}}
    delete, put, bulk, get = file.requests
    assert (delete.method, delete.url, delete.body, delete.asserted) == ("DELETE", "/medcl", "", None)
    assert put.asserted == {
        "and": [
            {"equals": {"_ctx.response.status": 200}},
            {"equals": {"_ctx.response.body_json.acknowledged": True}},
            {"equals": {"_ctx.response.body_json.shards.ok.0": 1}},
            {"equals": {"_ctx.response.body_json.shards.ok.1": "two"}},
        ]
    }
    assert (bulk.method, bulk.body) == ("POST", '{"index": {"_id": "$[[id]]"}}\n  {"ip": "$[[ip]]"}\n')
    assert (bulk.body_repeat_times, bulk.headers, bulk.sleep_ms) == (1000, {"X-A": "b"}, 10)
    assert bulk.basic_auth == Identity("elastic", "p w")
    assert bulk.runtime_variables == {"batch_no": "id"}
    assert bulk.register == {"index_id": "_ctx.response.body_json.items.0.index._id"}
    assert bulk.asserted == {"equals": {"_ctx.response.status": 201}}
    assert get.asserted == {"and": [{"equals": {"_ctx.response.status": 404}}, {"equals": {"_ctx.elapsed": 5}}]}
    assert not file.warnings


def test_each_value_has_the_line_that_it_has_in_the_file(tmp_path: Path) -> None:
    file = read(tmp_path, EXAMPLE)
    lines = EXAMPLE.splitlines()
    for request, text in zip(file.requests, ("DELETE /medcl", "PUT /medcl", "post /_bulk", "GET /x"), strict=True):
        assert lines[int(request.where.rpartition(":")[2]) - 1].startswith(text)


def test_a_file_of_the_dsl_becomes_a_track_like_any_other(tmp_path: Path) -> None:
    file = write(tmp_path, "GET http://a/x\n# 200\n\nPOST http://a/y\n{}\n", "l.dsl")
    assert open_loadgen(file).read({}).requests[1].body == "{}\n"
    (task,) = challenge(tmp_path, "requests: [{request: {url: 'http://a/x'}}]").tasks
    assert task.operation.params["requests"][0]["path"] == "/x"


def test_a_file_beside_has_what_the_dsl_does_not_say(tmp_path: Path) -> None:
    yaml = "env: {HOST: 'http://a:1'}\nrunner: {total_rounds: 9}\nvariables: [{name: v, type: uuid}]\n"
    beside = write(tmp_path, yaml, "loadgen.yml")
    file = write(tmp_path, "# runner: {total_rounds: 3}\n\nGET $[[env.HOST]]/$[[v]]\n", "l.dsl")
    found = open_loadgen(file, beside).read({})
    assert (found.runner.total_rounds, found.environment.value("HOST")) == (3, "http://a:1")
    assert [each.name for each in found.variables] == ["v"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file has no requests"),
        ("# runner: {no_warm: true}\n", "the file has no requests"),
        ("GET /a\n\n}\n", 'l.dsl:3: "}" is not a request (say METHOD URL'),
        ("GET /a\n# wrong: {a\n", 'l.dsl:2: ":" should stand before the end of the comment'),
        ("GET /a\n# assert: 200\n", "l.dsl:2: an assert is an object, or a status and an object of the body"),
        ("GET /a\n# assert: (200, {}, {})\n", "l.dsl:2: an assert is an object"),
        ("GET /a\n# assert: (ok, {})\n", "l.dsl:2: ok is not a status"),
        ("GET /a\n# assert: (200, [1])\n", "l.dsl:2: what a body must be is an object"),
        ("GET /a\n# 200 {a: 1} b\n", "l.dsl:2: b follows what the reply must be"),
        ("GET /a\n# 2xx\n", 'l.dsl:2: ":" should stand before the end of the comment'),
        ("GET /a\n#\n# request: {a: `b`}\n", "l.dsl:3: '`b`}' cannot be read"),
        ("GET /a\n# request: {a: }\n", "l.dsl:2: a value should stand before }"),
        ("GET /a\n# {1: 2, [: 3}\n", "l.dsl:2: [ is not a key"),
        ("\nGTE /a\n", 'l.dsl:2: the method "GTE" cannot be sent (did you mean "GET"?'),
        (
            "GET /a\n# request: {\n#   body_repeat_times: many,\n# }\n",
            'l.dsl:3: "body_repeat_times" must be a whole number',
        ),
    ],
)
def test_what_cannot_be_read_is_one_line_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(EsbenchError) as caught:
        read(tmp_path, text, "l.dsl")
    assert said in str(caught.value)


def test_what_loadgen_reads_past_is_a_notice(tmp_path: Path) -> None:
    (warning,) = read(tmp_path, "GET /a\n# request: {\n#   methd: 1,\n# }\n", "l.dsl").warnings
    assert 'l.dsl:3: a request has no "methd": read past (did you mean "method"?)' in warning
