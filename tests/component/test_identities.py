"""Who races a cluster, and by which way: tokens, AWS's signatures, proxies. By the real command, over real sockets."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme
from driver import NullServerFactory
from racing import TRACK, Races
from tunnels import TunnelProxy

from esbench.null_server import NullServer

AWS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalr+/EXAMPLE", "region": "eu-west-1"}
TEMPORARY = {**AWS, "session_token": "t0ken/of+a=session"}
ENCODED = base64.b64encode(b"id:key").decode()
RUNNER = """
from esrally.driver import runner

async def look(es, params):
    await es.search(index="orders", body={"query": {"match_all": {}}}, filter_path="hits.total,took")
    await es.perform_request("GET", "/orders/_doc/a%2Cb*c", params={"_source_excludes": "a,b c"})

def register(registry):
    registry.register_runner("look", look, async_runner=True)
"""


def options_of(domain: Mapping[str, str]) -> dict[str, str]:
    """The client options for a domain of AWS."""
    names = {"access_key_id": "aws_access_key_id", "secret_access_key": "aws_secret_access_key"}
    return {names.get(name, name.replace("session", "aws_session")): value for name, value in domain.items()}


IDENTITIES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "password": (
        {"users": {"elastic": "ch@ng:me"}},
        {"basic_auth_user": "elastic", "basic_auth_password": "ch@ng:me"},
    ),
    "api key": ({"tokens": [f"ApiKey {ENCODED}"]}, {"api_key": "id:key"}),
    "bearer": ({"tokens": ["Bearer eyJ.abc-_~+/="]}, {"bearer_auth": "eyJ.abc-_~+/="}),
    "domain": ({"aws": AWS}, options_of(AWS)),
    "temporary": ({"aws": TEMPORARY}, options_of(TEMPORARY)),
}


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path)
    (races.track / "track.py").write_text(RUNNER)
    looks = "- {name: looks, operation: {operation-type: look}, clients: 2, iterations: 3}\n      - parallel:"
    (races.track / "track.yml").write_text(TRACK.replace("- parallel:", looks, 1))
    yield races
    races.end()


@pytest.mark.parametrize(("kind", "compress"), [*((kind, False) for kind in IDENTITIES), ("temporary", True)])
def test_each_request_of_a_race_has_the_identity(
    null_server: NullServerFactory, races: Races, kind: str, compress: bool
) -> None:
    """Those of templates, bulks, scripts, of Python of the track, and what esbench itself asks."""
    script, given = IDENTITIES[kind]
    server = null_server(script)
    outcome = races.run(server, f"--client-options={json.dumps({**given, 'http_compress': compress})}")
    assert outcome.code == 0, outcome.stderr
    record = races.record()
    assert {task.name for task in record.tasks} >= {"bulk", "closed", "paced", "looks", "found", "beside"}
    assert not [task.name for task in record.tasks if task.error_rate_ratio]
    assert sum(task.units for task in record.tasks if task.name == "bulk") == 500


def test_a_wrong_key_of_aws_is_one_line(null_server: NullServerFactory, races: Races) -> None:
    wrong = json.dumps({**options_of(AWS), "aws_secret_access_key": "another"})
    outcome = races.run(null_server({"aws": AWS}), f"--client-options={wrong}")
    assert outcome.code == 1
    assert "AWS refuses the signature" in outcome.error
    assert "check key, region and service" in outcome.error
    assert "another" not in outcome.stderr


def test_a_wrong_token_is_one_line(null_server: NullServerFactory, races: Races) -> None:
    outcome = races.run(null_server({"tokens": ["Bearer right"]}), "--client-options=bearer_auth:wrong-token")
    assert "wrong bearer token" in outcome.error
    assert "wrong-token" not in outcome.stderr


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return authority


@pytest.fixture
def secured(null_server: NullServerFactory, authority: trustme.CA, tmp_path: Path) -> NullServer:
    """A server with TLS."""
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    return null_server(tls=(tmp_path / "cert.pem", tmp_path / "key.pem"))


def raced_through(races: Races, server: NullServer, proxy: str, **options: str) -> None:
    outcome = races.run(server, f"--client-options={json.dumps({'proxy': proxy, **options})}")
    assert outcome.code == 0, outcome.stderr
    assert not [task.name for task in races.record().tasks if task.error_rate_ratio]


def test_all_connections_go_through_a_proxy(server: NullServer, races: Races) -> None:
    with TunnelProxy("joe:pa:ss@") as proxy:
        raced_through(races, server, f"http://joe:pa%3Ass%40@127.0.0.1:{proxy.port}")
    assert len(proxy.asked) > 10
    assert {*proxy.asked, *proxy.forwarded} == {server.url.removeprefix("http://")}
    assert proxy.forwarded  # by Python of the track


def test_tls_goes_through_a_proxy(secured: NullServer, races: Races, tmp_path: Path) -> None:
    with TunnelProxy() as proxy:
        raced_through(races, secured, f"http://127.0.0.1:{proxy.port}", ca_certs=str(tmp_path / "ca.pem"))
    assert len(proxy.asked) > 10


def test_a_proxy_may_itself_be_reached_by_tls(
    secured: NullServer, races: Races, authority: trustme.CA, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with TunnelProxy(tls=context) as proxy:
        raced_through(races, secured, f"https://127.0.0.1:{proxy.port}", ca_certs=str(tmp_path / "ca.pem"))
    assert len(proxy.asked) > 10


def test_a_proxy_that_refuses_is_one_line(server: NullServer, races: Races) -> None:
    with TunnelProxy("joe:right") as proxy:
        outcome = races.run(server, f"--client-options=proxy:'http://joe:hush@127.0.0.1:{proxy.port}'")
    assert "407 Proxy Authentication Required" in outcome.error
    assert "hush" not in outcome.stderr


def test_a_proxy_that_is_not_there_is_one_line(server: NullServer, races: Races) -> None:
    with TunnelProxy() as proxy:
        port = proxy.port
    outcome = races.run(server, f"--client-options=proxy:'http://127.0.0.1:{port}'")
    assert f"the proxy 127.0.0.1:{port}" in outcome.error
