"""A name with several addresses: each of them is a host of its own, under the name."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trustme
from driver import Driver, NullServerFactory, get, task
from racing import Races
from raw_server import serve

from esbench.cluster.addresses import addresses_by_name, resolve
from esbench.cluster.options import ClientOptions, Host
from esbench.errors import ClusterError
from esbench.null_server import NullServer

GETS = "GET /*/_doc/*"
V4, V6 = socket.AF_INET, socket.AF_INET6
NAME = "mycluster.example"


def as_two(name: str, port: int) -> Sequence[tuple[int, str]]:
    """What a name server would say of a cluster of two nodes."""
    assert name == NAME
    return [(V4, "127.0.0.1"), (V4, "127.0.0.2")]


@pytest.fixture
def driver(tmp_path: Path, event_loop_name: str) -> Iterator[Driver]:
    with Driver(tmp_path) as driver:
        yield driver


def two_servers(null_server: NullServerFactory, **keys: object) -> tuple[NullServer, NullServer, int]:
    """On one port of two addresses."""
    first = null_server(**keys)
    port = int(first.url.rpartition(":")[2])
    return first, null_server(host="127.0.0.2", port=port, **keys), port


def test_clients_are_dealt_to_all_addresses_and_survive_one_of_them(
    null_server: NullServerFactory, driver: Driver
) -> None:
    first, second, port = two_servers(null_server)
    driver.run(f"{NAME}:{port}", get(clients=8, iterations=5), lookup=as_two)
    assert [server.counts().connections for server in (first, second)] == [4, 4]
    assert sum(server.counts().by_class[GETS] for server in (first, second)) == 40
    second.use({"refuse": [{"at_s": 0.2, "for_s": 60, "cut": True}]})
    result = driver.run(f"{NAME}:{port}", get(clients=8, rate=200, time_period_s=0.6), lookup=as_two)
    assert [(event.host, event.what) for event in driver.events] == [(f"{NAME}:{port} (127.0.0.2)", "lost")]
    assert result.requests == 120
    assert f"{NAME}:{port} (127.0.0.2): connection refused" in result.error_kinds["connection refused"].example


def test_requests_and_certificates_are_about_the_name(
    null_server: NullServerFactory, driver: Driver, tmp_path: Path
) -> None:
    with serve({"GET /a": (200, {})}) as tiny:
        port = int(tiny.url.rpartition(":")[2])
        target = f"{NAME}:{port}"
        driver.run(target, task("raw-request", {"path": "/a"}), lookup=lambda *_: [(V4, "127.0.0.1")])
    assert [asked.headers["Host"] for asked in tiny.requests] == [target]

    authority, paths = trustme.CA(), [tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem")]
    certificate = authority.issue_cert(NAME)
    certificate.cert_chain_pems[0].write_to_path(str(paths[0]))
    certificate.private_key_pem.write_to_path(str(paths[1]))
    authority.cert_pem.write_to_path(str(paths[2]))
    first, second, port = two_servers(null_server, tls=(paths[0], paths[1]))
    options = ClientOptions(use_ssl=True, ca_certs=str(paths[2]))
    result = driver.run(f"https://{NAME}:{port}", get(clients=4, requests=40), options=options, lookup=as_two)
    assert (result.requests, result.errors) == (40, 0)
    assert [server.counts().connections for server in (first, second)] == [2, 2]


# which addresses


def test_addresses_stay_what_they_are() -> None:
    hosts = (Host("10.0.0.1"), Host("::1", 9201))
    assert resolve(hosts, lookup=pytest.fail) == hosts
    assert addresses_by_name(hosts) == {}


def test_the_version_that_is_preferred_and_reached_is_used(null_server: NullServerFactory) -> None:
    """As `localhost`, where a server listens on one of them only."""
    port = int(null_server().url.rpartition(":")[2])
    found = resolve([Host(NAME, port)], lambda *_: [(V6, "::1"), (V4, "127.0.0.1")])
    assert found == (Host(NAME, port, address="127.0.0.1"),)
    assert addresses_by_name(found) == {f"{NAME}:{port}": ("127.0.0.1",)}
    assert found[0].label == f"{NAME}:{port} (127.0.0.1)"
    assert (str(found[0]), found[0].url) == (f"{NAME}:{port}", f"http://{NAME}:{port}")


def test_every_address_must_answer(null_server: NullServerFactory) -> None:
    port = int(null_server().url.rpartition(":")[2])
    with pytest.raises(ClusterError, match=rf"{NAME}:{port} \(127.0.0.2\): connection refused \(every address"):
        resolve([Host(NAME, port)], as_two)


def test_a_name_that_is_unknown_is_one_line() -> None:
    def unknown(name: str, port: int) -> Sequence[tuple[int, str]]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(ClusterError, match=rf"{NAME}:9200: this name cannot be resolved"):
        resolve([Host(NAME)], unknown)


def test_the_record_names_the_addresses(null_server: NullServerFactory, tmp_path: Path) -> None:
    port = int(null_server().url.rpartition(":")[2])
    races = Races(tmp_path)
    outcome = races.run(f"localhost:{port}", "--test-mode", "--include-tasks=closed")
    assert outcome.code == 0, outcome.stderr
    assert races.record().clusters["default"].addresses == {f"localhost:{port}": ("127.0.0.1",)}
