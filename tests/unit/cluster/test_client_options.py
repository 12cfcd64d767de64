"""What users write after --client-options and --target-hosts, and what they are told when it is wrong."""

from __future__ import annotations

import pickle
import re
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from esbench.cluster.options import ClientOptions, Host, parse_hosts
from esbench.errors import UsageError

SECRET = "s3cr3t-v4lue"


def refusal(options: dict[str, Any]) -> str:
    with pytest.raises(UsageError) as caught:
        ClientOptions.from_mapping(options)
    line = str(caught.value)
    assert line.startswith("--client-options")
    assert "\n" not in line
    assert SECRET not in line
    return line


def host_refusal(text: str | list[Any], options: ClientOptions | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        parse_hosts(text, options)
    line = str(caught.value)
    assert line.startswith("--target-hosts: ")
    assert "\n" not in line
    assert SECRET not in line
    return line


def test_what_only_http_has() -> None:
    token = ClientOptions.from_mapping({"bearer_auth": SECRET, "proxy": "http://10.0.0.9:3128"})
    assert token.of_http == ("bearer_auth", "proxy")
    assert ClientOptions.from_mapping({"api_key": SECRET}).of_http == ("api_key",)
    assert ClientOptions.from_mapping({"amazon_aws_log_in": "session", "region": "r"}).of_http == ("amazon_aws_log_in",)
    password = {"basic_auth_user": "me", "basic_auth_password": SECRET, "use_ssl": True, "timeout": 3}
    assert ClientOptions.from_mapping(password).of_http == ()


def test_nothing_given_means_rallys_defaults() -> None:
    options = ClientOptions.from_mapping({})
    assert options == ClientOptions()
    assert (options.timeout_s, options.use_ssl, options.verify_certs) == (60.0, False, True)
    assert options.headers() == ()
    assert options.ssl_context() is None


def test_rallys_names_are_read() -> None:
    options = ClientOptions.from_mapping(
        {
            "timeout": "2m",
            "use_ssl": True,
            "verify_certs": "false",
            "basic_auth_user": "elastic",
            "basic_auth_password": "a:b",
            "http_compress": True,
        }
    )
    assert options.timeout_s == 120.0
    assert (options.use_ssl, options.verify_certs, options.http_compress) == (True, False, True)
    assert options.headers() == (("Authorization", "Basic ZWxhc3RpYzphOmI="),)


@pytest.mark.parametrize("api_key", ["aWQ6a2V5", "id:key", ["id", "key"]])
def test_an_api_key_is_sent_encoded_however_it_is_written(api_key: Any) -> None:
    assert ClientOptions.from_mapping({"api_key": api_key}).headers() == (("Authorization", "ApiKey aWQ6a2V5"),)


def test_secrets_are_not_shown_and_survive_the_way_to_a_worker() -> None:
    for options in (
        ClientOptions.from_mapping({"basic_auth_user": "u", "basic_auth_password": SECRET}),
        ClientOptions.from_mapping({"api_key": SECRET}),
        ClientOptions.from_mapping({"bearer_auth": SECRET}),
        ClientOptions.from_mapping({"proxy": f"http://joe:{SECRET}@10.0.0.9:3128"}),
        ClientOptions.from_mapping({"aws_access_key_id": "k", "aws_secret_access_key": SECRET, "region": "r"}),
    ):
        assert SECRET in options.secrets()
        assert SECRET not in repr(options)
        assert SECRET not in str(options)
        assert pickle.loads(pickle.dumps(options)).headers() == options.headers()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"verify_cert": False}, 'unknown client option "verify_cert" (did you mean "verify_certs"?'),
        ({"use_ssl": "yes"}, "use_ssl must be true or false, not 'yes'"),
        ({"use_ssl": 1}, "use_ssl must be true or false, not 1"),
        ({"timeout": "soon"}, '"soon" is not a duration'),
        ({"timeout": 0}, "timeout must be above zero"),
        ({"basic_auth_user": "u"}, "basic_auth_password is missing"),
        ({"basic_auth_password": SECRET}, "basic_auth_user is missing"),
        ({"basic_auth_user": "u", "basic_auth_password": 123}, "basic_auth_password must be text (quote it"),
        ({"basic_auth_user": "u", "basic_auth_password": SECRET, "api_key": "k"}, "both a password and an api_key"),
        ({"bearer_auth": SECRET, "api_key": "k"}, "both an api_key and bearer_auth"),
        ({"bearer_auth": SECRET, "amazon_aws_log_in": "session", "region": "r"}, "both bearer_auth and AWS"),
        ({"proxy": f"http://joe:{SECRET}@proxy"}, 'proxy "proxy" has no port'),
        ({"cloud_id": "a:b"}, '"cloud_id" is not supported (give it as --target-hosts)'),
        ({"api_key": ["a", "b", SECRET]}, "api_key must be text"),
        ({"ca_certs": "/nowhere/ca.pem"}, "ca_certs: no file /nowhere/ca.pem"),
        ({"client_key": __file__}, "client_key without client_cert"),
        ({"static_responses": "x.json"}, '"static_responses" is not supported'),
        ({"create_api_key_per_client": True}, '"create_api_key_per_client" is not supported'),
    ],
)
def test_wrong_options_are_told_in_one_line(options: dict[str, Any], expected: str) -> None:
    assert expected in refusal(options)


