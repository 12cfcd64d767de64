"""What others wrote, without the secrets in it."""

from __future__ import annotations

import json

import pytest

from esbench.record.secrets import Redactor, redact, secret_values

hide = Redactor()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Basic dTpwOsOkQQ== was refused", "Authorization: <hidden> was refused"),
        ('{"Authorization":["Basic abc"]}', '{"Authorization":["<hidden>"]}'),
        ('{"Authorization" : [ "abc" ]}', '{"Authorization" : [ "<hidden>" ]}'),
        ('{"headers":{"authorization":"ApiKey a1b2c3"},"x":1}', '{"headers":{"authorization":"<hidden>"},"x":1}'),
        ("[Authorization=[Basic Zm9v]]", "[Authorization=[<hidden>]]"),
        ("X-Api-Key: foo\nX-Auth-Token: bar", "X-Api-Key: <hidden>\nX-Auth-Token: <hidden>"),
        ("refused Bearer abcDEF123.xyz-_ today", "refused Bearer <hidden> today"),
        ("Set-Cookie: sid=abc; Path=/", "Set-Cookie: <hidden>; Path=/"),
        ("no host http://u:p%40w@h:9200/x", "no host http://<hidden>@h:9200/x"),
        ("GET /a?api_key=abc&x=1", "GET /a?api_key=<hidden>&x=1"),
        ('{"password":12345,"user":"x"}', '{"password":<hidden>,"user":"x"}'),
        ('{"secret_ident" : "abc\\"def", "b": 2}', '{"secret_ident" : "<hidden>", "b": 2}'),
        ('{"api_key":{"id":"x","api_key":"y"},"n":1}', '{"api_key":<hidden>,"n":1}'),
        ("keystore_password = 'a b'", "keystore_password = '<hidden>'"),
        ('{"access_token":"abc","client_secret":"def"}', '{"access_token":"<hidden>","client_secret":"<hidden>"}'),
        (
            json.dumps({"error": json.dumps({"password": 'hun"ter2', "user": "x"})}),
            '{"error": "{\\"password\\": \\"<hidden>\\", \\"user\\": \\"x\\"}"}',
        ),
    ],
)
def test_what_looks_like_credentials_is_hidden(text: str, shown: str) -> None:
    assert hide(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "missing authentication credentials for REST request [/], Basic authentication is needed",
        "the authorization header is missing",
        "unable to authenticate user [elastic] for REST request [/_bulk]",
        "failed to parse field [password] of type [long]",
        "rejected execution of coordinating operation [coordinating_and_primary_bytes=0]",
        "http://10.0.0.1:9200/a, b@c",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert hide(text) == text


@pytest.mark.parametrize(
    "written",
    [
        'p:ä"x/1',
        json.dumps('p:ä"x/1'),
        json.dumps(json.dumps({"in": ['p:ä"x/1']})),
        json.dumps('p:ä"x/1', ensure_ascii=False),
        "p%3A%C3%A4%22x%2F1",
        repr('p:ä"x/1'.encode()),
    ],
)
def test_a_known_secret_is_hidden_however_it_is_written(written: str) -> None:
    shown = Redactor(['p:ä"x/1'])(f"before {written} after")
    assert "<hidden>" in shown
    assert "x" not in shown.replace("<hidden>", "").replace("\\u", "")
    assert shown.startswith("before ")
    assert shown.endswith(" after")


def test_a_short_known_secret_is_hidden_as_a_word_only() -> None:
    assert Redactor(["elastic"])("elasticsearch: user:elastic") == "elasticsearch: user:<hidden>"
    assert Redactor(["elasticity"])("xelasticityx") == "x<hidden>x"
    assert Redactor([""])("as it was") == "as it was"


def test_further_secrets_may_become_known() -> None:
    assert Redactor(["one"]).knowing(["two"])("one two three") == "<hidden> <hidden> three"


@pytest.mark.parametrize(
    "text",
    ["a", "password", "password:", 'password:"', "x-", "x-token", "secret_", "Basic ", "://", "\\", "password: "],
)
def test_text_that_is_made_to_be_slow_is_not(text: str) -> None:
    """A worker reads it while it measures. With repetitions that overlap, this takes minutes."""
    for repeated in (text * 20_000, f"password{text * 20_000}", f"authorization:{text * 20_000}"):
        assert Redactor(["hunter2token"])(repeated)


def test_the_secrets_among_parameters_are_their_values_wherever_they_stand() -> None:
    params = {
        "secret_token": "abc",
        "shards": 5,
        "nested": [{"db-password": "x y", "user": "u"}],
        "api_key": {"id": "i", "key": 7},
        "secret_none": None,
    }
    assert sorted(secret_values(params)) == ["7", "abc", "i", "x y"]


def test_a_url_among_parameters_loses_its_user_and_password() -> None:
    assert redact({"base": ["http://joe:pw@far/x"], "n": 5}) == {"base": ["http://<hidden>@far/x"], "n": 5}


def test_known_secrets_are_hidden_in_the_texts_of_json() -> None:
    redactor = Redactor(["pass-word"])
    assert redactor.knows_one_of('{"a": "xpass-wordx"}')
    assert not redactor.knows_one_of('{"a": "password: other"}')
    assert redactor.within({"pass-word": ["a pass-word", 5, {"b": "pass-word"}]}) == {
        "pass-word": ["a <hidden>", 5, {"b": "<hidden>"}]
    }
