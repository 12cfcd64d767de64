"""The door to a cluster, over real sockets: what is sent, and the one line that each failure becomes."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trustme
from raw_server import CLOSE, GREEN, READ, RawServer, serve

from esbench.cluster.client import Cluster, ClusterInfo, index_path
from esbench.cluster.dialect import Dialect
from esbench.cluster.options import ClientOptions
from esbench.errors import ClusterError, UsageError


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def authority_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


@pytest.fixture
def tls_server(authority: trustme.CA) -> Iterator[RawServer]:
    with serve(GREEN, server_context(authority, "127.0.0.1")) as server:
        yield server


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def failure(urls: str | list[str], options: ClientOptions | None = None, path: str = "/") -> str:
    with (
        Cluster([urls] if isinstance(urls, str) else urls, options) as cluster,
        pytest.raises(ClusterError) as caught,
    ):
        cluster.request("GET", path, timeout_s=0.5)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_importing_the_door_does_not_import_the_client() -> None:
    code = "import sys, esbench.cluster.client; print([m for m in sys.modules if m.startswith(('elastic', 'urllib3'))])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_requests_carry_plain_json_and_credentials_and_no_product_check() -> None:
    with serve({"PUT /a": (200, {"acknowledged": True})}) as server:
        with Cluster([server.url], ClientOptions(basic_auth_user="u", basic_auth_password="p:ä")) as cluster:
            reply = cluster.request(
                "PUT",
                "/a",
                params={"wait": True, "names": ["x", "y"], "left_out": None, "timeout": "5s"},
                body={"k": 1},
            )
        assert reply == {"acknowledged": True}
        (asked,) = server.requests  # nothing was asked before
        assert asked.target == "/a?wait=true&names=x,y&timeout=5s"
        headers = {name.lower(): value for name, value in asked.headers.items()}
        assert headers["content-type"] == "application/json"
        assert headers["accept"] == "application/json"
        assert headers["authorization"] == "Basic dTpwOsOk"
        assert not any(name.startswith("x-elastic") for name in headers)
        assert json.loads(asked.body) == {"k": 1}


def test_text_bodies_are_sent_as_they_are() -> None:
    with serve({"POST /_bulk": (200, {})}) as server, Cluster([server.url]) as cluster:
        cluster.request("POST", "/_bulk", body='{"index":{}}\n{}\n')
        assert server.requests[0].body == b'{"index":{}}\n{}\n'


def test_compressed_requests_when_asked_for() -> None:
    with (
        serve({"PUT /a": (200, {})}) as server,
        Cluster([server.url], ClientOptions(http_compress=True)) as cluster,
    ):
        cluster.request("PUT", "/a", body={"k": "v" * 1000})
        assert server.requests[0].headers["content-encoding"] == "gzip"
        assert len(server.requests[0].body) < 100


def test_ignored_statuses_are_replies() -> None:
    with serve({}) as server, Cluster([server.url]) as cluster:
        assert cluster.request("DELETE", "/a", ignore=(404,)) == {"error": "no /a"}
        with pytest.raises(ClusterError):
            cluster.request("DELETE", "/a")


@pytest.mark.parametrize(
    ("status", "reply", "expected"),
    [
        (
            400,
            {
                "error": {
                    "type": "mapper_parsing_exception",
                    "reason": "failed to parse",
                    "caused_by": {"type": "x", "reason": "unknown\nfield type [txt]"},
                }
            },
            "GET /a: HTTP 400 mapper_parsing_exception: failed to parse: unknown field type [txt]",
        ),
        (
            403,
            {"error": {"type": "security_exception", "reason": "action [x] is unauthorized for user [u]"}},
            "GET /a: missing rights: action [x] is unauthorized for user [u] (the user or API key needs another role)",
        ),
        (
            403,
            {
                "error": {
                    "type": "cluster_block_exception",
                    "reason": "blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];",
                }
            },
            "GET /a: HTTP 403 cluster_block_exception: blocked by: [FORBIDDEN/12/index read-only / allow delete"
            " (api)]; (the cluster's disk is nearly full)",
        ),
        (502, "<h1>Bad gateway</h1>", "GET /a: HTTP 502 <h1>Bad gateway</h1>"),
        (503, "", "GET /a: HTTP 503"),
        (500, {"error": "plain words"}, "GET /a: HTTP 500 plain words"),
    ],
)
def test_http_errors_tell_the_reason(status: int, reply: object, expected: str) -> None:
    with serve({"GET /a": (status, reply)}) as server:
        assert failure(server.url, path="/a") == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ClientOptions(), "the cluster asks for a user and password"),
        (ClientOptions(basic_auth_user="eve", basic_auth_password="x1y2"), "wrong user or password (user eve)"),
        (ClientOptions(api_key="x1y2"), "wrong API key"),
    ],
)
def test_refused_credentials_are_named_without_the_secret(options: ClientOptions, expected: str) -> None:
    with serve({"GET /": (401, {"error": {"type": "security_exception", "reason": "no"}})}) as server:
        said = failure(server.url, options)
        assert said.startswith(f"GET /: {expected}")
        assert "x1y2" not in said


def test_a_refused_connection_names_the_host() -> None:
    port = free_port()
    assert failure(f"http://127.0.0.1:{port}") == (
        f"127.0.0.1:{port}: connection refused (is the cluster running? check --target-hosts)"
    )


def test_an_unknown_name_is_told() -> None:
    assert failure("http://nowhere.invalid:9200").startswith("nowhere.invalid:9200: this name cannot be resolved")


def test_a_host_that_takes_connections_and_never_answers_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert failure(f"http://127.0.0.1:{port}").startswith(f"127.0.0.1:{port}: no answer within 500 ms")


def closing_server() -> RawServer:
    """A server that reads once from each connection and closes it without an answer."""
    return RawServer(greet=lambda number: [READ, CLOSE])


def test_a_connection_that_is_closed_without_an_answer_is_told() -> None:
    with closing_server() as server:
        said = failure(server.url)
    assert "closed the connection without an answer" in said


def test_a_trusted_authority_is_accepted(tls_server: RawServer, authority_file: str) -> None:
    options = ClientOptions(use_ssl=True, ca_certs=authority_file)
    with Cluster([tls_server.url], options) as cluster:
        assert cluster.info().version == "8.19.4"


def test_no_verification_accepts_any_certificate(tls_server: RawServer) -> None:
    with Cluster([tls_server.url], ClientOptions(use_ssl=True, verify_certs=False)) as cluster:
        assert cluster.info().version == "8.19.4"


def test_an_unknown_authority_is_told_with_both_ways_out(tls_server: RawServer) -> None:
    said = failure(tls_server.url, ClientOptions(use_ssl=True))
    assert "its certificate is not trusted" in said
    assert "ca_certs" in said
    assert "verify_certs:false" in said


def test_a_certificate_for_another_name_is_told_and_can_be_allowed(authority: trustme.CA, authority_file: str) -> None:
    options = ClientOptions(use_ssl=True, ca_certs=authority_file)
    with serve(GREEN, server_context(authority, "es.example.org")) as server:
        assert "its certificate is for another name" in failure(server.url, options)
        lenient = ClientOptions(use_ssl=True, ca_certs=authority_file, ssl_assert_hostname=False)
        with Cluster([server.url], lenient) as cluster:
            assert cluster.info().name == "tiny"


def test_a_client_certificate_is_asked_for_and_used(authority: trustme.CA, authority_file: str, tmp_path: Path) -> None:
    context = server_context(authority, "127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    client = tmp_path / "client.pem"
    authority.issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(str(client))
    with serve(GREEN, context) as server:
        without = ClientOptions(use_ssl=True, ca_certs=authority_file)
        assert "client certificate" in failure(server.url, without)
        with_one = ClientOptions(use_ssl=True, ca_certs=authority_file, client_cert=str(client))
        with Cluster([server.url], with_one) as cluster:
            assert cluster.info().name == "tiny"


def test_plain_http_against_tls_says_use_ssl(tls_server: RawServer) -> None:
    said = failure(tls_server.url.replace("https", "http"))
    assert "speaks TLS, not plain HTTP" in said
    assert "use_ssl:true" in said


def test_tls_against_plain_http_says_so() -> None:
    with serve(GREEN) as server:
        said = failure(server.url.replace("http", "https"), ClientOptions(use_ssl=True))
        assert "speaks plain HTTP, not TLS" in said


def test_tls_against_a_plain_port_that_just_closes_says_so() -> None:
    with closing_server() as server:
        said = failure(server.url.replace("http", "https"), ClientOptions(use_ssl=True))
    assert "speaks plain HTTP, not TLS" in said


def test_a_file_without_a_certificate_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(UsageError, match="holds no certificate"):
        ClientOptions(use_ssl=True, ca_certs=str(tmp_path / "ca.pem")).ssl_context()


def test_another_host_is_asked_when_one_refuses() -> None:
    with serve({"PUT /a": (200, {"acknowledged": True})}) as server:
        with Cluster([f"http://127.0.0.1:{free_port()}", server.url]) as cluster:
            assert cluster.request("PUT", "/a") == {"acknowledged": True}
            assert cluster.request("PUT", "/a") == {"acknowledged": True}
        assert len(server.requests) == 2


@contextmanager
def host_that_drops_packets() -> Iterator[str]:
    """The URL of a host to which no connection opens: the queue of those that it has not accepted is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_another_host_is_asked_when_one_drops_packets() -> None:
    with serve({"PUT /a": (200, {"acknowledged": True})}) as server, host_that_drops_packets() as dead:
        with Cluster([dead, server.url]) as cluster:
            assert cluster.request("PUT", "/a", timeout_s=0.3) == {"acknowledged": True}
            begin = time.monotonic()
            assert cluster.request("PUT", "/a") == {"acknowledged": True}
        assert time.monotonic() - begin < 5  # not asked again
        assert len(server.requests) == 2