def test_options_without_effect_are_accepted_with_a_warning() -> None:
    options = ClientOptions.from_mapping({"enable_cleanup_closed": True})
    assert options.warnings == (
        "client option enable_cleanup_closed has no effect: esbench closes its connections itself",
    )


def test_verification_of_certificates_can_be_switched_off() -> None:
    context = ClientOptions(use_ssl=True, verify_certs=False).ssl_context()
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    names_only = ClientOptions(use_ssl=True, ssl_assert_hostname=False).ssl_context()
    assert names_only is not None
    assert (names_only.verify_mode, names_only.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_a_client_certificate_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "client.pem").write_text("nothing")
    options = ClientOptions.from_mapping({"use_ssl": True, "client_cert": str(tmp_path / "client.pem")})
    with pytest.raises(UsageError, match=r"client\.pem and its key cannot be used"):
        options.ssl_context()


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("10.0.0.1:9200", [Host("10.0.0.1", 9200)]),
        (" es1 , es2:9201, ", [Host("es1", 9200), Host("es2", 9201)]),
        ("es1,es1:9200", [Host("es1", 9200)]),
        ("http://es1:9201/", [Host("es1", 9201)]),
        ("https://es1", [Host("es1", 443, "https")]),
        # of host$elasticsearch$kibana, with and without ports
        ("my-search:Zm91bmQuaW8kYWJjJGRlZg==", [Host("abc.found.io", 443, "https")]),
        ("my-search:Zm91bmQuaW86OTI0MyRhYmMkZGVm", [Host("abc.found.io", 9243, "https")]),
        ("HTTPS://ES1:9243", [Host("es1", 9243, "https")]),
        ("[::1],[fe80::1]:9201", [Host("::1", 9200), Host("fe80::1", 9201)]),
        ("10.0.0.1:9200,https://x:9243", [Host("10.0.0.1", 9200, "https"), Host("x", 9243, "https")]),
    ],
)
def test_hosts_are_read(text: str, hosts: list[Host]) -> None:
    assert list(parse_hosts(text)[0]) == hosts
    assert list(parse_hosts(text.split(","))[0]) == hosts


def test_urls_of_hosts_bracket_ipv6() -> None:
    assert Host("10.0.0.1").url == "http://10.0.0.1:9200"
    assert Host("::1", 9243, "https").url == "https://[::1]:9243"


def test_use_ssl_makes_hosts_https_and_an_https_host_makes_use_ssl() -> None:
    (host,), _ = parse_hosts("es1", ClientOptions(use_ssl=True))
    assert host == Host("es1", 9200, "https")
    assert parse_hosts("https://es1:9243")[1].use_ssl
    assert not parse_hosts("es1")[1].use_ssl


