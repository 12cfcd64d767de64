"""The URL of a proxy, and its request for a tunnel."""

from __future__ import annotations

import pytest

from esbench.cluster.proxy import Proxy
from esbench.errors import UsageError


def test_a_proxy_has_a_host_a_port_and_maybe_a_user() -> None:
    assert Proxy.parse("http://10.0.0.9:3128", "here") == Proxy("10.0.0.9", 3128)
    assert Proxy.parse("proxy:3128", "here") == Proxy("proxy", 3128)
    proxy = Proxy.parse("https://me:pa%40ss@[::1]:3129", "here")
    assert proxy == Proxy("::1", 3129, "https", "me", "pa@ss")
    assert (str(proxy), proxy.url) == ("[::1]:3129", "https://[::1]:3129")
    assert "pa@ss" not in repr(proxy)


def test_the_request_for_a_tunnel() -> None:
    assert Proxy("proxy", 3128).connect_request("es:9200") == b"CONNECT es:9200 HTTP/1.1\r\nHost: es:9200\r\n\r\n"
    assert b"Proxy-Authorization: Basic bWU6cGE=\r\n" in Proxy("p", 1, user="me", password="pa").connect_request("es:1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://me:hush@proxy", "has no port"),
        ("socks5://proxy:1080", 'has the scheme "socks5"'),
        ("http://proxy:3128/path", "is not the URL of a host"),
        ("http://proxy:port", "is not the URL of a host"),
        ("", "is not the URL of a host"),
    ],
)
def test_another_text_is_refused_without_its_password(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        Proxy.parse(text, "--client-options proxy")
    assert "hush" not in str(raised.value)