def test_what_might_have_arrived_is_not_repeated_elsewhere_but_the_next_request_goes_there() -> None:
    with serve({"PUT /a": (200, {})}) as server, socket.create_server(("127.0.0.1", 0)) as silent:
        urls = [f"http://127.0.0.1:{silent.getsockname()[1]}", server.url]
        with Cluster(urls) as cluster:
            with pytest.raises(ClusterError, match="no answer"):
                cluster.request("PUT", "/a", timeout_s=0.2)
            assert not server.requests
            assert cluster.request("PUT", "/a", timeout_s=5.0) == {}


def test_versions_compare_as_numbers() -> None:
    assert ClusterInfo("elasticsearch", "7.10.2").version_tuple == (7, 10, 2)
    assert ClusterInfo("elasticsearch", "9.0.0-beta1-SNAPSHOT").version_tuple == (9, 0, 0)


def test_a_dialect_is_of_the_first_two_numbers() -> None:
    assert ClusterInfo("opensearch", "2.19.6-SNAPSHOT").dialect == Dialect("opensearch", (2, 19))
    assert ClusterInfo("elasticsearch", "8").dialect == Dialect("elasticsearch", (8, 0))


def test_info_where_the_root_is_not_served() -> None:
    replies = {
        "GET /": (405, {"error": "Incorrect HTTP method", "status": 405}),
        "GET /_nodes/_local/http": (
            200,
            {"cluster_name": "c", "nodes": {"x": {"version": "8.19.4", "build_hash": "aa", "build_flavor": "d"}}},
        ),
        "GET /_cluster/state/version": (200, {"cluster_uuid": "u2"}),
    }
    with serve(replies) as server, Cluster([server.url]) as cluster:
        assert cluster.info() == ClusterInfo("elasticsearch", "8.19.4", "aa", "d", "c", "u2")