def test_user_and_password_of_a_url_move_into_the_options() -> None:
    hosts, options = parse_hosts("https://elastic:p%40ss%2C@a:9243,https://elastic:p%40ss%2C@b:9243")
    assert [str(host) for host in hosts] == ["a:9243", "b:9243"]
    assert (options.basic_auth_user, options.basic_auth_password) == ("elastic", "p@ss,")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no host given"),
        (" , ", "no host given"),
        ("es1:abc", '"es1:abc" is not a host'),
        ("es1:99999", '"es1:99999" is not a host'),
        ("es1:0", '"es1:0" is not a host'),
        ("es 1", '"es 1" is not a host'),
        ("es..1", '"es..1" is not a host'),
        ("\x1bes", "is not a host"),
        ("b\u00fccher.example", "is not a host"),
        ("e" * 64, "is not a host"),
        ("[::1", '"[::1" is not a host'),
        ("::1", "is an IPv6 address without brackets ([::1]:9200)"),
        ("ftp://es1", 'has the scheme "ftp" (http or https)'),
        ("127.0.0.1:9200:9300", '"127.0.0.1:9200:9300" is not a host (say 10.0.0.1:9200'),
        ("http:/es1", '"http:/es1" is not a host (say http://es1)'),
        ("http//es1:9200", "(say http://es1:9200)"),
        ("https:es1:9243", "(say https://es1:9243)"),
        ("es1/prefix", "has a path"),
        ("elastic@es1", '"es1" has a user without a password'),
        (f"u:{SECRET}@es1:abc", '"es1:abc" is not a host'),
        (f"u:{SECRET}@es1,http://v:other@es2", 'the user of "http://es2" differs'),
    ],
)
def test_wrong_hosts_are_told_in_one_line(text: str, expected: str) -> None:
    assert expected in host_refusal(text)


@pytest.mark.parametrize("scheme", ["", "http://", "https://"])
@pytest.mark.parametrize("form", [f"{SECRET}{{}}12", f"12{{}}{SECRET}", f"{SECRET}{{}}{SECRET}", f"1{{}}2:{SECRET}"])
@pytest.mark.parametrize("odd", [*",@/#?% [:'\"\\\t|<>", "@,", ",@", "://", ",://", ",http:/", "%zz", "\uff0f"])
def test_no_error_shows_a_piece_of_an_odd_password(odd: str, form: str, scheme: str) -> None:
    """Each is either understood, or refused without a piece of it."""
    password = form.format(odd)
    try:
        hosts, options = parse_hosts(f"{scheme}elastic:{password}@es1:9200")
    except UsageError as error:
        assert not re.search(rf"{SECRET}|12|elastic|\b1\b", str(error).replace("127.0.0.1", ""))
    else:
        assert [(host.host, host.port) for host in hosts] == [("es1", 9200)]
        assert options.basic_auth_password == unquote(password)


def test_a_comma_of_a_password_is_told_how_to_write() -> None:
    told = host_refusal(f"http://elastic:{SECRET},more@es1:9200")
    assert told == (
        "--target-hosts: host 2 has a user but no http:// or https:// before it (in a password , is written %2C, "
        "@ %40, / %2F, # %23 and ? %3F; or give it as basic_auth_password)"
    )


def test_hosts_that_are_no_text_are_told() -> None:
    assert "9200 is not a host" in host_refusal([9200])


def test_a_cluster_has_one_scheme() -> None:
    expected = '"http://es1:9200" says http, but use_ssl or another host says https (drop http://)'
    assert expected in host_refusal("http://es1:9200", ClientOptions(use_ssl=True))
    assert expected in host_refusal("http://es1:9200,https://es2:9200")


def test_the_urls_of_hosts_are_read_back_as_the_same_hosts() -> None:
    for text in ("es1,es2:9201", "es1,https://es2", "[::1]"):
        hosts, options = parse_hosts(text)
        assert parse_hosts([host.url for host in hosts], options) == (hosts, options)
