"""What is kept of failed requests."""

from __future__ import annotations

import base64

import pytest

from esbench.load.failures import MOST_KINDS, OTHER, Failures, remedy, sentence
from esbench.measure.verdict import Evidence, Verdict

REQUEST = b"GET /orders/_doc/7?routing=u1 HTTP/1.1\r\nHost: h:9200\r\n\r\n"


def test_a_failure_gets_its_request_and_reply() -> None:
    told = Failures().explain(Verdict(3, "HTTP 429 x", "full"), lambda: REQUEST, 429, b'{"error":1}')
    assert told == Verdict(
        3, "HTTP 429 x", "full", evidence=Evidence("GET /orders/_doc/7?routing=u1", 429, '{"error":1}')
    )


def test_the_first_of_a_kind_stands_for_all_and_is_made_once() -> None:
    failures = Failures()
    for number in range(5):
        request = iter([f"GET /{number} HTTP/1.1\r\n\r\n".encode()])
        told = failures.explain(Verdict(number, "timeout", str(number)), request.__next__)
        assert (told.units, told.error, told.example, told.evidence) == (number, "timeout", "0", Evidence("GET /0"))
        assert len(list(request)) == (0 if number == 0 else 1)


def test_further_kinds_are_counted_together() -> None:
    failures = Failures()
    kinds = [
        failures.explain(Verdict(0, f"HTTP 500 e{n}", f"{n}"), lambda: REQUEST).error for n in range(MOST_KINDS + 9)
    ]
    assert kinds[:MOST_KINDS] == [f"HTTP 500 e{n}" for n in range(MOST_KINDS)]
    assert set(kinds[MOST_KINDS:]) == {OTHER}
    with_a_broken_request = failures.explain(Verdict(0, "HTTP 500 new"), iter([]).__next__)  # it is not asked for
    assert (with_a_broken_request.error, with_a_broken_request.example) == (OTHER, str(MOST_KINDS))
    assert failures.explain(Verdict(0, "HTTP 500 e3"), lambda: REQUEST).error == "HTTP 500 e3"


def test_everything_is_shortened_after_its_secrets_are_hidden() -> None:
    body = b'{"x":"' + b"y" * 470 + b'","password":"hunter2"}' + b"z" * 9_000
    request = b"GET /" + b"p" * 500 + b" HTTP/1.1\r\n\r\n"
    told = Failures().explain(Verdict(0, "HTTP 500", "e" * 900), lambda: request, 500, body)
    assert told.evidence is not None
    assert [len(told.example), len(told.evidence.request), len(told.evidence.body)] == [300, 200, 500]
    assert "hunter" not in told.evidence.body


@pytest.mark.parametrize(
    ("header", "secrets"),
    [
        ("Authorization: Basic " + base64.b64encode("joe:päss".encode()).decode(), ["päss"]),
        ("authorization: ApiKey " + base64.b64encode(b"id:key-itself").decode(), ["key-itself"]),
        ("X-Vault-Token: tok", ["tok"]),
        ("Cookie: sid=abc", ["sid=abc"]),
        ("Authorization: Basic not/base64!", ["not/base64!"]),
    ],
)
def test_the_credentials_of_a_request_are_known(header: str, secrets: list[str]) -> None:
    value = header.partition(": ")[2]
    request = f"GET / HTTP/1.1\r\nHost: h\r\n{header}\r\n\r\n{{}}".encode("latin-1")
    text = " and ".join([value, value.partition(" ")[2] or value, *secrets])
    told = Failures().explain(Verdict(0, "HTTP 401", text), lambda: request)
    assert told.example.replace("<hidden>", "").replace(" and ", "").strip() in ("", "Basic", "ApiKey")


@pytest.mark.parametrize(
    ("line", "kind", "body", "is_told"),
    [
        ("GET /a/_terms_enum", "HTTP 405", "Incorrect HTTP method for uri [/a/_terms_enum]", True),
        ("GET /_query?x=1", "HTTP 400", "no handler found for uri [/_query]", True),
        ("POST /a*/_eql/search", "HTTP 400 x", '{"error": {"type": "invalid_index_name_exception"}}', True),
        ("GET /a/_sample/config", "HTTP 404", '{"_index":"a","_type":"_sample","found":false}', True),
        ("GET /a/_doc/1", "HTTP 404", '{"_index":"a","_type":"_doc","found":false}', False),
        ("PUT /A/_doc/1", "HTTP 400 x", '{"error":{"type":"invalid_index_name_exception"}}', False),
        ("PUT /_view/v", "not supported", "no handler found for uri [/_view/v]", False),
        ("GET /a/_search", "HTTP 400 x", '{"error":{"type":"parsing_exception"}}', False),
    ],
)
def test_a_path_that_the_server_does_not_know_is_called_so(line: str, kind: str, body: str, is_told: bool) -> None:
    told = Failures().explain(Verdict(0, kind, "refused"), f"{line} HTTP/1.1".encode, 400, body.encode())
    assert told.example == (f"the server does not know {line}: refused" if is_told else "refused")


@pytest.mark.parametrize(
    ("example", "lacks"),
    [
        ("Failed to parse mapping: The mapper type [percolator] declared on field [q] does not exist. It might", True),
        ("Failed to parse mapping [_doc]: No handler for type [percolator] declared on field [q]", True),
        ("Failed to parse mapping: analyzer [english] has not been configured in mappings", True),
        ("analyzer [english] not found for field [body]", True),
        ("all shards failed: failed to create query: script_lang not supported [painless]", True),
        ("No processor type exists with name [set]", True),
        ("this Elasticsearch 7.10 has no SQL: its distribution or license leaves them out", True),
        ("the server does not know POST /_reindex: Incorrect HTTP method", True),
        ("unknown query [mtach_all] did you mean [match_all]?", False),
        ("no such index [nope]", False),
        ("index [docs/null] already exists", False),
    ],
)
def test_the_remedy_tells_what_a_cluster_lacks_from_what_a_request_does_wrong(example: str, lacks: bool) -> None:
    told = remedy(Verdict(0, "HTTP 400", example))
    assert ("the cluster lacks it" in told) == lacks
    assert ("--on-error=continue" in told) != lacks


@pytest.mark.parametrize(
    ("status", "may_pass"), [(400, False), (403, False), (404, True), (429, True), (503, True), (None, True)]
)
def test_a_request_that_fails_each_time_is_not_raced_on_with(status: int | None, may_pass: bool) -> None:
    told = remedy(Verdict(0, "HTTP 400", "index [docs/null] already exists", evidence=Evidence("PUT /docs", status)))
    assert told == ("--on-error=continue races on and counts errors" if may_pass else "")


def test_a_failure_in_a_sentence() -> None:
    assert sentence(Verdict(0, "timeout", "no\n reply")) == "timeout: no reply"
    assert sentence(Verdict(0, "timeout", evidence=Evidence("GET /"))) == "timeout for GET /"
    assert (
        sentence(Verdict(0, "not found", "x", evidence=Evidence("GET /", 404))) == "not found for GET / (HTTP 404): x"
    )
    assert sentence(Verdict(0, "HTTP 429 full", "x", evidence=Evidence("GET /", 429))) == "HTTP 429 full for GET /: x"