def test_a_cluster_that_has_not_formed_has_no_uuid() -> None:
    """Two of them would else be taken for the same cluster."""
    reply = {"cluster_name": "c", "cluster_uuid": "_na_", "version": {"number": "8.19.4"}}
    with serve({"GET /": (200, reply)}) as server, Cluster([server.url]) as cluster:
        assert cluster.info().uuid == ""


def test_info_of_opensearch() -> None:
    reply = {"cluster_name": "c", "version": {"distribution": "opensearch", "number": "3.6.0"}}
    with serve({"GET /": (200, reply)}) as server, Cluster([server.url]) as cluster:
        assert (cluster.info().distribution, cluster.info().version) == ("opensearch", "3.6.0")


@pytest.mark.parametrize("reply", ["<html>It works</html>", {"hello": 1}, [1]])
def test_another_server_is_recognized(reply: object) -> None:
    with (
        serve({"GET /": (200, reply)}) as server,
        Cluster([server.url]) as cluster,
        pytest.raises(ClusterError, match="neither Elasticsearch nor OpenSearch"),
    ):
        cluster.info()


def test_no_index_is_not_every_index() -> None:
    assert index_path([]) == ""
    assert index_path(["a b", "logs-*"]) == "/a%20b,logs-*"
    with serve({}) as server, Cluster([server.url]) as cluster:
        assert cluster.indices_facts([]) == {}
        assert not server.requests


def test_facts_in_an_unknown_form_are_one_line() -> None:
    replies = {
        "GET /a/_settings": (200, {"acknowledged": True}),
        "GET /a/_mapping": (200, {}),
        "GET /a/_stats/docs,store": (200, {"indices": {}}),
    }
    with serve(replies) as server, Cluster([server.url]) as cluster, pytest.raises(ClusterError, match="unknown form"):
        cluster.indices_facts(["a"])


def test_nested_documents_are_not_counted_as_documents() -> None:
    nested = {"mappings": {"properties": {"a": {"properties": {"c": {"type": "nested"}}}}}}
    flat = {"mappings": {"properties": {"c": {"type": "keyword"}}}}
    settings = {"settings": {"index.number_of_shards": "1", "index.number_of_replicas": "0"}}
    stats = {"primaries": {"docs": {"count": 9, "deleted": 0}}}
    replies = {
        "GET /n,f/_settings": (200, {"n": settings, "f": settings}),
        "GET /n,f/_mapping": (200, {"n": nested, "f": flat}),
        "GET /n,f/_stats/docs,store": (200, {"indices": {"n": stats, "f": stats}}),
        "GET /n,f/_stats/docs": (200, {"indices": {"n": stats, "f": stats}}),
        "GET /n/_count": (200, {"count": 3}),
    }
    with serve(replies) as server, Cluster([server.url]) as cluster:
        assert {name: facts["docs"] for name, facts in cluster.indices_facts(["n", "f"]).items()} == {"n": 3, "f": 9}
        assert cluster.documents(["n", "f"]) == {"n": (3, 0), "f": (9, 0)}
