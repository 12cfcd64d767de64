"""Signature Version 4: AWS's published vectors, what of a request is signed, and where keys are found.

The vectors are those of AWS's signing test suite (awslabs/aws-c-auth, tests/aws-signing-test-suite/v4): their key,
region, service and time are the same in all of them.
"""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from esbench.cluster.aws import (
    AwsIdentity,
    AwsKeys,
    AwsSigner,
    canonical_path,
    canonical_query,
    canonical_request,
    digest_of,
    identity_of,
)
from esbench.errors import UsageError

KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
NOW = 1440938160.0  # 20150830T123600Z
HOST = ("host", "example.amazonaws.com")
DATE = ("x-amz-date", "20150830T123600Z")
TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwt"
    "hAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVX"
    "AkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
)
EMPTY = digest_of(b"")


def signer(keys: AwsKeys = KEYS, service: str = "service") -> AwsSigner:
    return AwsSigner(AwsIdentity("us-east-1", service, keys), now=lambda: NOW)


def signature_of(method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> str:
    signs = signer()
    list(signs.headers("GET", "/", "any", EMPTY))  # it knows the time with its first request
    return signs.signature(canonical_request(method, target, headers, digest_of(body)))


@pytest.mark.parametrize(
    ("method", "target", "signature"),
    [
        ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ("POST", "/?Param1=value1", "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"),
        ("GET", "/?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
        (
            "GET",
            "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
            "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac",
        ),
        ("GET", "/\u1234", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
        ("GET", "/example space/", "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"),
        ("GET", "/./example", "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5"),
    ],
    ids=["vanilla", "post", "query", "order", "encoded", "utf8", "space", "dot"],
)
def test_the_vectors_of_aws(method: str, target: str, signature: str) -> None:
    assert signature_of(method, target, [HOST, DATE], b"") == signature


def test_the_vector_with_a_session_token() -> None:
    headers = [HOST, DATE, ("x-amz-security-token", TOKEN)]
    expected = "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"
    assert signature_of("POST", "/", headers, b"") == expected


def test_the_vector_with_a_signed_body() -> None:
    body = b"Param1=value1"
    headers = [
        ("content-length", "13"),
        ("content-type", "application/x-www-form-urlencoded"),
        HOST,
        ("x-amz-content-sha256", sha256(body).hexdigest()),
        DATE,
    ]
    expected = "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"
    assert signature_of("POST", "/", headers, body) == expected


def headers_in(request: bytes) -> dict[str, str]:
    head = request.partition(b"\r\n\r\n")[0].decode()
    return dict(line.split(": ", 1) for line in head.split("\r\n")[1:])


@pytest.mark.parametrize("pieces", [1, 2], ids=["in one piece", "with the body apart"])
def test_a_request_keeps_its_lines_and_its_body(pieces: int) -> None:
    head, body = b"POST /orders/_search?size=1 HTTP/1.1\r\nHost: es:9200\r\nContent-Length: 2\r\n\r\n", b"{}"
    request = (head + body,) if pieces == 1 else (head, body)
    sent = b"".join(signer().signed(request))
    assert sent.startswith(head[:-2])
    assert sent.endswith(b"\r\n\r\n{}")
    headers = headers_in(sent)
    assert headers["X-Amz-Content-SHA256"] == digest_of(body)
    assert headers["X-Amz-Date"] == "20150830T123600Z"
    expected = signature_of(
        "POST",
        "/orders/_search?size=1",
        [("host", "es:9200"), ("x-amz-content-sha256", digest_of(body)), DATE],
        body,
    )
    assert headers["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={expected}"
    )


def test_a_digest_that_a_head_has_is_taken_for_that_of_its_body() -> None:
    digest = "ab" * 32
    head = f"POST /_bulk HTTP/1.1\r\nHost: es\r\nX-Amz-Content-SHA256: {digest}\r\nContent-Length: 2\r\n\r\n".encode()
    sent = b"".join(signer().signed((head, b"{}")))
    assert sent.count(b"X-Amz-Content-SHA256") == 1
    assert headers_in(sent)["X-Amz-Content-SHA256"] == digest


def test_a_session_token_is_sent_and_signed() -> None:
    keys = AwsKeys(KEYS.access_key_id, KEYS.secret_access_key, "token")
    headers = dict(signer(keys).headers("GET", "/", "es", EMPTY))
    assert headers["X-Amz-Security-Token"] == "token"
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token," in headers["Authorization"]


def test_another_second_and_another_day_have_other_signatures() -> None:
    times = iter([NOW, NOW, NOW + 1, NOW + 86400])
    signs = AwsSigner(AwsIdentity("us-east-1", "es", KEYS), now=lambda: next(times))
    first, again, later, next_day = (dict(signs.headers("GET", "/", "es", EMPTY)) for _ in range(4))
    assert first == again
    assert later["Authorization"] != first["Authorization"]
    assert "/20150831/us-east-1/es/aws4_request" in next_day["Authorization"]


@pytest.mark.parametrize(
    ("path", "signed"),
    [
        ("/", "/"),
        ("/orders/_doc/a.b-c_d~e", "/orders/_doc/a.b-c_d~e"),
        ("/orders/_doc/a%2Fb", "/orders/_doc/a%252Fb"),
        ("/logs-*/_search", "/logs-%2A/_search"),
        ("/a,b/_search", "/a%2Cb/_search"),
        ("/a//b/../c/", "/a/c/"),
        ("/.kibana/_search", "/.kibana/_search"),
    ],
)
def test_a_path_is_encoded_once_more(path: str, signed: str) -> None:
    assert canonical_path(path) == signed


@pytest.mark.parametrize(
    ("query", "signed"),
    [
        ("", ""),
        ("refresh", "refresh="),
        ("b=2&a=1", "a=1&b=2"),
        ("filter_path=a,b&x=*", "filter_path=a%2Cb&x=%2A"),
        ("q=a%20b&q=%C3%A9", "q=%C3%A9&q=a%20b"),
    ],
)
def test_a_query_is_encoded_by_one_rule_and_sorted(query: str, signed: str) -> None:
    assert canonical_query(query) == signed


def test_secrets_are_in_no_repr() -> None:
    shown = repr(AwsIdentity("eu-west-1", "es", AwsKeys("AKID", "hush", "token")))
    assert not re.search("hush|token'", shown)


WHERE = "--client-options"
GIVEN: dict[str, str | None] = {
    "aws_access_key_id": "AKID",
    "aws_secret_access_key": "hush",
    "region": "eu-west-1",
    "service": "aoss",
}


def test_keys_are_given_or_stand_in_the_environment() -> None:
    assert identity_of({}, {"AWS_ACCESS_KEY_ID": "AKID"}, WHERE) is None
    assert identity_of(GIVEN, {}, WHERE) == AwsIdentity("eu-west-1", "aoss", AwsKeys("AKID", "hush"))
    environment = {
        "AWS_ACCESS_KEY_ID": "AKID",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "AWS_SESSION_TOKEN": "token",
        "AWS_REGION": "eu-west-1",
    }
    found = identity_of({"amazon_aws_log_in": "environment"}, environment, WHERE)
    assert found == AwsIdentity("eu-west-1", "es", AwsKeys("AKID", "hush", "token"))
    of_osb = {f"OSB_{name}": value for name, value in environment.items() if name != "AWS_REGION"}
    assert identity_of({"amazon_aws_log_in": "environment", "region": "eu-west-1"}, of_osb, WHERE) == found
    session = identity_of({"amazon_aws_log_in": "session", "region": "eu-west-1"}, {}, WHERE)
    assert session == AwsIdentity("eu-west-1", "es")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"amazon_aws_log_in": "env"}, 'amazon_aws_log_in is "env"'),
        ({"region": "eu-west-1"}, "amazon_aws_log_in is missing"),
        ({**GIVEN, "service": "s3"}, 'service is "s3"'),
        ({**GIVEN, "region": None}, "region is missing"),
        ({**GIVEN, "aws_secret_access_key": None}, "aws_secret_access_key is missing"),
        ({"amazon_aws_log_in": "environment", "region": "eu-west-1"}, "AWS_ACCESS_KEY_ID is missing"),
    ],
)
def test_what_is_missing_is_named(options: dict[str, str | None], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        identity_of(options, {}, WHERE)
    assert raised.value.what == said
    assert "hush" not in str(raised.value)


def test_a_session_has_the_keys_of_awss_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With botocore, which the extra aws brings."""
    pytest.importorskip("botocore")
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id = {KEYS.access_key_id}\naws_secret_access_key = {KEYS.secret_access_key}\n"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    of_session = AwsSigner(AwsIdentity("us-east-1", "service"), now=lambda: NOW)
    assert dict(of_session.headers("GET", "/", "es", EMPTY)) == dict(signer().headers("GET", "/", "es", EMPTY))
    (tmp_path / "credentials").unlink()
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(UsageError, match="finds no credentials of AWS"):
        AwsSigner(AwsIdentity("us-east-1", "service"))
